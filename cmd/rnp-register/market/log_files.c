/* log_files.c - CLUSTER/RANK/NUMBER has the bytes from NUMBER MiB on; CLUSTER/RANK/turn.N says
 * where in the whole the log of turn N begins. What is on the disk is all that is known:
 * nothing has to agree with it after a crash. */
#include "cmd/rnp-register/market/log_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/beneath.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define PATH_BYTES 100

int log_files_open(struct log_files *f, const char *dir)
{
	memset(f, 0, sizeof *f);
	f->dir = xstrdup(dir);
	f->fd = -1;
	pthread_mutex_init(&f->lock, NULL);
	if (io_make_dirs(dir, 0700) == 0)
		f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->fd >= 0)
		return 0;
	err_sys(errno == EACCES ? 0 : EX_CANTCREAT, "cannot make the logs' folder '%s'",
		dir);
	log_files_close(f);
	return -1;
}

void log_files_close(struct log_files *f)
{
	if (!f->dir)
		return;
	if (f->fd >= 0)
		close(f->fd);
	pthread_mutex_destroy(&f->lock);
	free(f->dir);
	f->dir = NULL;
}

bool log_cluster_valid(const char *cluster)
{
	return strspn(cluster, "0123456789abcdef") == LOG_CLUSTER_CHARS &&
		!cluster[LOG_CLUSTER_CHARS];
}

/* --- one rank --------------------------------------------------------------------------------- */

/* Returns a descriptor of the rank's folder, or -1 with errno. */
static int open_rank(struct log_files *f, const char *cluster, int rank, bool make)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "%s/%d", cluster, rank);
	if (make && mkdirat(f->fd, cluster, 0700) < 0 && errno != EEXIST)
		return -1;
	if (make && mkdirat(f->fd, path, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(f->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What a rank's folder has. */
struct rank_files {
	int64_t first,
		last; /* number of the first piece behind piece 0, and of the last; -1: none */
};

/* Calls fn for each name of a folder that is a number. */
static int each_number(int fd, void (*fn)(void *ctx, int64_t number), void *ctx)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;

	if (!d) {
		if (own >= 0)
			close(own);
		return -1;
	}
	while ((e = readdir(d)))
		if (strspn(e->d_name, "0123456789") == strlen(e->d_name) &&
			strlen(e->d_name) <= 12)
			fn(ctx, strtoll(e->d_name, NULL, 10));
	closedir(d);
	return 0;
}

static void note_piece(void *ctx, int64_t number)
{
	struct rank_files *r = ctx;

	if (number > r->last)
		r->last = number;
	if (number && (r->first < 0 || number < r->first))
		r->first = number;
}

static int64_t piece_bytes(int fd, int64_t number)
{
	char name[32];
	struct stat st;

	snprintf(name, sizeof name, "%" PRId64, number);
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_size;
}

/* Returns the length of a rank's log. */
static int64_t length_of(int fd, struct rank_files *r)
{
	*r = (struct rank_files){ -1, -1 };
	if (each_number(fd, note_piece, r) < 0 || r->last < 0)
		return 0;
	return r->last * LOG_PIECE_BYTES + piece_bytes(fd, r->last);
}

int64_t log_bytes(struct log_files *f, const char *cluster, int rank)
{
	int fd = open_rank(f, cluster, rank, false);
	struct rank_files r;
	int64_t bytes = 0;

	if (fd >= 0) {
		bytes = length_of(fd, &r);
		close(fd);
	}
	return bytes;
}

/* --- appending -------------------------------------------------------------------------------- */

static int disk_failed(struct log_files *f)
{
	return err_sys(errno == ENOSPC || errno == EDQUOT ? EX_TEMPFAIL : EX_IOERR,
		"cannot write a log in '%s'", f->dir);
}

/* Writes where the log of a turn begins. */
static int write_base(struct log_files *f, int file, int64_t base)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%21" PRId64 "\n", base);

	return io_write_all_at(file, text, (size_t)n, 0) < 0 ? disk_failed(f) : 0;
}

/* Finds where the log of a turn begins; a new one begins at the end. Returns a descriptor of what
 * says so, or -1. */
static int find_base(struct log_files *f, int fd, int turn, int64_t end, int64_t *base)
{
	char name[32], text[32];
	int file;
	ssize_t n;

	snprintf(name, sizeof name, "turn.%d", turn);
	file = openat(fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		return disk_failed(f);
	n = pread(file, text, sizeof text - 1, 0);
	if (n == 22) {
		text[n] = '\0';
		*base = strtoll(text, NULL, 10);
		return file;
	}
	*base = end;
	if (write_base(f, file, end) == 0)
		return file;
	close(file);
	return -1;
}

/* Drops what is older than the last pieces before `last`, except the first. */
static void drop_old(int fd, struct rank_files *r, int64_t last)
{
	char name[32];

	if (r->first < 0)
		return;
	for (; r->first < last - LOG_PIECES_LAST; r->first++) {
		snprintf(name, sizeof name, "%" PRId64, r->first);
		unlinkat(fd, name, 0);
	}
}

/* Writes bytes at the end of the log. */
static int write_end(struct log_files *f, int fd, struct rank_files *r, int64_t end,
	const char *data, size_t len)
{
	while (len) {
		int64_t number = end / LOG_PIECE_BYTES, at = end % LOG_PIECE_BYTES;
		size_t n = (size_t)(LOG_PIECE_BYTES - at) < len ?
			(size_t)(LOG_PIECE_BYTES - at) :
			len;
		char name[32];
		int file, rc;

		snprintf(name, sizeof name, "%" PRId64, number);
		file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (file < 0)
			return disk_failed(f);
		rc = io_write_all_at(file, data, n, at);
		/* half a piece of a line is worse than none */
		if (rc < 0) {
			disk_failed(f);
			if (ftruncate(file, at) < 0)
				rc = -1;
		}
		close(file);
		if (rc < 0)
			return -1;
		note_piece(r, number);
		drop_old(fd, r, number);
		end += (int64_t)n;
		data += n;
		len -= n;
	}
	return 0;
}

/* Bytes between are missing, as a machine has lost its power: the log says so, and goes on
 * where the node is. */
static int bridge(struct log_files *f, int fd, struct rank_files *r, int base_file,
	int64_t *end, int64_t *base, int64_t offset)
{
	char text[100];
	int n = snprintf(text, sizeof text,
		"\n[%" PRId64 " bytes of this log are lost]\n", offset - (*end - *base));

	if (write_end(f, fd, r, *end, text, (size_t)n) < 0)
		return -1;
	*end += n;
	*base = *end - offset;
	return write_base(f, base_file, *base);
}

/* With the lock, in the rank's folder. */
static int append(struct log_files *f, int fd, int turn, int64_t offset, const char *data,
	size_t len, int64_t *have)
{
	struct rank_files r;
	int64_t end = length_of(fd, &r), base = 0, skip;
	int file = find_base(f, fd, turn, end, &base), rc = 0;

	if (file < 0)
		return -1;
	if (offset > end - base)
		rc = bridge(f, fd, &r, file, &end, &base, offset);
	close(file);
	if (rc < 0)
		return -1;
	*have = end - base;
	skip = *have - offset;
	if (skip >= (int64_t)len)
		return 0;
	if (write_end(f, fd, &r, end, data + skip, len - (size_t)skip) < 0)
		return -1;
	*have = offset + (int64_t)len;
	return 0;
}

int log_append(struct log_files *f, const char *cluster, int rank, int turn,
	int64_t offset, const void *data, size_t len, int64_t *have)
{
	int fd, rc;

	pthread_mutex_lock(&f->lock);
	fd = open_rank(f, cluster, rank, true);
	rc = fd < 0 ? disk_failed(f) : append(f, fd, turn, offset, data, len, have);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Moves behind what was dropped. Returns false where that is the end. */
static bool find_next(const struct rank_files *r, int64_t end, int64_t *at)
{
	if (*at >= LOG_PIECE_BYTES && r->first > 0 && *at < r->first * LOG_PIECE_BYTES)
		*at = r->first * LOG_PIECE_BYTES;
	return *at < end;
}

long log_read(struct log_files *f, const char *cluster, int rank, int64_t *at, void *to,
	size_t cap)
{
	int fd = open_rank(f, cluster, rank, false), file;
	struct rank_files r;
	char name[32];
	long n = 0;

	if (fd < 0)
		return 0;
	for (int64_t end = length_of(fd, &r); n == 0 && find_next(&r, end, at);
		end = length_of(fd, &r)) {
		int64_t rest = LOG_PIECE_BYTES - *at % LOG_PIECE_BYTES;

		snprintf(name, sizeof name, "%" PRId64, *at / LOG_PIECE_BYTES);
		file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		/* dropped just now: look again */
		if (file < 0 && errno == ENOENT)
			continue;
		if (file >= 0)
			n = pread(file, to, rest < (int64_t)cap ? (size_t)rest : cap,
				*at % LOG_PIECE_BYTES);
		if (file < 0 || n < 0)
			n = err_sys(EX_IOERR, "cannot read a log in '%s'", f->dir);
		else if (n ==
			0) /* the machine lost its power: the rest of a piece is gone */
			*at += rest;
		if (file >= 0)
			close(file);
	}
	close(fd);
	return n;
}

/* Collects numbers. */
struct numbers {
	int *list;
	size_t n, cap;
};

static void add_number(void *ctx, int64_t number)
{
	struct numbers *x = ctx;

	if (x->n < x->cap && number < LOG_RANKS_MAX)
		x->list[x->n++] = (int)number;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

size_t log_ranks(struct log_files *f, const char *cluster, int *ranks, size_t cap)
{
	struct numbers x = { ranks, 0, cap };
	int fd = openat(f->fd, cluster, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	(void)each_number(fd, add_number, &x);
	close(fd);
	qsort(ranks, x.n, sizeof *ranks, by_number);
	return x.n;
}

/* --- all -------------------------------------------------------------------------------------- */

void log_touch(struct log_files *f, const char *cluster)
{
	(void)!utimensat(f->fd, cluster, NULL, 0);
}

int log_each(struct log_files *f,
	void (*fn)(void *ctx, const char *cluster, int64_t age_ms), void *ctx)
{
	int own = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct timespec now;
	struct dirent *e;
	struct stat st;

	if (!d) {
		if (own >= 0)
			close(own);
		return err_sys(EX_IOERR, "cannot read the logs in '%s'", f->dir);
	}
	/* not RNP_NOW: it is compared with times of the file system */
	clock_gettime(CLOCK_REALTIME, &now);
	while ((e = readdir(d)))
		if (log_cluster_valid(e->d_name) &&
			fstatat(f->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			fn(ctx, e->d_name,
				(now.tv_sec - st.st_mtim.tv_sec) * INT64_C(1000) +
					(now.tv_nsec - st.st_mtim.tv_nsec) / 1000000);
	closedir(d);
	return 0;
}

int log_remove(struct log_files *f, const char *cluster)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	rc = beneath_remove(f->fd, cluster);
	pthread_mutex_unlock(&f->lock);
	return rc < 0 && errno != ENOENT ?
		err_sys(EX_IOERR, "cannot remove a log in '%s'", f->dir) :
		0;
}
