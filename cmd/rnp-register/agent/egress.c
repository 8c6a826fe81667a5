/* egress.c - a proxy that knows CONNECT alone: a thread takes connections, and each has one. */
#include "cmd/rnp-register/agent/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/netlink.h"
#include "cmd/rnp-register/agent/netns.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/net/net.h"

#define STREAMS_MAX 32
#define HEAD_MAX    4096
#define HEAD_MS     10000
#define CONNECT_MS  15000
#define PIECE       65536
#define REFUSED     "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
#define UNREACHED   "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
#define UNKNOWN     "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
#define THROUGH     "HTTP/1.1 200 OK\r\n\r\n"

struct stream {
	struct egress *egress;
	pthread_t thread;
	int in, out; /* -1: none; under lock */
	bool used, ended;
};

struct egress {
	char *path;
	char proxy[40];
	int listener, stop[2]; /* stop: a pipe whose end ends all */
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	struct stream streams[STREAMS_MAX];
	char refused[EGRESS_WHERE_MAX];
};

/* --- where to --------------------------------------------------------------------------------- */

static void note_refusal(struct egress *e, const char *host, const struct sockaddr *to,
	socklen_t len)
{
	char text[INET6_ADDRSTRLEN + 16] = "?";

	getnameinfo(to, len, text, sizeof text, NULL, 0, NI_NUMERICHOST);
	pthread_mutex_lock(&e->lock);
	if (strcmp(host, text) == 0)
		snprintf(e->refused, sizeof e->refused, "%s", text);
	else
		snprintf(e->refused, sizeof e->refused, "%s (%.60s)", text, host);
	pthread_mutex_unlock(&e->lock);
}

/* Waits for an event of fd; false: not in time, or all of it ends. */
static bool wait_for(const struct egress *e, int fd, short event, int64_t until_ns)
{
	struct pollfd p[] = { { fd, event, 0 }, { e->stop[0], POLLIN, 0 } };
	int64_t left_ms = (until_ns - clock_mono_ns()) / 1000000;

	return left_ms > 0 && poll(p, 2, (int)left_ms) > 0 && !p[1].revents;
}

static int connect_to(const struct egress *e, const struct addrinfo *a)
{
	int64_t until_ns = clock_mono_ns() + CONNECT_MS * INT64_C(1000000);
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	    failed = 0;
	socklen_t len = sizeof failed;

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
		(errno == EINPROGRESS && wait_for(e, fd, POLLOUT, until_ns) &&
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0 &&
			!failed))
		return fd;
	close(fd);
	return -1;
}

/* Connects to the first address of a name that answers. *why: what to say where none does. */
static int reach(struct egress *e, const char *host, int port, const char **why)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *all = NULL;
	char service[16];
	int fd = -1;

	*why = UNREACHED;
	snprintf(service, sizeof service, "%d", port);
	if (getaddrinfo(host, service, &want, &all) != 0)
		return -1;
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		if (net_is_private(a->ai_addr) || net_is_own(a->ai_addr)) {
			note_refusal(e, host, a->ai_addr, a->ai_addrlen);
			*why = REFUSED;
			continue;
		}
		fd = connect_to(e, a);
	}
	freeaddrinfo(all);
	return fd;
}

/* --- a connection ----------------------------------------------------------------------------- */

/* Reads a request and where it wants to. Returns 0, or -1: it is none. */
static int read_head(const struct stream *s, char host[NET_HOST_MAX], int *port)
{
	int64_t until_ns = clock_mono_ns() + HEAD_MS * INT64_C(1000000);
	char head[HEAD_MAX + 1];
	size_t n = 0, len;

	head[0] = '\0';
	while (!strstr(head, "\r\n\r\n")) {
		ssize_t got;

		if (n == HEAD_MAX || !wait_for(s->egress, s->in, POLLIN, until_ns))
			return -1;
		/* a client waits for our answer before it says more */
		got = recv(s->in, head + n, HEAD_MAX - n, 0);
		if (got <= 0)
			return -1;
		n += (size_t)got;
		head[n] = '\0';
	}
	if (strncmp(head, "CONNECT ", 8) != 0)
		return -1;
	len = strcspn(head + 8, " \r");
	head[8 + len] = '\0';
	return len < NET_HOST_MAX ? net_split(head + 8, "image", host, port) : -1;
}

/* Passes one piece on. Returns false at the end of from, and says so to to. */
static bool pass(int from, int to)
{
	char piece[PIECE];
	ssize_t n = recv(from, piece, sizeof piece, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	for (ssize_t at = 0, sent; at < n; at += sent) {
		struct pollfd p = { to, POLLOUT, 0 };

		sent = send(to, piece + at, (size_t)(n - at), MSG_NOSIGNAL);
		/* whoever does not take it is ended with its connection */
		if (sent < 0 && errno == EAGAIN && poll(&p, 1, -1) > 0)
			sent = 0;
		if (sent < 0)
			return false;
	}
	if (n <= 0)
		shutdown(to, SHUT_WR);
	return n > 0;
}

static void relay(const struct stream *s)
{
	struct pollfd p[] = { { s->in, POLLIN, 0 }, { s->out, POLLIN, 0 },
		{ s->egress->stop[0], POLLIN, 0 } };

	while ((p[0].fd >= 0 || p[1].fd >= 0) && poll(p, 3, -1) >= 0 && !p[2].revents)
		for (int i = 0; i < 2; i++)
			if (p[i].revents && !pass(p[i].fd, i ? s->in : s->out))
				p[i].fd = -1;
}

static void *serve(void *arg)
{
	struct stream *s = arg;
	struct egress *e = s->egress;
	char host[NET_HOST_MAX];
	const char *answer = UNKNOWN;
	int port, out = -1;

	if (read_head(s, host, &port) == 0)
		out = reach(e, host, port, &answer);
	err_clear();
	pthread_mutex_lock(&e->lock);
	s->out = out;
	pthread_mutex_unlock(&e->lock);
	if (out >= 0)
		answer = THROUGH;
	if (send(s->in, answer, strlen(answer), MSG_NOSIGNAL) > 0 && out >= 0)
		relay(s);
	pthread_mutex_lock(&e->lock);
	close(s->in);
	if (s->out >= 0)
		close(s->out);
	s->in = s->out = -1;
	s->ended = true;
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Frees a place; NULL: all are in use. Those that have ended are joined. */
static struct stream *free_stream(struct egress *e)
{
	struct stream *free_one = NULL;

	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *s = &e->streams[i];
		bool ended;

		pthread_mutex_lock(&e->lock);
		ended = s->ended;
		pthread_mutex_unlock(&e->lock);
		if (s->used && ended) {
			pthread_join(s->thread, NULL);
			s->used = false;
		}
		if (!s->used)
			free_one = s;
	}
	return free_one;
}

static void *take(void *arg)
{
	struct egress *e = arg;
	struct pollfd p[] = { { e->listener, POLLIN, 0 }, { e->stop[0], POLLIN, 0 } };

	while (poll(p, 2, -1) >= 0 && !p[1].revents) {
		int fd = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
		struct stream *s = fd < 0 ? NULL : free_stream(e);

		if (s) {
			s->egress = e;
			s->in = fd;
			s->out = -1;
			s->ended = false;
			s->used = pthread_create(&s->thread, NULL, serve, s) == 0;
		}
		if (fd >= 0 && (!s || !s->used))
			close(fd);
	}
	return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

/* In the new namespace. */
static int listen_there(void *arg)
{
	struct egress *e = arg;
	struct netlink n = { .fd = -1 };
	int port = 0, rc = netlink_open(&n);

	if (rc == 0)
		rc = netlink_set_up(&n, "lo");
	netlink_close(&n);
	if (rc == 0)
		e->listener = net_listen("127.0.0.1:0", "egress", &port);
	snprintf(e->proxy, sizeof e->proxy, "http://127.0.0.1:%d", port);
	return e->listener < 0 ? -1 : 0;
}

struct egress *egress_open(const char *path)
{
	struct egress *e = xcalloc(1, sizeof *e);
	int netns = -1, rc = -1;

	e->path = xstrdup(path);
	e->listener = e->stop[0] = e->stop[1] = -1;
	pthread_mutex_init(&e->lock, NULL);
	if (netns_drop(path) == 0 && netns_make(path) == 0)
		netns = netns_open(path);
	if (netns >= 0)
		rc = netns_run(netns, listen_there, e);
	if (netns >= 0)
		close(netns);
	if (rc == 0 && pipe2(e->stop, O_CLOEXEC) < 0)
		rc = err_sys(EX_OSERR, "cannot make a pipe");
	if (rc == 0 && pthread_create(&e->thread, NULL, take, e) != 0)
		rc = err_set(EX_OSERR, "cannot start a thread");
	if (rc == 0) {
		e->runs = true;
		return e;
	}
	egress_close(e);
	return NULL;
}

void egress_close(struct egress *e)
{
	struct err why;

	if (!e)
		return;
	err_save(&why);
	if (e->runs) {
		close(e->stop[1]);
		e->stop[1] = -1;
		pthread_join(e->thread, NULL);
		pthread_mutex_lock(&e->lock);
		for (int i = 0; i < STREAMS_MAX; i++)
			if (e->streams[i].used && !e->streams[i].ended) {
				shutdown(e->streams[i].in, SHUT_RDWR);
				if (e->streams[i].out >= 0)
					shutdown(e->streams[i].out, SHUT_RDWR);
			}
		pthread_mutex_unlock(&e->lock);
		for (int i = 0; i < STREAMS_MAX; i++)
			if (e->streams[i].used)
				pthread_join(e->streams[i].thread, NULL);
	}
	if (e->listener >= 0)
		close(e->listener);
	for (int i = 0; i < 2; i++)
		if (e->stop[i] >= 0)
			close(e->stop[i]);
	netns_drop(e->path);
	err_clear();
	if (why.code)
		err_restore(&why);
	pthread_mutex_destroy(&e->lock);
	free(e->path);
	free(e);
}

const char *egress_proxy(const struct egress *e)
{
	return e->proxy;
}

bool egress_refused(struct egress *e, char where[EGRESS_WHERE_MAX])
{
	pthread_mutex_lock(&e->lock);
	snprintf(where, EGRESS_WHERE_MAX, "%s", e->refused);
	pthread_mutex_unlock(&e->lock);
	return where[0] != '\0';
}
