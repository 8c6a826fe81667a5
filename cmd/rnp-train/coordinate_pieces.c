/* coordinate_pieces.c - which pieces are there stands in a file of a byte each, after the name of the
 * machine's boot: a piece that was never flushed may be gone after the next one. */
#include "cmd/rnp-train/coordinate_pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

#define BOOT_BYTES 36 /* a UUID as text */

struct pieces {
	char *path, *marks_path;
	int fd, marks; /* -1: not open */
};

static void close_pieces(struct pieces *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->marks >= 0)
		close(p->marks);
	free(p->path);
	free(p->marks_path);
}

static void read_boot(char boot[BOOT_BYTES])
{
	struct buf text = BUF_INIT;

	memset(boot, '-', BOOT_BYTES);
	if (io_read(&text, "/proc/sys/kernel/random/boot_id", 256) == 0 &&
		text.len >= BOOT_BYTES)
		memcpy(boot, text.data, BOOT_BYTES);
	err_clear();
	buf_release(&text);
}

static bool read_at(int fd, void *to, size_t len, uint64_t at)
{
	ssize_t n;

	do
		n = pread(fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len;
}

static int write_at(int fd, const void *data, size_t len, uint64_t at, const char *path)
{
	if (io_write_all_at(fd, data, len, (int64_t)at) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", path);
	return 0;
}

/* Marks of an earlier boot do not count. */
static int open_marks(struct pieces *p, int flags)
{
	char boot[BOOT_BYTES], there[BOOT_BYTES];

	read_boot(boot);
	if (read_at(p->marks, there, sizeof there, 0) &&
		memcmp(there, boot, sizeof boot) == 0)
		return 0;
	if (!(flags & O_CREAT))
		return 1;
	if (ftruncate(p->marks, 0) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", p->marks_path);
	return write_at(p->marks, boot, sizeof boot, 0, p->marks_path);
}

/* With g->pieces_lock. Returns 0; 1: there are none (never with O_CREAT in flags); -1. Close either
 * way. */
static int open_pieces(struct pieces *p, struct coordinator *g, uint64_t turn, int flags)
{
	*p = (struct pieces){ .fd = -1,
		.marks = -1,
		.path = coordinate_path(g, "delta-%" PRIu64 ".pieces", turn),
		.marks_path = coordinate_path(g, "delta-%" PRIu64 ".there", turn) };
	p->fd = open(p->path, O_RDWR | O_CLOEXEC | flags, 0666);
	if (p->fd >= 0)
		p->marks = open(p->marks_path, O_RDWR | O_CLOEXEC | flags, 0666);
	if (p->marks < 0)
		return errno == ENOENT && !(flags & O_CREAT) ?
			1 :
			err_sys(EX_IOERR, "cannot open '%s'",
				p->fd < 0 ? p->path : p->marks_path);
	return open_marks(p, flags);
}

static bool is_there(const struct pieces *p, uint64_t piece)
{
	char mark;

	return read_at(p->marks, &mark, 1, BOOT_BYTES + piece) && mark == 1;
}

static bool are_there(const struct pieces *p, uint64_t pieces)
{
	char *marks = xmalloc(pieces + 1);
	bool all = read_at(p->marks, marks, pieces, BOOT_BYTES);

	for (uint64_t i = 0; all && i < pieces; i++)
		all = marks[i] == 1;
	free(marks);
	return all;
}

bool pieces_are_there(struct coordinator *g, uint64_t turn, uint64_t pieces)
{
	struct pieces p;
	bool all = open_pieces(&p, g, turn, 0) == 0 && are_there(&p, pieces);

	close_pieces(&p);
	err_clear();
	return all;
}

static bool is_same(const struct pieces *p, uint64_t at, const void *data, size_t len)
{
	char *there = xmalloc(len);
	bool same = read_at(p->fd, there, len, at) && memcmp(there, data, len) == 0;

	free(there);
	return same;
}

static int put(const struct pieces *p, uint64_t piece, uint64_t at, const void *data,
	size_t len, bool closed)
{
	if (is_there(p, piece))
		return is_same(p, at, data, len) ? 1 : 2;
	if (closed)
		return 3;
	if (write_at(p->fd, data, len, at, p->path) < 0)
		return -1;
	return write_at(p->marks, "\1", 1, BOOT_BYTES + piece, p->marks_path);
}

/* As pieces_put. */
static int put_all(const struct pieces *p, uint64_t piece, uint64_t piece_bytes,
	const char *data, size_t len, bool closed)
{
	int all = 1;

	for (size_t done = 0; done < len; piece++) {
		size_t part = len - done < piece_bytes ? len - done : piece_bytes;
		int rc = put(p, piece, piece * piece_bytes, data + done, part, closed);

		if (rc < 0 || rc > 1)
			return rc;
		all = rc == 0 ? 0 : all;
		done += part;
	}
	return all;
}

int pieces_put(struct coordinator *g, uint64_t turn, uint64_t piece, const void *data,
	size_t len)
{
	struct pieces p = { .fd = -1, .marks = -1 };
	uint64_t at = piece * g->run.piece_bytes;
	bool closed;
	int rc;

	pthread_mutex_lock(&g->pieces_lock);
	closed = g->pieces_closed == turn;
	rc = open_pieces(&p, g, turn, closed ? 0 : O_CREAT);
	if (rc == 0)
		rc = put_all(&p, piece, g->run.piece_bytes, data, len, closed);
	else if (rc == 1)
		rc = 3;
	pthread_mutex_unlock(&g->pieces_lock);
	/* The disk begins with it at once, so that little is left to be flushed at the end. Its queue may
	 * be full: no other piece waits for that. */
	if (rc == 0)
		sync_file_range(p.fd, (off_t)at, (off_t)len, SYNC_FILE_RANGE_WRITE);
	close_pieces(&p);
	return rc;
}

void pieces_list(struct coordinator *g, uint64_t turn, uint64_t pieces, struct buf *out)
{
	const char *comma = "";
	struct pieces p;

	pthread_mutex_lock(&g->pieces_lock);
	if (open_pieces(&p, g, turn, 0) == 0)
		for (uint64_t i = 0; i < pieces; i++)
			if (is_there(&p, i)) {
				buf_addf(out, "%s%" PRIu64, comma, i);
				comma = ",";
			}
	close_pieces(&p);
	pthread_mutex_unlock(&g->pieces_lock);
	err_clear();
}

/* Whether the file is what the record says. */
static int check_file(const struct pieces *p, const struct delta *d)
{
	unsigned char hash[32];
	char hex[PROTOCOL_HEX];
	struct stat st;
	void *data;

	if (fstat(p->fd, &st) < 0)
		return err_sys(EX_IOERR, "cannot read '%s'", p->path);
	if ((uint64_t)st.st_size != d->bytes)
		return err_set(EX_DATAERR, "bytes: the pieces have %lld",
			(long long)st.st_size);
	data = mmap(NULL, d->bytes, PROT_READ, MAP_SHARED, p->fd, 0);
	if (data == MAP_FAILED)
		return err_sys(EX_OSERR, "cannot map '%s'", p->path);
	sha256(hash, data, d->bytes);
	munmap(data, d->bytes);
	protocol_hex(hex, hash);
	return strcmp(hex, d->sha256) == 0 ?
		0 :
		err_set(EX_DATAERR, "sha256: is not that of the pieces");
}

static int find_all(struct coordinator *g, struct pieces *p, const struct delta *d)
{
	uint64_t pieces = protocol_pieces(d->bytes, g->run.piece_bytes);
	int rc;

	pthread_mutex_lock(&g->pieces_lock);
	rc = open_pieces(p, g, d->turn, 0);
	if (rc == 0)
		rc = are_there(p, pieces) ? 0 : 1;
	if (rc == 0)
		g->pieces_closed = d->turn;
	pthread_mutex_unlock(&g->pieces_lock);
	return rc;
}

/* A second name: until the turn is delivered, a kill leaves the pieces where they were. */
static int name_whole(const struct pieces *p, const char *path)
{
	unlink(path); /* of an earlier try */
	if (fdatasync(p->fd) < 0 || link(p->path, path) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", path);
	return io_flush_directory(path);
}

int pieces_join(struct coordinator *g, const struct delta *d, uint64_t elements,
	const char *path, double *norm)
{
	struct pieces p;
	int rc = find_all(g, &p, d);

	if (rc == 0)
		rc = check_file(&p, d);
	if (rc == 0)
		rc = container_check(&g->check, p.path, g->run.method, elements, norm);
	if (rc == 0)
		rc = name_whole(&p, path);
	close_pieces(&p);
	return rc;
}

void pieces_end(struct coordinator *g, uint64_t turn, bool drop)
{
	char *path = coordinate_path(g, "delta-%" PRIu64 ".pieces", turn);
	char *marks = coordinate_path(g, "delta-%" PRIu64 ".there", turn);

	pthread_mutex_lock(&g->pieces_lock);
	if (drop) {
		unlink(marks);
		unlink(path);
	}
	if (g->pieces_closed == turn)
		g->pieces_closed = 0;
	pthread_mutex_unlock(&g->pieces_lock);
	free(path);
	free(marks);
}
