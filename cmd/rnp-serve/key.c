/* key.c - rnp-serve key: makes a new API key. */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/keys.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

static const char *name, *append;
static int64_t limit_tokens, limit_streams;

static const struct opt opts[] = {
	{ .name = "name",
		.kind = OPT_TEXT,
		.required = true,
		.to = &name,
		.metavar = "N",
		.help = "whose it is, for logs and metrics" },
	{ .name = "limit-tokens",
		.kind = OPT_I64,
		.to = &limit_tokens,
		.metavar = "R",
		.min = 1,
		.help = "of prompts and answers, a minute (default no limit)" },
	{ .name = "limit-streams",
		.kind = OPT_I64,
		.to = &limit_streams,
		.metavar = "K",
		.min = 1,
		.max = UINT32_MAX,
		.help = "answers at the same time (default no limit)" },
	{ .name = "append",
		.kind = OPT_TEXT,
		.to = &append,
		.metavar = "F",
		.help = "add its line to this file (default standard error)" },
	{ 0 },
};

/* Appends a whole line to the file of keys, under a lock; creates the file if it does not
 * exist. */
static int append_line(const struct buf *line)
{
	int fd = open(append, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return err_sys(0, "cannot write '%s'", append);
	if (flock(fd, LOCK_EX) < 0 || io_write_all(fd, line->data, line->len) < 0 ||
		fsync(fd) < 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", append);
	close(fd);
	return rc;
}

static int write_line(json_t *record)
{
	struct buf line = BUF_INIT;
	int rc = 0;

	json_write(&line, record);
	buf_addc(&line, '\n');
	if (append)
		rc = append_line(&line);
	else if (io_write_all(STDERR_FILENO, line.data, line.len) < 0)
		rc = err_sys(EX_IOERR, "cannot write standard error");
	buf_release(&line);
	return rc;
}

static int run(int n, char **args)
{
	char text[API_KEY_TEXT];
	json_t *record;
	int rc;

	(void)n, (void)args;
	record = api_key_new(text, name, limit_tokens, limit_streams);
	if (!record)
		return err_report();
	/* write the line first: if printing fails, an unknown key does no harm */
	rc = write_line(record);
	json_decref(record);
	if (rc == 0)
		rc = out_text(text, sizeof text - 1);
	if (rc == 0)
		rc = out_text("\n", 1);
	sodium_memzero(text, sizeof text);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_key = {
	.name = "key",
	.summary = "Make a key of the API.",
	.details =
		"Prints the key, which is kept nowhere, and on standard error the line that a server's\n"
		"--api-keys file needs. A running server reads its file again when it changes.",
	.opts = opts,
	.run = run,
};
