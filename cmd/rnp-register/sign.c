/* sign.c - rnp-register sign: adds a signature to each record that it reads. */
#include "cmd/rnp-register/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"

static const char *key_path, *passphrase_file;

static const struct opt opts[] = {
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	{ 0 },
};

static int sign_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	const struct key *k = ctx;
	json_t *record = json_parse_object(line, len, where);
	int rc;

	if (!record)
		return -1;
	/* whole seconds: some readers of `created` accept no fraction */
	rc = signature_add(record, k, clock_now_ms() / 1000 * 1000);
	if (rc < 0) {
		err_add("%s", where);
	} else {
		json_write(out, record);
		buf_addc(out, '\n');
	}
	json_decref(record);
	return rc;
}

static int run(int nargs, char **args)
{
	struct key k = KEY_INIT;
	struct lines l;
	int rc;

	if (key_load(&k, key_path, passphrase_file) < 0)
		return err_report();
	lines_open(&l, args, nargs, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&l, sign_line, out_lines, &k);
	lines_close(&l);
	key_release(&k);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_sign = {
	.name = "sign",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Add a proof to JSON records.",
	.details =
		"Reads any JSON objects, one a line; writes them with an eddsa-jcs-2022 proof in the\n"
		"field proof. A record that has a proof gets a second beside it.",
	.card = true,
	.group = "node",
	.opts = opts,
	.run = run,
};
