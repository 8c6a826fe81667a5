/* comm_tcp.c - the tcp backend: one connection between any two ranks. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/comm/comm.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/net/net.h"

/* Bytes of one system call: fits the caches, so that what was received is added while it is
 * there. */
#define PIECE_BYTES ((size_t)256 << 10)
#define MAGIC       UINT64_C(0x31706374706e72) /* "rnptcp1" */
#define HELLO_MS    2000
#define RETRY_NS    50000000

struct tcp {
	int64_t timeout_ms;
	float *piece; /* PIECE_BYTES of floats that are to be added */
	int fds[];
};

static int tcp_send(struct comm *c, int to, const void *data, size_t bytes)
{
	struct tcp *t = c->state;

	return net_send(t->fds[to], data, bytes);
}

static int tcp_receive(struct comm *c, int from, void *data, size_t bytes)
{
	struct tcp *t = c->state;

	return net_receive(t->fds[from], data, bytes);
}

static int tcp_wait(struct comm *c, int from, int64_t timeout_ms)
{
	struct tcp *t = c->state;
	int rc = net_wait(t->fds[from], POLLIN, clock_mono_ns() + timeout_ms * 1000000);

	if (rc > 0)
		return 0;
	errno = rc ? errno : EAGAIN;
	return net_failed("receive", -1);
}

/* State of one sendrecv. */
struct sendrecv_state {
	const struct comm_sendrecv *s;
	struct tcp *t;
	size_t out, in;
	size_t in_piece; /* bytes in t->piece whose whole floats have been added */
	size_t added;
};

static size_t at_most(size_t bytes, size_t limit)
{
	return bytes < limit ? bytes : limit;
}

/* Returns what send and recv return: bytes, 0 when closed, -1 with errno. */
static ssize_t push(struct sendrecv_state *w)
{
	ssize_t n = send(w->t->fds[w->s->to], (const char *)w->s->out + w->out,
		at_most(w->s->out_bytes - w->out, PIECE_BYTES),
		MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		w->out += (size_t)n;
	return n;
}

static void add(float *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* With flags 0, waits for data as long as the socket allows. */
static ssize_t pull(struct sendrecv_state *w, int flags)
{
	const struct comm_sendrecv *s = w->s;
	size_t left = s->in_bytes - w->in, whole;
	ssize_t n;

	if (!s->add) {
		n = recv(w->t->fds[s->from], (char *)s->in + w->in,
			flags ? at_most(left, PIECE_BYTES) : left,
			flags ? flags : MSG_WAITALL);
		if (n > 0)
			w->in += (size_t)n;
		return n;
	}
	n = recv(w->t->fds[s->from], (char *)w->t->piece + w->in_piece,
		at_most(left, PIECE_BYTES - w->in_piece), flags);
	if (n <= 0)
		return n;
	w->in += (size_t)n;
	w->in_piece += (size_t)n;
	whole = w->in_piece / sizeof(float);
	add((float *)s->in + (w->in - w->in_piece) / sizeof(float) + w->added,
		w->t->piece + w->added, whole - w->added);
	w->added = whole;
	/* starts the piece again where no float is split */
	if (w->in_piece % sizeof(float) == 0)
		w->in_piece = w->added = 0;
	return n;
}

static int wait_for_either(struct sendrecv_state *w)
{
	bool receiving = w->in < w->s->in_bytes;
	struct pollfd p[2] = { { w->t->fds[w->s->to], POLLOUT, 0 },
		{ receiving ? w->t->fds[w->s->from] : -1, POLLIN, 0 } };
	int rc;

	do
		rc = poll(p, 2, (int)w->t->timeout_ms);
	while (rc < 0 && errno == EINTR);
	if (rc > 0)
		return 0;
	errno = rc ? errno : EAGAIN;
	return net_failed(receiving ? "receive" : "send", -1);
}

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int tcp_sendrecv(struct comm *c, const struct comm_sendrecv *s)
{
	struct sendrecv_state w = { .s = s, .t = c->state };

	while (w.out < s->out_bytes) {
		ssize_t out, in = -1;

		if ((out = push(&w)) < 0 && !would_block(out))
			return net_failed("send", -1);
		if (w.out == s->out_bytes)
			break;
		if (w.in < s->in_bytes && (in = pull(&w, MSG_DONTWAIT)) <= 0 &&
			!would_block(in))
			return net_failed("receive", in);
		if (out <= 0 && in <= 0 && wait_for_either(&w) < 0)
			return -1;
	}
	/* everything is sent: only waiting for the rest remains */
	while (w.in < s->in_bytes) {
		ssize_t in = pull(&w, 0);

		if (in <= 0 && !(in < 0 && errno == EINTR))
			return net_failed("receive", in);
	}
	return 0;
}

static void tcp_close(struct comm *c)
{
	struct tcp *t = c->state;

	for (int i = 0; i < c->size; i++)
		if (t->fds[i] >= 0)
			close(t->fds[i]);
	free(t->piece);
	free(t);
}

static const struct comm_ops ops = { .name = "tcp",
	.send = tcp_send,
	.receive = tcp_receive,
	.wait = tcp_wait,
	.sendrecv = tcp_sendrecv,
	.close = tcp_close };

int comm_tcp_from(struct comm *c, int rank, int size, const int *fds, int64_t timeout_ms)
{
	struct tcp *t = xcalloc(1, sizeof *t + (size_t)size * sizeof t->fds[0]);
	int rc = 0;

	t->timeout_ms = timeout_ms;
	t->piece = xmalloc(PIECE_BYTES);
	for (int i = 0; i < size; i++) {
		t->fds[i] = i == rank ? -1 : fds[i];
		if (i != rank && rc == 0)
			rc = net_tune(fds[i], timeout_ms);
	}
	*c = (struct comm){ &ops, rank, size, t };
	if (rc < 0)
		comm_close(c);
	return rc;
}

/* --- how they find each other -------------------------------------------------------------- */

/* The first message of a rank on every connection. */
struct hello {
	uint64_t magic;
	int32_t rank, size;
	int32_t port; /* where the sending rank itself listens */
	int32_t zero;
};

/* The address on which a rank listens, as rank 0 sees it. */
struct place {
	char host[INET6_ADDRSTRLEN];
	int32_t port;
};

struct meeting {
	int rank, size;
	int64_t deadline_ns;
	int *fds;
	struct place *places;
};

static int64_t left_ms(const struct meeting *m)
{
	int64_t left = (m->deadline_ns - clock_mono_ns()) / 1000000;

	return left > 1 ? left : 1;
}

static int say_hello(const struct meeting *m, int fd, int port)
{
	struct hello h = { MAGIC, m->rank, m->size, port, 0 };

	return net_send(fd, &h, sizeof h);
}

static void remember_place(struct meeting *m, int rank, int port)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof a;
	const void *address;

	if (getpeername(m->fds[rank], (struct sockaddr *)&a, &len) < 0)
		return;
	address = a.ss_family == AF_INET6 ?
		(const void *)&((struct sockaddr_in6 *)&a)->sin6_addr :
		(const void *)&((struct sockaddr_in *)&a)->sin_addr;
	inet_ntop(a.ss_family, address, m->places[rank].host,
		sizeof m->places[rank].host);
	m->places[rank].port = port;
}

/* Accepts the connection of a rank above ours that has not connected yet; closes connections of
 * strangers. */
static int meet_one(struct meeting *m, int listen_fd)
{
	for (;;) {
		int fd = net_accept(listen_fd, left_ms(m));
		struct hello h;

		if (fd < 0)
			return err_add("waiting for the other ranks");
		/* a stranger who sends nothing must not use up the time */
		if (net_tune(fd, HELLO_MS) == 0 && net_receive(fd, &h, sizeof h) == 0 &&
			h.magic == MAGIC && h.size == m->size && h.rank > m->rank &&
			h.rank < m->size && m->fds[h.rank] < 0 && h.port >= 0 &&
			h.port <= 65535) {
			m->fds[h.rank] = fd;
			remember_place(m, h.rank, h.port);
			return 0;
		}
		err_clear();
		close(fd);
	}
}

/* The other side may not listen yet: tries again until the time is over. */
static int call_one(struct meeting *m, int rank, const char *host, int port, int own_port)
{
	struct timespec pause = { 0, RETRY_NS };

	while ((m->fds[rank] = net_connect(host, port, left_ms(m))) < 0) {
		if (clock_mono_ns() >= m->deadline_ns)
			return err_add("rank %d", rank);
		err_clear();
		nanosleep(&pause, NULL);
	}
	return say_hello(m, m->fds[rank], own_port);
}

static int meet_as_first(struct meeting *m, const char *address)
{
	size_t bytes = (size_t)m->size * sizeof *m->places;
	int port, rc = 0, fd = net_listen(address, "address of rank 0", &port);

	if (fd < 0)
		return -1;
	for (int i = 1; rc == 0 && i < m->size; i++)
		rc = meet_one(m, fd);
	for (int i = 1; rc == 0 && i < m->size; i++)
		rc = net_send(m->fds[i], m->places, bytes);
	close(fd);
	return rc;
}

static int meet_as_other(struct meeting *m, const char *address)
{
	size_t bytes = (size_t)m->size * sizeof *m->places;
	int port, own_port, rc, fd;
	char host[NET_HOST_MAX];

	if (net_split(address, "address of rank 0", host, &port) < 0)
		return -1;
	fd = net_listen(":0", "own address", &own_port);
	if (fd < 0)
		return -1;
	rc = call_one(m, 0, host, port, own_port);
	if (rc == 0)
		rc = net_receive(m->fds[0], m->places, bytes);
	for (int i = 1; rc == 0 && i < m->rank; i++) {
		m->places[i].host[INET6_ADDRSTRLEN - 1] = '\0';
		rc = call_one(m, i, m->places[i].host, m->places[i].port, own_port);
	}
	for (int i = m->rank + 1; rc == 0 && i < m->size; i++)
		rc = meet_one(m, fd);
	close(fd);
	return rc;
}

int comm_tcp_open(struct comm *c, int rank, int size, const char *address,
	int64_t timeout_ms)
{
	struct meeting m = { rank, size, clock_mono_ns() + timeout_ms * 1000000, NULL,
		NULL };
	int rc;

	if (size < 1 || size > COMM_SIZE_MAX || rank < 0 || rank >= size)
		return err_set(EX_USAGE, "rank %d of %d is not possible", rank, size);
	m.fds = xmalloc((size_t)size * sizeof *m.fds);
	m.places = xcalloc((size_t)size, sizeof *m.places);
	for (int i = 0; i < size; i++)
		m.fds[i] = -1;
	if (size == 1)
		rc = 0;
	else
		rc = rank ? meet_as_other(&m, address) : meet_as_first(&m, address);
	if (rc == 0)
		rc = comm_tcp_from(c, rank, size, m.fds, timeout_ms);
	else
		for (int i = 0; i < size; i++)
			if (m.fds[i] >= 0)
				close(m.fds[i]);
	free(m.fds);
	free(m.places);
	return rc;
}
