/* httpd.h - an HTTP/1.1 server: routes, bodies and replies as streams, limits, metrics, request
 * log, graceful stop. Uses buf, err, json, clock, io, net; for TLS OpenSSL, by dlopen.
 *
 * A few threads with an epoll set each carry the connections. Handlers run on them and must not
 * wait: those of slow routes run on a pool of threads, and any may answer later from a thread of
 * the program's own.
 *
 * The common case is whole buffers: a handler gets q->body and fills r->body.
 *
 *   A large upload:  route.begin refuses by the headers or sets q->state; route.take gets the body
 *                    in pieces and may pause; route.handler answers; route.done cleans up.
 *   A file:          httpd_reply_file(r, fd, offset, bytes), which serves ranges with sendfile.
 *   Made on demand:  httpd_reply_source(r, source, bytes), httpd_resume(q) where it had paused.
 *   Server-sent events, long polls: the handler returns HTTPD_LATER; any thread calls
 *                    httpd_write(q, ...) as often as it likes and httpd_finish(q) once.
 *   Who left:        route.gone(ctx, q) is called within milliseconds; httpd_gone(q) tells, too. */
#ifndef RNP_COMMON_NET_HTTPD_H
#define RNP_COMMON_NET_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/net/httpd_parse.h"

#define HTTPD_QUERY_MAX 24
#define HTTPD_ARGS_MAX  4
#define HTTPD_ETAG_MAX  80

/* What was asked. All texts are decoded, NUL-terminated and live as long as the request. */
struct httpd_request {
	const char *method, *path;
	char *arg; /* what stands in place of the first {...} in the route, or NULL */
	char *args[HTTPD_ARGS_MAX]; /* of all, in order */
	int nargs;
	struct httpd_pair query[HTTPD_QUERY_MAX];
	int nquery;
	/* every header field as it came, in order, its value trimmed; see httpd_header */
	const struct httpd_pair *headers;
	int nheaders;
	const char *target;    /* as it came: "/v1/nodes?limit=5" */
	const char *authority; /* the Host field, "" where an HTTP/1.0 client gave none */
	bool secure;           /* by TLS */
	const char *if_none_match; /* or NULL */
	const char *client;        /* its address, "203.0.113.7" */
	/* whole, until the reply begins; empty where the route takes it in pieces */
	struct buf body;
	uint64_t body_bytes; /* that came so far, in either case */
	int64_t started_ns;  /* when the last header had come, monotonic */
	int64_t complete_ns; /* when the body had, however long the handler then had to wait */
	void *state;         /* the program's own, for begin, take, source, gone, done */
	char *uri, *args_text; /* owned, see httpd_parse_uri and httpd_find_route */
	char allow[64];
	void (*finish)(struct httpd_request *q); /* see httpd_finish */
};

/* Writes at most room bytes of a reply's body to to and returns how many. 0: nothing at present,
 * httpd_resume(q) will be called. HTTPD_END: that was all. HTTPD_ABORT: the connection is cut, so
 * that the client sees that something is missing. Runs on a thread of the server. */
typedef long (*httpd_source)(void *ctx, struct httpd_request *q, void *to, size_t room);
#define HTTPD_END    (-1L)
#define HTTPD_ABORT  (-2L)
#define HTTPD_REFUSE (-3L)

/* What is answered. Starts as 200 with an empty JSON body. */
struct httpd_reply {
	int status;
	const char *content_type; /* static text; NULL: application/json */
	struct buf body;
	/* "" or with its quotes; turns into 304 where it matches */
	char etag[HTTPD_ETAG_MAX];
	int retry_after_s;         /* 0: not sent */
	const char *allow;         /* for 405, or NULL; static text or of the request */
	const char *cache_control; /* static text; NULL: no-cache */
	struct buf headers;        /* further ones, see httpd_add_header */
	bool ranges;               /* body may be asked for in part; a file always may */
	/* what is sent in place of body; see httpd_reply_file and those that follow it */
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
	HTTPD_GO_ON, /* of begin: the body may come */
};

typedef enum httpd_when (
	*httpd_handler)(void *ctx, struct httpd_request *q, struct httpd_reply *r);

/* Takes a piece of the body; returns how many of the len bytes were taken. Fewer: no more come
 * until httpd_resume(q), and the client is slowed down by TCP. HTTPD_REFUSE: r is the answer. */
typedef long (*httpd_sink)(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len);

/* Budgets for bodies in memory, apart, so that who fills one leaves room in the others. What each
 * is for is the program's; small records that must always come through have one of their own. */
enum httpd_class { HTTPD_ORDINARY, HTTPD_SMALL, HTTPD_LARGE, HTTPD_OTHER, HTTPD_CLASSES };

struct httpd_route {
	const char *method;
	/* "/v1/runs/{run}/pieces/{piece}": each {...} is a whole segment */
	const char *path;
	httpd_handler handler; /* called when the body is complete */
	/* more is 413; 0: no body. 503 where the class has no room for it */
	size_t body_bytes_max;
	enum httpd_class class; /* whose budget q->body counts against; not with take */
	/* The handler takes long (a query, a judgement): it runs on a thread of a pool, so that no
	 * other request waits for it. What reached it may have left already: httpd_gone(q). */
	bool slow;
	/* All that follow may be NULL. */
	/* The headers are there, the body is not, and no 100 Continue was sent. HTTPD_GO_ON, or
	 * HTTPD_NOW: r is the answer and the body is not read. */
	httpd_handler begin;
	/* gets the body in pieces of at most 64 KiB in place of q->body */
	httpd_sink take;
	/* The client left, or the server is about to end, while an answer is awaited from
	 * HTTPD_LATER: call httpd_finish soon. Once at most. */
	void (*gone)(void *ctx, struct httpd_request *q);
	/* The request is over, answered or not (then httpd_gone(q)), and q is about to be freed.
	 * Called once for every request whose begin or handler was called. */
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
	/* the port is written there once connections are accepted */
	const char *port_file;
	const char *cert_file, *key_file; /* TLS 1.2 and 1.3; NULL: plain HTTP */
	const char *log_file;             /* request log; NULL: standard error */
	bool log_off;
	int threads;           /* 0: one per core, 8 at most */
	int slow_threads;      /* for handlers of slow routes; 0: as many */
	int connections_max;   /* 0: 4096; the one that was idle longest makes room */
	int per_client_max;    /* connections of one address (IPv6: its /64); 0: 512 */
	int request_timeout_s; /* to send the headers; half of it between requests; 0: 20 */
	/* Bodies and replies: a client that moves fewer bytes in half of request_timeout_s while we
	 * wait for it alone is cut off; 0: 16 KiB */
	int64_t least_bytes;
	int64_t rate_per_s; /* requests a second of one address; 0: no limit */
	bool rate_loopback; /* limits by address hold for 127.0.0.1 and ::1, too */
	/* Bodies in memory by class; 0: 64 MiB and the largest that its routes take. One
	 * address has half of it at most, or one of the largest. */
	size_t class_bytes[HTTPD_CLASSES];
	/* All replies in memory; 0: 256 MiB. One address has a quarter at most. Those of up to
	 * 4 KiB are always sent; others become 503. */
	size_t reply_bytes;
	const struct httpd_route *routes; /* ends with a NULL method */
	void *ctx;                        /* for the handlers */
	/* append the program's own metrics to those of the server; may be NULL */
	void (*metrics)(void *ctx, struct buf *out);
	/* Renders an error: r->status is set; fills r->body and r->content_type. text is one
	 * line of UTF-8. NULL: {"error":text}. For the server's own errors and for httpd_error. */
	void (*error)(struct httpd_reply *r, const char *text);
};

struct httpd;

/* Listen and serve; GET /metrics is added to the routes. SIGTERM and SIGINT are blocked in
 * the calling thread and all threads made later, for httpd_wait. Returns NULL with err_set:
 * 64 the address is malformed, 69 it is taken or not here or OpenSSL is missing, 77 the port is
 * not permitted or others may read the key, 65 certificate and key do not fit. */
struct httpd *httpd_start(const struct httpd_config *config);

/* Port that was bound. */
int httpd_port(const struct httpd *h);

/* Bytes that all sockets have carried so far, TLS and headers included; of connections in use as of
 * the end of their last request. From any thread. */
void httpd_bytes(const struct httpd *h, uint64_t *sent, uint64_t *received);

/* Sleep until SIGTERM or SIGINT. tick (may be NULL) is called about once a second. */
void httpd_wait(struct httpd *h, void (*tick)(void *ctx));

/* Accept no more, let what is in progress finish (5 s at most, then route.gone is called; handlers
 * that answer later in any case), close. Frees h. */
void httpd_stop(struct httpd *h);

/* --- while a request is in progress --------------------------------------------------- */

/* Answers a request of which a handler returned HTTPD_LATER: q and r stay valid until then, and
 * not longer. From any thread, once; that may be before the handler returns. After httpd_write it
 * ends the reply, else r is the reply. */
void httpd_finish(struct httpd_request *q);

/* Writes a piece of the reply's body between HTTPD_LATER and httpd_finish, from any thread. The
 * first call sends status and headers: r must not change any more. httpd_write waits while the
 * client has 256 KiB still to read, so never on a thread of the server; httpd_try_write does not.
 * Returns 0; 1: full (httpd_try_write only); -1: nobody reads, as the client left, the method is
 * HEAD, or all replies together had no room. */
int httpd_write(struct httpd_request *q, const void *data, size_t len);
int httpd_try_write(struct httpd_request *q, const void *data, size_t len);

/* Goes on after a sink took less than it got, or a source had nothing. From any thread, between
 * begin and done: keep q in an object of your own that done clears under its lock. */
void httpd_resume(struct httpd_request *q);

/* Has the client left? From any thread, while q is valid. A client that closes only its sending
 * half counts as gone where it waits for an answer (which is still sent), and where a sink pauses
 * before the end of a chunked body. */
bool httpd_gone(const struct httpd_request *q);

/* Is there room for a reply of so many bytes in memory? Else r is filled with 503. */
bool httpd_has_room(const struct httpd_request *q, struct httpd_reply *r, size_t bytes);

/* The shortest round trip of the request's connection, as the kernel's TCP measured it; 0: unknown.
 * Only before the handler returns. A client can make it longer, not shorter. */
int64_t httpd_roundtrip_ns(const struct httpd_request *q);

/* --- what is answered ----------------------------------------------------------------- */

/* Fill r with an error, {"error":"..."} unless the program renders it. Returns HTTPD_NOW. */
enum httpd_when httpd_error(struct httpd_reply *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Send bytes bytes of a file from offset on; takes fd, which is closed afterwards. A Range is
 * served; set r->etag (strong) for If-Range and resumed downloads. */
enum httpd_when httpd_reply_file(struct httpd_reply *r, int fd, int64_t offset,
	int64_t bytes);

/* Opens path and sends it whole or in ranges, with an ETag of its size and time. Returns HTTPD_NOW;
 * r is 404 where there is no such regular file. */
enum httpd_when httpd_reply_path(struct httpd_reply *r, const char *path);

/* Send what source writes; bytes: how many that will be, or -1: until HTTPD_END. */
enum httpd_when httpd_reply_source(struct httpd_reply *r, httpd_source source,
	int64_t bytes);

/* Send memory that outlives the request (static, or until done); it counts for no budget. */
enum httpd_when httpd_reply_memory(struct httpd_reply *r, const void *data, size_t bytes);

/* A further header field. What is no field name or value is a bug. */
void httpd_add_header(struct httpd_reply *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- pure parts, for handlers and fuzzing --------------------------------------------- */

/* Take a request target apart: q->uri (kept), path and query. Returns 0, or -1: bad percent
 * escapes, an escaped NUL, or too many query fields. */
int httpd_parse_uri(struct httpd_request *q, const char *target);

/* The first route for q->path and q->method. NULL: *status is 404, or 405 with *allow. Sets
 * q->arg and q->args. */
const struct httpd_route *httpd_find_route(const struct httpd_route *routes,
	struct httpd_request *q, int *status, const char **allow);

/* A query field by name, or NULL. */
const char *httpd_query(const struct httpd_request *q, const char *key);

/* A header field by name (case does not matter), or NULL; of several the first. */
const char *httpd_header(const struct httpd_request *q, const char *name);

/* Does an If-None-Match header name this entity tag (weak comparison, lists, "*")? */
bool httpd_etag_matches(const char *if_none_match, const char *etag);

void httpd_request_release(struct httpd_request *q);
void httpd_reply_release(struct httpd_reply *r);

#endif
