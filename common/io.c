#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"

#define READ_CHUNK_BYTES ((size_t)64 << 10)

int io_read(struct buf *out, const char *path, size_t max_bytes)
{
	bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	size_t start = out->len;
	int rc = -1;

	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	for (;;) {
		ssize_t n = read(fd, buf_reserve(out, READ_CHUNK_BYTES),
			READ_CHUNK_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_sys(errno == EISDIR ? EX_NOINPUT : EX_IOERR,
				"cannot read '%s'", name);
			break;
		}
		if (n == 0) {
			rc = 0;
			break;
		}
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		if (out->len - start > max_bytes) {
			err_set(EX_DATAERR, "'%s' is larger than %zu bytes", name,
				max_bytes);
			break;
		}
	}
	if (!is_stdin)
		close(fd);
	return rc;
}

int io_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static int flush_directory(const char *path)
{
	char *dir = directory_of(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = fd < 0 ? -1 : 0;

	/* some file systems cannot flush a directory and say EINVAL: nothing to be done */
	if (fd >= 0 && fsync(fd) < 0 && errno != EINVAL)
		rc = -1;
	if (rc < 0)
		err_sys(0, "cannot flush directory '%s'", dir);
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

static int fail_create(const char *path)
{
	int code = errno == EACCES || errno == EPERM || errno == EROFS ? EX_NOPERM :
									 EX_CANTCREAT;

	return err_sys(errno == ENOSPC || errno == EDQUOT ? EX_IOERR : code,
		"cannot create '%s'", path);
}

static int write_beside(const char *path, const void *data, size_t len, mode_t mode,
	bool may_exist)
{
	struct buf temporary = BUF_INIT;
	int fd, rc = -1;

	buf_addf(&temporary, "%s.XXXXXX", path);
	fd = mkostemp(temporary.data, O_CLOEXEC);
	if (fd < 0) {
		fail_create(path);
		buf_release(&temporary);
		return -1;
	}
	if (fchmod(fd, mode) < 0 || io_write_all(fd, data, len) < 0 || fsync(fd) < 0) {
		err_sys(EX_IOERR, "cannot write '%s'", path);
		close(fd);
		goto out;
	}
	if (close(fd) < 0) {
		err_sys(EX_IOERR, "cannot write '%s'", path);
		goto out;
	}
	/* link() fails where the name is taken, rename() would replace it */
	if (may_exist ? rename(temporary.data, path) < 0 :
			link(temporary.data, path) < 0) {
		if (!may_exist && errno == EEXIST)
			err_set(EX_CANTCREAT,
				"'%s' exists already and is never overwritten", path);
		else
			fail_create(path);
		goto out;
	}
	rc = flush_directory(path);
out:
	if (rc < 0 || !may_exist)
		unlink(temporary.data);
	buf_release(&temporary);
	return rc;
}

int io_replace(const char *path, const void *data, size_t len, mode_t mode)
{
	return write_beside(path, data, len, mode, true);
}

int io_create(const char *path, const void *data, size_t len, mode_t mode)
{
	return write_beside(path, data, len, mode, false);
}

int io_make_dirs(const char *path)
{
	char *copy = xstrdup(path);
	struct stat st;
	int rc = *path ? 0 : err_set(EX_NOINPUT, "cannot make directory '': no name");

	for (char *s = copy + 1; rc == 0; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			rc = err_sys(0, "cannot make directory '%s'", copy);
		*s = c;
		if (!c)
			break;
	}
	/* the name may be taken by something else */
	if (rc == 0 && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		rc = err_sys(EX_CANTCREAT, "cannot make directory '%s'", path);
	}
	free(copy);
	return rc;
}
