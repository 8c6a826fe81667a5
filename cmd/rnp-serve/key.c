/* key.c - rnp-serve key: makes a new API key. */
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/request/keys.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

static const char *name, *append;
static int64_t limit_tokens, limit_streams;

static const struct opt opts[] = {
	OPT(TEXT, "name", &name, "N", "name of the key's owner, for logs and metrics",
		.required = true),
	OPT(I64, "limit-tokens", &limit_tokens, "R",
		"of prompts and answers, a minute (default no limit)", .min = 1),
	OPT_IN(I64, "limit-streams", &limit_streams, "K", 1, UINT32_MAX,
		"answers at the same time (default no limit)"),
	OPT(TEXT, "append", &append, "F",
		"add its line to this file (default standard error)"),
	{ 0 },
};

/* The file of keys, while this program holds its lock. */
struct keys_file {
	int fd;
	bool made;          /* by this program */
	off_t bytes_before; /* -1: nothing was written */
};

/* Opens the file and gets its lock; creates it if it does not exist. Returns 0, 1: another one has
 * taken it away meanwhile, or -1. */
static int lock_file(struct keys_file *f, struct stat *st)
{
	struct stat there;

	f->made = access(append, F_OK) < 0;
	f->fd = open(append, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return err_sys(EX_CANTCREAT, "cannot write '%s'", append);
	lock_wait(f->fd, append, NULL);
	if (fstat(f->fd, st) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", append);
	if (stat(append, &there) == 0 && there.st_dev == st->st_dev &&
		there.st_ino == st->st_ino)
		return 0;
	close(f->fd);
	f->fd = -1;
	return 1;
}

/* Whether a server takes the file as it is now: one name twice, and it would take none of its
 * keys. */
static int check_file(const struct stat *st)
{
	struct keys k = { 0 };
	int rc;

	if (!S_ISREG(st->st_mode))
		return 0;
	rc = keys_open(&k, append);
	keys_release(&k);
	return rc;
}

/* Whether what somebody's editor left ends within a line, which a key would become part of. -1: it
 * cannot be read, and nobody could say that a server would take it. */
static int ends_within_line(const struct stat *st)
{
	char last = '\n';
	int fd;

	if (!S_ISREG(st->st_mode) || !st->st_size)
		return 0;
	fd = open(append, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err_sys(0, "cannot read '%s', and see what keys it has", append);
		return err_hint(
			"whoever adds keys to it must be allowed to read it, too; without --append the "
			"line for it goes to standard error");
	}
	if (pread(fd, &last, 1, st->st_size - 1) != 1)
		last = '\n';
	close(fd);
	return last != '\n';
}

/* Appends a whole line, with a newline before it, to the file of keys, under a lock. */
static int append_line(struct keys_file *f, const char *line)
{
	struct stat st;
	int rc, within;

	do
		rc = lock_file(f, &st);
	while (rc > 0);
	if (rc < 0)
		return -1;
	f->made = f->made && !st.st_size;
	within = ends_within_line(&st);
	if (within < 0)
		return -1;
	f->bytes_before = st.st_size;
	/* the line is led by what ends the one before, written with it: both are there or
	 * neither */
	line += within ? 0 : 1;
	if (io_write_all(f->fd, line, strlen(line)) < 0 || fsync(f->fd) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", append);
	return check_file(&st);
}

/* Takes the line back: nobody has the key. The error that is pending stays. */
static void take_back(const struct keys_file *f)
{
	struct stat st;

	/* what is not a regular file, such as a pipe, keeps what was written */
	if (f->bytes_before < 0 || fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (f->made)
		unlink(append);
	if (ftruncate(f->fd, f->bytes_before) < 0 || fsync(f->fd) < 0)
		prog_warn("'%s': its last line is of a key that nobody has", append);
}

static int write_line(struct keys_file *f, json_t *record)
{
	struct buf line = BUF_INIT;
	int rc = 0;

	buf_addc(&line, '\n');
	json_write(&line, record);
	buf_addc(&line, '\n');
	if (append)
		rc = append_line(f, buf_text(&line));
	else if (io_write_all(STDERR_FILENO, line.data + 1, line.len - 1) < 0)
		rc = err_sys(EX_IOERR, "cannot write standard error");
	buf_release(&line);
	return rc;
}

static int run(int n, char **args)
{
	struct keys_file f = { .fd = -1, .bytes_before = -1 };
	char text[API_KEY_TEXT];
	json_t *record;
	int rc;

	(void)n, (void)args;
	record = api_key_new(text, name, limit_tokens, limit_streams);
	if (!record)
		return err_report();
	/* write the line first: if this program is killed in between, an unknown key does no
	 * harm */
	rc = write_line(&f, record);
	json_decref(record);
	if (rc == 0)
		rc = out_text(text, sizeof text - 1);
	if (rc == 0)
		rc = out_text("\n", 1);
	if (rc == 0)
		rc = out_flush();
	if (rc < 0)
		take_back(&f);
	else if (isatty(STDOUT_FILENO))
		prog_info("keep the key: it is shown this once%s",
			append ?
				"" :
				"; the line above it is for the server's --api-keys file");
	if (f.fd >= 0)
		close(f.fd);
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
