/* download.c - downloads to a file, continuing where the last call ended, in this process
 * or an earlier one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/http/parts.h"

struct download {
	struct buf part, tag_path;
	/* entity tag of the part; "": the part cannot be continued later */
	char tag[HTTP_ETAG_MAX];
	int fd;
	int64_t at;
	const struct http_response *r;
};

static int save_tag(struct download *d, const char *tag)
{
	if (strcmp(d->tag, tag) == 0)
		return 0;
	snprintf(d->tag, sizeof d->tag, "%s", tag);
	if (*tag)
		return io_replace(d->tag_path.data, tag, strlen(tag), 0666);
	unlink(d->tag_path.data);
	return 0;
}

static int take(void *ctx, const void *data, size_t len)
{
	struct download *d = ctx;
	const char *tag = d->r->etag;

	/* the tag is written before the first byte, so that a part is never of another entity
	 * than its tag */
	if ((d->r->status != 206 || *tag) && save_tag(d, *tag == '"' ? tag : "") < 0)
		return -1;
	if (io_write_all_at(d->fd, data, len, d->at) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", d->part.data);
	d->at += (int64_t)len;
	return 0;
}

static int restart(void *ctx)
{
	struct download *d = ctx;

	d->at = 0;
	if (save_tag(d, "") < 0 || ftruncate(d->fd, 0) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", d->part.data);
	return 0;
}

static int open_part(struct download *d, const char *path)
{
	struct stat st;

	buf_addf(&d->part, "%s.part", path);
	buf_addf(&d->tag_path, "%s.part.etag", path);
	if (io_check_place(path) < 0)
		return -1;
	d->fd = open(d->part.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		0666);
	if (d->fd < 0)
		return err_sys(errno == EACCES ? 0 : EX_CANTCREAT, "cannot write '%s'",
			d->part.data);
	if (lock_take_if_kept(d->fd, d->part.data, "another download writes it") < 0)
		return -1;
	if (fstat(d->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(EX_CANTCREAT, "'%s' is not a file", d->part.data);
	return 0;
}

/* Finds the part that an earlier call has left, if its entity tag is known. */
static int find_rest(struct download *d)
{
	struct buf tag = BUF_INIT;
	struct stat st;

	if (fstat(d->fd, &st) == 0 && st.st_size && access(d->tag_path.data, R_OK) == 0 &&
		io_read(&tag, d->tag_path.data, HTTP_ETAG_MAX - 1) == 0 && tag.len > 2 &&
		tag.data[0] == '"' && !strpbrk(tag.data, "\r\n")) {
		snprintf(d->tag, sizeof d->tag, "%s", tag.data);
		d->at = st.st_size;
	}
	err_clear();
	buf_release(&tag);
	if (d->at)
		return 0;
	unlink(d->tag_path.data); /* of something else */
	return ftruncate(d->fd, 0) == 0 ?
		0 :
		err_sys(EX_IOERR, "cannot write '%s'", d->part.data);
}

static int finish(struct download *d, const char *path)
{
	if (fsync(d->fd) < 0 || rename(d->part.data, path) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", path);
	unlink(d->tag_path.data);
	return 0;
}

/* Goes on with a part of an entity that is known, or starts anew. */
static int fetch_rest(struct download *d, struct http *h, const struct http_request *q,
	struct http_response *r)
{
	struct http_sink sink = { .write = take, .restart = restart, .ctx = d };
	struct http_request whole = *q;

	if (find_rest(d) < 0)
		return -1;
	http_response_release(r);
	*r = (struct http_response)HTTP_RESPONSE_INIT;
	whole.sink = &sink;
	whole.range_from = d->at;
	whole.if_range = d->at ? d->tag : NULL;
	return http_fetch(h, &whole, r);
}

/* Removes a part that a later call could not go on with. */
static void drop_part(const struct download *d, const struct http_response *r)
{
	struct stat st;
	bool empty = fstat(d->fd, &st) == 0 && st.st_size == 0;

	if (r->status == 304 || empty || access(d->tag_path.data, F_OK) < 0) {
		unlink(d->part.data);
		unlink(d->tag_path.data);
	}
}

int http_download(struct http *h, const struct http_request *q, const char *path,
	struct http_response *r)
{
	struct download d = { .fd = -1, .r = r };
	int rc = open_part(&d, path);

	if (rc == 0) {
		rc = q->connections ?
			http_ranges(h, q, d.fd, d.part.data, d.tag_path.data, r) :
			1;
		if (rc == 1)
			rc = fetch_rest(&d, h, q, r);
		if (rc == 0 && r->status != 304)
			rc = finish(&d, path);
		else
			drop_part(&d, r);
	}
	if (d.fd >= 0)
		close(d.fd);
	buf_release(&d.part);
	buf_release(&d.tag_path);
	return rc;
}
