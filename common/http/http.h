/* http.h - the HTTP client: streamed bodies, ranges and resume, retries, limits, abort, and an
 * exit code for each kind of error.
 *
 * libcurl is opened with dlopen on first use. A struct http keeps connections between requests
 * and belongs to one thread at a time. Bodies are whole buffers, files or callbacks; files and
 * callbacks take no memory, whatever their size. Uses buf, err, clock, json, http_sign. */
#ifndef RNP_COMMON_HTTP_HTTP_H
#define RNP_COMMON_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/buf.h"
#include "common/net/bytes.h"

struct key;

#define HTTP_ETAG_MAX         256
#define HTTP_IP_MAX           64
#define HTTP_AUTHENTICATE_MAX 512
#define HTTP_SOCKET_MAX       107 /* bytes of a path in struct sockaddr_un, without its NUL */

#define HTTP_SOCKETS_MAX 16

/* A token bucket that limits a rate; private. */
struct http_budget {
	int64_t bytes; /* that may move at at_ns; below 0 after a large piece */
	int64_t at_ns; /* time of the last change; 0: never */
};

struct http {
	void *curl, *multi; /* NULL until the first request */
	/* private: bytes that closed sockets have carried, and the open sockets */
	struct net_bytes closed;
	int sockets[HTTP_SOCKETS_MAX], nsockets;
	/* private: the request in progress, and the address that it was sent to before any
	 * redirect */
	struct http_transfer *now;
	struct sockaddr_storage first;
	/* private: of limited rates, from one request to the next */
	struct http_budget up, down;
};
#define HTTP_INIT \
	{         \
		0 \
	}

void http_release(struct http *h);

/* Returns the bytes that all sockets of h have carried so far, proxies' handshakes, TLS and
 * broken tries included. Must not be called while a request is in progress. */
void http_bytes(const struct http *h, struct net_bytes *out);

/* The longest round trip of the connections that h keeps, as the kernel smooths it; 0: there is
 * none. To a proxy, where one is between. When http_bytes may be called. */
int64_t http_rtt_us(const struct http *h);

/* --- abort from another thread ------------------------------------------------------------- */

/* A switch that ends the requests that watch it, in whatever thread and state they are: during
 * a name lookup, while connecting, while data move, or while waiting for a retry. It does not
 * interrupt the program's own callbacks. */
struct http_abort {
	int fd; /* -1: not open */
};
#define HTTP_ABORT_INIT  \
	{                \
		.fd = -1 \
	}

int http_abort_open(struct http_abort *a); /* 0, or -1 (71) */
/* from any thread or signal handler, also repeatedly */
void http_abort(const struct http_abort *a);
void http_abort_reset(const struct http_abort *a);
void http_abort_close(struct http_abort *a);

/* --- bodies -------------------------------------------------------------------------------- */

/* A callback returns this when it can give or take nothing at present: it is called again 10 ms
 * later, and TCP slows the other end down. */
#define HTTP_AGAIN (-2)

/* The body of a request that is read while it is sent. */
struct http_source {
	/* Writes at most max bytes to `to` and returns how many; 0 at the end; HTTP_AGAIN; or
	 * -1 with err_set. NULL: the body is the file fd, from offset on, which stays open and
	 * whose file position does not change. */
	long (*read)(void *ctx, void *to, size_t max);
	/* Goes back to the first byte, for another try. Returns 0 or -1. NULL: there is only
	 * one try. */
	int (*rewind)(void *ctx);
	void *ctx;
	int fd;
	int64_t offset;
	int64_t bytes; /* length of the body; -1: unknown, it is sent in chunks */
};

/* Takes the body of an answer as it arrives. */
struct http_sink {
	/* Takes all len bytes and returns 0, or takes none and returns HTTP_AGAIN, or returns
	 * -1 with err_set. NULL: the body goes to the file fd, from offset on, which stays open
	 * and whose file position does not change. */
	int (*write)(void *ctx, const void *data, size_t len);
	/* Discards the bytes so far: the body begins anew. Returns 0 or -1. NULL: it cannot. */
	int (*restart)(void *ctx);
	void *ctx;
	int fd;
	int64_t offset;
};

/* --- requests ------------------------------------------------------------------------------ */

/* One request. Zero or NULL means the default. */
struct http_request {
	const char *method; /* GET, or POST when there is a body */
	const char *url;    /* http:// or https://, nothing else */
	const char *name;   /* of the server in errors; default: unix_socket, url */
	/* Where it is given, this unix socket answers in place of the URL's host, and neither a
	 * proxy nor a redirect is followed; at most HTTP_SOCKET_MAX bytes, or 64. */
	const char *unix_socket;
	const char *const *headers; /* "Name: value" ..., then NULL; default: none */
	const char *content_type;   /* of the body; default application/json */
	const void *body;
	size_t body_bytes;
	const struct http_source *source; /* in place of body */
	/* gets the body of a 2xx answer, in place of response.body */
	const struct http_sink *sink;
	const char *etag; /* sent as If-None-Match */
	/* Where one of the two is not 0, asks for range_bytes bytes at most (0: all the rest)
	 * from range_from on. if_range: the entity tag of the bytes that the caller has
	 * already; if the entity has changed, the sink restarts and gets all of it. */
	int64_t range_from, range_bytes;
	const char *if_range;

	const char *ca_file; /* trust these certificates instead of the system's */
	/* http://, https:// or socks5h://host:port; "": no proxy; NULL: the one that the
	 * environment names in http_proxy, https_proxy, all_proxy and no_proxy, as in curl(1) */
	const char *proxy;
	/* The key of the client: the request is signed, see sign.h, and follows no
	 * redirects. */
	const struct key *signer;
	bool no_redirects;
	/* a redirect may not lead to an address that is not on the public internet, unless it is
	 * that of the server that redirects (65) */
	bool public_redirects;
	/* nor may anything else that is asked for, by whatever name, nor to this machine; the
	 * same holds for a proxy (65) */
	bool public_only;
	/* with sink: the server may compress the answer, and the sink gets what was compressed; a
	 * try that breaks off then restarts the sink */
	bool compressed;
	bool expect; /* send the body only after the server has agreed, or after 1 s */

	int64_t connect_timeout_ms; /* 5 s */
	int64_t timeout_ms; /* whole request, per try; 30 s, none with source or sink */
	/* With source or sink: how long the server may take to begin its answer after it has
	 * received the whole request. 30 s */
	int64_t answer_timeout_ms;
	/* With source or sink: the least bytes a second, over rate_window_ms of waiting for the
	 * server alone. 1024 over 10 s; -1: no limit */
	int64_t rate_min, rate_window_ms;
	/* Limits in bytes a second, with source and with sink; default: none. A burst of 64
	 * KiB, or 50 ms at that rate if that is more, is allowed. */
	int64_t rate_up_max, rate_down_max;
	int64_t response_bytes_max; /* after decompression; 16 MiB, or no limit with sink */
	int tries;                  /* limit, the first one included; 4 */
	/* http_download alone: in ranges over at most so many connections at once, where the
	 * server gives ranges under a strong entity tag; limits hold for all together. 0: one, and
	 * no ranges */
	int connections;
	/* with connections: about how large the file is; 0: not known. Half of it (up to 1 MiB all)
	 * is asked for at once, over all connections, else they begin after the first answer */
	int64_t bytes_guess;
	const struct http_abort *abort;
};

struct http_response {
	/* 0: no answer came, or what came is not the server's word; see http_fetch */
	int status;
	struct buf body;          /* of the last try, also when it failed */
	char etag[HTTP_ETAG_MAX]; /* "" when there is none or it is too long */
	char content_type[128];
	char authenticate[HTTP_AUTHENTICATE_MAX]; /* WWW-Authenticate; "" likewise */
	int64_t retry_after_ms;                   /* -1: not given */
	int64_t modified_ms; /* Last-Modified, since 1970; -1: not given */
	int64_t date_ms;     /* Date, the server's clock, since 1970; -1: not given */
	int64_t total_bytes; /* of the whole that a range is part of; -1: not given */
	int64_t sunk_bytes;  /* bytes in the sink, those of earlier tries included */
	/* the address that answered, a proxy's if there is one between; "": none did. own: it is of
	 * this machine */
	char peer_ip[HTTP_IP_MAX];
	int peer_port;
	bool peer_own;
	bool aborted;
	bool broken_off; /* the answer had begun, and its end did not come */
	bool untrusted;  /* the server's certificate is not accepted */
	int tries;       /* number of tries made */
};
#define HTTP_RESPONSE_INIT \
	{                  \
		0          \
	}

void http_response_release(struct http_response *r);

/* Sends the request, and again after temporary failures only (cannot connect, timeout,
 * connection lost, 429, 502, 503, 504): after 250 ms, doubled each time, up to 10 s, times a
 * random 1/2 to 1, and never sooner than Retry-After (where that is over 60 s there is no
 * retry). Redirects are followed (5 at most) where they keep the scheme.
 *
 * A sink that has a part of the answer gets the rest with the next try, where the server gave a
 * strong entity tag and the entity is still the same; otherwise it restarts. A try that brought
 * 1 MiB or more is not counted. An answer that ends early counts as a temporary failure then.
 *
 * What asks here wants data. A web page, 401 and 403 that are no JSON, 407, 511 and a redirect
 * to another host that is not followed come from something between, a login page or a firewall:
 * 69, with its name, and r->status is 0. Such a 401 or 403 counts as a temporary failure.
 *
 * Returns 0 on 2xx, on 304 when etag was given, and on 416 when the range begins at the end of the
 * entity. Otherwise -1, with the server's own message where it sent one: 69 cannot reach or no
 * secure connection, 75 timeout, too slow, aborted, 429 or 5xx, 77 on 401 and 403 in JSON, 65 when
 * the answer is too large, of another range or not HTTP, and on 400, 413, 415 and 422 (our data
 * were refused), 1 on every other status; 64 a malformed URL; 66 or 65 a ca_file that is not there
 * or holds no certificates; 71 libcurl is not installed; or the code that a callback or file set. r
 * has the details. The request must be safe to send twice. */
int http_fetch(struct http *h, const struct http_request *q, struct http_response *r);

/* Fetches q->url to the file at path, which appears only when it is complete and then replaces
 * an older file; q has no sink and no range. Until then the bytes so far are in "PATH.part" and
 * their entity tag in "PATH.part.etag", and a later call continues there. One caller at a time.
 *
 * With q->connections the part has gaps, and notes after the tag say where; "PATH.part" then has
 * the size of the whole. Further connections begin when the first answer says that there is more,
 * or at once with bytes_guess; one that fails leaves its range to the others. What they carried
 * counts as h's.
 *
 * Returns as http_fetch, and 73, 74 or 77 when the file cannot be written. */
int http_download(struct http *h, const struct http_request *q, const char *path,
	struct http_response *r);

/* Appends base without trailing slashes and path to out; base must be an http(s) URL without
 * query or fragment. Returns 0, or -1 (64). */
int http_url(struct buf *out, const char *base, const char *path);

/* Appends text with everything but unreserved characters as %XX. */
void http_escape(struct buf *out, const char *text);

#endif
