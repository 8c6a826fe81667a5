/* compress.c - raw floats into a gradient container. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/wire/raw.h"
#include "common/hw/device.h"
#include "common/record/bench.h"
#include "common/base/err.h"
#include "common/grad/grad.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"

#define WINDOW_BYTES ((size_t)64 << 20) /* of a pipe, for ecq's step */

static struct {
	const char *method, *input, *feedback, *out, *device;
	int64_t block;
	uint64_t seed;
	bool stats;
} options = { .method = "ecq:0.1", .input = "f32" };

/* All that a run has open. */
struct compress {
	struct dev d;
	struct grad g;
	struct grad_stats stats;
	struct grad_encoder *e;
	struct raw_in in, old; /* old: the error feedback before */
	struct raw_out out, next;
	uint64_t zeros; /* bytes of a pipe before the window, read and not kept */
	char *window;   /* read already: for the step */
	size_t window_len, window_at;
	float *carried; /* error feedback of what is in the window, until the step is found */
	bool has_old;
};

/* As raw_read, but first what was read for the step. */
static int take(struct compress *c, void *data, size_t len, size_t *got)
{
	size_t zeros = c->zeros < len ? c->zeros : len;
	size_t held = c->window_len - c->window_at, more;
	char *to = data;

	memset(to, 0, zeros);
	c->zeros -= zeros;
	held = held < len - zeros ? held : len - zeros;
	if (held)
		memcpy(to + zeros, c->window + c->window_at, held);
	c->window_at += held;
	if (raw_read(&c->in, to + zeros + held, len - zeros - held, &more) < 0)
		return -1;
	*got = zeros + held + more;
	return 0;
}

static int whole_elements(const struct compress *c, uint64_t bytes)
{
	if (bytes % (c->g.bf16 ? 2 : 4) == 0)
		return 0;
	return err_set(EX_DATAERR, "'%s' ends within an element of %s", c->in.name,
		options.input);
}

/* The residuals of n elements, or zeros where there are none yet. */
static int take_feedback(struct compress *c, float *e, size_t n)
{
	size_t got;

	if (!c->has_old) {
		memset(e, 0, n * 4);
		return 0;
	}
	if (raw_read(&c->old, e, n * 4, &got) < 0)
		return -1;
	if (got < n * 4)
		return err_set(EX_DATAERR, "'%s' has fewer elements than the input",
			c->old.name);
	return 0;
}

/* More elements for the step, with what their error feedback is, to byte `at` of the window. */
static int read_window(struct compress *c, size_t at, size_t *got)
{
	if (raw_read(&c->in, c->window + at, WINDOW_BYTES - at, got) < 0)
		return -1;
	return c->has_old ? take_feedback(c, c->carried + at / 4, *got / 4) : 0;
}

/* How many of the n elements at the beginning of the window are zeros, of either sign, and will be
 * quantised as such. */
static size_t leading_zeros(const struct compress *c, size_t n)
{
	const uint16_t *half = (const void *)c->window;
	const float *x = (const void *)c->window;
	size_t i = 0;

	if (c->g.bf16)
		while (i < n && !(half[i] << 1 & 0xffff))
			i++;
	else
		while (i < n && !quant_magnitude(x[i]) &&
			!(c->has_old && quant_magnitude(c->carried[i])))
			i++;
	return i;
}

/* The window of a pipe begins with its first element that is not zero: no step can be chosen from
 * zeros, and with the step 0 all that comes after the window would be lost. Zeros need not be kept
 * to be written. */
static int fill_window(struct compress *c)
{
	size_t got, zeros, size = c->g.bf16 ? 2 : 4;

	do {
		if (read_window(c, c->window_len, &got) < 0)
			return -1;
		c->window_len += got;
		zeros = leading_zeros(c, c->window_len / size) * size;
		c->window_len -= zeros;
		memmove(c->window, c->window + zeros, c->window_len);
		if (c->has_old)
			memmove(c->carried, c->carried + zeros / 4,
				c->window_len / 4 * 4);
		c->zeros += zeros;
	} while (zeros);
	return 0;
}

static int spread_pipe(struct compress *c, uint64_t *bins)
{
	size_t size = c->g.bf16 ? 2 : 4;

	if (fill_window(c) < 0)
		return -1;
	bins[0] += c->zeros / size;
	return grad_spread(&c->d, &c->g, c->window, c->carried, c->window_len / size,
		bins);
}

static int spread_file(struct compress *c, uint64_t *bins)
{
	size_t got, size = c->g.bf16 ? 2 : 4;

	do {
		if (read_window(c, 0, &got) < 0 ||
			grad_spread(&c->d, &c->g, c->window, c->carried, got / size,
				bins) < 0)
			return -1;
	} while (got == WINDOW_BYTES);
	return raw_rewind(&c->in);
}

/* The step of ecq: from all of a file, or from 64 MiB of a pipe. */
static int find_step(struct compress *c)
{
	uint64_t *bins = xcalloc(QUANT_BINS, sizeof *bins);
	int rc;

	c->window = xmalloc(WINDOW_BYTES);
	c->carried = c->has_old ? xmalloc(WINDOW_BYTES) : NULL;
	rc = c->in.seekable ? spread_file(c, bins) : spread_pipe(c, bins);
	if (rc == 0 && c->has_old)
		rc = raw_rewind(&c->old);
	grad_step(&c->g.step, bins, c->g.error, true);
	free(bins);
	free(c->carried);
	/* of NaN, infinities or what is below all steps; what follows may be anything */
	if (rc == 0 && !(c->g.step.step > 0) && c->window_len == WINDOW_BYTES)
		rc = err_set(EX_DATAERR,
			"64 MiB of '%s' have nothing for the step of ecq: give a file, or ecq:E:chunk",
			c->in.name);
	return rc;
}

static int copy_batches(struct compress *c)
{
	size_t size = c->g.bf16 ? 2 : 4, batch = grad_batch(&c->g), got;
	char *x = xmalloc(batch * size);
	float *e = options.feedback ? xmalloc(batch * 4) : NULL;
	struct progress bar;
	uint64_t done = 0;
	int rc = 0;

	progress_start(&bar, "compress", "B", c->in.seekable ? (int64_t)c->in.bytes : 0);
	do {
		rc = take(c, x, batch * size, &got);
		if (rc == 0)
			rc = whole_elements(c, got);
		if (rc == 0 && e)
			rc = take_feedback(c, e, got / size);
		if (rc == 0)
			rc = grad_encoder_add_host(c->e, x, got / size, e);
		if (rc == 0 && e)
			rc = raw_write(&c->next, e, got / size * 4);
		done += got;
		progress_update(&bar, (int64_t)done);
	} while (rc == 0 && got == batch * size);
	progress_end(&bar);
	if (rc == 0 && c->in.seekable && done != c->in.bytes)
		rc = err_set(EX_DATAERR, "'%s' changed while it was read", c->in.name);
	if (rc == 0 && c->has_old && raw_read(&c->old, x, 1, &got) == 0 && got)
		rc = err_set(EX_DATAERR, "'%s' has more elements than the input",
			c->old.name);
	free(x);
	free(e);
	return rc;
}

/* Where residuals go nothing else may: they are floats between the container's bytes, or replace
 * it. */
static int check_feedback(const struct compress *c)
{
	if (c->g.q.method == QUANT_LOSSLESS || c->g.q.method == QUANT_NONE)
		return err_set(EX_USAGE, "--error-feedback: '%s' makes no error",
			options.method);
	if (c->g.bf16)
		return err_set(EX_USAGE, "--error-feedback needs --input f32");
	if (strcmp(options.feedback, "-") == 0)
		return err_set(EX_USAGE, "--error-feedback needs a file, not '-'");
	if (options.out && strcmp(options.out, options.feedback) == 0)
		return err_set(EX_USAGE, "--out and --error-feedback are both '%s'",
			options.out);
	return 0;
}

static int open_all(struct compress *c)
{
	if (grad_parse(&c->g, options.method, (uint32_t)options.block) < 0)
		return err_add("--method");
	c->g.bf16 = strcmp(options.input, "bf16") == 0;
	c->g.q.seed = options.seed;
	c->g.feedback = options.feedback != NULL;
	if (c->g.feedback && check_feedback(c) < 0)
		return -1;
	if (device_open(&c->d, options.device) < 0)
		return -1;
	if (raw_create(&c->out, options.out) < 0)
		return -1;
	if (c->in.seekable && whole_elements(c, c->in.bytes) < 0)
		return -1;
	if (c->in.seekable)
		c->g.elements = c->in.bytes / (c->g.bf16 ? 2 : 4);
	if (!options.feedback)
		return 0;
	c->has_old = access(options.feedback, F_OK) == 0;
	if (c->has_old && raw_open(&c->old, options.feedback) < 0)
		return -1;
	return raw_create(&c->next, options.feedback);
}

/* --- the record ------------------------------------------------------------------------------- */

static void set_scaled(json_t *params, const char *name, double v, double scale)
{
	if (isfinite(v))
		json_set_i64(params, name, llround(v * scale));
}

static json_t *record_of(const struct compress *c)
{
	const struct grad_stats *s = &c->stats;
	double n = (double)s->elements, out = (double)s->output_bytes;
	double ratio = (double)s->input_bytes / out * 1e6;
	struct stats one = { .median = ratio, .low = ratio, .high = ratio, .n = 1 };
	char name[64];
	json_t *record, *p;

	grad_name(name, &c->g);
	record = bench_record("compress", name, c->d.model[0] ? c->d.model : c->d.name,
		"ppm", &one);
	p = bench_params(record);
	json_set_text(p, "input", options.input);
	json_set_i64(p, "elements", (int64_t)s->elements);
	json_set_i64(p, "input_bytes", (int64_t)s->input_bytes);
	json_set_i64(p, "output_bytes", (int64_t)s->output_bytes);
	if (c->g.q.block)
		json_set_i64(p, "block", c->g.q.block);
	if (s->elements)
		set_scaled(p, "microbits_per_element", 8 * out / n, 1e6);
	if (s->symbols)
		set_scaled(p, "entropy_microbits", s->entropy_bits / (double)s->symbols,
			1e6);
	if (s->entropy_bits > 0)
		set_scaled(p, "huffman_redundancy_ppm",
			(double)s->coded_bits / s->entropy_bits - 1, 1e6);
	if (s->energy > 0)
		set_scaled(p, "relative_error_ppb", sqrt(s->error / s->energy), 1e9);
	if (s->energy > 0 && s->sent > 0)
		set_scaled(p, "cosine_ppb", s->dot / sqrt(s->energy) / sqrt(s->sent),
			1e9);
	json_set_i64(p, "not_finite", (int64_t)s->not_finite);
	return record;
}

/* On standard output, unless the container is there. */
static int print_stats(const struct compress *c)
{
	json_t *record = record_of(c);
	int rc = 0;

	if (options.out && strcmp(options.out, "-") != 0) {
		rc = out_record(record);
	} else {
		char *line = json_dumps(record, JSON_COMPACT);

		fprintf(stderr, "%s\n", line);
		free(line);
	}
	json_decref(record);
	return rc;
}

static int compress_all(struct compress *c, const char *path)
{
	if (raw_open(&c->in, path) < 0 || open_all(c) < 0)
		return -1;
	if (c->g.q.method == QUANT_ECQ && !c->g.each && find_step(c) < 0)
		return -1;
	c->e = grad_encoder_new(&c->d, &c->g, raw_write, &c->out,
		options.stats ? &c->stats : NULL);
	if (!c->e || copy_batches(c) < 0 || grad_encoder_end(c->e) < 0)
		return -1;
	if (options.feedback && (raw_flush(&c->out) < 0 || raw_flush(&c->next) < 0))
		return -1;
	if (raw_finish(&c->out) < 0 || (options.feedback && raw_finish(&c->next) < 0))
		return -1;
	return options.stats ? print_stats(c) : 0;
}

static int run(int n, char **args)
{
	struct compress c = { .in = RAW_IN_INIT, .old = RAW_IN_INIT };
	int rc = compress_all(&c, n ? args[0] : NULL);

	grad_encoder_free(c.e);
	dev_close(&c.d);
	raw_close(&c.in);
	raw_close(&c.old);
	raw_drop(&c.out);
	raw_drop(&c.next);
	free(c.window);
	return rc < 0 ? err_report() : EX_OK;
}

static const struct opt opts[] = {
	OPT(TEXT, "method", &options.method, "M", "how: see below (default ecq:0.1)"),
	OPT_IN(I64, "block", &options.block, "N", 1, 65536,
		"elements that share a scale, a power of two"),
	OPT(CHOICE, "input", &options.input, "T",
		"what is read, and what decompress writes: f32 (default) or bf16",
		.choices = "f32|bf16"),
	OPT(TEXT, "error-feedback", &options.feedback, "F",
		"add the errors of the last time from F, keep those of this time there"),
	OPT(U64, "seed", &options.seed, "S", "of rounding by chance (default 0)"),
	OPT(TEXT, "out", &options.out, "F",
		"write the container to F (default standard output)"),
	OPT_SWITCH("stats", &options.stats,
		"print one rnp.bench record, on standard error without --out"),
	OPT_DEVICE(&options.device),
	{ 0 },
};

const struct command command_compress = {
	.name = "compress",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Compress raw little-endian floats into a gradient container.",
	.details =
		"Methods: none, lossless, f16, bf16, fp8e4, fp8e5, q8, q4 (each with :sigma, :stochastic),\n"
		"ecq:E, ecq:E:chunk, e3m0, qsgd:S, topk.",
	.opts = opts,
	.run = run,
};
