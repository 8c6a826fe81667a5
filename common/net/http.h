/* http.h - the HTTP client: bodies as streams, ranges and resume, retries, limits, abort, errors
 * told apart.
 *
 * libcurl is opened with dlopen on first use. A struct http keeps connections between requests and
 * belongs to one thread at a time. Bodies are whole buffers, files or callbacks; what is not a
 * buffer takes no memory, whatever its size. Uses buf, err, clock, json, http_sign. */
#ifndef RNP_COMMON_NET_HTTP_H
#define RNP_COMMON_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/net/net_bytes.h"

struct key;

#define HTTP_ETAG_MAX 256

#define HTTP_SOCKETS_MAX 16

struct http {
	void *curl, *multi; /* NULL until the first request */
	/* private: what closed sockets have carried, and those that are open */
	struct net_bytes closed;
	int sockets[HTTP_SOCKETS_MAX], nsockets;
};
#define HTTP_INIT \
	{         \
		0 \
	}

void http_release(struct http *h);

/* What all sockets of h have carried so far, proxies' handshakes, TLS and broken tries included. Not
 * while a request is in progress. */
void http_bytes(const struct http *h, struct net_bytes *out);

/* --- abort from another thread ------------------------------------------------------------- */

/* A switch that ends the requests that look at it, in whatever thread and state they are: while a
 * name is looked up, a connection is made, data move or a retry is awaited. Not while a callback
 * of the program's own runs. */
struct http_abort {
	int fd; /* -1: not open */
};
#define HTTP_ABORT_INIT  \
	{                \
		.fd = -1 \
	}

int http_abort_open(struct http_abort *a); /* 0, or -1 (71) */
void http_abort(
	const struct http_abort *a); /* any thread, signal handlers, more than once */
void http_abort_reset(const struct http_abort *a);
void http_abort_close(struct http_abort *a);

/* --- bodies -------------------------------------------------------------------------------- */

/* What a callback returns that can give or take nothing at present: it is called again 10 ms
 * later, and the other end is slowed down by TCP. */
#define HTTP_AGAIN (-2)

/* The body of a request that is read while it is sent. */
struct http_source {
	/* Writes at most max bytes to to and returns how many; 0: that was all; HTTP_AGAIN; or -1
	 * with err_set. NULL: the file fd, from offset on, which stays open and keeps its place. */
	long (*read)(void *ctx, void *to, size_t max);
	/* Back to the first byte, for another try. Returns 0 or -1. NULL: there is one try. */
	int (*rewind)(void *ctx);
	void *ctx;
	int fd;
	int64_t offset;
	int64_t bytes; /* how many there are; -1: not known, they are sent in chunks */
};

/* Where the body of an answer goes while it comes. */
struct http_sink {
	/* Takes all len bytes and returns 0, or HTTP_AGAIN and takes none, or -1 with err_set.
	 * NULL: the file fd, from offset on, which stays open and keeps its place. */
	int (*write)(void *ctx, const void *data, size_t len);
	/* Forget what came: the body begins anew. Returns 0 or -1. NULL: it cannot. */
	int (*restart)(void *ctx);
	void *ctx;
	int fd;
	int64_t offset;
};

/* --- requests ------------------------------------------------------------------------------ */

/* One request. Zero or NULL means the default. */
struct http_request {
	const char *method;         /* GET, or POST when there is a body */
	const char *url;            /* http:// or https://, nothing else */
	const char *const *headers; /* "Name: value" ..., NULL; none */
	const char *content_type;   /* of the body; application/json */
	const void *body;
	size_t body_bytes;
	const struct http_source *source; /* in place of body */
	const struct http_sink *sink;     /* of an answer 2xx, in place of its body */
	const char *etag;                 /* sent as If-None-Match */
	/* Bytes range_from and on, range_bytes at most (0: all the rest), are asked for where
	 * one of the two is not 0. if_range: the entity tag that what is there already is of;
	 * where it is another now, the sink restarts and gets the whole. */
	int64_t range_from, range_bytes;
	const char *if_range;

	const char *ca_file; /* trust these certificates, not the system's */
	/* http://, https:// or socks5h://host:port; "": none; NULL: what the environment says in
	 * http_proxy, https_proxy, all_proxy and no_proxy, as curl(1) */
	const char *proxy;
	/* The key of who asks: the request is signed, see http_sign.h, and follows no redirects. */
	const struct key *signer;
	bool no_redirects;
	bool expect; /* wait with the body until the server has agreed, 1 s at most */

	int64_t connect_timeout_ms; /* 5 s */
	int64_t timeout_ms; /* whole request, per try; 30 s, none with source or sink */
	/* With source or sink: how long the server may take until its answer begins, when it
	 * has all of the request. 30 s */
	int64_t answer_timeout_ms;
	/* With source or sink: fewer bytes a second, over rate_window_ms in which the server
	 * alone is waited for, are too few. 1024 over 10 s; -1: no limit */
	int64_t rate_min, rate_window_ms;
	/* Bytes a second, with source and with sink; no limit. 64 KiB or 50 ms of it may come
	 * at once. */
	int64_t rate_up_max, rate_down_max;
	int64_t response_bytes_max; /* after decompression; 16 MiB, no limit with sink */
	int tries;                  /* at most, the first one included; 4 */
	const struct http_abort *abort;
};

struct http_response {
	int status;               /* 0: no answer came */
	struct buf body;          /* of the last try, also when it failed */
	char etag[HTTP_ETAG_MAX]; /* "" when there is none or it is too long */
	char content_type[128];
	int64_t retry_after_ms; /* -1: not given */
	int64_t modified_ms;    /* Last-Modified, since 1970; -1: not given */
	int64_t date_ms;        /* Date, the server's clock, since 1970; -1: not given */
	int64_t total_bytes;    /* of the whole that a range is part of; -1: not given */
	int64_t sunk_bytes;     /* that the sink has, those of earlier tries included */
	bool aborted;
	int tries; /* that were made */
};
#define HTTP_RESPONSE_INIT \
	{                  \
		0          \
	}

void http_response_release(struct http_response *r);

/* Sends the request, again after temporary failures only (cannot connect, timeout, connection
 * lost, 429, 502, 503, 504): after 250 ms, doubled each time, up to 10 s, times a random 1/2
 * to 1, and never sooner than Retry-After (over 60 s it is not waited for). Redirects are
 * followed (5 at most) where they keep the scheme.
 *
 * A sink that has a part of the answer gets the rest with the next try, where the server gave a
 * strong entity tag and the entity is still the same; else it restarts. A try that brought 1 MiB
 * or more is not counted. An answer that is cut off is temporary then.
 *
 * Returns 0 on 2xx, on 304 when etag was given, and on 416 when the range begins at the end of
 * what is there. Otherwise -1, with the server's own message where it sent one: 69 cannot reach or
 * no secure connection, 75 timeout, too slow, aborted, 429 or 5xx, 77 on 401 and 403, 65 when the
 * answer is too large, another range or not HTTP, and on 400, 413, 415 and 422 (our data were
 * refused), 1 on every other status; 64 a malformed URL; what a callback or file said. r->status
 * tells more. The request must be one that may be sent twice. */
int http_fetch(struct http *h, const struct http_request *q, struct http_response *r);

/* Fetches q->url to the file at path, which appears when it is whole and replaces what was there; q
 * has no sink and no range. What came is kept beside it in "PATH.part", and its entity tag in
 * "PATH.part.etag", until it is whole: the next call goes on where this one ended. One caller at
 * a time. Returns as http_fetch, and 73, 74 or 77 when the file cannot be written. */
int http_download(struct http *h, const struct http_request *q, const char *path,
	struct http_response *r);

/* Appends base without trailing slashes and path to out; base must be an http(s) URL without
 * query or fragment. Returns 0, or -1 (64). */
int http_url(struct buf *out, const char *base, const char *path);

/* Appends text with everything but unreserved characters as %XX. */
void http_escape(struct buf *out, const char *text);

#endif
