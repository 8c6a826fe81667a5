#include "common/net/httpd.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/httpd_parts.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "kernels/dev/library.h"

#define STOP_SECONDS      5
#define LOG_FLUSH_NS      200000000
#define CERT_BYTES_MAX    ((size_t)1 << 20)
#define BODIES_BYTES_MAX  ((size_t)64 << 20) /* of all requests but the largest */
#define REFUSED_BODY_MAX  65536
#define NO_REPLY          499 /* in the log: the client left, or its framing is broken */
#define CONNECTION_MEMORY ((size_t)24 << 10) /* request line and headers; more is 431 */

static struct {
	struct MHD_Daemon *(*start)(unsigned, uint16_t, MHD_AcceptPolicyCallback, void *,
		MHD_AccessHandlerCallback, void *, ...);
	void (*stop)(struct MHD_Daemon *);
	void (*suspend)(struct MHD_Connection *);
	void (*resume)(struct MHD_Connection *);
	const char *(*lookup)(struct MHD_Connection *, enum MHD_ValueKind, const char *);
	const union MHD_ConnectionInfo *(
		*info)(struct MHD_Connection *, enum MHD_ConnectionInfoType, ...);
	struct MHD_Response *(*response)(size_t, void *, enum MHD_ResponseMemoryMode);
	enum MHD_Result (*add_header)(struct MHD_Response *, const char *, const char *);
	enum MHD_Result (
		*queue)(struct MHD_Connection *, unsigned, struct MHD_Response *);
	void (*destroy)(struct MHD_Response *);
	bool ready;
	char problem[200];
} mhd;

static void load_library(void)
{
	static const struct library_symbol symbols[] = {
		{ "MHD_start_daemon", &mhd.start },
		{ "MHD_stop_daemon", &mhd.stop },
		{ "MHD_suspend_connection", &mhd.suspend },
		{ "MHD_resume_connection", &mhd.resume },
		{ "MHD_lookup_connection_value", &mhd.lookup },
		{ "MHD_get_connection_info", &mhd.info },
		{ "MHD_create_response_from_buffer", &mhd.response },
		{ "MHD_add_response_header", &mhd.add_header },
		{ "MHD_queue_response", &mhd.queue },
		{ "MHD_destroy_response", &mhd.destroy },
	};

	mhd.ready = library_open("libmicrohttpd.so.12", symbols,
		sizeof symbols / sizeof *symbols, mhd.problem, sizeof mhd.problem);
}

static int library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	if (mhd.ready)
		return 0;
	err_set(EX_UNAVAILABLE, "cannot use libmicrohttpd: %s", mhd.problem);
	return err_hint("install the package libmicrohttpd12");
}

struct httpd {
	struct httpd_config config;
	struct MHD_Daemon *daemon;
	struct httpd_route *routes; /* the program's and /metrics */
	struct httpd_counters counters;
	struct httpd_log log;
	struct httpd_limiter *limiter; /* NULL: no limit */
	struct httpd_connections connections;
	pthread_t watcher;
	_Atomic bool closing;  /* takes no new connections */
	_Atomic bool ended;    /* calls no handler any more */
	_Atomic bool stopping; /* the watcher is to end */
	_Atomic int in_progress;
	_Atomic int handling;      /* handlers that were called and did not finish yet */
	_Atomic size_t body_bytes; /* of all requests that are in progress */
	size_t body_bytes_max;     /* of the same */
	int listen_fd, port;
	struct buf cert, key;
};

enum { RUNNING, SUSPENDED, FINISHED };

/* One request on its way through. q is first: httpd_finish gets only q. */
struct bandwidth_test {
	struct httpd_request q;
	struct httpd_reply r;
	struct httpd *h;
	struct MHD_Connection *connection;
	struct httpd_tcp *tcp;
	const struct httpd_route *route;
	_Atomic int state;
	bool started, refused, later, replied, bad_target;
	size_t taken_bytes, sent_bytes; /* of the bodies */
	char client[INET6_ADDRSTRLEN];
};

/* --- one request ----------------------------------------------------------------------- */

static void finish(struct httpd_request *q)
{
	struct bandwidth_test *x = (struct bandwidth_test *)q;
	struct httpd *h = x->h; /* x is gone as soon as its reply is sent */

	if (atomic_exchange(&x->state, FINISHED) == SUSPENDED)
		mhd.resume(x->connection);
	h->handling--;
}

int64_t httpd_roundtrip_ns(const struct httpd_request *q)
{
	const struct bandwidth_test *x = (const struct bandwidth_test *)q;

	return x->tcp ? httpd_tcp_roundtrip_ns(x->tcp) : 0;
}

static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
	struct bandwidth_test *x = xcalloc(1, sizeof *x);

	x->h = cls;
	x->connection = connection;
	x->q.started_ns = clock_mono_ns();
	x->q.client = x->client;
	x->q.finish = finish;
	x->r.status = 200;
	x->bad_target = httpd_parse_uri(&x->q, target) < 0;
	x->h->in_progress++;
	return x;
}

/* Who asks; false when the rate limit says no. */
static bool admit(struct bandwidth_test *x)
{
	const union MHD_ConnectionInfo *info = mhd.info(x->connection,
		MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *a = info ? info->client_addr : NULL;

	if (a)
		httpd_client_text(a, x->client);
	if (!x->h->limiter || !a || (httpd_is_loopback(a) && !x->h->config.rate_loopback))
		return true;
	return httpd_limiter_take(x->h->limiter, a, x->q.started_ns);
}

static enum MHD_Result send_reply(struct bandwidth_test *x)
{
	struct httpd_reply *r = &x->r;
	struct MHD_Response *response;
	enum MHD_Result rc;
	char number[16];

	if (r->etag[0] && r->status == 200 &&
		httpd_etag_matches(x->q.if_none_match, r->etag)) {
		r->status = 304;
		buf_reset(&r->body);
	}
	if (x->tcp)
		x->tcp->since_ns = clock_mono_ns(); /* now the client has to read */
	x->replied = true;
	x->sent_bytes = r->body.len;
	/* persistent: the body lives in x until the request is completed */
	response = mhd.response(r->body.len, r->body.len ? r->body.data : (char *)"",
		MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	mhd.add_header(response, "Content-Type",
		r->content_type ? r->content_type : "application/json");
	if (r->etag[0])
		mhd.add_header(response, "ETag", r->etag);
	if (r->allow)
		mhd.add_header(response, "Allow", r->allow);
	if (r->retry_after_s) {
		snprintf(number, sizeof number, "%d", r->retry_after_s);
		mhd.add_header(response, "Retry-After", number);
	}
	mhd.add_header(response, "Cache-Control", "no-cache");
	rc = mhd.queue(x->connection, (unsigned)r->status, response);
	mhd.destroy(response);
	return rc;
}

static bool can_take_body(struct bandwidth_test *x)
{
	const char *length = mhd.lookup(x->connection, MHD_HEADER_KIND, "Content-Length");
	const char *coding = mhd.lookup(x->connection, MHD_HEADER_KIND,
		"Content-Encoding");

	if (coding && strcasecmp(coding, "identity") != 0)
		httpd_error(&x->r, 415, "a body of this Content-Encoding is not taken");
	else if (length && strtoull(length, NULL, 10) > x->route->body_bytes_max)
		httpd_error(&x->r, 413, "the body is larger than %zu bytes",
			x->route->body_bytes_max);
	else
		return true;
	return false;
}

/* The request line and the headers are there. False: refused, r says why. */
static bool begin(struct bandwidth_test *x, const char *method)
{
	const union MHD_ConnectionInfo *info = mhd.info(x->connection,
		MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	int status;

	x->started = true;
	x->q.method = method;
	x->tcp = info ? info->socket_context : NULL;
	if (x->tcp) {
		x->tcp->since_ns = clock_mono_ns(); /* the body has its own time */
		x->tcp->idle = false;
	}
	if (!admit(x)) {
		x->h->counters.limited++;
		x->r.retry_after_s = 1;
		httpd_error(&x->r, 429, "too many requests from %s", x->client);
		return false;
	}
	if (x->bad_target) {
		x->q.path = "";
		httpd_error(&x->r, 400, "the request target is malformed");
		return false;
	}
	x->route = httpd_find_route(x->h->routes, &x->q, &status, &x->r.allow);
	if (!x->route) {
		httpd_error(&x->r, status,
			status == 404 ? "there is nothing at this path" :
					"this path does not know that method");
		return false;
	}
	x->r.allow = NULL;
	x->q.if_none_match = mhd.lookup(x->connection, MHD_HEADER_KIND, "If-None-Match");
	return can_take_body(x);
}

static bool has_large_body(struct bandwidth_test *x)
{
	const char *length = mhd.lookup(x->connection, MHD_HEADER_KIND, "Content-Length");

	return mhd.lookup(x->connection, MHD_HEADER_KIND, "Transfer-Encoding") ||
		(length && strtoull(length, NULL, 10) > REFUSED_BODY_MAX);
}

static void take_body(struct bandwidth_test *x, const char *data, size_t len)
{
	if (x->refused)
		return;
	if (len > x->route->body_bytes_max - x->q.body.len) {
		x->refused = true;
		httpd_error(&x->r, 413, "the body is larger than %zu bytes",
			x->route->body_bytes_max);
		return;
	}
	if (atomic_fetch_add(&x->h->body_bytes, len) + len > x->h->body_bytes_max) {
		x->h->body_bytes -= len;
		x->refused = true;
		x->r.retry_after_s = 1;
		httpd_error(&x->r, 503, "too many large requests at once");
		return;
	}
	x->taken_bytes += len;
	buf_add(&x->q.body, data, len);
}

static enum MHD_Result run(struct bandwidth_test *x)
{
	struct httpd *h = x->h;

	if (x->tcp)
		x->tcp->since_ns = 0;
	/* in this order: who stops sets ended and looks at handling then */
	h->handling++;
	if (h->ended) {
		h->handling--;
		x->r.retry_after_s = 1;
		httpd_error(&x->r, 503, "the server is about to end");
		return send_reply(x);
	}
	if (x->route->handler(h->config.ctx, &x->q, &x->r) == HTTPD_NOW) {
		h->handling--;
		return send_reply(x);
	}
	/* Whoever is second resumes: the handler's answer may be there already. */
	x->later = true;
	mhd.suspend(x->connection);
	if (atomic_exchange(&x->state, SUSPENDED) == FINISHED)
		mhd.resume(x->connection);
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection,
	const char *url, const char *method, const char *version, const char *data,
	size_t *len, void **context)
{
	struct bandwidth_test *x = *context;

	(void)cls, (void)connection, (void)url, (void)version;
	if (!x->started) {
		x->refused = !begin(x, method);
		/* an early reply costs the connection: better to read a small body first */
		return x->refused && has_large_body(x) ? send_reply(x) : MHD_YES;
	}
	if (*len) {
		take_body(x, data, *len);
		*len = 0;
		return MHD_YES;
	}
	if (x->later) /* resumed */
		return send_reply(x);
	return x->refused ? send_reply(x) : run(x);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode how)
{
	struct bandwidth_test *x = *context;
	struct httpd *h = cls;

	(void)connection, (void)how;
	if (!x)
		return;
	if (x->started) {
		int64_t ns = clock_mono_ns() - x->q.started_ns;

		if (!x->replied)
			x->r.status = NO_REPLY;
		httpd_count(&h->counters, x->route ? (int)(x->route - h->routes) : -1,
			x->r.status, ns);
		httpd_log_add(&h->log, &h->counters, &x->q, x->r.status, x->sent_bytes,
			ns);
	}
	if (x->tcp) {
		x->tcp->since_ns = clock_mono_ns();
		x->tcp->idle = true;
	}
	h->body_bytes -= x->taken_bytes;
	httpd_request_release(&x->q);
	buf_release(&x->r.body);
	free(x);
	*context = NULL;
	h->in_progress--;
}

/* --- connections ----------------------------------------------------------------------- */

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode what)
{
	struct httpd *h = cls;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = httpd_tcp_add(&h->connections,
			mhd.info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
				->connect_fd);
		h->counters.connections++;
	} else {
		httpd_tcp_remove(&h->connections, *context);
		h->counters.connections--;
	}
}

static void *watch(void *arg)
{
	struct httpd *h = arg;
	int64_t limit_ns = h->config.request_timeout_s * INT64_C(1000000000);
	struct timespec pause = { 0, LOG_FLUSH_NS };

	while (!h->stopping) {
		nanosleep(&pause, NULL);
		httpd_log_flush(&h->log);
		h->counters.slow_closed += httpd_close_slow(&h->connections, limit_ns);
	}
	return NULL;
}

static enum httpd_when serve_metrics(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct httpd *h = ((struct bandwidth_test *)q)->h;

	r->content_type = "text/plain; version=0.0.4; charset=utf-8";
	httpd_counters_write(&r->body, &h->counters, h->routes);
	if (h->config.metrics)
		h->config.metrics(ctx, &r->body);
	return HTTPD_NOW;
}

/* --- start and stop -------------------------------------------------------------------- */

/* MHD_quiesce_daemon would do it, but ends the program now and then: as it takes the listening socket out
 * of a thread's epoll set that thread may have done so a moment before (libmicrohttpd 0.9.75). */
static enum MHD_Result on_connect(void *cls, const struct sockaddr *from, socklen_t size)
{
	const struct httpd *h = cls;

	(void)from, (void)size;
	return h->closing ? MHD_NO : MHD_YES;
}

static int start_daemon(struct httpd *h)
{
	const struct httpd_config *c = &h->config;
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
	struct MHD_OptionItem options[16];
	int n = 0;

	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_LISTEN_SOCKET, h->listen_fd,
		NULL };
	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_LIMIT,
		httpd_connections_possible(c->connections_max), NULL };
	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		c->per_client_max, NULL };
	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_TIMEOUT,
		c->request_timeout_s, NULL };
	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		CONNECTION_MEMORY, NULL };
	options[n++] = (struct MHD_OptionItem){ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL };
	if (c->threads > 1)
		options[n++] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE,
			c->threads, NULL };
	if (c->cert_file) {
		flags |= MHD_USE_TLS;
		options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0,
			h->cert.data };
		options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0,
			h->key.data };
		options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0,
			(char *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" };
	}
	options[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
	h->daemon = mhd.start(flags, 0, on_connect, h, on_request, h,
		MHD_OPTION_URI_LOG_CALLBACK, on_target, h, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (h->daemon)
		return 0;
	if (c->cert_file)
		return err_set(EX_DATAERR, "cannot use certificate '%s' with key '%s'",
			c->cert_file, c->key_file);
	return err_set(EX_OSERR, "cannot start the HTTP server");
}

static int load_tls(struct httpd *h)
{
	const struct httpd_config *c = &h->config;

	if (!c->cert_file != !c->key_file)
		return err_set(EX_USAGE, "TLS needs both a certificate and its key");
	if (!c->cert_file)
		return 0;
	if (io_read(&h->cert, c->cert_file, CERT_BYTES_MAX) < 0)
		return -1;
	return io_read(&h->key, c->key_file, CERT_BYTES_MAX);
}

static void add_routes(struct httpd *h)
{
	size_t largest = 0;
	int n = 0;

	for (const struct httpd_route *r = h->config.routes; r->method; r++, n++)
		largest = r->body_bytes_max > largest ? r->body_bytes_max : largest;
	/* what a route takes fits when nothing else is under way, and some more then, too */
	h->body_bytes_max = BODIES_BYTES_MAX + largest;
	if (n + 1 > HTTPD_ROUTES_MAX)
		bug("more than %d routes", HTTPD_ROUTES_MAX - 1);
	h->routes = xcalloc((size_t)n + 2, sizeof *h->routes);
	memcpy(h->routes, h->config.routes, (size_t)n * sizeof *h->routes);
	h->routes[n] = (struct httpd_route){ "GET", "/metrics", serve_metrics, 0 };
}

static void httpd_free(struct httpd *h)
{
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	httpd_log_close(&h->log);
	if (h->limiter)
		pthread_mutex_destroy(&h->limiter->lock);
	pthread_mutex_destroy(&h->connections.lock);
	if (h->key.data)
		explicit_bzero(h->key.data, h->key.len);
	buf_release(&h->cert);
	buf_release(&h->key);
	free(h->limiter);
	free(h->routes);
	free(h);
}

struct httpd *httpd_start(const struct httpd_config *config)
{
	struct httpd *h = xcalloc(1, sizeof *h);

	h->config = *config;
	h->listen_fd = -1;
	pthread_mutex_init(&h->connections.lock, NULL);
	httpd_defaults(&h->config);
	add_routes(h);
	if (httpd_log_open(&h->log, config) < 0 || library() < 0 || load_tls(h) < 0 ||
		(h->listen_fd = net_listen(config->listen, "--listen", &h->port)) < 0)
		goto fail;
	if (config->rate_per_s) {
		h->limiter = xcalloc(1, sizeof *h->limiter);
		h->limiter->rate_per_s = config->rate_per_s;
		pthread_mutex_init(&h->limiter->lock, NULL);
	}
	httpd_block_signals();
	if (start_daemon(h) < 0)
		goto fail;
	if (pthread_create(&h->watcher, NULL, watch, h) != 0) {
		mhd.stop(h->daemon);
		h->listen_fd = -1;
		err_set(EX_OSERR, "cannot start a thread");
		goto fail;
	}
	if (httpd_write_port(config->port_file, h->port) == 0)
		return h;
	httpd_stop(h);
	return NULL;
fail:
	httpd_free(h);
	return NULL;
}

int httpd_port(const struct httpd *h)
{
	return h->port;
}

void httpd_wait(struct httpd *h, void (*tick)(void *ctx))
{
	while (!httpd_is_signalled())
		if (tick)
			tick(h->config.ctx);
}

void httpd_stop(struct httpd *h)
{
	int64_t deadline = clock_mono_ns() + STOP_SECONDS * INT64_C(1000000000);
	struct timespec pause = { 0, 10000000 };

	h->closing = true;
	while (h->in_progress > 0 && clock_mono_ns() < deadline)
		nanosleep(&pause, NULL);
	/* MHD_stop_daemon ends the program when a connection is still suspended: no request may begin to
	 * wait for its answer any more, and those that do wait get it, however long it takes. */
	h->ended = true;
	while (h->handling > 0 || (h->in_progress > 0 && clock_mono_ns() < deadline))
		nanosleep(&pause, NULL);
	mhd.stop(h->daemon); /* closes the listening socket too */
	h->listen_fd = -1;
	h->stopping = true;
	pthread_join(h->watcher, NULL);
	httpd_free(h);
}
