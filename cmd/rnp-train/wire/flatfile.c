/* flatfile.c - arrays in files: reserved, mapped, synced, renamed. */
#include "cmd/rnp-train/wire/flatfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"

/* Arrays up to it get their pages by being written: each page of a mapping that is written to first
 * costs a fault and the file system's bookkeeping, together ten times as much. Larger ones could be
 * on the disk before they have their values, and go there twice. */
#define WRITTEN_MAX ((uint64_t)64 << 20)
#define PIECE_BYTES ((size_t)256 << 10)

static char *join_path(const char *dir, const char *name, const char *behind)
{
	struct buf path = BUF_INIT;

	buf_addf(&path, "%s/%s%s", dir, name, behind);
	return buf_take(&path);
}

static int map(struct flatfile *f, int protection)
{
	void *at = mmap(NULL, f->n * sizeof *f->x, protection, MAP_SHARED, f->fd, 0);

	if (at == MAP_FAILED)
		return err_sys(EX_OSERR, "cannot map '%s'", f->path);
	f->x = at;
	return 0;
}

/* Returns 0, or a number of errno. */
static int reserve(int fd, uint64_t bytes)
{
	static const char zeros[PIECE_BYTES];
	int failed = posix_fallocate(fd, 0, (off_t)bytes);

	for (uint64_t at = 0; !failed && bytes <= WRITTEN_MAX && at < bytes;
		at += PIECE_BYTES)
		if (io_write_all_at(fd, zeros,
			    bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES,
			    (int64_t)at) < 0)
			failed = errno;
	return failed;
}

int flatfile_make(struct flatfile *f, const char *dir, const char *name, uint64_t n)
{
	int failed;

	*f = (struct flatfile){ .n = n,
		.fd = -1,
		.path = join_path(dir, name, ""),
		.part = join_path(dir, name, ".part") };
	unlink(f->part);
	f->fd = open(f->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (f->fd < 0)
		return err_sys(errno == EACCES ? EX_NOPERM : EX_CANTCREAT,
			"cannot create '%s'", f->part);
	failed = reserve(f->fd, n * sizeof *f->x);
	if (failed) {
		errno = failed;
		return err_sys(EX_IOERR, "cannot reserve %llu bytes for '%s'",
			(unsigned long long)(n * sizeof *f->x), f->path);
	}
	return map(f, PROT_READ | PROT_WRITE);
}

int flatfile_open(struct flatfile *f, const char *dir, const char *name, uint64_t n)
{
	struct stat st;

	*f = (struct flatfile){ .n = n, .path = join_path(dir, name, "") };
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return err_sys(0, "cannot open '%s'", f->path);
	if ((uint64_t)st.st_size != n * sizeof *f->x)
		return err_set(EX_DATAERR, "%s: has not %llu floats", f->path,
			(unsigned long long)n);
	return map(f, PROT_READ);
}

int flatfile_name(struct flatfile *f)
{
	if (rename(f->part, f->path) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", f->path);
	free(f->part);
	f->part = NULL;
	return 0;
}

int flatfile_sync(struct flatfile *f)
{
	if (msync(f->x, f->n * sizeof *f->x, MS_SYNC) < 0 || fsync(f->fd) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", f->path);
	return 0;
}

int flatfile_keep(struct flatfile *f)
{
	return flatfile_keep_all(f, 1);
}

int flatfile_keep_all(struct flatfile *f, int n)
{
	const char *path = NULL;

	/* only begins; what fails is met again below */
	for (int i = 0; n > 1 && i < n; i++)
		if (f[i].x)
			sync_file_range(f[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	for (int i = 0; i < n; i++) {
		if (!f[i].x)
			continue;
		if (flatfile_sync(&f[i]) < 0 || flatfile_name(&f[i]) < 0)
			return -1;
		path = f[i].path;
	}
	return path ? io_flush_directory(path) : 0;
}

void flatfile_close(struct flatfile *f)
{
	if (f->x)
		munmap(f->x, f->n * sizeof *f->x);
	if (f->path && f->fd >= 0)
		close(f->fd);
	if (f->part)
		unlink(f->part);
	free(f->path);
	free(f->part);
	*f = (struct flatfile)FLATFILE_INIT;
}

void flatfile_hash(const float *x, uint64_t n, unsigned char out[32])
{
	crypto_generichash_state h;
	const uint64_t piece = 1 << 20;

	crypto_generichash_init(&h, NULL, 0, 32);
	for (uint64_t at = 0; at < n; at += piece)
		crypto_generichash_update(&h, (const unsigned char *)(x + at),
			(n - at < piece ? n - at : piece) * sizeof *x);
	crypto_generichash_final(&h, out, 32);
}

void flatfile_sweep(const char *dir, int (*keep)(void *ctx, const char *name), void *ctx)
{
	DIR *all = opendir(dir);
	struct dirent *e;

	while (all && (e = readdir(all))) {
		char *path;

		if (e->d_name[0] == '.' || keep(ctx, e->d_name))
			continue;
		path = join_path(dir, e->d_name, "");
		unlink(path); /* of a directory this fails */
		free(path);
	}
	if (all)
		closedir(all);
}
