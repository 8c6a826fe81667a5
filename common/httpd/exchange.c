/* exchange.c - handles one request of httpd: admits it, takes its body, calls its
 * handler, makes its reply. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/core.h"

/* read for the sake of the connection, though it was refused */
#define REFUSED_BODY_MAX 65536
#define SMALL_REPLY      4096 /* always sent */
#define NO_REPLY         499  /* in the log: the client left */
#define WOKEN_AT_ONCE    256

struct httpd_exchange *httpd_exchange_new(struct httpd_conn *c)
{
	struct httpd_exchange *x = xcalloc(1, sizeof *x);
	struct httpd *h = c->loop->h;

	x->h = h;
	x->loop = c->loop;
	x->conn = c;
	x->client = x->of_conn = c->client;
	x->exempt = c->loopback && !h->config.rate_loopback;
	memcpy(x->address, c->address, sizeof x->address);
	x->q.client = x->address;
	x->q.path = x->q.target = x->q.authority = "";
	x->q.secure = c->tls != NULL;
	x->q.external = h->proxy.external.scheme ? &h->proxy.external : NULL;
	x->q.started_ns = clock_mono_ns();
	x->r.status = 200;
	x->r.render = h->config.error;
	pthread_cond_init(&x->drained, NULL);
	c->x = x;
	h->in_progress++;
	return x;
}

/* --- the reply begins -------------------------------------------------------------------- */

/* Returns the share of one client; NULL where its address is not limited. */
static _Atomic size_t *share(struct httpd_exchange *x)
{
	return x->exempt ? NULL : &x->client->class_bytes[x->route->class];
}

static void drop_body(struct httpd_exchange *x)
{
	buf_release(&x->q.body);
	if (x->route)
		httpd_budget_give(&x->h->bodies[x->route->class], share(x),
			x->body_counted);
	x->body_counted = 0;
}

/* Counts a reply in memory, or replaces it by 503 where the budget is full. */
static void account_reply(struct httpd_exchange *x)
{
	size_t bytes = x->r.body.len;

	if (x->r.from == HTTPD_FROM_SOURCE &&
		!httpd_has_room(&x->q, &x->r, HTTPD_PIECE) && x->streams)
		httpd_exchange_tell_gone(x); /* nobody reads what its writers write */
	if (x->r.from != HTTPD_FROM_BODY)
		return;
	if (bytes > SMALL_REPLY && !httpd_has_room(&x->q, &x->r, bytes))
		bytes = x->r.body.len;
	httpd_budget_force(&x->h->replies, &x->client->reply_bytes, bytes);
	x->reply_counted = bytes;
}

static enum httpd_persist persistence(struct httpd_exchange *x)
{
	struct httpd_conn *c = x->conn;

	if (x->h->closing)
		c->close = true;
	if (x->delimited) {
		c->close = true;
		return HTTPD_CLOSE_DELIMITED;
	}
	return c->close            ? HTTPD_CLOSE :
		x->head.minor == 0 ? HTTPD_KEEP_ALIVE :
				     HTTPD_PERSIST;
}

void httpd_exchange_reply(struct httpd_exchange *x)
{
	struct httpd_conn *c = x->conn;
	struct httpd_reply *r = &x->r;
	bool unknown;

	if (x->streams) {
		buf_release(&r->body);
		httpd_reply_source(r, NULL, -1);
	}
	httpd_settle(&x->q, r);
	account_reply(x);
	/* before the client receives the end: its next request may need the memory */
	if (!x->later && (r->from == HTTPD_FROM_BODY || r->from == HTTPD_FROM_FILE))
		drop_body(x);
	x->no_content = r->status == 304 || r->status == 204 ||
		(x->q.method && strcmp(x->q.method, "HEAD") == 0);
	unknown = httpd_content_bytes(r) < 0;
	x->chunked = unknown && x->head.minor > 0;
	x->delimited = unknown && x->head.minor == 0;
	httpd_write_head(&x->out, r, httpd_loop_date(x->loop), persistence(x));
	/* one record and one packet where TLS would make two */
	if (c->tls && r->from == HTTPD_FROM_BODY && !x->no_content &&
		r->body.len <= 16384) {
		buf_add(&x->out, buf_text(&r->body), r->body.len);
		x->body_at = r->body.len;
		x->sent = r->body.len;
	}
	x->replying = true;
	c->state = HTTPD_CONN_REPLY;
	c->since_ns = clock_mono_ns();
	c->moved = c->moved_then = 0;
}

bool httpd_has_room(const struct httpd_request *q, struct httpd_reply *r, size_t bytes)
{
	struct httpd_exchange *x = (struct httpd_exchange *)(uintptr_t)q;
	struct httpd_budget *b;
	_Atomic size_t *mine;
	bool free_slot;

	if (q->finish) /* a test made this request, not a server */
		return true;
	b = &x->h->replies;
	mine = x->exempt ? NULL : &x->client->reply_bytes;
	free_slot = httpd_budget_take(b, mine, bytes);
	if (free_slot)
		httpd_budget_give(b, mine, bytes);
	if (free_slot)
		return true;
	buf_release(&r->body);
	r->retry_after_s = 1;
	httpd_error(r, 503, "too many large replies at once");
	return false;
}

/* --- the request begins ------------------------------------------------------------------ */

void httpd_exchange_refuse(struct httpd_exchange *x, int status, const char *why)
{
	x->refused = true;
	x->conn->close = true;
	httpd_error(&x->r, status, "malformed request: %s", why);
	httpd_exchange_reply(x);
}

/* Answers r although the body was not received. A small body is read first, as an early reply
 * costs the connection. */
static void refuse_body(struct httpd_exchange *x)
{
	struct httpd_conn *c = x->conn;
	bool rest = x->head.body == HTTPD_BODY_CHUNKED ||
		x->body_left > REFUSED_BODY_MAX || x->head.expect_continue;

	x->refused = true;
	if (x->head.body != HTTPD_BODY_NONE && !rest) {
		c->state = HTTPD_CONN_BODY;
		return;
	}
	if (x->head.body != HTTPD_BODY_NONE)
		c->close = true;
	httpd_exchange_reply(x);
}

/* Returns false if the rate limit refuses the client; r is the answer then. */
static bool admit(struct httpd_exchange *x)
{
	struct httpd *h = x->h;

	if (!h->limiter || x->exempt ||
		httpd_limiter_take(h->limiter, x->client->key, x->q.started_ns))
		return true;
	h->counters.limited++;
	x->r.retry_after_s = 1;
	httpd_error(&x->r, 429, "too many requests from %s", x->q.client);
	return false;
}

static bool cut_prefix(struct httpd_request *q)
{
	size_t n = q->external ? strlen(q->external->prefix) : 0;

	if (!n || strncmp(q->path, q->external->prefix, n) != 0 || q->path[n] != '/')
		return false;
	q->path += n;
	return q->below_prefix = true;
}

static bool find_route(struct httpd_exchange *x)
{
	const char *target = x->head.target;
	int status;

	if ((*target != '/' && strncasecmp(target, "http://", 7) != 0 &&
		    strncasecmp(target, "https://", 8) != 0) ||
		httpd_parse_uri(&x->q, target) < 0) {
		x->q.path = "";
		httpd_error(&x->r, 400, "the request target is malformed");
		return false;
	}
	x->route = httpd_find_route(x->h->routes, &x->q, &status, &x->r.allow);
	/* a proxy may leave the external URL's path on */
	if (!x->route && status == 404 && cut_prefix(&x->q))
		x->route = httpd_find_route(x->h->routes, &x->q, &status, &x->r.allow);
	if (!x->route) {
		httpd_error(&x->r, status,
			status != 404 ? "this path does not know that method" :
				x->h->config.no_such_path ?
					x->h->config.no_such_path :
					"there is nothing at this path");
		return false;
	}
	x->r.allow = NULL;
	return true;
}

static bool no_room(struct httpd_exchange *x)
{
	x->r.retry_after_s = 1;
	httpd_error(&x->r, 503, "too many large requests at once");
	return false;
}

static bool can_take_body(struct httpd_exchange *x)
{
	const char *coding = httpd_header(&x->q, "Content-Encoding");
	const struct httpd_budget *b = &x->h->bodies[x->route->class];

	if (coding && strcasecmp(coding, "identity") != 0)
		httpd_error(&x->r, 415, "a body of this Content-Encoding is not taken");
	else if (x->head.body_bytes > x->route->body_bytes_max)
		httpd_error(&x->r, 413, "the body is larger than %zu bytes",
			x->route->body_bytes_max);
	else if (x->head.expect_other)
		httpd_error(&x->r, 417, "no expectation but 100-continue is met");
	else if (!x->route->take &&
		(b->used + x->head.body_bytes > b->max || mem_is_short()))
		return no_room(x);
	else
		return true;
	return false;
}

static void run_in_pool(struct httpd_exchange *x)
{
	x->roundtrip_ns = httpd_roundtrip_ns(&x->q);
	x->in_pool = true;
	if (httpd_pool_add(x->h->pool, x))
		return;
	x->in_pool = x->later = false;
	x->h->handling--;
	x->r.retry_after_s = 1;
	httpd_error(&x->r, 503, "too many requests wait for their turn");
	httpd_exchange_reply(x);
}

static void run(struct httpd_exchange *x)
{
	struct httpd *h = x->h;
	enum httpd_when when;

	x->q.complete_ns = clock_mono_ns();
	/* in this order: httpd_stop sets ended first and reads handling then */
	h->handling++;
	if (h->ended) {
		h->handling--;
		x->r.retry_after_s = 1;
		httpd_error(&x->r, 503, "the server is about to end");
		httpd_exchange_reply(x);
		return;
	}
	x->later = true;
	x->conn->state = HTTPD_CONN_WAIT;
	if (x->route->slow) {
		run_in_pool(x);
		return;
	}
	x->begun = true;
	when = x->route->handler(h->config.ctx, &x->q, &x->r);
	if (when == HTTPD_LATER)
		return;
	x->later = false;
	h->handling--;
	if (when != HTTPD_NOW)
		bug("a handler went on");
	httpd_exchange_reply(x);
}

static size_t most_bytes(const struct httpd_exchange *x)
{
	size_t own = x->q.body_bytes_max;

	return own && own < x->route->body_bytes_max ? own : x->route->body_bytes_max;
}

/* Calls route.begin. Returns false if r is the answer. */
static bool run_begin(struct httpd_exchange *x)
{
	enum httpd_when when;

	if (!x->route->begin)
		return true;
	if (x->h->ended) {
		x->r.retry_after_s = 1;
		httpd_error(&x->r, 503, "the server is about to end");
		return false;
	}
	x->begun = true;
	when = x->route->begin(x->h->config.ctx, &x->q, &x->r);
	if (when == HTTPD_LATER)
		bug("begin cannot answer later");
	if (when == HTTPD_GO_ON && x->head.body_bytes > most_bytes(x)) {
		httpd_error(&x->r, 413, "the body is larger than %zu bytes",
			most_bytes(x));
		return false;
	}
	return when == HTTPD_GO_ON;
}

void httpd_exchange_begin(struct httpd_exchange *x, const char *text, size_t len)
{
	struct httpd_conn *c = x->conn;
	const char *why;
	int status;

	buf_add(&x->text, text, len);
	status = httpd_parse_head(&x->head, x->text.data, len, &why);
	if (x->head.method)
		x->q.method = x->head.method;
	if (status) {
		x->head.body = HTTPD_BODY_NONE;
		httpd_exchange_refuse(x, status, why);
		return;
	}
	x->q.target = x->head.target;
	x->q.headers = x->head.headers;
	x->q.nheaders = x->head.nheaders;
	x->q.if_none_match = httpd_header(&x->q, "If-None-Match");
	x->q.authority = x->q.authority_text = xstrndup(x->head.authority,
		x->head.authority_bytes);
	x->body_left = x->head.body_bytes;
	c->close = !x->head.keep_alive;
	c->since_ns = clock_mono_ns(); /* the body has its own time limit */
	c->moved = c->moved_then = 0;
	if (!httpd_exchange_identify(x) || !admit(x) || !find_route(x) ||
		!can_take_body(x) || !run_begin(x)) {
		refuse_body(x);
	} else if (x->head.body == HTTPD_BODY_NONE) {
		run(x);
	} else {
		c->state = HTTPD_CONN_BODY;
		if (x->head.expect_continue && !c->left &&
			!httpd_conn_say(c, "HTTP/1.1 100 Continue\r\n\r\n"))
			httpd_conn_close(c);
	}
}

/* --- the body ---------------------------------------------------------------------------- */

static bool fits(struct httpd_exchange *x, size_t len)
{
	if (len > most_bytes(x) - x->q.body_bytes) {
		httpd_error(&x->r, 413, "the body is larger than %zu bytes",
			most_bytes(x));
		return false;
	}
	if (x->route->take)
		return true;
	if (!httpd_budget_take(&x->h->bodies[x->route->class], share(x), len))
		return no_room(x);
	x->body_counted += len;
	return true;
}

/* Returns how many bytes were used, or -1: refused, r is the answer. */
static long deliver(struct httpd_exchange *x, const char *data, size_t len)
{
	long n;

	if (x->refused)
		return (long)len;
	if (!fits(x, len))
		return -1;
	if (!x->route->take) {
		buf_add(&x->q.body, data, len);
		return (long)len;
	}
	n = x->route->take(x->h->config.ctx, &x->q, &x->r, data, len);
	if (n > (long)len || (n < 0 && n != HTTPD_REFUSE))
		bug("a sink took %ld of %zu bytes", n, len);
	return n < 0 ? -1 : n;
}

static void body_complete(struct httpd_exchange *x)
{
	if (x->refused)
		httpd_exchange_reply(x);
	else
		run(x);
}

/* Returns the number of bytes that are next at c->at; 0: none, or the state has changed. */
static size_t find_piece(struct httpd_exchange *x)
{
	struct httpd_conn *c = x->conn;
	uint64_t left = x->body_left;
	size_t used;

	if (x->head.body == HTTPD_BODY_CHUNKED) {
		enum httpd_chunk kind = httpd_chunks_feed(&x->chunks, c->at, c->left,
			&used);

		c->at += used;
		c->left -= used;
		left = x->chunks.left;
		if (kind == HTTPD_CHUNK_BAD) {
			buf_release(&x->q.body);
			httpd_exchange_refuse(x, 400, "a chunk of the body");
		} else if (kind == HTTPD_CHUNK_END) {
			body_complete(x);
		}
		if (kind != HTTPD_CHUNK_DATA)
			return 0;
	} else if (!left) {
		body_complete(x);
		return 0;
	}
	return left < c->left ? (size_t)left : c->left;
}

static void use(struct httpd_exchange *x, size_t n)
{
	x->q.body_bytes += n;
	if (x->head.body == HTTPD_BODY_CHUNKED)
		x->chunks.left -= n;
	else
		x->body_left -= n;
}

bool httpd_exchange_take(struct httpd_exchange *x)
{
	struct httpd_conn *c = x->conn;

	while (!x->paused) {
		size_t len = find_piece(x);
		long n;

		if (c->state != HTTPD_CONN_BODY)
			return true;
		if (!len)
			return false;
		n = deliver(x, c->at, len);
		if (n < 0) {
			buf_release(&x->q.body);
			refuse_body(x);
			if (c->state != HTTPD_CONN_BODY)
				return true;
			n = (long)len;
		}
		c->at += n;
		c->left -= (size_t)n;
		use(x, (size_t)n);
		x->paused = (size_t)n < len;
	}
	return false;
}

char *httpd_exchange_direct(struct httpd_exchange *x, size_t *free_slot)
{
	if (x->refused || x->route->take || x->head.body != HTTPD_BODY_LENGTH ||
		!x->body_left)
		return NULL;
	*free_slot = x->body_left < 4 * HTTPD_PIECE ? (size_t)x->body_left :
						      4 * HTTPD_PIECE;
	/* the buffer grows with the bytes that come, not with the promised length */
	return buf_reserve(&x->q.body, *free_slot);
}

void httpd_exchange_received(struct httpd_exchange *x, size_t len)
{
	if (fits(x, len)) {
		x->q.body.len += len;
		x->q.body.data[x->q.body.len] = '\0';
	} else {
		buf_release(&x->q.body);
		refuse_body(x);
	}
	use(x, len);
}

/* --- the end ----------------------------------------------------------------------------- */

void httpd_exchange_tell_gone(struct httpd_exchange *x)
{
	bool tell;

	pthread_mutex_lock(&x->loop->lock);
	x->disconnected = true;
	/* a handler that runs in the pool is told after it returned HTTPD_LATER */
	tell = x->later && !x->reported && !x->in_pool && !x->finished;
	x->reported |= tell;
	pthread_cond_broadcast(&x->drained);
	pthread_mutex_unlock(&x->loop->lock);
	if (tell && x->route->disconnected)
		x->route->disconnected(x->h->config.ctx, &x->q);
}

void httpd_exchange_half_closed(struct httpd_exchange *x)
{
	bool tell;

	pthread_mutex_lock(&x->loop->lock);
	tell = x->later && !x->in_pool && !x->finished && !x->reported_half;
	x->reported_half |= tell;
	pthread_mutex_unlock(&x->loop->lock);
	if (tell)
		x->route->half_closed(x->h->config.ctx, &x->q);
}

bool httpd_exchange_gone(struct httpd_exchange *x)
{
	bool later;

	pthread_mutex_lock(&x->loop->lock);
	x->conn = NULL;
	pthread_mutex_unlock(&x->loop->lock);
	x->left = true;
	httpd_exchange_tell_gone(x);
	later = x->later;
	x->holds_client = later;
	if (!later)
		httpd_exchange_end(x);
	return later;
}

static void forget_woken(struct httpd_exchange *x)
{
	struct httpd_loop *l = x->loop;
	struct httpd_exchange **at = &l->woken;

	pthread_mutex_lock(&l->lock);
	while (x->is_woken && *at != x)
		at = &(*at)->next_woken;
	if (x->is_woken) {
		*at = x->next_woken;
		if (l->woken_end == &x->next_woken)
			l->woken_end = at;
	}
	pthread_mutex_unlock(&l->lock);
}

void httpd_exchange_end(struct httpd_exchange *x)
{
	struct httpd *h = x->h;
	int64_t ns = clock_mono_ns() - x->q.started_ns;

	if (!x->replying)
		x->r.status = NO_REPLY;
	httpd_count(&h->counters, x->route ? (int)(x->route - h->routes) : -1,
		x->r.status, ns);
	httpd_log_add(&h->log, &h->counters, &x->q, x->r.status, x->sent, ns);
	if (!x->replied)
		x->disconnected = true;
	if (x->begun && x->route->done)
		x->route->done(h->config.ctx, &x->q);
	drop_body(x);
	httpd_budget_give(&h->replies, &x->client->reply_bytes, x->reply_counted);
	httpd_budget_give(&h->replies, NULL, x->out_counted + x->queued);
	if (x->client != x->of_conn)
		httpd_clients_leave(&h->clients, x->client);
	if (x->holds_client)
		httpd_clients_leave(&h->clients, x->of_conn);
	forget_woken(x);
	httpd_request_release(&x->q);
	httpd_reply_release(&x->r);
	buf_release(&x->text);
	buf_release(&x->out);
	buf_release(&x->queue);
	pthread_cond_destroy(&x->drained);
	free(x);
	h->in_progress--;
}
