/* tcp.c - the tcp backend: one connection between any two ranks. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/comm/comm.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/net/net.h"

/* Bytes of one system call: fits the caches, so that what was received is added while it is
 * there. */
#define PIECE_BYTES ((size_t)256 << 10)

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
