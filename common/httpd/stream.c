/* stream.c - replies that come in pieces: from sources, and from other threads by
 * httpd_write; and how other threads wake the loop for a request. */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/httpd/core.h"

#define WOKEN_AT_ONCE 256
#define FRAME_MAX     10       /* "10000\r\n" and some space */
#define RETRY_NS      50000000 /* until the budget is tried again */

/* --- what is sent next ------------------------------------------------------------------- */

/* Sets how many bytes of out count in the budget of replies in memory. */
static void count_out(struct httpd_exchange *x, size_t bytes)
{
	httpd_budget_give(&x->h->replies, NULL, x->out_counted);
	x->out_counted = bytes;
}

/* Writes the chunk's size right before the bytes at FRAME_MAX of out. */
static void frame_piece(struct httpd_exchange *x, size_t n)
{
	char size[FRAME_MAX + 1];
	int len = snprintf(size, sizeof size, "%zx\r\n", n);

	x->out_at = FRAME_MAX - (size_t)len;
	memcpy(x->out.data + x->out_at, size, (size_t)len);
	x->out.len = FRAME_MAX + n;
	buf_adds(&x->out, "\r\n");
}

static int end_stream(struct httpd_exchange *x)
{
	x->over = true;
	if (!x->chunked)
		return 2;
	buf_adds(&x->out, "0\r\n\r\n");
	return 1;
}

static int fill_from_source(struct httpd_exchange *x)
{
	struct httpd_reply *r = &x->r;
	size_t cap = HTTPD_PIECE, skip = x->chunked ? FRAME_MAX : 0;
	long n;

	if (!x->chunked && !x->delimited) {
		if (!r->bytes)
			return end_stream(x);
		if (r->bytes < (int64_t)cap)
			cap = (size_t)r->bytes;
	}
	n = r->source(x->h->config.ctx, &x->q,
		buf_reserve(&x->out, skip + cap + 2) + skip, cap);
	if (n == HTTPD_END)
		return x->chunked || x->delimited ? end_stream(x) : -1;
	if (n < 0)
		return -1;
	if (n == 0) {
		/* saves memory, as thousands of requests may wait */
		buf_release(&x->out);
		x->waiting = true;
		return 0;
	}
	if ((size_t)n > cap)
		bug("a source wrote %ld bytes where %zu had room", n, cap);
	x->sent += (uint64_t)n;
	httpd_budget_force(&x->h->replies, NULL, (size_t)n);
	x->out_counted = (size_t)n;
	if (x->chunked) {
		frame_piece(x, (size_t)n);
	} else {
		x->out.len = (size_t)n;
		if (!x->delimited)
			r->bytes -= n;
	}
	return 1;
}

/* Takes over the bytes that other threads wrote. */
static int fill_from_queue(struct httpd_exchange *x)
{
	struct buf empty;

	pthread_mutex_lock(&x->loop->lock);
	empty = x->out;
	x->out = x->queue;
	x->queue = empty;
	x->out_counted = x->queued;
	x->queued = 0;
	pthread_cond_broadcast(&x->drained);
	pthread_mutex_unlock(&x->loop->lock);
	if (x->out.len) {
		x->sent += x->out.len;
		return 1;
	}
	buf_release(&x->out);
	if (!x->later) /* httpd_finish was called, and its flag was read */
		return end_stream(x);
	x->waiting = true;
	return 0;
}

static int fill(struct httpd_exchange *x)
{
	const struct httpd_reply *r = &x->r;

	if (x->out_at < x->out.len)
		return 1;
	if (x->waiting)
		return 0;
	buf_reset(&x->out);
	x->out_at = 0;
	count_out(x, 0);
	if (x->no_content || x->over)
		return 2;
	switch (r->from) {
	case HTTPD_FROM_BODY:
		return x->body_at < r->body.len ? 1 : 2;
	case HTTPD_FROM_FILE:
	case HTTPD_FROM_MEMORY:
		return r->bytes ? 1 : 2;
	case HTTPD_FROM_SOURCE:
		break;
	}
	return r->source ? fill_from_source(x) : fill_from_queue(x);
}

_Thread_local struct httpd_loop *httpd_this_loop;

int httpd_exchange_fill(struct httpd_exchange *x)
{
	int what = fill(x);

	/* all was sent (for HEAD, or an error), but the handler still uses q */
	if (what != 2 || !x->later)
		return what;
	x->waiting = true;
	return 0;
}

/* --- other threads ----------------------------------------------------------------------- */

/* Call under the loop's lock. */
static void wake(struct httpd_exchange *x)
{
	struct httpd_loop *l = x->loop;

	if (!x->is_woken) {
		x->is_woken = true;
		x->next_woken = NULL;
		*l->woken_end = x;
		l->woken_end = &x->next_woken;
	}
	/* the loop's own thread checks before it sleeps */
	if (!l->awake && httpd_this_loop != l) {
		l->awake = true;
		eventfd_write(l->wake_fd, 1);
	}
}

void httpd_finish(struct httpd_request *q)
{
	struct httpd_exchange *x = (struct httpd_exchange *)q;
	struct httpd_loop *l;

	if (q->finish) {
		q->finish(q);
		return;
	}
	l = x->loop; /* x is freed as soon as its reply is sent */
	pthread_mutex_lock(&l->lock);
	x->finished = true;
	if (!x->in_pool) /* otherwise this is done when its handler has returned */
		wake(x);
	pthread_mutex_unlock(&l->lock);
}

void httpd_exchange_left_pool(struct httpd_exchange *x, bool finished)
{
	struct httpd_loop *l = x->loop;

	pthread_mutex_lock(&l->lock);
	x->in_pool = false;
	x->finished |= finished;
	wake(x); /* also where it is not finished: the client may have left meanwhile */
	pthread_mutex_unlock(&l->lock);
}

void httpd_resume(struct httpd_request *q)
{
	struct httpd_exchange *x = (struct httpd_exchange *)q;

	pthread_mutex_lock(&x->loop->lock);
	x->resumed = true;
	wake(x);
	pthread_mutex_unlock(&x->loop->lock);
}

bool httpd_disconnected(const struct httpd_request *q)
{
	return !q->finish && ((const struct httpd_exchange *)q)->disconnected;
}

/* Call under the lock. Returns 0 written, 1 full, -1 nobody reads. */
static int enqueue(struct httpd_exchange *x, const void *data, size_t len)
{
	x->pushing = true;
	if (x->disconnected || strcmp(x->q.method, "HEAD") == 0)
		return -1;
	if (!len)
		return 0;
	if (x->queue.len && x->queue.len + len > HTTPD_QUEUE_MAX)
		return 1;
	if (!httpd_budget_take(&x->h->replies, NULL, len))
		return 1;
	x->queued += len;
	if (x->head.minor)
		buf_addf(&x->queue, "%zx\r\n", len);
	buf_add(&x->queue, data, len);
	if (x->head.minor)
		buf_adds(&x->queue, "\r\n");
	return 0;
}

static int write_piece(struct httpd_request *q, const void *data, size_t len, bool wait)
{
	struct httpd_exchange *x = (struct httpd_exchange *)q;
	int rc;

	pthread_mutex_lock(&x->loop->lock);
	while ((rc = enqueue(x, data, len)) == 1 && wait) {
		struct timespec until;

		wake(x); /* at least the head can be sent */
		/* space in the queue is signalled, space in the common budget is not */
		clock_after(&until, CLOCK_MONOTONIC, RETRY_NS);
		pthread_cond_clockwait(&x->drained, &x->loop->lock, CLOCK_MONOTONIC,
			&until);
	}
	wake(x);
	pthread_mutex_unlock(&x->loop->lock);
	return rc;
}

int httpd_write(struct httpd_request *q, const void *data, size_t len)
{
	return write_piece(q, data, len, true);
}

int httpd_try_write(struct httpd_request *q, const void *data, size_t len)
{
	return write_piece(q, data, len, false);
}

/* Takes the flags of the next request that was woken. Returns false if there are none. */
static bool next_woken(struct httpd_loop *l, struct httpd_exchange **out, bool *finished,
	bool *resumed, bool *pushing)
{
	struct httpd_exchange *x;

	pthread_mutex_lock(&l->lock);
	x = l->woken;
	if (x) {
		l->woken = x->next_woken;
		if (!l->woken)
			l->woken_end = &l->woken;
		x->is_woken = false;
		*finished = x->finished && !x->in_pool;
		*resumed = x->resumed;
		*pushing = x->pushing;
		x->resumed = false;
	}
	pthread_mutex_unlock(&l->lock);
	*out = x;
	return x != NULL;
}

void httpd_exchanges_woken(struct httpd_loop *l)
{
	struct httpd_exchange *x;
	bool finished, resumed, pushing;

	/* bounded: a thread may write faster than we send */
	for (int i = 0;
		i < WOKEN_AT_ONCE && next_woken(l, &x, &finished, &resumed, &pushing);
		i++) {
		struct httpd_conn *c = x->conn;

		if (finished && x->later) {
			x->later = false;
			x->h->handling--;
			if (!c) {
				httpd_exchange_end(x);
				continue;
			}
		}
		if (x->disconnected)
			httpd_exchange_tell_gone(x);
		if (!c)
			continue;
		x->streams = pushing;
		if (c->state == HTTPD_CONN_WAIT && (finished || pushing))
			httpd_exchange_reply(x);
		if (resumed || pushing) {
			x->paused = x->waiting = false;
			c->since_ns = clock_mono_ns();
			c->moved_then = c->moved;
		}
		httpd_conn_drive(c);
	}
}
