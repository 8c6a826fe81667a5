/* comm_backends.c - the backends of the comm suite: how each does a ping-pong, a sum, and
 * a checked sum. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/comm.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

static int order(struct backend *b, uint32_t what, size_t bytes, uint32_t reps,
	int64_t *ns)
{
	const struct peer_order o = { what, reps, bytes };
	struct comm *data = b->data.ops ? &b->data : &b->orders;

	return peer_lead(&b->orders, data, &o, b->buffer, ns);
}

static int ranks_work(struct backend *b, enum comm_op op, size_t bytes, uint32_t reps,
	int64_t *ns)
{
	return order(b, op == COMM_PINGPONG ? PEER_PINGPONG : PEER_SUM, bytes, reps, ns);
}

static int ranks_check(struct backend *b, size_t bytes)
{
	int64_t ns;

	return order(b, PEER_CHECK, bytes, 1, &ns);
}

static void ranks_close(struct backend *b)
{
	const struct err before = *err_get(); /* why it closes */
	int64_t ns;

	if (b->orders.ops)
		order(b, PEER_END, 0, 0, &ns); /* fails where it is gone already */
	if (b->data.ops)
		order(b, PEER_END, 0, 0, &ns); /* of NCCL, then of the session */
	err_clear();
	if (before.code)
		err_restore(&before);
	comm_release(b->data.ops ? &b->data : &b->orders, b->buffer);
	comm_close(&b->data);
	comm_close(&b->orders);
	b->buffer = NULL;
}

static int ranks_ready(struct backend *b, int rc)
{
	if (rc == 0)
		b->buffer = comm_alloc(b->data.ops ? &b->data : &b->orders, b->bytes_max);
	if (rc == 0 && b->buffer)
		return 0;
	comm_close(&b->data);
	comm_close(&b->orders);
	return -1;
}

static int dial(struct backend *b)
{
	int fds[2] = { -1, peer_dial(b->peer, PEER_COMM) };

	return fds[1] < 0 ? -1 : comm_tcp_from(&b->orders, 0, 2, fds, PEER_TIMEOUT_MS);
}

static int tcp_open(struct backend *b)
{
	return ranks_ready(b, dial(b));
}

static int mpi_open(struct backend *b)
{
	int rc = comm_mpi_open(&b->orders);

	if (rc == 0 && b->orders.size < 2)
		rc = err_set(EX_UNAVAILABLE,
			"mpi: this job has one process: mpirun -n 2");
	return ranks_ready(b, rc);
}

/* Uses GPU 0 here; on the other side the next one on this machine, the first one on another. */
static int nccl_open(struct backend *b)
{
	struct peer_order o = { PEER_NCCL, 1, b->local ? 1 : 0 };
	int rc = dial(b);

	if (rc == 0)
		rc = comm_send(&b->orders, 1, &o, sizeof o);
	if (rc == 0)
		rc = comm_nccl_open(&b->data, &b->orders, 0);
	return ranks_ready(b, rc);
}

static int http_open(struct backend *b)
{
	b->buffer = xcalloc(1, b->bytes_max);
	return 0;
}

static int http_work(struct backend *b, enum comm_op op, size_t bytes, uint32_t reps,
	int64_t *ns)
{
	const char *path = op == COMM_PINGPONG ? "/v1/echo" : "/v1/sum";
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t from = clock_mono_ns();
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < reps; i++) {
		rc = peer_fetch(b->peer, path, b->buffer, bytes, bytes, &r);
		/* the result of a sum stays where it was computed, as with the other backends */
		if (rc == 0 && op == COMM_ALLREDUCE)
			memcpy(b->buffer, r.body.data, bytes);
	}
	*ns = clock_mono_ns() - from;
	http_response_release(&r);
	return rc;
}

static int http_check(struct backend *b, size_t bytes)
{
	float *v = b->buffer;
	int64_t ns;
	int rc;

	for (size_t i = 0; i < bytes / sizeof *v; i++)
		v[i] = peer_value(0, i);
	rc = http_work(b, COMM_ALLREDUCE, bytes, 1, &ns);
	for (size_t i = 0; rc == 0 && i < bytes / sizeof *v; i++)
		if (v[i] != peer_value(0, i) + peer_value(1, i))
			rc = err_set(EX_DATAERR, "http: the sum is wrong at %zu", i);
	memset(b->buffer, 0, bytes);
	return rc;
}

static void http_close(struct backend *b)
{
	free(b->buffer);
	b->buffer = NULL;
}

struct backend comm_backends[] = {
	{ .name = "http",
		.open = http_open,
		.work = http_work,
		.check = http_check,
		.close = http_close },
	{ .name = "tcp",
		.open = tcp_open,
		.work = ranks_work,
		.check = ranks_check,
		.close = ranks_close },
	{ .name = "mpi",
		.open = mpi_open,
		.work = ranks_work,
		.check = ranks_check,
		.close = ranks_close },
	{ .name = "nccl",
		.open = nccl_open,
		.work = ranks_work,
		.check = ranks_check,
		.close = ranks_close },
};
