/* core.h - connections and requests of httpd, as its own files see them. Private to
 * httpd.
 *
 * A connection belongs to one loop (a thread with an epoll set) and is touched by no other
 * thread, but that its bytes are counted under the loop's lock. A request in progress is a
 * struct httpd_exchange; other threads reach it by httpd_finish, httpd_write and httpd_resume,
 * which set flags in it under the loop's lock and wake the loop. */
#ifndef RNP_COMMON_HTTPD_CORE_H
#define RNP_COMMON_HTTPD_CORE_H

#include <time.h>

#include "common/httpd/httpd.h"
#include "common/httpd/parts.h"
#include "common/httpd/proxy.h"
#include "common/httpd/tls.h"
#include "common/net/bytes.h"

#define HTTPD_PIECE ((size_t)64 << 10) /* piece of a body or a source's output */
/* written by other threads, unread by the client */
#define HTTPD_QUEUE_MAX ((size_t)256 << 10)
#define HTTPD_DATE_MAX  32
#define HTTPD_LOOPS_MAX 64

struct httpd {
	struct httpd_config config;
	struct httpd_route *routes; /* the program's and /metrics */
	struct httpd_counters counters;
	struct httpd_log log;
	struct httpd_proxy proxy;
	struct httpd_limiter *limiter; /* NULL: no limit */
	struct httpd_clients clients;
	struct httpd_budget bodies[HTTPD_CLASSES], replies;
	struct httpd_tls *tls;   /* NULL: plain */
	struct httpd_pool *pool; /* NULL: no route is slow */
	struct httpd_loop *loops;
	int nloops; /* number of running loops */
	pthread_t flusher;
	bool flushing;
	int connections_max;
	_Atomic bool closing;  /* takes no new connections */
	_Atomic bool ended;    /* no longer calls handlers */
	_Atomic bool stopping; /* loops and flusher have to end */
	_Atomic int in_progress;
	_Atomic int handling; /* handlers that were called and have not finished yet */
	int listen_fd, port;
};

/* A circular list; the list's head is one of its members. */
struct httpd_link {
	struct httpd_link *next, *prev;
};

struct httpd_loop {
	struct httpd *h;
	pthread_t thread;
	int epoll_fd, wake_fd;
	bool listening;
	_Atomic int connections;
	/* lists of connections; all: changed and walked by others under the lock, as are their
	 * descriptors */
	struct httpd_link all, idle, ready, dead;
	/* HTTPD_PIECE for received bytes, and as much for a file's bytes under TLS */
	char *scratch;
	char date[HTTPD_DATE_MAX];
	time_t date_s;
	int64_t ticked_ns;
	bool told_end;        /* waiting handlers were informed that the server ends */
	pthread_mutex_t lock; /* protects the following, which other threads set: */
	bool awake;           /* wake_fd is set already */
	struct httpd_exchange *woken, **woken_end;
	struct httpd_conn *arrived;
};

enum httpd_conn_state {
	HTTPD_CONN_IDLE, /* no byte of a request yet */
	HTTPD_CONN_HEAD,
	HTTPD_CONN_BODY,
	HTTPD_CONN_WAIT, /* waits for httpd_finish or httpd_write */
	HTTPD_CONN_REPLY,
	/* all is sent: what is still received is discarded, so that no reset overtakes the
	 * reply */
	HTTPD_CONN_LINGER,
	HTTPD_CONN_DEAD,
};

struct httpd_conn {
	struct httpd_link in_all, in_idle, in_ready;
	struct httpd_conn *next_arrived;
	struct httpd_loop *loop;
	struct httpd_tls_session *tls;
	struct httpd_client *client;
	struct httpd_exchange *x; /* the request in progress, or NULL */
	int fd;
	enum httpd_conn_state state;
	bool readable, writable; /* as far as known: events are edge-triggered */
	bool half_closed;        /* the client has closed its sending half */
	bool used;               /* had a request before */
	bool skipped;            /* an empty line was skipped before this request */
	bool close;              /* after this reply */
	bool loopback;
	bool trusted; /* a proxy whose word about its clients counts */
	char address[INET6_ADDRSTRLEN];
	/* received bytes that are not used yet: in the loop's scratch while it works on this
	 * connection, else in kept */
	const char *at;
	size_t left, scanned;
	struct buf kept;
	/* for the time limits */
	int64_t since_ns;
	/* under the loop's lock: bytes of the socket that the counters include already */
	struct net_bytes counted;
	uint64_t moved, moved_then; /* bytes of body or reply, now and at since_ns */
};

struct httpd_exchange {
	struct httpd_request q; /* first, as callers of httpd_finish have only q */
	struct httpd_reply r;
	struct httpd *h;
	struct httpd_loop *loop;
	/* NULL: the client left; changed under the loop's lock */
	struct httpd_conn *conn;
	/* that of conn, or held until the end; behind a trusted proxy that of the client there */
	struct httpd_client *client, *of_conn;
	bool holds_client;
	const struct httpd_route *route;
	struct httpd_head head;
	struct buf text; /* of the head */
	char address[INET6_ADDRSTRLEN];
	/* the body */
	uint64_t body_left; /* HTTPD_BODY_LENGTH */
	struct httpd_chunks chunks;
	size_t body_counted; /* in the budget of the route's class */
	bool refused;        /* r is the answer; the rest of the body is discarded */
	bool paused;         /* the sink took less than it was given */
	bool begun;          /* begin or the handler was called, so done has to be */
	bool later;          /* the handler answers later and counts in `handling` */
	bool exempt;         /* from the limits by address */
	/* the reply */
	bool replying, replied; /* its head is complete; all of it was sent */
	bool no_content;        /* HEAD, 304: only the head is sent */
	bool chunked, delimited;
	bool probed;  /* after its sending half was closed, it got an interim response */
	bool streams; /* its body is written by httpd_write */
	bool waiting; /* source or queue was empty */
	bool over;    /* source or queue has ended */
	struct buf out; /* head and pieces; bytes from out_at on are unsent */
	size_t out_at, body_at;
	size_t reply_counted, out_counted;
	uint64_t sent; /* of the body */
	/* set by other threads, under the loop's lock */
	struct httpd_exchange *next_woken;
	bool is_woken, finished, resumed, pushing;
	bool in_pool;  /* its handler waits for a thread of the pool, or runs there */
	bool reported; /* route.disconnected was called */
	bool reported_half; /* route.half_closed was called */
	struct buf queue;   /* body with its chunk framing */
	size_t queued;      /* bytes of the queue, in the budget of replies */
	pthread_cond_t drained;
	_Atomic bool disconnected;
	_Atomic bool left; /* the connection is closed, not just its sending half */
	struct httpd_exchange *next_job; /* in the pool */
	int64_t roundtrip_ns;            /* of a request in the pool, measured before */
};

enum httpd_persist {
	HTTPD_PERSIST,
	HTTPD_KEEP_ALIVE, /* HTTP/1.0 */
	HTTPD_CLOSE,
	HTTPD_CLOSE_DELIMITED,
};

/* --- reply.c --- */
void httpd_format_date(char out[HTTPD_DATE_MAX], time_t at);
int64_t httpd_content_bytes(const struct httpd_reply *r); /* -1: unknown */
/* Turns r into 304, 206 or 416 where the request asks for it. */
void httpd_settle(const struct httpd_request *q, struct httpd_reply *r);
void httpd_write_head(struct buf *out, const struct httpd_reply *r, const char *date,
	enum httpd_persist persist);

/* --- exchange.c: one request; all on the loop's thread --- */
struct httpd_exchange *httpd_exchange_new(struct httpd_conn *c);
/* Called when a head is complete. These two set the connection's next state. */
void httpd_exchange_begin(struct httpd_exchange *x, const char *text, size_t len);
/* Answers bytes that are not a valid request; the connection is closed. */
void httpd_exchange_refuse(struct httpd_exchange *x, int status, const char *why);
/* Uses up bytes of the body at c->at. Returns false when no more can be done now. */
bool httpd_exchange_take(struct httpd_exchange *x);
/* Returns where *room body bytes may be received directly, or NULL. */
char *httpd_exchange_direct(struct httpd_exchange *x, size_t *cap);
void httpd_exchange_received(struct httpd_exchange *x, size_t len);
/* Behind a trusted proxy the client is the one that the proxy names: its limits hold, and its
 * address is logged. Returns false if r is the answer. In proxy.c. */
bool httpd_exchange_identify(struct httpd_exchange *x);
/* Begins the reply after r was filled. */
void httpd_exchange_reply(struct httpd_exchange *x);
/* Called when the client left. Returns true where a handler has still to answer: x lives until
 * then and holds the client's place; otherwise x is freed. */
bool httpd_exchange_gone(struct httpd_exchange *x);
/* Informs the handlers that have still to answer that nobody waits. */
void httpd_exchange_tell_gone(struct httpd_exchange *x);
/* Calls route.half_closed, once. */
void httpd_exchange_half_closed(struct httpd_exchange *x);
/* Ends a request: counts it, logs it, frees it. */
void httpd_exchange_end(struct httpd_exchange *x);

/* --- stream.c --- */
/* Puts the next bytes to send into x->out. Returns 1: there is something to send (out, or a
 * file or memory), 0: not now, 2: all was sent, -1: close the connection at once. */
int httpd_exchange_fill(struct httpd_exchange *x);
/* Returns the loop that runs on this thread, or NULL. */
extern _Thread_local struct httpd_loop *httpd_this_loop;
/* Handles the wake-ups that other threads left for the requests of a loop. */
void httpd_exchanges_woken(struct httpd_loop *l);

/* Called on a thread of the pool when the handler has returned; finished: r is the reply. x may
 * be freed then. */
void httpd_exchange_left_pool(struct httpd_exchange *x, bool finished);

/* --- pool.c --- */
struct httpd_pool *httpd_pool_start(struct httpd *h, int threads); /* NULL with err_set */
bool httpd_pool_add(struct httpd_pool *p, struct httpd_exchange *x); /* false: full */
void httpd_pool_stop(struct httpd_pool *p);

/* --- conn.c: one connection --- */
/* Takes fd and client. Returns NULL on failure (fd is closed). */
struct httpd_conn *httpd_conn_new(struct httpd *h, int fd, struct httpd_client *client,
	const struct sockaddr *address);
void httpd_conn_start(struct httpd_loop *l, struct httpd_conn *c);
void httpd_conn_event(struct httpd_conn *c, uint32_t events);
/* Serves the connection as far as possible without waiting. */
void httpd_conn_drive(struct httpd_conn *c);
/* Sends a few bytes out of turn. Returns false when the socket took not all of them. */
bool httpd_conn_say(struct httpd_conn *c, const char *text);
void httpd_conn_close(struct httpd_conn *c);
void httpd_conn_free(struct httpd_conn *c); /* must be closed before */
/* Closes the connection when it is too slow. */
void httpd_conn_tick(struct httpd_conn *c, int64_t now_ns);
const char *httpd_loop_date(struct httpd_loop *l);

/* --- bytes.c --- */
/* Counts what a connection has carried since it was counted last. With the loop's lock. */
void httpd_bytes_count(struct httpd_conn *c);

/* --- lists --- */
static inline void httpd_link_init(struct httpd_link *l)
{
	l->next = l->prev = l;
}

static inline void httpd_link_remove(struct httpd_link *l)
{
	l->next->prev = l->prev;
	l->prev->next = l->next;
	httpd_link_init(l);
}

static inline void httpd_link_add(struct httpd_link *list, struct httpd_link *l)
{
	httpd_link_remove(l);
	l->prev = list->prev;
	l->next = list;
	list->prev->next = l;
	list->prev = l;
}

static inline bool httpd_link_empty(const struct httpd_link *l)
{
	return l->next == l;
}

#define HTTPD_OF(link, type, member) \
	((type *)(void *)((char *)(link)-offsetof(type, member)))

#endif
