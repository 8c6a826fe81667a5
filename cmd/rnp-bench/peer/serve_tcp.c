/* serve_tcp.c - the TCP sessions of rnp-bench serve: one thread each, with limits. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-bench/peer/peer.h"
#include "cmd/rnp-bench/peer/serve.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/httpd/parts.h"
#include "common/base/io.h"
#include "common/base/mem.h"

/* How often the progress of an upload is reported: each report costs the sender a read. */
#define REPORT_BYTES ((uint64_t)1 << 20)
#define REPORT_NS    2000000
#define ACCEPT_MS    250

/* Limits of reading from clients that are turned away: bytes, time, and how many at once. */
#define LEAVING_BYTES ((size_t)256 << 10)
#define LEAVING_NS    INT64_C(1000000000)
#define LEAVING_MAX   16

/* A client that is turned away. Closing a socket with unread bytes resets the connection, and
 * the client would lose the reply, or take a refusal for a broken network. So our direction is
 * closed first, and what is in transit is read to its end, within limits. */
struct leaving {
	int fd;
	int64_t until_ns;
	size_t bytes;
};

struct session {
	struct session *next, **link;
	struct serve_tcp *t;
	int fd;
	enum peer_op op;
	bool refused; /* its hello was refused */
	struct sockaddr_storage from;
	int64_t started_ns;
	uint64_t bytes; /* both directions, except for comm */
};

struct serve_tcp {
	int fd, port, log;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct session *sessions;
	int count, comms;
	struct leaving leaving[LEAVING_MAX]; /* used by the accepting thread alone */
	int leaving_count;
	_Atomic bool stopping;
	char random[PEER_BLOCK];
};

static bool over(const struct session *s)
{
	return clock_mono_ns() - s->started_ns >
		SERVE_SESSION_SECONDS * INT64_C(1000000000);
}

/* Sends until the client closes. */
static int serve_down(struct session *s)
{
	while (!over(s)) {
		ssize_t n = send(s->fd, s->t->random, sizeof s->t->random, MSG_NOSIGNAL);

		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0 && errno != EINTR)
			return net_failed("send", -1);
		if (n > 0)
			s->bytes += (uint64_t)n;
	}
	return 0;
}

static int serve_up(struct session *s)
{
	char *block = xmalloc(PEER_BLOCK);
	uint64_t told = 0;
	int64_t told_ns = clock_mono_ns(), now_ns;
	int rc = 0;

	while (rc == 0 && !over(s)) {
		ssize_t n = recv(s->fd, block, PEER_BLOCK, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ECONNRESET)
			rc = net_failed("receive", -1);
		if (n > 0)
			s->bytes += (uint64_t)n;
		now_ns = clock_mono_ns();
		/* reports the end as well: the client has closed only its direction */
		if (rc == 0 &&
			(n == 0 || s->bytes - told >= REPORT_BYTES ||
				now_ns - told_ns >= REPORT_NS)) {
			rc = net_send(s->fd, &s->bytes, sizeof s->bytes);
			told = s->bytes;
			told_ns = now_ns;
		}
		if (n <= 0)
			break;
	}
	free(block);
	return rc;
}

static int serve_ping(struct session *s)
{
	char byte;

	while (!over(s)) {
		ssize_t n = recv(s->fd, &byte, 1, 0);

		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return net_failed("receive", -1);
		if (net_send(s->fd, &byte, 1) < 0)
			return -1;
		s->bytes++;
	}
	return 0;
}

static int serve_comm(struct session *s)
{
	struct comm c = COMM_INIT;
	/* the session's own socket stays where tcp_stop finds it */
	int fds[2] = { dup(s->fd), -1 }, rc;

	if (fds[0] < 0)
		return err_sys(EX_OSERR, "cannot copy a socket");
	rc = comm_tcp_from(&c, 1, 2, fds, PEER_TIMEOUT_MS);
	if (rc == 0)
		rc = peer_follow(&c, &c);
	comm_close(&c);
	return rc;
}

static void log_session(const struct session *s, int rc)
{
	static const char *const names[] = { "busy", "down", "up", "ping", "comm" };
	char client[INET6_ADDRSTRLEN], at[CLOCK_TEXT_MAX];
	struct buf line = BUF_INIT;

	if (s->t->log < 0)
		return;
	httpd_client_text((const struct sockaddr *)&s->from, client);
	clock_format(at, clock_now_ms());
	buf_addf(&line,
		"{\"at\":\"%s\",\"client\":\"%s\",\"method\":\"TCP\",\"path\":\"%s\","
		"\"status\":%d,\"bytes\":%llu,\"us\":%lld}\n",
		at, client, names[s->op], rc < 0 ? err_get()->code : 200,
		(unsigned long long)s->bytes,
		(long long)((clock_mono_ns() - s->started_ns) / 1000));
	/* a log that cannot be written must not stop the server */
	if (io_write_all(s->t->log, line.data, line.len) < 0)
		errno = 0;
	buf_release(&line);
}

/* Whether one more session of that kind and that client is allowed. */
static bool admit(struct session *s, enum peer_op op)
{
	struct serve_tcp *t = s->t;
	bool ok;

	pthread_mutex_lock(&t->lock);
	ok = op != PEER_COMM || t->comms < SERVE_COMM_MAX;
	if (ok) {
		s->op = op;
		t->comms += op == PEER_COMM;
	}
	pthread_mutex_unlock(&t->lock);
	return ok;
}

static int serve_session(struct session *s)
{
	struct peer_hello h;

	if (net_tune(s->fd, PEER_TIMEOUT_MS) < 0 || net_receive(s->fd, &h, sizeof h) < 0)
		return -1;
	s->refused = true;
	if (h.magic != PEER_MAGIC || h.op < PEER_DOWN || h.op > PEER_COMM)
		return err_set(EX_DATAERR, "no hello of ours");
	s->refused = !admit(s, (enum peer_op)h.op);
	if (s->refused)
		h.op = PEER_BUSY;
	if (net_send(s->fd, &h, sizeof h) < 0)
		return -1;
	switch (s->op) {
	case PEER_DOWN:
		return serve_down(s);
	case PEER_UP:
		return serve_up(s);
	case PEER_PING:
		return serve_ping(s);
	case PEER_COMM:
		return serve_comm(s);
	default:
		return err_set(EX_TEMPFAIL, "too many sessions");
	}
}

static struct leaving leaving_from(int fd)
{
	shutdown(fd, SHUT_WR);
	return (struct leaving){ fd, clock_mono_ns() + LEAVING_NS, LEAVING_BYTES };
}

/* Reads available bytes without waiting. Returns whether the client has gone, or has used up
 * its time. */
static bool leaving_gone(struct leaving *l)
{
	char block[4096];

	while (l->bytes && clock_mono_ns() < l->until_ns) {
		size_t max = l->bytes < sizeof block ? l->bytes : sizeof block;
		ssize_t n = recv(l->fd, block, max, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
		l->bytes -= (size_t)n;
	}
	return true;
}

static int ms_until(int64_t ns)
{
	int64_t left = ns - clock_mono_ns();

	return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

/* A session's own thread waits for its client. */
static void send_away(int fd)
{
	struct leaving l = leaving_from(fd);
	struct pollfd p = { fd, POLLIN, 0 };

	while (!leaving_gone(&l))
		poll(&p, 1, ms_until(l.until_ns));
}

/* Leaves the list, and closes the socket while the list is locked: stop must not shut down a
 * descriptor that has been given to another session. */
static void forget(struct session *s)
{
	struct serve_tcp *t = s->t;

	pthread_mutex_lock(&t->lock);
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	t->count--;
	t->comms -= s->op == PEER_COMM;
	close(s->fd);
	pthread_cond_signal(&t->ended);
	pthread_mutex_unlock(&t->lock);
	free(s);
}

static void *run_session(void *arg)
{
	struct session *s = arg;
	int rc = serve_session(s);

	log_session(s, rc);
	if (s->refused)
		send_away(s->fd);
	forget(s);
	return NULL;
}

static bool same_client(const struct sockaddr_storage *a,
	const struct sockaddr_storage *b)
{
	char one[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];

	httpd_client_text((const struct sockaddr *)a, one);
	httpd_client_text((const struct sockaddr *)b, other);
	return strcmp(one, other) == 0;
}

/* The accepting thread waits for none of the clients that it turns away. */
static void forget_gone(struct serve_tcp *t)
{
	int kept = 0;

	for (int i = 0; i < t->leaving_count; i++) {
		if (leaving_gone(&t->leaving[i]))
			close(t->leaving[i].fd);
		else
			t->leaving[kept++] = t->leaving[i];
	}
	t->leaving_count = kept;
}

/* Takes the socket. */
static void turn_away(struct serve_tcp *t, int fd)
{
	if (t->leaving_count ==
		LEAVING_MAX) { /* drops the one that has had the longest */
		close(t->leaving[0].fd);
		t->leaving_count--;
		memmove(t->leaving, t->leaving + 1,
			(size_t)t->leaving_count * sizeof *t->leaving);
	}
	t->leaving[t->leaving_count++] = leaving_from(fd);
}

/* Takes the socket. Connections beyond the limit are closed without a reply: those before the
 * hello may wait. */
static void begin(struct serve_tcp *t, int fd, const struct sockaddr_storage *from)
{
	struct session *s = xcalloc(1, sizeof *s);
	pthread_attr_t detached;
	pthread_t thread;
	int of_client = 0;
	bool started = false;

	*s = (struct session){ .t = t,
		.fd = fd,
		.from = *from,
		.started_ns = clock_mono_ns() };
	pthread_mutex_lock(&t->lock);
	for (struct session *o = t->sessions; o; o = o->next)
		of_client += same_client(&o->from, from);
	if (t->count < SERVE_SESSIONS_MAX && of_client < SERVE_PER_CLIENT_MAX) {
		pthread_attr_init(&detached);
		pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
		s->next = t->sessions;
		s->link = &t->sessions;
		if (s->next)
			s->next->link = &s->next;
		t->sessions = s;
		t->count++;
		/* the thread cannot leave the list before we unlock it */
		started = pthread_create(&thread, &detached, run_session, s) == 0;
		pthread_attr_destroy(&detached);
		if (!started) {
			t->sessions = s->next;
			if (s->next)
				s->next->link = &t->sessions;
			t->count--;
		}
	}
	pthread_mutex_unlock(&t->lock);
	if (!started) {
		turn_away(t, fd);
		free(s);
	}
}

static void *accept_all(void *arg)
{
	struct serve_tcp *t = arg;

	while (!t->stopping) {
		struct pollfd p[1 + LEAVING_MAX] = { { t->fd, POLLIN, 0 } };
		struct sockaddr_storage from = { 0 };
		socklen_t len = sizeof from;
		int fd, ready;

		for (int i = 0; i < t->leaving_count; i++)
			p[1 + i] = (struct pollfd){ t->leaving[i].fd, POLLIN, 0 };
		ready = poll(p, 1 + (nfds_t)t->leaving_count, ACCEPT_MS);
		forget_gone(t);
		if (ready <= 0 || !p[0].revents)
			continue;
		fd = accept4(t->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
		if (fd >= 0)
			begin(t, fd, &from);
		else if (errno == EMFILE || errno == ENFILE)
			poll(NULL, 0, ACCEPT_MS);
	}
	for (int i = 0; i < t->leaving_count; i++)
		close(t->leaving[i].fd);
	return NULL;
}

struct serve_tcp *serve_tcp_start(const char *host_port, int log)
{
	struct serve_tcp *t = xcalloc(1, sizeof *t);

	t->log = log;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->ended, NULL);
	t->fd = net_listen(host_port, "--listen", &t->port);
	if (t->fd >= 0 && getrandom(t->random, sizeof t->random, 0) < 0)
		err_sys(EX_OSERR, "cannot get random bytes");
	else if (t->fd >= 0 && pthread_create(&t->thread, NULL, accept_all, t) == 0)
		return t;
	else if (t->fd >= 0)
		err_set(EX_OSERR, "cannot start a thread");
	if (t->fd >= 0)
		close(t->fd);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

int serve_tcp_port(const struct serve_tcp *t)
{
	return t->port;
}

void serve_tcp_stop(struct serve_tcp *t)
{
	t->stopping = true;
	pthread_join(t->thread, NULL);
	close(t->fd);
	pthread_mutex_lock(&t->lock);
	for (struct session *s = t->sessions; s; s = s->next)
		shutdown(s->fd, SHUT_RDWR);
	while (t->count)
		pthread_cond_wait(&t->ended, &t->lock);
	pthread_mutex_unlock(&t->lock);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
