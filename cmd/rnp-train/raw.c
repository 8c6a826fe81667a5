#include "cmd/rnp-train/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/io.h"

int raw_open(struct raw_in *in, const char *path)
{
	bool is_stdin = !path || strcmp(path, "-") == 0;
	struct stat st;

	*in = (struct raw_in){ .name = is_stdin ? "standard input" : path };
	in->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode)) {
		off_t at = lseek(in->fd, 0, SEEK_CUR);

		in->start = at > 0 ? at : 0;
		in->seekable = at >= 0;
		in->bytes = st.st_size > in->start ? (uint64_t)(st.st_size - in->start) :
						     0;
	}
	return 0;
}

int raw_read(struct raw_in *in, void *data, size_t len, size_t *got)
{
	for (*got = 0; *got < len;) {
		ssize_t n = read(in->fd, (char *)data + *got, len - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno == EISDIR ? EX_NOINPUT : EX_IOERR,
				"cannot read '%s'", in->name);
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

int raw_rewind(struct raw_in *in)
{
	if (lseek(in->fd, in->start, SEEK_SET) < 0)
		return err_sys(EX_IOERR, "cannot go back in '%s'", in->name);
	return 0;
}

void raw_close(struct raw_in *in)
{
	if (in->fd > STDIN_FILENO)
		close(in->fd);
	in->fd = -1;
}

int raw_create(struct raw_out *out, const char *path)
{
	bool is_stdout = !path || strcmp(path, "-") == 0;

	*out = (struct raw_out){ .fd = STDOUT_FILENO, .path = is_stdout ? NULL : path };
	if (is_stdout && isatty(STDOUT_FILENO))
		return err_set(EX_USAGE, "what comes out is no text: send it to a file");
	if (is_stdout)
		return 0;
	buf_addf(&out->beside, "%s.XXXXXX", path);
	out->fd = mkostemp(out->beside.data, O_CLOEXEC);
	if (out->fd < 0)
		return err_sys(errno == EACCES || errno == EPERM ? EX_NOPERM :
								   EX_CANTCREAT,
			"cannot create '%s'", path);
	return 0;
}

int raw_write(void *ctx, const void *data, size_t len)
{
	struct raw_out *out = ctx;

	if (io_write_all(out->fd, data, len) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'",
			out->path ? out->path : "standard output");
	return 0;
}

int raw_finish(struct raw_out *out)
{
	mode_t mask;

	if (!out->path)
		return 0;
	mask = umask(0);
	umask(mask);
	if (fchmod(out->fd, 0666 & ~mask) < 0 || fsync(out->fd) < 0 ||
		rename(out->beside.data, out->path) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", out->path);
	buf_release(&out->beside);
	return 0;
}

void raw_drop(struct raw_out *out)
{
	if (out->fd > STDOUT_FILENO)
		close(out->fd);
	if (out->beside.len)
		unlink(out->beside.data);
	buf_release(&out->beside);
	out->fd = -1;
}
