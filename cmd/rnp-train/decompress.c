/* decompress.c - a gradient container into raw floats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/wire/raw.h"
#include "common/base/err.h"
#include "common/grad/grad.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/hw/device.h"

static struct {
	const char *out, *device;
} options;

static int exactly(void *ctx, void *data, size_t len)
{
	struct raw_in *in = ctx;
	size_t got;

	if (raw_read(in, data, len, &got) < 0)
		return -1;
	return got == len ? 0 : err_set(EX_DATAERR, "'%s' is cut off", in->name);
}

static int copy_batches(struct grad_decoder *r, struct raw_in *in, struct raw_out *out)
{
	const struct grad *g = grad_decoder_info(r);
	size_t size = g->bf16 ? 2 : 4;
	char *x = xmalloc(grad_batch(g) * size);
	struct progress bar;
	uint64_t n, done = 0;
	size_t more;
	int rc;

	progress_start(&bar, "decompress", "elements",
		g->elements == GRAD_UNKNOWN ? 0 : (int64_t)g->elements);
	do {
		rc = grad_decoder_next_host(r, x, &n);
		if (rc == 0)
			rc = raw_write(out, x, n * size);
		done += n;
		progress_update(&bar, (int64_t)done);
	} while (rc == 0 && n);
	progress_end(&bar);
	if (rc == 0)
		rc = raw_read(in, x, 1, &more);
	if (rc == 0 && more)
		rc = err_set(EX_DATAERR, "bytes stand behind the container in '%s'",
			in->name);
	free(x);
	return rc;
}

static int run(int n, char **args)
{
	struct raw_in in = RAW_IN_INIT;
	struct raw_out out = { 0 };
	struct grad_decoder *r = NULL;
	struct dev d = DEV_INIT;
	int rc = -1;

	if (device_open(&d, options.device) == 0 &&
		raw_open(&in, n ? args[0] : NULL) == 0 &&
		raw_create(&out, options.out) == 0)
		r = grad_decoder_new(&d, exactly, &in);
	if (r && copy_batches(r, &in, &out) == 0)
		rc = raw_finish(&out);
	grad_decoder_free(r);
	dev_close(&d);
	raw_close(&in);
	raw_drop(&out);
	return rc < 0 ? err_report() : EX_OK;
}

static const struct opt opts[] = {
	OPT(TEXT, "out", &options.out, "F",
		"write to F, once all is checked (default standard output)"),
	OPT_DEVICE(&options.device),
	{ 0 },
};

const struct command command_decompress = {
	.name = "decompress",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Get the floats back that a gradient container holds.",
	.details =
		"Writes raw little-endian f32, or bf16 where that was the input. What is written was\n"
		"checked before.",
	.opts = opts,
	.run = run,
};
