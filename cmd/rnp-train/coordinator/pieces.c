/* pieces.c - which pieces are there stands in a file of a byte each, after the name of the
 * machine's boot: a piece that was never flushed may be gone after the next one. */
#include "cmd/rnp-train/coordinator/pieces.h"
#include "cmd/rnp-train/coordinator/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
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

static char boot[BOOT_BYTES]; /* of this machine: it stays while the process lives */
static pthread_once_t boot_once = PTHREAD_ONCE_INIT;

static void read_boot(void)
{
	struct buf text = BUF_INIT;

	memset(boot, '-', sizeof boot);
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
	char there[BOOT_BYTES];

	pthread_once(&boot_once, read_boot);
	if (read_at(p->marks, there, sizeof there, 0) &&
		memcmp(there, boot, sizeof boot) == 0)
		return 0;
	if (!(flags & O_CREAT))
		return 1;
	if (ftruncate(p->marks, 0) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", p->marks_path);
	return write_at(p->marks, boot, sizeof boot, 0, p->marks_path);
}

/* Returns 0; 1: there are none (never with O_CREAT in flags); -1. Close either way. */
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

/* --- uploads ---------------------------------------------------------------------------------- */

/* Uploads that are remembered: each holds two files open. */
#define UPLOADS_MAX 128

/* The pieces of one turn while they arrive. While anybody uses it, it is the turn's only one. */
struct upload {
	/* with g->intake.pieces_lock: */
	struct upload *next; /* in g->intake.uploads, the one used last first */
	uint64_t turn;
	int users;   /* threads that have it */
	bool closed; /* its record is being checked: no new piece is taken */
	char node[KEY_ADDRESS_MAX]; /* whose delta is wanted; "": not known */
	uint64_t forgotten;         /* how often that was forgotten */

	pthread_mutex_t lock; /* of the files: one piece of a turn is written at a time */
	struct pieces files;
};

static struct upload **find_upload(struct coordinator *g, uint64_t turn)
{
	struct upload **at = &g->intake.uploads;

	while (*at && (*at)->turn != turn)
		at = &(*at)->next;
	return at;
}

/* With g->intake.pieces_lock, of one that nobody uses. */
static void free_upload(struct upload **at)
{
	struct upload *u = *at;

	*at = u->next;
	close_pieces(&u->files);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

/* With g->intake.pieces_lock: makes room for one more. */
static void free_oldest(struct coordinator *g)
{
	struct upload **oldest = NULL;
	int n = 0;

	for (struct upload **at = &g->intake.uploads; *at; at = &(*at)->next) {
		n++;
		if (!(*at)->users && !(*at)->closed)
			oldest = at;
	}
	if (n >= UPLOADS_MAX && oldest)
		free_upload(oldest);
}

struct upload *upload_open(struct coordinator *g, uint64_t turn)
{
	struct upload **at, *u;

	pthread_mutex_lock(&g->intake.pieces_lock);
	at = find_upload(g, turn);
	u = *at;
	if (u) {
		*at = u->next;
	} else {
		free_oldest(g);
		u = xcalloc(1, sizeof *u);
		u->turn = turn;
		u->files = (struct pieces){ .fd = -1, .marks = -1 };
		pthread_mutex_init(&u->lock, NULL);
	}
	u->next = g->intake.uploads;
	g->intake.uploads = u;
	u->users++;
	pthread_mutex_unlock(&g->intake.pieces_lock);
	return u;
}

void upload_close(struct coordinator *g, struct upload *u)
{
	pthread_mutex_lock(&g->intake.pieces_lock);
	u->users--;
	if (!u->users && !u->node[0] && !u->closed)
		free_upload(find_upload(g, u->turn));
	pthread_mutex_unlock(&g->intake.pieces_lock);
}

bool upload_is_of(struct coordinator *g, const struct upload *u, const char *node,
	uint64_t *forgotten)
{
	bool is;

	pthread_mutex_lock(&g->intake.pieces_lock);
	is = strcmp(u->node, node) == 0;
	*forgotten = u->forgotten;
	pthread_mutex_unlock(&g->intake.pieces_lock);
	return is;
}

void upload_want(struct coordinator *g, struct upload *u, const char *node,
	uint64_t forgotten)
{
	pthread_mutex_lock(&g->intake.pieces_lock);
	if (u->forgotten == forgotten)
		snprintf(u->node, sizeof u->node, "%s", node);
	pthread_mutex_unlock(&g->intake.pieces_lock);
}

/* With g->intake.pieces_lock: the database is asked again. */
static void forget(struct upload *u)
{
	u->node[0] = '\0';
	u->forgotten++;
}

uint64_t uploads_count(struct coordinator *g)
{
	uint64_t n = 0;

	pthread_mutex_lock(&g->intake.pieces_lock);
	for (const struct upload *u = g->intake.uploads; u; u = u->next)
		n += u->node[0] != '\0';
	pthread_mutex_unlock(&g->intake.pieces_lock);
	return n;
}

void uploads_forget(struct coordinator *g)
{
	pthread_mutex_lock(&g->intake.pieces_lock);
	for (struct upload **at = &g->intake.uploads; *at;) {
		forget(*at);
		if ((*at)->users || (*at)->closed)
			at = &(*at)->next;
		else
			free_upload(at);
	}
	pthread_mutex_unlock(&g->intake.pieces_lock);
}

/* --- pieces ----------------------------------------------------------------------------------- */

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

static bool is_closed(struct coordinator *g, const struct upload *u)
{
	bool closed;

	pthread_mutex_lock(&g->intake.pieces_lock);
	closed = u->closed;
	pthread_mutex_unlock(&g->intake.pieces_lock);
	return closed;
}

/* With u->lock. Returns as pieces_put. */
static int put_open(struct coordinator *g, struct upload *u, uint64_t piece,
	const char *data, size_t len)
{
	bool closed = is_closed(g, u);
	int rc = 0;

	if (u->files.marks < 0)
		rc = open_pieces(&u->files, g, u->turn, closed ? 0 : O_CREAT);
	if (rc == 0)
		return put_all(&u->files, piece, g->run.piece_bytes, data, len, closed);
	close_pieces(&u->files);
	u->files = (struct pieces){ .fd = -1, .marks = -1 };
	return rc == 1 ? 3 : rc;
}

int pieces_put(struct coordinator *g, struct upload *u, uint64_t piece, const void *data,
	size_t len)
{
	uint64_t at = piece * g->run.piece_bytes;
	int fd = -1, rc;

	pthread_mutex_lock(&u->lock);
	rc = put_open(g, u, piece, data, len);
	if (rc == 0)
		fd = fcntl(u->files.fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&u->lock);
	/* The disk begins with it at once, so that little is left to be flushed at the end. Its
	 * queue may be full: no other piece waits for that. */
	if (fd >= 0) {
		sync_file_range(fd, (off_t)at, (off_t)len, SYNC_FILE_RANGE_WRITE);
		close(fd);
	}
	return rc;
}

void pieces_list(struct coordinator *g, uint64_t turn, uint64_t pieces, struct buf *out)
{
	const char *comma = "";
	struct pieces p;

	/* a mark is written behind its piece: what is read here is there */
	if (open_pieces(&p, g, turn, 0) == 0)
		for (uint64_t i = 0; i < pieces; i++)
			if (is_there(&p, i)) {
				buf_addf(out, "%s%" PRIu64, comma, i);
				comma = ",";
			}
	close_pieces(&p);
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

/* Opens the pieces, and closes the upload to new ones where all are there. */
static int find_all(struct coordinator *g, struct pieces *p, const struct delta *d)
{
	uint64_t pieces = protocol_pieces(d->bytes, g->run.piece_bytes);
	struct upload *u = upload_open(g, d->turn);
	int rc;

	pthread_mutex_lock(&u->lock);
	rc = open_pieces(p, g, d->turn, 0);
	if (rc == 0)
		rc = are_there(p, pieces) ? 0 : 1;
	if (rc == 0) {
		pthread_mutex_lock(&g->intake.pieces_lock);
		u->closed = true;
		pthread_mutex_unlock(&g->intake.pieces_lock);
	}
	pthread_mutex_unlock(&u->lock);
	upload_close(g, u);
	return rc;
}

/* A second name: until the turn is delivered, a kill leaves the pieces where they were. */
static int name_whole(const struct pieces *p, const char *path)
{
	unlink(path); /* of an earlier try */
	if (fdatasync(p->fd) < 0 || io_link(p->path, path) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", path);
	return io_flush_directory(path);
}

int pieces_join(struct coordinator *g, const struct delta *d, uint64_t elements,
	const char *path, double *norm, struct sketch *sketch)
{
	struct pieces p;
	int rc = find_all(g, &p, d);

	if (rc == 0)
		rc = check_file(&p, d);
	if (rc == 0)
		rc = container_check(&g->intake.check, p.path, g->run.method, elements,
			norm, sketch);
	if (rc == 0)
		rc = name_whole(&p, path);
	close_pieces(&p);
	return rc;
}

void pieces_end(struct coordinator *g, uint64_t turn, bool drop)
{
	char *path = coordinate_path(g, "delta-%" PRIu64 ".pieces", turn);
	char *marks = coordinate_path(g, "delta-%" PRIu64 ".there", turn);
	struct upload *u = upload_open(g, turn);

	pthread_mutex_lock(&u->lock);
	if (drop) {
		close_pieces(&u->files);
		u->files = (struct pieces){ .fd = -1, .marks = -1 };
		unlink(marks);
		unlink(path);
	}
	pthread_mutex_lock(&g->intake.pieces_lock);
	u->closed = false;
	if (drop)
		forget(u);
	pthread_mutex_unlock(&g->intake.pieces_lock);
	pthread_mutex_unlock(&u->lock);
	upload_close(g, u);
	free(path);
	free(marks);
}
