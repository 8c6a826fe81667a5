/* httpd.h - an HTTP/1.1 server: routes, bodies and replies as streams, limits, metrics, request
 * log, graceful stop. Uses buf, err, json, clock, io, net; for TLS OpenSSL, by dlopen.
 *
 * A few threads carry the connections, each with an epoll set. Handlers run on them and must
 * not wait: handlers of slow routes run on a pool of threads, and any handler may answer later
 * from a thread of the program's own.
 *
 * The common case is whole buffers: a handler gets q->body and fills r->body.
 *
 *   A large upload:  route.begin refuses by the headers or sets q->state; route.take gets the body
 *                    in pieces and may pause; route.handler answers; route.done cleans up.
 *   A file:          httpd_reply_file(r, fd, offset, bytes), which serves ranges with sendfile.
 *   Made on demand:  httpd_reply_source(r, source, bytes), httpd_resume(q) where it had paused.
 *   Server-sent events, long polls: the handler returns HTTPD_LATER; any thread calls
 *                    httpd_write(q, ...) as often as it likes and httpd_finish(q) once.
 *   The client left: route.disconnected(ctx, q) is called within milliseconds;
 *                    httpd_disconnected(q) says so. */
#ifndef RNP_COMMON_HTTPD_HTTPD_H
#define RNP_COMMON_HTTPD_HTTPD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/httpd/parse.h"

#define HTTPD_QUERY_MAX 24
#define HTTPD_ARGS_MAX  4
#define HTTPD_ETAG_MAX  80

/* The URL that clients use, where a proxy stands in front of the server. */
struct httpd_external {
	const char *scheme;    /* "http" or "https" */
	const char *authority; /* "example.org:8443" */
	const char *prefix;    /* "/rnp"; "" where it has no path */
};

/* A request. All texts are decoded, NUL-terminated and live as long as the request. */
struct httpd_request {
	const char *method, *path;
	char *arg; /* the part of the path that matches the first {...} of the route, or NULL */
	char *args[HTTPD_ARGS_MAX]; /* those of all {...}, in order */
	int nargs;
	struct httpd_pair query[HTTPD_QUERY_MAX];
	int nquery;
	/* every header field as received, in order, its value trimmed; see httpd_header */
	const struct httpd_pair *headers;
	int nheaders;
	const char *target; /* as received: "/v1/nodes?limit=5" */
	/* whom it is for: that of a target in absolute form, else the Host field, "" where an
	 * HTTP/1.0 client gave none */
	const char *authority;
	const struct httpd_external *external; /* NULL: none was configured */
	bool below_prefix;         /* target has external's prefix, which path lacks */
	bool secure;               /* came by TLS */
	const char *if_none_match; /* or NULL */
	/* its address, "203.0.113.7": where a trusted proxy asks, what that says */
	const char *client;
	/* complete, until the reply begins; empty where the route takes it in pieces */
	struct buf body;
	uint64_t body_bytes; /* received so far, in either case */
	int64_t started_ns;  /* when the last header was received, monotonic */
	int64_t complete_ns; /* when the body was complete; the handler may start later */
	/* Limits of this request's body, besides those of its route, which begin may set; 0: none.
	 * A client that is still sending at until_ns (monotonic) is disconnected; any thread may
	 * set it between begin and done. */
	size_t body_bytes_max;
	_Atomic int64_t until_ns;
	void *state; /* the program's own, for begin, take, source, disconnected, done */
	/* owned, see httpd_parse_uri and httpd_find_route */
	char *uri, *args_text, *authority_text;
	char allow[64];
	void (*finish)(struct httpd_request *q); /* see httpd_finish */
};

/* Writes at most room bytes of a reply's body to `to` and returns how many. 0: nothing at
 * present, httpd_resume(q) will be called. HTTPD_END: the body is complete. HTTPD_ABORT: the
 * connection is closed, so that the client sees that something is missing. Runs on a thread of
 * the server. */
typedef long (*httpd_source)(void *ctx, struct httpd_request *q, void *to, size_t cap);
#define HTTPD_END    (-1L)
#define HTTPD_ABORT  (-2L)
#define HTTPD_REFUSE (-3L)

/* The reply. Starts as 200 with an empty JSON body. */
struct httpd_reply {
	int status;
	const char *content_type; /* static text; NULL: application/json */
	struct buf body;
	/* "" or a tag with its quotes; a request that names it gets 304 */
	char etag[HTTPD_ETAG_MAX];
	int retry_after_s;         /* 0: not sent */
	const char *allow;         /* for 405, or NULL; static text or of the request */
	const char *cache_control; /* static text; NULL: no-cache */
	struct buf headers;        /* additional header fields, see httpd_add_header */
	bool ranges; /* ranges of body are served; those of a file always are */
	/* sent in place of body; see httpd_reply_file and the functions after it */
	enum {
		HTTPD_FROM_BODY,
		HTTPD_FROM_FILE,
		HTTPD_FROM_SOURCE,
		HTTPD_FROM_MEMORY
	} from;
	int fd;
	int64_t offset, bytes;
	const void *memory;
	httpd_source source;
	/* see httpd_config.error */
	void (*render)(struct httpd_reply *r, const char *text);
};

enum httpd_when {
	HTTPD_NOW,   /* r is filled */
	HTTPD_LATER, /* see httpd_finish */
	HTTPD_GO_ON, /* from begin: the body may be sent */
};

typedef enum httpd_when (
	*httpd_handler)(void *ctx, struct httpd_request *q, struct httpd_reply *r);

/* Takes a piece of the body; returns how many of the len bytes were taken. If fewer than len,
 * no more are passed until httpd_resume(q), and TCP slows the client down. HTTPD_REFUSE: r is
 * the answer. */
typedef long (*httpd_sink)(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len);

/* Separate budgets for bodies in memory, so that a client that fills one leaves the others
 * free. The program decides what each is for; small records that must always get through have
 * one of their own. */
enum httpd_class { HTTPD_ORDINARY, HTTPD_SMALL, HTTPD_LARGE, HTTPD_OTHER, HTTPD_CLASSES };

struct httpd_route {
	const char *method;
	/* "/v1/runs/{run}/pieces/{piece}": each {...} is a whole segment */
	const char *path;
	httpd_handler handler; /* called when the body is complete */
	/* a larger one is 413; 0: no body. 503 where the budget of the class is full */
	size_t body_bytes_max;
	enum httpd_class class; /* whose budget q->body counts against; not with take */
	/* The handler takes long (a query, a verification): it runs on a thread of a pool, so
	 * that no other request waits for it. The client may have left by then: see
	 * httpd_disconnected(q). */
	bool slow;
	/* All of the following may be NULL. */
	/* Called when the headers are there, but not the body, and no 100 Continue was sent.
	 * Returns HTTPD_GO_ON, or HTTPD_NOW: r is the answer and the body is not read. */
	httpd_handler begin;
	/* gets the body in pieces of at most 64 KiB in place of q->body */
	httpd_sink take;
	/* Called when the client left, or the server is about to end, while a handler that
	 * returned HTTPD_LATER has still to answer: it should call httpd_finish soon. Called
	 * once at most. */
	void (*disconnected)(void *ctx, struct httpd_request *q);
	/* Called when the client closed its sending half while httpd_write had nothing more for
	 * it: it may still read. If bytes that the program should write now reach nobody,
	 * disconnected is called; otherwise the stream goes on. NULL: it is called at once. */
	void (*half_closed)(void *ctx, struct httpd_request *q);
	/* Called when the request is over, answered or not (then httpd_disconnected(q)), and q is
	 * about to be freed. Called once for every request whose begin or handler was called. */
	void (*done)(void *ctx, struct httpd_request *q);
};

/* For tables of routes: HTTPD_POST("/v1/records", post_record, BYTES, .class = HTTPD_SMALL) */
#define HTTPD_ROUTE(verb, where, what, max, ...)                      \
	{                                                             \
		.method = (verb), .path = (where), .handler = (what), \
		.body_bytes_max = (max), __VA_ARGS__                  \
	}
#define HTTPD_GET(where, what, ...) HTTPD_ROUTE("GET", where, what, 0, __VA_ARGS__)
#define HTTPD_POST(where, what, max, ...) \
	HTTPD_ROUTE("POST", where, what, max, __VA_ARGS__)
#define HTTPD_PUT(where, what, max, ...) HTTPD_ROUTE("PUT", where, what, max, __VA_ARGS__)

struct httpd_config {
	const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" (all addresses) */
	/* the port is written to this file once connections are accepted */
	const char *port_file;
	/* "https://example.org/rnp": what clients ask for, where a proxy takes the path off or
	 * names another host. Requests with the path are served, too. NULL: as they arrive */
	const char *external_url;
	/* "10.0.0.0/8" ...: proxies whose X-Forwarded-For or Forwarded is believed. Limits by
	 * address are then those of the clients behind them */
	const char *const *trusted_proxies;
	int ntrusted;
	/* "x-forwarded-for" or "forwarded": the only one of the two that they set; NULL: either,
	 * and requests in which they differ are refused */
	const char *proxy_header;
	const char *cert_file, *key_file; /* TLS 1.2 and 1.3; NULL: plain HTTP */
	const char *log_file;             /* request log; NULL: standard error */
	bool log_off;
	int threads;         /* 0: one per core, 8 at most */
	int slow_threads;    /* for handlers of slow routes; 0: as many */
	int connections_max; /* 0: 4096; beyond it the one that was idle longest is closed */
	int per_client_max;    /* connections of one address (IPv6: its /64); 0: 512 */
	int request_timeout_s; /* to send the headers; half of it between requests; 0: 20 */
	/* Bodies and replies: a client that moves fewer bytes than this in half of
	 * request_timeout_s, while we wait for it alone, is disconnected; 0: 16 KiB */
	int64_t min_bytes;
	int64_t rate_per_s; /* requests a second of one address; 0: no limit */
	bool rate_loopback; /* limits by address apply to 127.0.0.1 and ::1, too */
	/* Limits of bodies in memory by class; 0: 64 MiB and the largest that its routes take.
	 * One address gets half of it at most, or one of the largest. */
	size_t class_bytes[HTTPD_CLASSES];
	/* Limit of all replies in memory; 0: 256 MiB. One address gets a quarter at most.
	 * Replies of up to 4 KiB are always sent; beyond the limit others become 503. */
	size_t reply_bytes;
	const struct httpd_route *routes; /* ends with a NULL method */
	void *ctx;                        /* for the handlers */
	/* append the program's own metrics to those of the server; may be NULL */
	void (*metrics)(void *ctx, struct buf *out);
	/* Renders an error: r->status is set; fills r->body and r->content_type. text is one
	 * line of UTF-8. NULL: {"error":text}. For the server's own errors and for httpd_error. */
	void (*error)(struct httpd_reply *r, const char *text);
	/* What is said of a path that is none. NULL: "there is nothing at this path". */
	const char *no_such_path;
};

struct httpd;

/* Listens and serves; GET /metrics is added to the routes. SIGTERM and SIGINT are blocked in
 * the calling thread and all threads made later, for httpd_wait. Returns NULL with err_set: 64
 * the address is malformed, 69 it is in use or not of this machine or OpenSSL is missing, 77
 * the port is not permitted or others may read the key, 65 certificate and key do not match. */
struct httpd *httpd_start(const struct httpd_config *config);

/* Returns the port that was bound. */
int httpd_port(const struct httpd *h);

/* Appends where a browser of this machine finds the server, "http://127.0.0.1:8080/"; of one that
 * listens on all addresses, the loopback's. */
void httpd_url(struct buf *out, const struct httpd *h);

/* Bytes that all sockets have carried so far, TLS and headers included; what waits in the kernel
 * was not sent yet. */
struct httpd_bytes {
	uint64_t sent, received;
};
/* From any thread, also with locks that handlers take. */
void httpd_bytes(struct httpd *h, struct httpd_bytes *out);

/* Sleeps until SIGTERM or SIGINT. tick (may be NULL) is called about once a second. */
void httpd_wait(struct httpd *h, void (*tick)(void *ctx));

/* Accepts no more connections, lets requests in progress finish (5 s at most, then
 * route.disconnected is called; handlers that answer later are waited for in any case), and
 * closes. Frees h. */
void httpd_stop(struct httpd *h);

/* --- while a request is in progress --------------------------------------------------- */

/* Answers a request for which a handler returned HTTPD_LATER: q and r stay valid until then,
 * and not longer. From any thread, once; that may be before the handler returns. After
 * httpd_write it ends the reply, else r is the reply. */
void httpd_finish(struct httpd_request *q);

/* Write a piece of the reply's body between HTTPD_LATER and httpd_finish, from any thread. The
 * first call sends status and headers: r must not change any more. httpd_write waits while the
 * client has 256 KiB still to read, so it must not run on a thread of the server;
 * httpd_try_write does not wait. Return 0; 1: full (httpd_try_write only); -1: nobody reads, as
 * the client left, the method is HEAD, or the limit of replies in memory was reached. */
int httpd_write(struct httpd_request *q, const void *data, size_t len);
int httpd_try_write(struct httpd_request *q, const void *data, size_t len);

/* Continues after a sink took less than it got, or a source had nothing. From any thread,
 * between begin and done: keep q in an object of your own that done clears under its lock. */
void httpd_resume(struct httpd_request *q);

/* Whether the client has left. From any thread, while q is valid. A client that closes only its
 * sending half and still reads is answered; while it waits it gets an interim response, 100
 * Continue, by which it is told from one that has left. It counts as disconnected where that
 * cannot be told: in HTTP/1.0, in the middle of a source or of a stream without
 * route.half_closed, and where a sink pauses before the end of a chunked body. */
bool httpd_disconnected(const struct httpd_request *q);

/* Whether the budget allows a reply of that many bytes in memory. If not, r is filled with 503. */
bool httpd_has_room(const struct httpd_request *q, struct httpd_reply *r, size_t bytes);

/* Returns the shortest round trip of the request's connection, as the kernel's TCP measured it;
 * 0: unknown. Only before the handler returns. A client can make it longer, not shorter. */
int64_t httpd_roundtrip_ns(const struct httpd_request *q);

/* --- what is answered ----------------------------------------------------------------- */

/* Fill r with an error, {"error":"..."} unless the program renders it. Returns HTTPD_NOW. */
enum httpd_when httpd_error(struct httpd_reply *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Sends `bytes` bytes of a file from offset on; takes fd, which is closed afterwards. A Range
 * is served; set r->etag (strong) for If-Range and resumed downloads. */
enum httpd_when httpd_reply_file(struct httpd_reply *r, int fd, int64_t offset,
	int64_t bytes);

/* Opens path and sends the file whole or in ranges, with an ETag of its size and time. Returns
 * HTTPD_NOW; r is 404 where there is no such regular file. */
enum httpd_when httpd_reply_path(struct httpd_reply *r, const char *path);

/* Sends the output of source; bytes: its length, or -1: until HTTPD_END. */
enum httpd_when httpd_reply_source(struct httpd_reply *r, httpd_source source,
	int64_t bytes);

/* Sends memory that outlives the request (static, or until done); it counts for no budget. */
enum httpd_when httpd_reply_memory(struct httpd_reply *r, const void *data, size_t bytes);

/* Adds a header field. A malformed name or value is a bug. */
void httpd_add_header(struct httpd_reply *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- pure parts, for handlers and fuzzing --------------------------------------------- */

/* Takes a request target apart: q->uri (which q owns), path and query. Returns 0, or -1: bad
 * percent escapes, an escaped NUL, or too many query fields. */
int httpd_parse_uri(struct httpd_request *q, const char *target);

/* Returns the first route for q->path and q->method. NULL: *status is 404, or 405 with *allow.
 * Sets q->arg and q->args. */
const struct httpd_route *httpd_find_route(const struct httpd_route *routes,
	struct httpd_request *q, int *status, const char **allow);

/* Appends the URL that the server has for its clients, "https://example.org/rnp": the external one,
 * else what the request names ("http://HOST:PORT" where it names nothing). */
void httpd_own_url(struct buf *out, const struct httpd_request *q);

/* Returns a query field by name, or NULL. */
const char *httpd_query(const struct httpd_request *q, const char *key);

/* Returns a header field by name (case does not matter), or NULL; the first of several. */
const char *httpd_header(const struct httpd_request *q, const char *name);

/* Whether an If-None-Match header names this entity tag (weak comparison, lists, "*"). */
bool httpd_etag_matches(const char *if_none_match, const char *etag);

void httpd_request_release(struct httpd_request *q);
void httpd_reply_release(struct httpd_reply *r);

#endif
