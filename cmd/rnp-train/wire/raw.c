/* raw.c - raw numbers in and out of files and pipes. */
#include "cmd/rnp-train/wire/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"

int raw_open(struct raw_in *in, const char *path)
{
	bool is_stdin = !path || strcmp(path, "-") == 0;
	struct stat st;

	*in = (struct raw_in){ .name = is_stdin ? "standard input" : path };
	in->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (is_stdin)
		io_say_typed();
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
	mode_t mask;

	*out = (struct raw_out){ 0 };
	if (is_stdout && isatty(STDOUT_FILENO))
		return err_set(EX_USAGE, "what comes out is no text: send it to a file");
	if (is_stdout)
		return 0;
	mask = umask(0);
	umask(mask);
	return io_part_open(&out->file, path, 0666 & ~mask);
}

int raw_write(void *ctx, const void *data, size_t len)
{
	struct raw_out *out = ctx;

	if (out->file.path)
		return io_part_write(&out->file, data, len);
	if (io_write_all(STDOUT_FILENO, data, len) < 0)
		return err_sys(EX_IOERR, "cannot write 'standard output'");
	return 0;
}

int raw_flush(struct raw_out *out)
{
	return out->file.path ? io_part_flush(&out->file) : 0;
}

int raw_finish(struct raw_out *out)
{
	return out->file.path ? io_part_close(&out->file) : 0;
}

void raw_drop(struct raw_out *out)
{
	io_part_drop(&out->file);
}
