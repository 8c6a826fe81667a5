/* orders.c - carries out the orders that ranks of the comm suite give each other. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/peer/peer.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

static int ping(struct comm *c, void *buffer, const struct peer_order *o)
{
	for (uint32_t i = 0; i < o->reps; i++)
		if (comm_send(c, 1, buffer, o->bytes) < 0 ||
			comm_receive(c, 1, buffer, o->bytes) < 0)
			return -1;
	return 0;
}

static int pong(struct comm *c, void *buffer, const struct peer_order *o)
{
	for (uint32_t i = 0; c->rank == 1 && i < o->reps; i++)
		if (comm_receive(c, 0, buffer, o->bytes) < 0 ||
			comm_send(c, 0, buffer, o->bytes) < 0)
			return -1;
	return 0;
}

static int sum(struct comm *c, void *buffer, const struct peer_order *o)
{
	for (uint32_t i = 0; i < o->reps; i++)
		if (comm_allreduce(c, buffer, o->bytes / sizeof(float)) < 0)
			return -1;
	return 0;
}

static int check_sum(struct comm *c, void *buffer, size_t n)
{
	float *host = xmalloc((n + 1) * sizeof *host);
	int rc = -1;

	for (size_t i = 0; i < n; i++)
		host[i] = peer_value(c->rank, i);
	if (comm_put(c, buffer, host, n * sizeof *host) < 0 ||
		comm_allreduce(c, buffer, n) < 0 ||
		comm_get(c, host, buffer, n * sizeof *host) < 0)
		goto out;
	rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		float want = 0;

		for (int r = 0; r < c->size; r++)
			want += peer_value(r, i);
		if (host[i] != want)
			rc = err_set(EX_DATAERR,
				"%s: the sum of %zu floats is wrong at %zu: %g, not %g",
				c->ops->name, n, i, (double)host[i], (double)want);
	}
out:
	free(host);
	return rc;
}

/* Sums are timed on zeros, which stay zeros however often they are added. */
static int clear(struct comm *c, void *buffer, size_t bytes)
{
	void *zeros = xcalloc(1, bytes + 1);
	int rc = comm_put(c, buffer, zeros, bytes);

	free(zeros);
	return rc;
}

static int work(struct comm *c, const struct peer_order *o, void *buffer, int64_t *ns)
{
	int64_t from;
	int rc;

	if (o->work == PEER_CHECK)
		return check_sum(c, buffer, o->bytes / sizeof(float));
	/* a sum is timed from when all ranks are ready */
	if (o->work == PEER_SUM &&
		(clear(c, buffer, o->bytes) < 0 || comm_barrier(c) < 0))
		return -1;
	from = clock_mono_ns();
	if (o->work == PEER_SUM)
		rc = sum(c, buffer, o);
	else
		rc = c->rank ? pong(c, buffer, o) : ping(c, buffer, o);
	*ns = clock_mono_ns() - from;
	return rc;
}

int peer_lead(struct comm *orders, struct comm *data, const struct peer_order *order,
	void *buffer, int64_t *ns)
{
	for (int r = 1; r < orders->size; r++)
		if (comm_send(orders, r, order, sizeof *order) < 0)
			return -1;
	return order->work == PEER_END ? 0 : work(data, order, buffer, ns);
}

static int follow_nccl(struct comm *orders, int gpu)
{
	struct comm c = COMM_INIT;
	int rc = comm_nccl_open(&c, orders, gpu);

	if (rc == 0)
		rc = peer_follow(orders, &c);
	comm_close(&c);
	return rc;
}

static int check_order(const struct peer_order *o)
{
	if (o->work > PEER_NCCL || o->reps > PEER_REPS_MAX || o->bytes > PEER_BYTES_MAX)
		return err_set(EX_DATAERR, "an order beyond the limits");
	return 0;
}

int peer_follow(struct comm *orders, struct comm *data)
{
	void *buffer = comm_alloc(data, PEER_BYTES_MAX);
	struct peer_order o;
	int64_t ns;
	int rc = buffer ? 0 : -1;

	while (rc == 0) {
		rc = comm_wait(orders, 0, PEER_ORDER_MS);
		if (rc == 0)
			rc = comm_receive(orders, 0, &o, sizeof o);
		if (rc == 0)
			rc = check_order(&o);
		if (rc < 0 || o.work == PEER_END)
			break;
		if (o.work == PEER_NCCL)
			rc = follow_nccl(orders, (int)o.bytes);
		else
			rc = work(data, &o, buffer, &ns);
	}
	comm_release(data, buffer);
	return rc;
}
