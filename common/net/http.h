/* http.h - the HTTP client: limits, retries with back-off and jitter, ETag, errors told apart.
 *
 * libcurl is opened with dlopen on first use. A struct http keeps connections between
 * requests and belongs to one thread at a time. Uses buf, err, clock. */
#ifndef RNP_COMMON_NET_HTTP_H
#define RNP_COMMON_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define HTTP_ETAG_MAX 256

struct http {
	void *curl; /* NULL until the first request */
};
#define HTTP_INIT \
	{         \
		0 \
	}

void http_release(struct http *h);

/* One request. Zero or NULL means the default. */
struct http_request {
	const char *method;         /* GET, or POST when there is a body */
	const char *url;            /* http:// or https://, nothing else */
	const char *const *headers; /* "Name: value" ..., NULL; none */
	const char *content_type;   /* of the body; application/json */
	const void *body;
	size_t body_bytes;
	const char *etag;           /* sent as If-None-Match */
	const char *ca_file;        /* trust these certificates, not the system's */
	int64_t connect_timeout_ms; /* 5 s */
	int64_t timeout_ms;         /* whole request, per try; 30 s */
	size_t response_bytes_max;  /* after decompression; 16 MiB */
	int tries;                  /* at most, the first one included; 4 */
};

struct http_response {
	int status;               /* 0: no answer came */
	struct buf body;          /* of the last try, also when it failed */
	char etag[HTTP_ETAG_MAX]; /* "" when there is none or it is too long */
	char content_type[128];
	int64_t retry_after_ms; /* -1: not given */
	int64_t modified_ms;    /* Last-Modified, since 1970; -1: not given */
	int tries;              /* that were made */
};
#define HTTP_RESPONSE_INIT \
	{                  \
		0          \
	}

void http_response_release(struct http_response *r);

/* Send the request, again after temporary failures only (cannot connect, timeout, connection
 * lost, 429, 502, 503, 504): after 250 ms, doubled each time, up to 10 s, times a random 1/2
 * to 1, and never sooner than Retry-After (over 60 s it is not waited for). Redirects are
 * followed (5 at most) where they keep the scheme.
 *
 * Returns 0 on 2xx, and on 304 when etag was given. Otherwise -1, with the server's own
 * message where it sent one: 69 cannot reach or no secure connection, 75 timeout, 429 or 5xx,
 * 77 on 401 and 403, 65 when the answer is too large or not HTTP, and on 400, 413, 415 and
 * 422 (our data were refused), 1 on every other status; 64 a malformed URL. r->status tells
 * more. The request must be one that may be sent twice. */
int http_fetch(struct http *h, const struct http_request *q, struct http_response *r);

/* Append base without trailing slashes and path to out; base must be an http(s) URL without
 * query or fragment. Returns 0, or -1 (64). */
int http_url(struct buf *out, const char *base, const char *path);

/* Append text with everything but unreserved characters as %XX. */
void http_escape(struct buf *out, const char *text);

#endif
