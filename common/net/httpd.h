/* httpd.h - the HTTP server: routes, limits, metrics, request log, graceful stop.
 *
 * libmicrohttpd (opened with dlopen on first use) speaks HTTP on a few threads with epoll. A
 * handler is plain code on plain data: it gets a struct httpd_request and fills a struct
 * httpd_reply, at once or later from any thread. Uses buf, err, json, clock, io. */
#ifndef RNP_COMMON_NET_HTTPD_H
#define RNP_COMMON_NET_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define HTTPD_QUERY_MAX 24
#define HTTPD_ETAG_MAX  80

struct httpd_pair {
	const char *key, *value;
};

/* What was asked. All texts are decoded, NUL-terminated and live as long as the request. */
struct httpd_request {
	const char *method, *path;
	char *arg; /* what stands in place of {...} in the route, or NULL */
	struct httpd_pair query[HTTPD_QUERY_MAX];
	int nquery;
	const char *if_none_match; /* or NULL */
	const char *client;        /* its address, "203.0.113.7" */
	struct buf body;
	char *uri; /* owned, see httpd_parse_uri */
	int64_t started_ns;
	void (*finish)(struct httpd_request *q); /* see httpd_finish */
};

/* What is answered. Starts as 200 with an empty JSON body. */
struct httpd_reply {
	int status;
	const char *content_type; /* static text; NULL: application/json */
	struct buf body;
	char etag
		[HTTPD_ETAG_MAX]; /* "" or with its quotes; turns into 304 where it matches */
	int retry_after_s;        /* 0: not sent */
	const char *allow;        /* static text for 405, or NULL */
};

enum httpd_when { HTTPD_NOW, HTTPD_LATER };

/* HTTPD_NOW: r is filled. HTTPD_LATER: q and r stay valid until somebody, in any thread, has
 * filled r and called httpd_finish(q) once; that may be before the handler returns. */
typedef enum httpd_when (
	*httpd_handler)(void *ctx, struct httpd_request *q, struct httpd_reply *r);

struct httpd_route {
	const char *method;
	const char *path; /* "/v1/nodes/{address}": one {...}, a whole segment */
	httpd_handler handler;
	/* more is 413; 0: no body. 503 when all bodies at once are more than 64 MiB and the largest of these */
	size_t body_bytes_max;
};

struct httpd_config {
	const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" (all addresses) */
	const char
		*port_file; /* the port is written there once connections are accepted */
	const char *cert_file, *key_file; /* TLS; NULL: plain HTTP */
	const char *log_file;             /* request log; NULL: standard error */
	bool log_off;
	int threads;           /* 0: one per core, 8 at most */
	int connections_max;   /* 0: 8192 */
	int per_client_max;    /* connections of one address; 0: 512 */
	int request_timeout_s; /* to send a request, or to take a reply; 0: 20 */
	int64_t rate_per_s;    /* requests a second of one address; 0: no limit */
	bool rate_loopback;    /* the limit holds for 127.0.0.1 and ::1, too */
	const struct httpd_route *routes; /* ends with a NULL method */
	void *ctx;                        /* for the handlers */
	/* append the program's own metrics to those of the server; may be NULL */
	void (*metrics)(void *ctx, struct buf *out);
};

struct httpd;

/* Listen and serve; GET /metrics is added to the routes. SIGTERM and SIGINT are blocked in
 * the calling thread and all threads made later, for httpd_wait. Returns NULL with err_set:
 * 64 the address is malformed, 69 it is taken or not here or libmicrohttpd is missing, 77 the
 * port is not permitted, 65 certificate and key do not fit. */
struct httpd *httpd_start(const struct httpd_config *config);

/* Port that was bound. */
int httpd_port(const struct httpd *h);

/* Sleep until SIGTERM or SIGINT. tick (may be NULL) is called about once a second. */
void httpd_wait(struct httpd *h, void (*tick)(void *ctx));

/* Accept no more, let what is in progress finish (5 s at most, handlers that answer later in any case),
 * close. Frees h. */
void httpd_stop(struct httpd *h);

void httpd_finish(struct httpd_request *q);

/* The shortest round trip of the request's connection, as the kernel's TCP measured it; 0: unknown. Only
 * before the handler returns. A client can make it longer, not shorter. */
int64_t httpd_roundtrip_ns(const struct httpd_request *q);

/* Fill r with {"error":"..."}. Returns HTTPD_NOW. */
enum httpd_when httpd_error(struct httpd_reply *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- pure parts, for handlers and fuzzing --------------------------------------------- */

/* Take a request target apart: q->uri (kept), path and query. Returns 0, or -1: bad percent
 * escapes, an escaped NUL, or too many query fields. */
int httpd_parse_uri(struct httpd_request *q, const char *target);

/* The first route for q->path and q->method. NULL: *status is 404, or 405 with *allow. Sets
 * q->arg. */
const struct httpd_route *httpd_find_route(const struct httpd_route *routes,
	struct httpd_request *q, int *status, const char **allow);

/* A query field by name, or NULL. */
const char *httpd_query(const struct httpd_request *q, const char *key);

/* Does an If-None-Match header name this entity tag (weak comparison, lists, "*")? */
bool httpd_etag_matches(const char *if_none_match, const char *etag);

void httpd_request_release(struct httpd_request *q);

#endif
