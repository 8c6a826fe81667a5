/* httpd.c - the server: its threads, accepting connections, start and stop. conn.c handles a
 * connection, exchange.c a request. */
#include "common/httpd/httpd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/core.h"
#include "common/net/net.h"

#define STOP_NS INT64_C(5000000000)
/* for clients to see the end of their connection */
#define LINGER_NS       INT64_C(500000000)
#define TICK_MS         250
#define LOG_FLUSH_NS    200000000
#define CLASS_BYTES     ((size_t)64 << 20) /* besides the largest body of the class */
#define REPLY_BYTES     ((size_t)256 << 20)
#define EVENTS_AT_ONCE  256
#define ACCEPTS_AT_ONCE 64

/* --- accepting connections --------------------------------------------------------------- */

static void listen_on(struct httpd_loop *l, bool on)
{
	/* exclusive: a connection wakes one thread */
	struct epoll_event event = { EPOLLIN | EPOLLEXCLUSIVE, { NULL } };

	if (l->listening == on)
		return;
	if (epoll_ctl(l->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->h->listen_fd,
		    &event) == 0 ||
		!on)
		l->listening = on;
}

/* Returns the loop with the fewest connections, or l if it has at most one more. */
static struct httpd_loop *choose_loop(struct httpd_loop *l)
{
	struct httpd_loop *min = l;

	for (int i = 0; i < l->h->nloops; i++)
		if (l->h->loops[i].connections + 1 < min->connections)
			min = &l->h->loops[i];
	return min;
}

static void hand_over(struct httpd_loop *from, struct httpd_conn *c)
{
	struct httpd_loop *to = choose_loop(from);

	to->connections++;
	if (to == from) {
		httpd_conn_start(to, c);
		return;
	}
	pthread_mutex_lock(&to->lock);
	c->next_arrived = to->arrived;
	to->arrived = c;
	if (!to->awake)
		eventfd_write(to->wake_fd, 1);
	to->awake = true;
	pthread_mutex_unlock(&to->lock);
}

/* Closes the connection that has been idle for the longest time, to make space for another. */
static bool evict(struct httpd_loop *l)
{
	if (httpd_link_empty(&l->idle))
		return false;
	httpd_conn_close(HTTPD_OF(l->idle.next, struct httpd_conn, in_idle));
	return true;
}

static void let_in(struct httpd_loop *l, int fd, const struct sockaddr *from)
{
	struct httpd *h = l->h;
	struct httpd_client *client;

	client = h->counters.connections < h->connections_max || evict(l) ?
		httpd_clients_enter(&h->clients, httpd_client_key(from),
			httpd_proxy_trusts(&h->proxy, from) ? INT_MAX :
							      h->config.per_client_max) :
		NULL;
	if (client)
		hand_over(l, httpd_conn_new(h, fd, client, from));
	else
		close(fd);
}

static void accept_some(struct httpd_loop *l)
{
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct sockaddr_storage from;
		socklen_t size = sizeof from;
		int fd = accept4(l->h->listen_fd, (struct sockaddr *)&from, &size,
			SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			let_in(l, fd, (struct sockaddr *)&from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			errno == ENOBUFS)
			listen_on(l, false); /* until the next tick */
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

/* --- a thread ---------------------------------------------------------------------------- */

const char *httpd_loop_date(struct httpd_loop *l)
{
	time_t now = time(NULL);

	if (now != l->date_s) {
		l->date_s = now;
		httpd_format_date(l->date, now);
	}
	return l->date;
}

static void take_arrived(struct httpd_loop *l)
{
	struct httpd_conn *c, *next;

	pthread_mutex_lock(&l->lock);
	c = l->arrived;
	l->arrived = NULL;
	pthread_mutex_unlock(&l->lock);
	for (; c; c = next) {
		next = c->next_arrived;
		httpd_conn_start(l, c);
	}
}

static void drive_ready(struct httpd_loop *l)
{
	struct httpd_link now;

	if (httpd_link_empty(&l->ready))
		return;
	/* those that become ready again wait for the next round */
	now = l->ready;
	now.next->prev = now.prev->next = &now;
	httpd_link_init(&l->ready);
	while (!httpd_link_empty(&now)) {
		struct httpd_conn *c = HTTPD_OF(now.next, struct httpd_conn, in_ready);

		httpd_link_remove(&c->in_ready);
		httpd_conn_drive(c);
	}
}

static void free_dead(struct httpd_loop *l)
{
	while (!httpd_link_empty(&l->dead))
		httpd_conn_free(HTTPD_OF(l->dead.next, struct httpd_conn, in_all));
}

static void tick(struct httpd_loop *l)
{
	int64_t now_ns = clock_mono_ns();

	if (now_ns - l->ticked_ns < TICK_MS * INT64_C(1000000))
		return;
	l->ticked_ns = now_ns;
	for (struct httpd_link *at = l->all.next, *next; at != &l->all; at = next) {
		next = at->next;
		httpd_conn_tick(HTTPD_OF(at, struct httpd_conn, in_all), now_ns);
	}
	if (!l->h->closing)
		listen_on(l, true);
}

/* Closes idle connections when the server ends; later informs handlers that still wait. */
static void wind_up(struct httpd_loop *l)
{
	struct httpd_link *next;

	listen_on(l, false);
	while (!httpd_link_empty(&l->idle))
		httpd_conn_close(HTTPD_OF(l->idle.next, struct httpd_conn, in_idle));
	if (!l->h->ended || l->told_end)
		return;
	l->told_end = true;
	for (struct httpd_link *at = l->all.next; at != &l->all; at = next) {
		struct httpd_conn *c = HTTPD_OF(at, struct httpd_conn, in_all);

		next = at->next;
		if (c->x && c->x->later)
			httpd_exchange_tell_gone(c->x);
	}
}

static int sleep_ms(struct httpd_loop *l)
{
	bool woken;

	pthread_mutex_lock(&l->lock);
	woken = l->woken || l->arrived;
	pthread_mutex_unlock(&l->lock);
	if (woken || !httpd_link_empty(&l->ready))
		return 0;
	return httpd_link_empty(&l->all) && (l->listening || l->h->closing) ? -1 :
									      TICK_MS;
}

static void on_wake(struct httpd_loop *l)
{
	eventfd_t n;

	pthread_mutex_lock(&l->lock);
	l->awake = false;
	eventfd_read(l->wake_fd, &n);
	pthread_mutex_unlock(&l->lock);
}

static void on_events(struct httpd_loop *l, const struct epoll_event *events, int n)
{
	bool calls = false;

	for (int i = 0; i < n; i++) {
		if (!events[i].data.ptr)
			calls = true;
		else if (events[i].data.ptr == l)
			on_wake(l);
		else
			httpd_conn_event(events[i].data.ptr, events[i].events);
	}
	if (calls) /* last, so that connections closed just now no longer count */
		accept_some(l);
}

static void *run_loop(void *arg)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	struct httpd_loop *l = arg;
	sigset_t pipe;

	httpd_this_loop = l;
	/* sendfile and OpenSSL have no MSG_NOSIGNAL */
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	while (!l->h->stopping) {
		int n = epoll_wait(l->epoll_fd, events, EVENTS_AT_ONCE, sleep_ms(l));

		on_events(l, events, n);
		take_arrived(l);
		drive_ready(l);
		httpd_exchanges_woken(l);
		tick(l);
		if (l->h->closing)
			wind_up(l);
		free_dead(l);
	}
	take_arrived(l);
	while (!httpd_link_empty(&l->all))
		httpd_conn_close(HTTPD_OF(l->all.next, struct httpd_conn, in_all));
	free_dead(l);
	return NULL;
}

/* Writes the log on a thread of its own: a slow reader of it delays no request. */
static void *flush_log(void *arg)
{
	struct httpd *h = arg;
	struct timespec pause = { 0, LOG_FLUSH_NS };

	while (!h->stopping) {
		nanosleep(&pause, NULL);
		httpd_log_flush(&h->log);
	}
	return NULL;
}

static void write_budgets(struct buf *out, const struct httpd *h)
{
	size_t bodies = 0;

	for (int i = 0; i < HTTPD_CLASSES; i++)
		bodies += h->bodies[i].used;
	buf_addf(out,
		"# HELP rnp_http_body_bytes Bodies of requests that are in memory.\n"
		"# TYPE rnp_http_body_bytes gauge\nrnp_http_body_bytes %zu\n"
		"# HELP rnp_http_reply_bytes Replies that are in memory.\n"
		"# TYPE rnp_http_reply_bytes gauge\nrnp_http_reply_bytes %zu\n",
		bodies, (size_t)h->replies.used);
}

static enum httpd_when serve_metrics(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct httpd *h = ((struct httpd_exchange *)q)->h;
	struct httpd_bytes now;

	httpd_bytes(h, &now);
	r->content_type = "text/plain; version=0.0.4; charset=utf-8";
	httpd_counters_write(&r->body, &h->counters, h->routes);
	write_budgets(&r->body, h);
	if (h->config.metrics)
		h->config.metrics(ctx, &r->body);
	return HTTPD_NOW;
}

/* --- start and stop ---------------------------------------------------------------------- */

static int load_tls(struct httpd *h)
{
	const struct httpd_config *c = &h->config;

	if (!c->cert_file != !c->key_file)
		return err_set(EX_USAGE, "TLS needs both a certificate and its key");
	if (!c->cert_file)
		return 0;
	h->tls = httpd_tls_new(c->cert_file, c->key_file);
	return h->tls ? 0 : -1;
}

static void add_routes(struct httpd *h)
{
	int n = 0;

	while (h->config.routes[n].method)
		n++;
	if (n + 1 > HTTPD_ROUTES_MAX)
		bug("more than %d routes", HTTPD_ROUTES_MAX - 1);
	h->routes = xcalloc((size_t)n + 2, sizeof *h->routes);
	memcpy(h->routes, h->config.routes, (size_t)n * sizeof *h->routes);
	h->routes[n] = (struct httpd_route){ .method = "GET",
		.path = "/metrics",
		.handler = serve_metrics };
}

/* Each budget holds the largest body of its class and 64 MiB besides. */
static void set_budgets(struct httpd *h)
{
	for (int i = 0; i < HTTPD_CLASSES; i++) {
		struct httpd_budget *b = &h->bodies[i];
		size_t largest = 0;

		for (const struct httpd_route *r = h->routes; r->method; r++)
			if ((int)r->class == i && !r->take && r->body_bytes_max > largest)
				largest = r->body_bytes_max;
		b->max = h->config.class_bytes[i] ? h->config.class_bytes[i] :
						    CLASS_BYTES + largest;
		b->share = b->max / 2 > largest ? b->max / 2 : largest;
	}
	h->replies.max = h->config.reply_bytes ? h->config.reply_bytes : REPLY_BYTES;
	h->replies.share = h->replies.max / 4;
}

static void wake_all(struct httpd *h)
{
	for (int i = 0; i < h->nloops; i++)
		eventfd_write(h->loops[i].wake_fd, 1);
}

static void end_threads(struct httpd *h)
{
	h->stopping = true;
	wake_all(h);
	for (int i = 0; i < h->nloops; i++)
		pthread_join(h->loops[i].thread, NULL);
	httpd_pool_stop(h->pool);
	if (h->flushing)
		pthread_join(h->flusher, NULL);
}

static void httpd_free(struct httpd *h)
{
	for (int i = 0; h->loops && i < h->config.threads; i++) {
		struct httpd_loop *l = &h->loops[i];

		if (l->epoll_fd >= 0)
			close(l->epoll_fd);
		if (l->wake_fd >= 0)
			close(l->wake_fd);
		pthread_mutex_destroy(&l->lock);
		free(l->scratch);
	}
	free(h->loops);
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	httpd_log_close(&h->log);
	httpd_tls_free(h->tls);
	if (h->limiter)
		pthread_mutex_destroy(&h->limiter->lock);
	pthread_mutex_destroy(&h->clients.lock);
	httpd_proxy_close(&h->proxy);
	free(h->limiter);
	free(h->routes);
	free(h);
}

static int prepare_loop(struct httpd_loop *l)
{
	struct epoll_event wake = { EPOLLIN, { l } };

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll_fd < 0 || l->wake_fd < 0 ||
		epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &wake) < 0)
		return err_sys(EX_OSERR, "cannot start the HTTP server");
	listen_on(l, true);
	return 0;
}

static int start_threads(struct httpd *h)
{
	h->loops = xcalloc((size_t)h->config.threads, sizeof *h->loops);
	for (int i = 0; i < h->config.threads; i++) {
		struct httpd_loop *l = &h->loops[i];

		l->h = h;
		l->epoll_fd = l->wake_fd = -1;
		l->woken_end = &l->woken;
		l->scratch = xmalloc(2 * HTTPD_PIECE);
		pthread_mutex_init(&l->lock, NULL);
		httpd_link_init(&l->all);
		httpd_link_init(&l->idle);
		httpd_link_init(&l->ready);
		httpd_link_init(&l->dead);
	}
	for (const struct httpd_route *r = h->routes; r->method && !h->pool; r++)
		if (r->slow && !(h->pool = httpd_pool_start(h, h->config.slow_threads)))
			return -1;
	for (int i = 0; i < h->config.threads; i++)
		if (prepare_loop(&h->loops[i]) < 0)
			return -1;
	h->flushing = pthread_create(&h->flusher, NULL, flush_log, h) == 0;
	if (!h->flushing)
		return err_set(EX_OSERR, "cannot start a thread");
	/* before the first loop looks for the one with the fewest connections */
	h->nloops = h->config.threads;
	for (int i = 0; i < h->config.threads; i++)
		if (pthread_create(&h->loops[i].thread, NULL, run_loop, &h->loops[i]) !=
			0) {
			h->nloops = i; /* to be joined */
			return err_set(EX_OSERR, "cannot start a thread");
		}
	return 0;
}

struct httpd *httpd_start(const struct httpd_config *config)
{
	struct httpd *h = xcalloc(1, sizeof *h);

	h->config = *config;
	h->listen_fd = -1;
	pthread_mutex_init(&h->clients.lock, NULL);
	httpd_defaults(&h->config);
	h->connections_max = httpd_connections_possible(h->config.connections_max);
	add_routes(h);
	set_budgets(h);
	if (config->rate_per_s) {
		h->limiter = xcalloc(1, sizeof *h->limiter);
		h->limiter->rate_per_s = config->rate_per_s;
		pthread_mutex_init(&h->limiter->lock, NULL);
	}
	httpd_block_signals();
	if (httpd_proxy_open(&h->proxy, config) == 0 &&
		httpd_log_open(&h->log, config) == 0 && load_tls(h) == 0 &&
		(h->listen_fd = net_listen(config->listen, "--listen", &h->port)) >= 0 &&
		start_threads(h) == 0 &&
		httpd_write_port(config->port_file, h->port) == 0)
		return h;
	end_threads(h);
	httpd_free(h);
	return NULL;
}

int httpd_port(const struct httpd *h)
{
	return h->port;
}

void httpd_url(struct buf *out, const struct httpd *h)
{
	const char *listen = h->config.listen, *colon = strrchr(listen, ':');
	int n = colon ? (int)(colon - listen) : 0;
	bool all = !n || (n == 7 && strncmp(listen, "0.0.0.0", 7) == 0) ||
		(n == 4 && strncmp(listen, "[::]", 4) == 0);

	buf_addf(out, "%s://%.*s:%d/", h->tls ? "https" : "http", all ? 9 : n,
		all ? "127.0.0.1" : listen, h->port);
}

void httpd_wait(struct httpd *h, void (*tick_fn)(void *ctx))
{
	while (!httpd_is_signalled())
		if (tick_fn)
			tick_fn(h->config.ctx);
}

void httpd_stop(struct httpd *h)
{
	int64_t deadline = clock_mono_ns() + STOP_NS, last;
	struct timespec pause = { 0, 10000000 };

	h->closing = true;
	shutdown(h->listen_fd, SHUT_RDWR); /* new connections are refused from now on */
	wake_all(h);
	while (h->in_progress > 0 && clock_mono_ns() < deadline)
		nanosleep(&pause, NULL);
	/* from now on no request may begin to wait for its answer; those that wait get theirs,
	 * however long it takes */
	h->ended = true;
	wake_all(h);
	while (h->handling > 0 || (h->in_progress > 0 && clock_mono_ns() < deadline))
		nanosleep(&pause, NULL);
	last = clock_mono_ns() + LINGER_NS;
	while (h->counters.connections > 0 && clock_mono_ns() < last)
		nanosleep(&pause, NULL);
	end_threads(h);
	httpd_free(h);
}
