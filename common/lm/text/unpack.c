/* unpack.c - reads files that may be compressed. */
#include "common/lm/text/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "kernels/dev/library.h"

#define BLOCK       ((size_t)256 << 10)
#define GZIP_WINDOW (15 + 16) /* the largest, and gzip's header */

enum packing { PLAIN, GZIP, ZSTD };

struct unpack {
	const char *path;
	int fd;
	enum packing packing;
	bool ended;       /* the file has no more bytes */
	bool inside;      /* a member or frame has begun and not ended */
	bool has_more;    /* the last read was filled, so that more may be held back */
	size_t from, len; /* block[from..len) is read and not yet used */
	z_stream gzip;
	ZSTD_DStream *zstd;
	unsigned char block[BLOCK];
};

static struct {
	int (*inflateInit2_)(z_stream *, int, const char *, int);
	int (*inflate)(z_stream *, int);
	int (*inflateReset)(z_stream *);
	int (*inflateEnd)(z_stream *);
	const char *(*zlibVersion)(void);
	bool ready;
	char why[256];
} gzip;

static struct {
	ZSTD_DStream *(*create)(void);
	size_t (*free)(ZSTD_DStream *);
	size_t (*decompress)(ZSTD_DStream *, ZSTD_outBuffer *, ZSTD_inBuffer *);
	unsigned (*is_error)(size_t);
	const char *(*error_name)(size_t);
	ZSTD_ErrorCode (*error_code)(size_t);
	bool ready;
	char why[256];
} zstd;

static void load_gzip(void)
{
	static const struct library_symbol symbols[] = {
		{ "inflateInit2_", &gzip.inflateInit2_ },
		{ "inflate", &gzip.inflate },
		{ "inflateReset", &gzip.inflateReset },
		{ "inflateEnd", &gzip.inflateEnd },
		{ "zlibVersion", &gzip.zlibVersion },
	};

	gzip.ready = library_open("libz.so.1", symbols, sizeof symbols / sizeof *symbols,
		gzip.why, sizeof gzip.why);
}

static void load_zstd(void)
{
	static const struct library_symbol symbols[] = {
		{ "ZSTD_createDStream", &zstd.create },
		{ "ZSTD_freeDStream", &zstd.free },
		{ "ZSTD_decompressStream", &zstd.decompress },
		{ "ZSTD_isError", &zstd.is_error },
		{ "ZSTD_getErrorName", &zstd.error_name },
		{ "ZSTD_getErrorCode", &zstd.error_code },
	};

	zstd.ready = library_open("libzstd.so.1", symbols,
		sizeof symbols / sizeof *symbols, zstd.why, sizeof zstd.why);
}

static const char *name_of(const struct unpack *u)
{
	return strcmp(u->path, "-") == 0 ? "standard input" : u->path;
}

/* Reads more of the file behind what is not yet used. */
static int fill(struct unpack *u)
{
	ssize_t n;

	memmove(u->block, u->block + u->from, u->len - u->from);
	u->len -= u->from;
	u->from = 0;
	do
		n = read(u->fd, u->block + u->len, BLOCK - u->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(EX_IOERR, "cannot read '%s'", name_of(u));
	u->ended = n == 0;
	u->len += (size_t)n;
	return 0;
}

/* --- compressed ----------------------------------------------------------------------------- */

static int begin_gzip(struct unpack *u)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_gzip);
	if (!gzip.ready)
		return err_set(EX_UNAVAILABLE, "'%s' is compressed by gzip: %s",
			name_of(u), gzip.why);
	if (gzip.inflateInit2_(&u->gzip, GZIP_WINDOW, gzip.zlibVersion(),
		    (int)sizeof u->gzip) != Z_OK)
		return err_set(EX_SOFTWARE, "zlib does not begin");
	u->packing = GZIP;
	return 0;
}

static int begin_zstd(struct unpack *u)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_zstd);
	if (!zstd.ready)
		return err_set(EX_UNAVAILABLE, "'%s' is compressed by zstd: %s",
			name_of(u), zstd.why);
	u->zstd = zstd.create();
	if (!u->zstd)
		return err_set(EX_SOFTWARE, "libzstd does not begin");
	u->packing = ZSTD;
	return 0;
}

static int damaged(const struct unpack *u, const char *why)
{
	return err_set(EX_DATAERR, "'%s' is compressed and damaged: %s", name_of(u), why);
}

/* Unpacks into to what block has of it. Returns the bytes that came out. */
static ssize_t inflate_some(struct unpack *u, void *to, size_t n)
{
	int rc;

	if (!u->inside && gzip.inflateReset(&u->gzip) != Z_OK)
		return err_set(EX_SOFTWARE, "zlib does not begin again");
	u->inside = true;
	u->gzip.next_in = u->block + u->from;
	u->gzip.avail_in = (unsigned)(u->len - u->from);
	u->gzip.next_out = to;
	u->gzip.avail_out = (unsigned)n;
	rc = gzip.inflate(&u->gzip, Z_NO_FLUSH);
	u->from = u->len - u->gzip.avail_in;
	if (rc == Z_STREAM_END)
		u->inside = false;
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		return damaged(u, u->gzip.msg ? u->gzip.msg : "it is no gzip");
	return (ssize_t)(n - u->gzip.avail_out);
}

static ssize_t decompress_some(struct unpack *u, void *to, size_t n)
{
	ZSTD_inBuffer in = { u->block, u->len, u->from };
	ZSTD_outBuffer out = { to, n, 0 };
	size_t rc = zstd.decompress(u->zstd, &out, &in);

	if (zstd.is_error(rc) &&
		zstd.error_code(rc) == ZSTD_error_frameParameter_windowTooLarge)
		return err_set(EX_DATAERR,
			"'%s' needs more than 128 MiB to unpack: zstd -dc --long=31 '%s' | ...",
			name_of(u), name_of(u));
	if (zstd.is_error(rc))
		return damaged(u, zstd.error_name(rc));
	u->inside = rc != 0;
	u->from = in.pos;
	return (ssize_t)out.pos;
}

/* Behind a member gzip allows zeros, with which a tape was filled up. */
static void skip_zeros(struct unpack *u)
{
	while (u->packing == GZIP && !u->inside && u->from < u->len && !u->block[u->from])
		u->from++;
}

static ssize_t read_packed(struct unpack *u, void *to, size_t n)
{
	n = n < BLOCK ? n : BLOCK;
	while (1) {
		ssize_t got;

		skip_zeros(u);
		if (u->from == u->len && !u->has_more) {
			if (u->ended)
				return u->inside ? damaged(u, "its end is missing") : 0;
			if (fill(u) < 0)
				return -1;
			continue;
		}
		got = u->packing == GZIP ? inflate_some(u, to, n) :
					   decompress_some(u, to, n);
		u->has_more = u->inside && got == (ssize_t)n;
		if (got)
			return got;
	}
}

/* --- the file ------------------------------------------------------------------------------- */

static bool begins(const struct unpack *u, const char *magic, size_t n)
{
	return u->len >= n && memcmp(u->block, magic, n) == 0;
}

int unpack_open(struct unpack **out, const char *path)
{
	struct unpack *u = xcalloc(1, sizeof *u);
	int rc = 0;

	u->path = path;
	u->fd = STDIN_FILENO;
	if (strcmp(path, "-") == 0)
		io_say_typed();
	else
		u->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (u->fd < 0)
		rc = err_sys(0, "cannot open '%s'", path);
	/* a pipe may give its first bytes one by one */
	while (rc == 0 && u->len < 4 && !u->ended)
		rc = fill(u);
	if (rc == 0 && begins(u, "\x1f\x8b", 2))
		rc = begin_gzip(u);
	else if (rc == 0 && begins(u, "\x28\xb5\x2f\xfd", 4))
		rc = begin_zstd(u);
	if (rc < 0) {
		unpack_close(u);
		return -1;
	}
	*out = u;
	return 0;
}

ssize_t unpack_read(struct unpack *u, void *to, size_t n)
{
	size_t there;

	if (u->packing != PLAIN)
		return read_packed(u, to, n);
	if (u->from == u->len && !u->ended && fill(u) < 0)
		return -1;
	there = u->len - u->from;
	n = n < there ? n : there;
	memcpy(to, u->block + u->from, n);
	u->from += n;
	return (ssize_t)n;
}

void unpack_close(struct unpack *u)
{
	if (!u)
		return;
	if (u->packing == GZIP)
		gzip.inflateEnd(&u->gzip);
	if (u->packing == ZSTD)
		zstd.free(u->zstd);
	if (u->fd > STDIN_FILENO)
		close(u->fd);
	free(u);
}
