/* canon.c - rnp-register canon: writes the canonical form (RFC 8785) of JSON values, which is
 * hashed and signed. */
#include "common/json/canon.h"

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

#define WHOLE_BYTES_MAX ((size_t)64 << 20)

static bool whole;

static const struct opt opts[] = {
	OPT_SWITCH("whole", &whole, "one value spread over all the lines of each file"),
	{ 0 },
};

static int canon_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	json_t *v = json_parse(line, len, JSON_DEPTH_MAX_CANON, where);
	int rc;

	(void)ctx;
	if (!v)
		return -1;
	rc = canon_write(out, v);
	if (rc < 0)
		err_add("%s", where);
	else
		buf_addc(out, '\n');
	json_decref(v);
	return rc;
}

/* not out_lines: this is text, even with --table */
static int print(void *ctx, const char *data, size_t len)
{
	(void)ctx;
	return out_text(data, len) < 0 ? -1 : out_flush();
}

static int canon_file(char *path)
{
	struct buf text = BUF_INIT, out = BUF_INIT;
	int rc = io_read(&text, path, WHOLE_BYTES_MAX);

	if (rc == 0)
		rc = canon_line(NULL, text.data ? text.data : path, text.len,
			path[0] == '-' && !path[1] ? "stdin" : path, &out);
	if (rc == 0)
		rc = print(NULL, out.data, out.len);
	buf_release(&text);
	buf_release(&out);
	return rc;
}

static int run(int nargs, char **args)
{
	char *stdin_only = (char *)"-";
	struct lines l;
	int rc = 0;

	if (whole) {
		for (int i = 0; rc == 0 && i < (nargs ? nargs : 1); i++)
			rc = canon_file(nargs ? args[i] : stdin_only);
	} else {
		lines_open(&l, args, nargs, JSON_RECORD_BYTES_MAX);
		rc = lines_map(&l, canon_line, print, NULL);
		lines_close(&l);
	}
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_canon = {
	.name = "canon",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Print the bytes of JSON values that are hashed and signed.",
	.details =
		"Reads any JSON values, one a line and up to 512 deep; writes the canonical form of\n"
		"RFC 8785 of each, one a line.",
	.group = "node",
	.opts = opts,
	.run = run,
};
