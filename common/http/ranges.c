/* ranges.c - a download over several connections. Each takes up a range of what is missing,
 * and then the next, the smaller the less there is left: so none is waited for long, however slow
 * it is. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/http/parts.h"

/* Bytes that are asked for before the size is known; in the smallest ranges, but those at the end
 * of a gap; in the largest, or 1/256 of the whole if that is more. */
#define FIRST_BYTES ((int64_t)256 << 10)
#define RANGE_BYTES ((int64_t)64 << 10)
#define RANGE_MAX   ((int64_t)4 << 20)
/* What is left to fetch for each connection that is opened. */
#define SHARE_BYTES ((int64_t)128 << 10)
/* A guess up to it is asked for whole: what a small file would gain by ranges is less than the
 * round trips of asking for them. */
#define SMALL_BYTES ((int64_t)1 << 20)
/* What a kill may lose of a range, or 1/4096 of the whole. */
#define NOTE_BYTES ((int64_t)256 << 10)
#define NOTES_MAX  ((size_t)4 << 20)
/* Of all connections together, see http_request.rate_min. */
#define RATE_MIN 1024
#define BROKEN   (-2) /* notes_fd, after a line that may be there in part */

struct ranges {
	const struct http_request *q;
	const char *part, *notes_path;
	int fd;                  /* of the part */
	struct http_abort stop;  /* ends all transfers */
	struct http_abort ended; /* all connections have ended */

	pthread_mutex_t lock; /* for what follows */
	/* What nobody has taken up. Its tag and size do not change once the size is known. */
	struct http_notes notes;
	int64_t left; /* bytes of it */
	int notes_fd;
	struct http_budget budget; /* all connections keep to it together */
	struct connection *all;
	int n, active;
	int64_t ahead; /* bytes that were taken up before the size was known */
	bool over;     /* nothing is taken up any more */
	bool unfit;    /* the server gives no ranges of this entity */
	int64_t sunk;
	/* what ended it, or the last failure of a connection; code 0: none */
	struct err error;
	struct http_response r;
};

struct connection {
	struct ranges *all;
	struct http *h, own;
	struct http_response r;
	struct http_piece rest; /* what is missing of its range */
	bool guessed;           /* taken up before the size was known, and no byte came */
	int64_t noted;          /* up to where the notes have what came of it */
	pthread_t thread;
};

/* --- notes ------------------------------------------------------------------------------------ */

/* Finds what an earlier call has left, and writes it down anew: the last line may have been cut
 * short. */
static int read_notes(struct ranges *a)
{
	struct buf text = BUF_INIT;
	struct stat st;
	bool good = fstat(a->fd, &st) == 0 && access(a->notes_path, R_OK) == 0 &&
		io_read(&text, a->notes_path, NOTES_MAX) == 0 &&
		http_notes_parse(&a->notes, buf_text(&text)) == 0 &&
		a->notes.total == st.st_size;
	int rc = 0;

	err_clear();
	if (good) {
		buf_reset(&text);
		http_notes_write(&text, &a->notes);
		rc = io_replace(a->notes_path, text.data, text.len, 0666);
	} else {
		http_notes_release(&a->notes);
	}
	for (size_t i = 0; i < a->notes.n; i++)
		a->left += a->notes.missing[i].bytes;
	buf_release(&text);
	return rc;
}

/* With the lock. Returns 0, or -1 with err_set. */
static int add_note(struct ranges *a, int64_t from, int64_t bytes)
{
	char line[64];
	int len = snprintf(line, sizeof line, "%lld %lld\n", (long long)from,
		(long long)bytes);

	if (a->notes_fd == -1)
		a->notes_fd = open(a->notes_path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (a->notes_fd >= 0 && io_write_all(a->notes_fd, line, (size_t)len) == 0)
		return 0;
	err_sys(EX_IOERR, "cannot write '%s'", a->notes_path);
	if (a->notes_fd >= 0)
		close(a->notes_fd);
	a->notes_fd = BROKEN;
	return -1;
}

/* Notes what has come of the range since the last note, where it is `least` bytes or more. */
static int note(struct connection *c, int64_t least)
{
	struct ranges *a = c->all;
	int64_t bytes = c->rest.from - c->noted;
	int rc = 0;

	if (!bytes || bytes < least)
		return 0;
	pthread_mutex_lock(&a->lock);
	if (a->notes_fd != BROKEN)
		rc = add_note(a, c->noted, bytes);
	pthread_mutex_unlock(&a->lock);
	c->noted = c->rest.from;
	return rc;
}

/* --- the first answer ------------------------------------------------------------------------- */

static void *carry(void *arg);

/* With the lock. */
static void open_more(struct ranges *a, int64_t wanted)
{
	if (wanted > a->q->connections)
		wanted = a->q->connections;
	while (a->n < wanted) {
		struct connection *c = &a->all[a->n];

		*c = (struct connection){ .all = a, .h = &c->own };
		a->active++;
		if (pthread_create(&c->thread, NULL, carry, c) != 0) {
			a->active--; /* those that there are will do */
			break;
		}
		a->n++;
	}
}

/* With the lock: what is missing is everything but what connections have asked for. */
static void find_rest(struct ranges *a)
{
	struct http_piece *asked = xcalloc((size_t)a->n, sizeof *asked);
	size_t n = 0;

	for (int i = 0; i < a->n; i++)
		if (a->all[i].guessed && a->all[i].rest.from < a->notes.total)
			asked[n++] = a->all[i].rest;
	http_notes_miss(&a->notes, asked, n);
	free(asked);
	for (size_t i = 0; i < a->notes.n; i++)
		a->left += a->notes.missing[i].bytes;
}

/* With the lock: c's answer says how much there is, and of what. */
static int begin(struct connection *c)
{
	struct ranges *a = c->all;
	struct buf text = BUF_INIT;
	int64_t total = c->r.total_bytes, max = a->q->response_bytes_max;
	int rc;

	if (c->r.etag[0] != '"' || total < 0) {
		a->unfit = true;
		return err_set(EX_DATAERR, "'%s' does not say of what its ranges are",
			a->q->url);
	}
	if (max && total > max)
		return err_set(EX_DATAERR, "'%s' answers with %lld bytes, more than %lld",
			a->q->url, (long long)total, (long long)max);
	buf_addf(&text, "%s\n%lld\n", c->r.etag, (long long)total);
	/* the notes are written before the first byte, so that a part is never of another entity
	 * than they say */
	rc = io_replace(a->notes_path, text.data, text.len, 0666);
	buf_release(&text);
	if (rc == 0 && ftruncate(a->fd, total) < 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", a->part);
	if (rc < 0)
		return -1;
	memcpy(a->notes.tag, c->r.etag, sizeof a->notes.tag);
	a->notes.total = total;
	find_rest(a);
	open_more(a, 1 + a->left / SHARE_BYTES);
	return 0;
}

/* --- bytes -------------------------------------------------------------------------------- */

/* With the lock: the first bytes of a range that was asked for before the size was known. */
static int settle(struct connection *c)
{
	struct ranges *a = c->all;

	if (a->notes.total < 0 && begin(c) < 0)
		return -1;
	if (strcmp(c->r.etag, a->notes.tag) != 0) {
		a->unfit = true;
		return err_set(EX_DATAERR, "'%s' sends a part of something else",
			a->q->url);
	}
	if (c->rest.bytes > a->notes.total - c->rest.from)
		c->rest.bytes = a->notes.total - c->rest.from;
	c->guessed = false;
	return 0;
}

static int check_answer(struct connection *c)
{
	struct ranges *a = c->all;
	int rc = 0;

	if (c->guessed) {
		pthread_mutex_lock(&a->lock);
		rc = settle(c);
		pthread_mutex_unlock(&a->lock);
	}
	if (rc == 0 && c->r.total_bytes != a->notes.total)
		rc = err_set(EX_DATAERR, "'%s' contradicts itself about its size",
			a->q->url);
	return rc;
}

static bool may_take(struct ranges *a, size_t len)
{
	bool may;

	pthread_mutex_lock(&a->lock);
	may = http_budget_allows(&a->budget, a->q->rate_down_max);
	if (may) {
		a->budget.bytes -= (int64_t)len;
		a->sunk += (int64_t)len;
	}
	pthread_mutex_unlock(&a->lock);
	return may;
}

static int take(void *ctx, const void *data, size_t len)
{
	struct connection *c = ctx;
	struct ranges *a = c->all;
	int64_t step;

	if (check_answer(c) < 0)
		return -1;
	if ((int64_t)len > c->rest.bytes)
		return err_set(EX_DATAERR, "'%s' sends more than was asked for",
			a->q->url);
	if (!may_take(a, len))
		return HTTP_AGAIN;
	if (io_write_all_at(a->fd, data, len, c->rest.from) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", a->part);
	c->rest.from += (int64_t)len;
	c->rest.bytes -= (int64_t)len;
	step = a->notes.total / 4096;
	return note(c, step > NOTE_BYTES ? step : NOTE_BYTES);
}

/* --- connections ------------------------------------------------------------------------------ */

static bool is_small(const struct http_request *q)
{
	return q->bytes_guess && q->bytes_guess <= SMALL_BYTES;
}

/* Of a range, where as many are left. */
static int64_t least_bytes(const struct http_request *q)
{
	return is_small(q) ? FIRST_BYTES : RANGE_BYTES;
}

/* Bytes that are asked for before the size is known. */
static int64_t bytes_ahead(const struct http_request *q)
{
	return is_small(q) ? q->bytes_guess : q->bytes_guess / 2;
}

/* With the lock, before the size is known: the first half of what it may be goes to all. */
static void take_up_guess(struct connection *c)
{
	struct ranges *a = c->all;
	int64_t all = bytes_ahead(a->q), bytes = all / a->q->connections;

	if (bytes < SHARE_BYTES)
		bytes = SHARE_BYTES;
	if ((!a->ahead || is_small(a->q)) && bytes < FIRST_BYTES)
		bytes = FIRST_BYTES;
	if (a->ahead && a->ahead >= all)
		return;
	c->rest = (struct http_piece){ a->ahead, bytes };
	a->ahead += bytes;
	c->guessed = true;
}

/* Takes up a range. Returns false when there is none. */
static bool take_up(struct connection *c)
{
	struct ranges *a = c->all;
	struct http_notes *n = &a->notes;
	int64_t bytes, max;
	struct http_piece *m;

	pthread_mutex_lock(&a->lock);
	c->rest.bytes = 0;
	if (!a->over && n->total < 0) {
		take_up_guess(c);
	} else if (!a->over && n->n) {
		m = &n->missing[n->n - 1];
		max = n->total / 256 > RANGE_MAX ? n->total / 256 : RANGE_MAX;
		bytes = a->left / (2 * a->active);
		if (bytes > max)
			bytes = max;
		if (bytes < least_bytes(a->q))
			bytes = least_bytes(a->q);
		if (bytes > m->bytes)
			bytes = m->bytes;
		c->rest = (struct http_piece){ m->from, bytes };
		m->from += bytes;
		m->bytes -= bytes;
		n->n -= !m->bytes;
		a->left -= bytes;
	}
	c->noted = c->rest.from;
	pthread_mutex_unlock(&a->lock);
	return c->rest.bytes > 0;
}

/* With the lock: another connection may take it up. */
static void give_back(struct connection *c)
{
	struct http_notes *n = &c->all->notes;

	if (n->total < 0 || c->rest.from >= n->total)
		return;
	if (c->rest.bytes > n->total - c->rest.from)
		c->rest.bytes = n->total - c->rest.from; /* it was guessed */
	if (!c->rest.bytes)
		return;
	n->missing = xgrow(n->missing, &n->cap, n->n + 1, sizeof *n->missing);
	n->missing[n->n++] = c->rest;
	c->all->left += c->rest.bytes;
}

/* Whether other connections may get what this one did not. */
static bool is_passing(const struct http_response *r)
{
	int code = err_get()->code;

	return !r->aborted &&
		(code == EX_TEMPFAIL || code == EX_UNAVAILABLE || r->broken_off);
}

/* A range has failed, or is shorter than was asked for; the thread's error says why. */
static void fail(struct connection *c, int rc)
{
	struct ranges *a = c->all;

	pthread_mutex_lock(&a->lock);
	give_back(c);
	c->guessed = false;
	if (!a->over) {
		if (c->r.status == 200 || c->r.status == 416 || rc == 0)
			a->unfit = true;
		if (a->unfit || !is_passing(&c->r))
			a->over = true;
		err_save(&a->error);
		http_response_release(&a->r);
		a->r = c->r;
		c->r = (struct http_response)HTTP_RESPONSE_INIT;
	}
	if (a->over)
		http_abort(&a->stop);
	pthread_mutex_unlock(&a->lock);
	err_clear();
}

/* Whether there is less than was guessed, and nothing of the range. */
static bool is_beyond(struct connection *c)
{
	struct ranges *a = c->all;
	bool beyond;

	pthread_mutex_lock(&a->lock);
	beyond = c->guessed && c->r.status == 416 && c->rest.from &&
		(a->notes.total < 0 || c->rest.from >= a->notes.total);
	if (beyond)
		c->guessed = false;
	pthread_mutex_unlock(&a->lock);
	return beyond;
}

/* Returns 0, or -1: the connection ends. */
static int fetch_range(struct connection *c)
{
	struct ranges *a = c->all;
	const struct http_sink sink = { .write = take, .ctx = c };
	struct http_request q = *a->q;
	int rc;

	q.sink = &sink;
	q.range_from = c->rest.from;
	q.range_bytes = q.response_bytes_max = c->rest.bytes;
	q.if_range = c->guessed ? NULL : a->notes.tag;
	q.rate_min = q.rate_min ? q.rate_min : RATE_MIN / a->q->connections;
	q.rate_down_max = 0;
	q.abort = &a->stop;
	rc = http_fetch(c->h, &q, &c->r);
	/* bytes that came are there, whatever became of the rest */
	if (rc < 0) {
		struct err failed;

		err_save(&failed);
		note(c, 0);
		err_restore(&failed);
	} else {
		rc = note(c, 0);
	}
	if (rc == 0 && !c->rest.bytes)
		return 0;
	if (is_beyond(c)) {
		err_clear();
		return 0;
	}
	fail(c, rc);
	return -1;
}

static void *carry(void *arg)
{
	struct connection *c = arg;
	struct ranges *a = c->all;

	while (take_up(c) && fetch_range(c) == 0)
		;
	pthread_mutex_lock(&a->lock);
	if (--a->active == 0)
		http_abort(&a->ended);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* Waits for all connections, and stops them where the program aborts the request. */
static void wait_for_all(struct ranges *a)
{
	struct pollfd p[] = { { .fd = a->q->abort ? a->q->abort->fd : -1,
				      .events = POLLIN },
		{ .fd = a->ended.fd, .events = POLLIN } };
	int n;

	while (!p[1].revents) {
		if (poll(p, 2, -1) < 0)
			p[0].revents = p[1].revents = 0; /* a signal */
		if (p[0].revents) {
			http_abort(&a->stop);
			p[0].fd = -1;
			p[0].revents = 0;
		}
	}
	pthread_mutex_lock(&a->lock);
	n = a->n;
	pthread_mutex_unlock(&a->lock);
	for (int i = 0; i < n; i++)
		pthread_join(a->all[i].thread, NULL);
}

/* Bytes that a further connection carried count as h's. */
static void close_more(struct ranges *a, struct http *h)
{
	for (int i = 0; i < a->n; i++) {
		struct connection *c = &a->all[i];
		struct net_bytes b;

		http_response_release(&c->r);
		if (c->h == h)
			continue;
		http_bytes(&c->own, &b);
		h->closed.sent += b.sent;
		h->closed.received += b.received;
		http_release(&c->own);
	}
}

/* How many connections what is left is worth, or what is asked for before the size is known. */
static int64_t worth_connections(const struct ranges *a)
{
	if (a->notes.total >= 0)
		return a->left / SHARE_BYTES;
	return bytes_ahead(a->q) / (is_small(a->q) ? FIRST_BYTES : SHARE_BYTES);
}

static int run(struct ranges *a, struct http *h)
{
	struct connection *first = &a->all[0];

	pthread_mutex_lock(&a->lock);
	*first = (struct connection){ .all = a, .h = h };
	a->n = a->active = 1;
	if (pthread_create(&first->thread, NULL, carry, first) != 0) {
		pthread_mutex_unlock(&a->lock);
		return err_sys(EX_OSERR, "cannot start a thread");
	}
	open_more(a, 1 + worth_connections(a));
	pthread_mutex_unlock(&a->lock);
	wait_for_all(a);
	close_more(a, h);
	if (a->unfit)
		return 1;
	return a->over || a->left || a->notes.total < 0 ? err_restore(&a->error) : 0;
}

int http_ranges(struct http *h, const struct http_request *q, int fd, const char *part,
	const char *notes_path, struct http_response *r)
{
	struct ranges a = { .q = q,
		.part = part,
		.notes_path = notes_path,
		.fd = fd,
		.stop = HTTP_ABORT_INIT,
		.ended = HTTP_ABORT_INIT,
		.notes = { .total = -1 },
		.notes_fd = -1 };
	int rc = 0;

	pthread_mutex_init(&a.lock, NULL);
	a.all = xcalloc((size_t)q->connections, sizeof *a.all);
	if (http_abort_open(&a.stop) < 0 || http_abort_open(&a.ended) < 0 ||
		read_notes(&a) < 0)
		rc = -1;
	if (rc == 0 && (a.notes.total < 0 || a.left))
		rc = run(&a, h);
	http_response_release(r);
	if (rc == 0) {
		http_response_release(&a.r);
		a.r = (struct http_response){ .status = 206,
			.retry_after_ms = -1,
			.modified_ms = -1,
			.date_ms = -1 };
		a.r.total_bytes = a.notes.total;
		memcpy(a.r.etag, a.notes.tag, sizeof a.r.etag);
	}
	*r = a.r;
	r->sunk_bytes = a.sunk;
	if (a.notes_fd >= 0)
		close(a.notes_fd);
	http_notes_release(&a.notes);
	http_abort_close(&a.stop);
	http_abort_close(&a.ended);
	pthread_mutex_destroy(&a.lock);
	free(a.all);
	return rc;
}
