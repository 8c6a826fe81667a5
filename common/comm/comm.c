/* comm.c - sums over ranks made of sendrecv, for backends without an all-reduce of their own,
 * and the calls that forward to a backend. */
#include "common/comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

int comm_send(struct comm *c, int to, const void *data, size_t bytes)
{
	return c->ops->send(c, to, data, bytes);
}

int comm_receive(struct comm *c, int from, void *data, size_t bytes)
{
	return c->ops->receive(c, from, data, bytes);
}

int comm_wait(struct comm *c, int from, int64_t timeout_ms)
{
	return c->ops->wait ? c->ops->wait(c, from, timeout_ms) : 0;
}

int comm_sendrecv(struct comm *c, const struct comm_sendrecv *s)
{
	return c->ops->sendrecv(c, s);
}

/* Recursive doubling: exchanges everything with a partner at distance 1, 2, 4 ... It needs few
 * messages, so it suits short ones. */
static int by_doubling(struct comm *c, float *data, size_t n)
{
	float mine[COMM_SMALL_BYTES / sizeof(float)];
	int rc = 0;

	for (int distance = 1; rc == 0 && distance < c->size; distance *= 2) {
		int partner = c->rank ^ distance;
		struct comm_sendrecv s = { partner, partner, mine, n * sizeof *data, data,
			n * sizeof *data, true };

		memcpy(mine, data, n * sizeof *data);
		rc = comm_sendrecv(c, &s);
	}
	return rc;
}

/* Finds chunk k when n floats are divided into size parts: its first element and its length. */
static size_t chunk(const struct comm *c, size_t n, int k, size_t *first)
{
	size_t size = (size_t)c->size, at = (size_t)((k % c->size + c->size) % c->size);
	size_t rest = n % size;

	*first = n / size * at + (at < rest ? at : rest);
	return n / size + (at < rest);
}

static int ring_step(struct comm *c, float *data, size_t n, int out, int in, bool add)
{
	struct comm_sendrecv s = { (c->rank + 1) % c->size,
		(c->rank + c->size - 1) % c->size, NULL, 0, NULL, 0, add };
	size_t first;

	s.out_bytes = chunk(c, n, out, &first) * sizeof *data;
	s.out = data + first;
	s.in_bytes = chunk(c, n, in, &first) * sizeof *data;
	s.in = data + first;
	return comm_sendrecv(c, &s);
}

static int by_ring(struct comm *c, float *data, size_t n)
{
	int rc = 0;

	for (int s = 0; rc == 0 && s < c->size - 1; s++)
		rc = ring_step(c, data, n, c->rank - s, c->rank - s - 1, true);
	for (int s = 0; rc == 0 && s < c->size - 1; s++)
		rc = ring_step(c, data, n, c->rank + 1 - s, c->rank - s, false);
	return rc;
}

int comm_allreduce(struct comm *c, float *data, size_t n)
{
	if (c->size < 2 || !n)
		return 0;
	if (c->ops->allreduce)
		return c->ops->allreduce(c, data, n);
	if (n <= COMM_SMALL_BYTES / sizeof *data && (c->size & (c->size - 1)) == 0)
		return by_doubling(c, data, n);
	return by_ring(c, data, n);
}

int comm_broadcast(struct comm *c, void *data, size_t bytes)
{
	int distance = 1, rc = 0;

	if (c->size < 2 || !bytes)
		return 0;
	/* rank r has it from the rank without r's lowest bit, and passes it on over the lower
	 * ones */
	while (distance < c->size && !(c->rank & distance))
		distance *= 2;
	if (c->rank)
		rc = comm_receive(c, c->rank - distance, data, bytes);
	for (distance /= 2; rc == 0 && distance; distance /= 2)
		if (c->rank + distance < c->size)
			rc = comm_send(c, c->rank + distance, data, bytes);
	return rc;
}

void comm_be_patient(struct comm *c)
{
	if (c->ops && c->ops->be_patient)
		c->ops->be_patient(c);
}

int comm_barrier(struct comm *c)
{
	float *one = comm_alloc(c, sizeof *one);
	float zero = 0;
	int rc = one ? comm_put(c, one, &zero, sizeof zero) : -1;

	if (rc == 0)
		rc = comm_allreduce(c, one, 1);
	if (rc == 0)
		/* a copy from the device waits for the device */
		rc = comm_get(c, &zero, one, sizeof zero);
	comm_release(c, one);
	return rc;
}

void *comm_alloc(struct comm *c, size_t bytes)
{
	void *data = NULL;

	if (c->ops->alloc)
		return c->ops->alloc(c, bytes);
	/* allocates whole pages, huge ones if the system has them */
	if (posix_memalign(&data, bytes >= (1u << 21) ? 1u << 21 : 4096,
		    bytes ? bytes : 1))
		err_set(EX_OSERR, "no memory for %zu bytes", bytes);
	return data;
}

void comm_release(struct comm *c, void *data)
{
	if (c->ops && c->ops->release && data)
		c->ops->release(c, data);
	else
		free(data);
}

int comm_put(struct comm *c, void *data, const void *host, size_t bytes)
{
	if (c->ops->put)
		return c->ops->put(c, data, host, bytes);
	memcpy(data, host, bytes);
	return 0;
}

int comm_get(struct comm *c, void *host, const void *data, size_t bytes)
{
	if (c->ops->get)
		return c->ops->get(c, host, data, bytes);
	memcpy(host, data, bytes);
	return 0;
}

void comm_close(struct comm *c)
{
	if (c->ops)
		c->ops->close(c);
	*c = (struct comm)COMM_INIT;
}
