/* cell_serve.c - the child's end of a cell: what it does behind its bars. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/cell.h"
#include "cmd/rnp-register/agent/cell_parts.h"
#include "cmd/rnp-register/pack/pack.h"
#include "cmd/rnp-register/pack/unpack.h"
#include "common/base/err.h"
#include "common/base/io.h"

#define DIR_FD      3
#define ENTRIES_MAX 500000

/* --- words ----------------------------------------------------------------------------------- */

/* The agent has gone, or wants it no more: nothing is left to do. */
static void leave(void)
{
	_exit(0);
}

static void put(const void *data, size_t len)
{
	if (len && io_write_all(STDIN_FILENO, data, len) < 0)
		leave();
}

static void tell(enum cell_type type, const void *data, size_t len)
{
	const struct cell_head h = { .type = type, .bytes = (int64_t)len };

	put(&h, sizeof h);
	put(data, len);
}

static void tell_error(void)
{
	const struct err *e = err_get();
	const struct cell_head h = { .type = CELL_ERROR,
		.code = (uint32_t)e->code,
		.bytes = (int64_t)strlen(e->text) };

	put(&h, sizeof h);
	put(e->text, (size_t)h.bytes);
}

static void take(void *to, size_t len)
{
	for (char *p = to; len > 0;) {
		ssize_t n = read(STDIN_FILENO, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			leave();
		p += n, len -= (size_t)n;
	}
}

/* Reads a message into out and returns its type; -1 with err_set: it is an error. */
static int hear(struct buf *out)
{
	struct cell_head h;

	take(&h, sizeof h);
	if (h.bytes < 0 || h.bytes > CELL_BLOB_MAX)
		leave();
	buf_reset(out);
	if (h.bytes)
		take(buf_reserve(out, (size_t)h.bytes), (size_t)h.bytes);
	out->len = (size_t)h.bytes;
	if (h.type != CELL_ERROR)
		return (int)h.type;
	return err_set((int)h.code, "%.*s", (int)out->len, out->len ? out->data : "");
}

static int users_given(void)
{
	struct buf nothing = BUF_INIT;
	int type;

	tell(CELL_USERS, NULL, 0);
	type = hear(&nothing);
	buf_release(&nothing);
	return type == CELL_USERS ? 0 : -1;
}

/* --- unpacking ------------------------------------------------------------------------------- */

static int get(const char *sha256_hex, int64_t max, struct buf *out)
{
	struct cell_get order = { .max = max };

	snprintf(order.sha256_hex, sizeof order.sha256_hex, "%s", sha256_hex);
	tell(CELL_GET, &order, sizeof order);
	return hear(out) < 0 ? -1 : 0;
}

static int get_blob(void *ctx, const struct manifest_blob *b, struct buf *out)
{
	char hex[2 * SHA256_BYTES + 1];

	(void)ctx;
	sodium_bin2hex(hex, sizeof hex, b->sha256, sizeof b->sha256);
	return get(hex, b->bytes, out);
}

/* Makes the folders in which path lies. */
static int make_above(const char *path)
{
	char above[CELL_NAME_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
		if (mkdir(above, 0755) < 0 && errno != EEXIST)
			return err_sys(EX_IOERR, "cannot make '%s'", above);
	}
	return 0;
}

static int unpack_one(const struct cell_unpack *order)
{
	const struct unpack_config c = { .bytes_max = order->bytes_max,
		.entries_max = ENTRIES_MAX,
		.uid = (uid_t)-1,
		.gid = (gid_t)-1,
		.fetch = get_blob };
	struct buf text = BUF_INIT;
	struct manifest m = { 0 };
	int rc = get(order->sha256_hex, (int64_t)MANIFEST_BYTES_MAX, &text);

	if (rc == 0)
		rc = manifest_read(&m, buf_text(&text), text.len, "manifest");
	buf_release(&text);
	if (rc == 0 && (make_above(order->path) < 0 || unpack(&m, order->path, &c) < 0))
		rc = -1;
	manifest_release(&m);
	return rc;
}

/* --- packing --------------------------------------------------------------------------------- */

static void tell_blobs(const struct pack *p)
{
	struct manifest_blob *blobs = pack_blobs(p);

	tell(CELL_BLOBS, blobs, (p->walk.manifest.nblobs + 1) * sizeof *blobs);
	free(blobs);
}

static int pack_one(struct pack *p, const struct cell_pack_name *order)
{
	const struct pack_config config = { .bytes_max = order->bytes_max };
	int fd = open(order->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	/* the folder is the container's: it may have become a link */
	if (fd < 0)
		return err_sys(errno == ENOENT ? EX_NOINPUT : EX_IOERR,
			"cannot read '%s'", order->name);
	rc = fchdir(fd) < 0 ? err_sys(EX_IOERR, "cannot enter '%s'", order->name) :
			      pack_directory(p, ".", &config);
	close(fd);
	if (chdir("/") < 0 && rc == 0)
		rc = err_sys(EX_IOERR, "cannot leave '%s'", order->name);
	return rc;
}

static int read_one(const struct pack *p, int64_t blob)
{
	struct buf bytes = BUF_INIT;
	int rc = 0;

	if (blob < 0 || !p->text.len || (size_t)blob > p->walk.manifest.nblobs)
		leave();
	if ((size_t)blob == p->walk.manifest.nblobs) {
		tell(CELL_BLOB, p->text.data, p->text.len);
	} else {
		rc = pack_read(p, (size_t)blob, &bytes);
		if (rc == 0)
			tell(CELL_BLOB, bytes.data, bytes.len);
	}
	buf_release(&bytes);
	return rc;
}

/* --- orders ---------------------------------------------------------------------------------- */

/* Does what the agent wants. Returns 0 or -1: it is told. */
static int obey(int type, const struct buf *said, struct pack *packed)
{
	union {
		struct cell_unpack unpack;
		struct cell_pack_name pack;
		int64_t blob;
	} order = { 0 };

	if (said->len > sizeof order)
		leave();
	memcpy(&order, buf_text(said), said->len);
	switch (type) {
	case CELL_UNPACK:
		if (unpack_one(&order.unpack) < 0)
			return -1;
		tell(CELL_DONE, NULL, 0);
		return 0;
	case CELL_PACK:
		pack_release(packed);
		if (pack_one(packed, &order.pack) < 0)
			return -1;
		tell_blobs(packed);
		return 0;
	case CELL_READ:
		return read_one(packed, order.blob);
	default:
		leave();
	}
	return 0;
}

int cell_serve(void)
{
	struct pack packed = { .walk = WALK_INIT };
	struct buf said = BUF_INIT;
	struct stat st;

	if (fstat(STDIN_FILENO, &st) < 0 || !S_ISSOCK(st.st_mode) ||
		fstat(DIR_FD, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(EX_USAGE, "--files: the agent alone starts this");
	if (cell_bars(DIR_FD, users_given) < 0) {
		tell_error();
		leave();
	}
	for (;;)
		if (obey(hear(&said), &said, &packed) < 0)
			tell_error();
}
