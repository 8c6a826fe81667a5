/* coordinate_early.c - updates that leave before their round is on the disk.
 *
 * A round is what its files and its transaction say, and until they are on the disk nobody may go on from it.
 * A container that lacks its last byte is none: its bytes may be on their way meanwhile, which take longer
 * than the disk. Where a kill comes between, the connections break, and the next start may close the round
 * with other deltas: the entity tag tells the updates apart. */
#include "cmd/rnp-train/coordinate_early.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* Requests at once: their pieces lie in memory, and where there are more the links are busy anyway. */
#define EARLY_MAX 64

/* A request that is answered early. With g->early_lock, but for its source's own. */
struct early {
	struct early *next;
	struct httpd_request *q;
	const struct httpd_reply *r; /* offset: of its range; bytes: left of it */
	uint64_t round;
	bool failed; /* the round will not be committed */
	int fd;
	int64_t total, given; /* bytes of the file; that the source gave */
};

/* Opens an update. Returns its descriptor and the tag, or -1. */
static int open_update(const char *path, int64_t *bytes, char tag[HTTPD_ETAG_MAX])
{
	unsigned char root[GRAD_ROOT_BYTES];
	char hex[PROTOCOL_HEX];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || st.st_size < CONTAINER_TAIL_BYTES ||
		pread(fd, root, sizeof root, st.st_size - CONTAINER_TAIL_BYTES) !=
			(ssize_t)sizeof root) {
		close(fd);
		return -1;
	}
	protocol_hex(hex, root);
	snprintf(tag, HTTPD_ETAG_MAX, "\"%s\"", hex);
	*bytes = st.st_size;
	return fd;
}

void coordinate_early_reply(struct httpd_reply *r, const char *path)
{
	int64_t bytes;
	int fd = open_update(path, &bytes, r->etag);

	if (fd < 0) {
		httpd_error(r, 404, "no update from these parameters is kept");
		return;
	}
	r->cache_control = "max-age=31536000, immutable";
	httpd_reply_file(r, fd, 0, bytes);
}

/* --- early ------------------------------------------------------------------------------------ */

/* httpd_source: what the range has, up to the byte that is withheld. */
static long give(void *ctx, struct httpd_request *q, void *to, size_t cap)
{
	struct coordinator *g = ctx;
	struct early *e = q->state;
	int64_t at = e->r->offset + e->given, left = e->r->bytes;
	ssize_t n = HTTPD_ABORT;

	pthread_mutex_lock(&g->early_lock);
	if (e->round == g->early_round && at + left == e->total)
		left--;
	if ((int64_t)cap > left)
		cap = (size_t)left;
	if (!e->failed && cap)
		n = pread(e->fd, to, cap, at);
	else if (!e->failed)
		n = 0;
	if (n > 0)
		e->given += n;
	pthread_mutex_unlock(&g->early_lock);
	return n < 0 || (cap && !n) ? HTTPD_ABORT : n;
}

/* Gives a request its answer, which w may be freed after. Returns whether it did. */
static bool begin(struct coordinator *g, struct waiter *w, const char *path)
{
	struct early *e = xcalloc(1, sizeof *e);

	e->fd = open_update(path, &e->total, w->r->etag);
	if (e->fd < 0) {
		w->r->etag[0] = '\0';
		free(e);
		return false;
	}
	e->q = w->q;
	e->r = w->r;
	e->round = g->round;
	httpd_reply_source(w->r, give, e->total);
	w->r->content_type = "application/octet-stream";
	w->r->ranges = true;
	pthread_mutex_lock(&g->early_lock);
	e->next = g->early;
	g->early = e;
	w->q->state = e;
	pthread_mutex_unlock(&g->early_lock);
	/* they count as the next round's, as those that are sent behind the commit */
	httpd_bytes_apart(w->q);
	httpd_finish(w->q);
	return true;
}

void coordinate_early_begin(struct coordinator *g, const char *path)
{
	int n = 0;

	pthread_mutex_lock(&g->lock);
	pthread_mutex_lock(&g->early_lock);
	g->early_round = g->round;
	pthread_mutex_unlock(&g->early_lock);
	for (struct waiter **at = &g->waiters; *at && n < EARLY_MAX;) {
		struct waiter *w = *at;

		if (w->update && w->round == g->round && !httpd_gone(w->q) &&
			begin(g, w, path)) {
			*at = w->next;
			g->nupdates--;
			free(w);
			n++;
		} else {
			at = &w->next;
		}
	}
	pthread_mutex_unlock(&g->lock);
}

void coordinate_early_end(struct coordinator *g, bool committed)
{
	pthread_mutex_lock(&g->early_lock);
	for (struct early *e = g->early; e; e = e->next)
		if (e->round == g->early_round) {
			e->failed = !committed;
			httpd_resume(e->q);
		}
	g->early_round = 0;
	pthread_mutex_unlock(&g->early_lock);
	if (g->server)
		httpd_bytes_join(g->server);
}

void coordinate_early_done(void *ctx, struct httpd_request *q)
{
	struct coordinator *g = ctx;
	struct early *e, **at = &g->early;

	pthread_mutex_lock(&g->early_lock);
	while (*at && (*at)->q != q)
		at = &(*at)->next;
	e = *at;
	if (e)
		*at = e->next;
	pthread_mutex_unlock(&g->early_lock);
	if (!e)
		return;
	close(e->fd);
	free(e);
}
