/* comm.c - tests that sums are right and the same on every rank, for any number of ranks, and
 * that a rank that stalls or leaves is an error in time. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/comm/comm.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "tests/unit/test.h"

#define RANKS_MAX  7
#define TIMEOUT_MS 5000

struct worker {
	struct comm c;
	size_t n;
	float *data;
	int rc;
	struct err error;
};

/* Every rank with a socket pair to every other. */
static void connect_all(struct worker *w, int size, int64_t timeout_ms)
{
	int fds[RANKS_MAX][RANKS_MAX];

	for (int i = 0; i < size; i++)
		for (int k = 0; k < i; k++) {
			int pair[2];

			CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
			fds[i][k] = pair[0];
			fds[k][i] = pair[1];
		}
	for (int i = 0; i < size; i++)
		CHECK(comm_tcp_from(&w[i].c, i, size, fds[i], timeout_ms) == 0);
}

static void *reduce(void *arg)
{
	struct worker *w = arg;

	w->rc = comm_allreduce(&w->c, w->data, w->n);
	err_save(&w->error);
	return NULL;
}

static void run_all(struct worker *w, int size, void *(*fn)(void *))
{
	pthread_t threads[RANKS_MAX];

	for (int i = 0; i < size; i++)
		pthread_create(&threads[i], NULL, fn, &w[i]);
	for (int i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
}

/* Not whole numbers: the order of addition shows in the last bits. */
static float value(int rank, size_t i)
{
	return (float)((i * 2654435761u + (size_t)rank * 40503u) % 9973) / 97.0f - 31.0f;
}

static void check_sums(const struct worker *w, int size, size_t n)
{
	size_t wrong = 0, different = 0;

	for (size_t i = 0; i < n; i++) {
		double sum = 0, magnitude = 0;

		for (int r = 0; r < size; r++) {
			sum += value(r, i);
			magnitude += fabs((double)value(r, i));
		}
		wrong += fabs(w[0].data[i] - sum) > size * 6e-8 * magnitude;
		for (int r = 1; r < size; r++)
			different += w[r].data[i] != w[0].data[i];
	}
	CHECK_I64(0, (int64_t)wrong);
	CHECK_I64(0, (int64_t)different);
}

static void check_allreduce(int size, size_t n)
{
	struct worker w[RANKS_MAX] = { 0 };

	connect_all(w, size, TIMEOUT_MS);
	for (int r = 0; r < size; r++) {
		w[r].n = n;
		w[r].data = xmalloc((n + 1) * sizeof(float));
		for (size_t i = 0; i < n; i++)
			w[r].data[i] = value(r, i);
		w[r].data[n] = 12345;
	}
	run_all(w, size, reduce);
	for (int r = 0; r < size; r++) {
		CHECK_I64(0, w[r].rc);
		CHECK(w[r].data[n] == 12345);
	}
	check_sums(w, size, n);
	for (int r = 0; r < size; r++) {
		comm_close(&w[r].c);
		free(w[r].data);
	}
}

static void test_sums(void)
{
	static const size_t lengths[] = { 0, 1, 2, 3, 5, 7, 1000, 8192, 8193, 100003,
		1000000 };

	for (int size = 1; size <= RANKS_MAX; size++)
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
			check_allreduce(size, lengths[i]);
}

static void *copy_to_all(void *arg)
{
	struct worker *w = arg;

	w->rc = comm_broadcast(&w->c, w->data, w->n);
	return NULL;
}

static void test_broadcast(void)
{
	for (int size = 1; size <= RANKS_MAX; size++) {
		struct worker w[RANKS_MAX] = { 0 };
		float data[RANKS_MAX][3];

		connect_all(w, size, TIMEOUT_MS);
		for (int r = 0; r < size; r++) {
			w[r].n = 2 * sizeof(float);
			w[r].data = data[r];
			for (int k = 0; k < 3; k++)
				data[r][k] = (float)(10 * r + k);
		}
		run_all(w, size, copy_to_all);
		for (int r = 0; r < size; r++) {
			CHECK_I64(0, w[r].rc);
			CHECK(data[r][0] == 0 && data[r][1] == 1);
			CHECK(data[r][2] == (float)(10 * r + 2)); /* not of the message */
			comm_close(&w[r].c);
		}
	}
}

static void *echo(void *arg)
{
	struct worker *w = arg;

	w->rc = comm_receive(&w->c, 0, w->data, w->n);
	if (w->rc == 0)
		w->rc = comm_send(&w->c, 0, w->data, w->n);
	return NULL;
}

static void test_messages(void)
{
	struct worker w[2] = { 0 };
	pthread_t thread;
	size_t bytes = 3000001;
	char *sent = xmalloc(bytes), *back = xcalloc(1, bytes);

	connect_all(w, 2, TIMEOUT_MS);
	for (size_t i = 0; i < bytes; i++)
		sent[i] = (char)(i * 31 / 7);
	w[1].n = bytes;
	w[1].data = xmalloc(bytes);
	pthread_create(&thread, NULL, echo, &w[1]);
	CHECK(comm_send(&w[0].c, 1, sent, bytes) == 0);
	CHECK(comm_receive(&w[0].c, 1, back, bytes) == 0);
	pthread_join(thread, NULL);
	CHECK(memcmp(sent, back, bytes) == 0);
	comm_close(&w[0].c);
	comm_close(&w[1].c);
	free(w[1].data);
	free(sent);
	free(back);
}

static void test_failures_of_others(void)
{
	struct worker w[2] = { 0 };
	float data[4] = { 1, 2, 3, 4 };
	int64_t from;

	connect_all(w, 2, 200);
	from = clock_mono_ns();
	CHECK_FAILS(EX_TEMPFAIL, comm_allreduce(&w[0].c, data, 4));
	CHECK(clock_mono_ns() - from < 3000000000);
	CHECK_FAILS(EX_TEMPFAIL, comm_receive(&w[0].c, 1, data, 400));
	comm_close(&w[1].c);
	CHECK_FAILS(EX_UNAVAILABLE, comm_allreduce(&w[0].c, data, 4));
	CHECK_FAILS(EX_UNAVAILABLE, comm_receive(&w[0].c, 1, data, 4));
	comm_close(&w[0].c);
}

static void *wait_for_all(void *arg)
{
	struct worker *w = arg;

	w->rc = comm_barrier(&w->c);
	return NULL;
}

static void test_barrier(void)
{
	struct worker w[3] = { 0 };

	for (int size = 1; size <= 3; size++) {
		connect_all(w, size, TIMEOUT_MS);
		run_all(w, size, wait_for_all);
		for (int i = 0; i < size; i++) {
			CHECK_I64(0, w[i].rc);
			comm_close(&w[i].c);
		}
	}
}

int main(void)
{
	test_sums();
	test_broadcast();
	test_messages();
	test_barrier();
	test_failures_of_others();
	TEST_END();
}
