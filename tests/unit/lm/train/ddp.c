/* ddp.c - tests data parallelism: ranges that become ready one after the other are summed over
 * ranks, with and without overlap alike; loss and targets are exact; a rank that leaves is an
 * error of settle. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/lm/train/ddp.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

#define RANKS 3
#define COUNT (2 * DDP_BUCKET_MIN + DDP_BUCKET_MAX + 12345)
#define STEPS 2

struct worker {
	int rank, fds[RANKS];
	int64_t timeout_ms;
	bool overlap, leaves;
	float *data;
	double loss[STEPS];
	uint64_t targets[STEPS], gathered[RANKS * 2], told[3];
	unsigned said;
	int rc;
	struct err error;
};

static int open_comm(struct comm *c, void *arg)
{
	struct worker *w = arg;

	return comm_tcp_from(c, w->rank, RANKS, w->fds, w->timeout_ms);
}

static _Thread_local int speaker;

static unsigned say(void)
{
	return speaker == 1 ? 4 : 0;
}

static float value(int rank, uint64_t i, int step)
{
	return (float)((i * 2654435761u + (uint64_t)rank * 40503u + (uint64_t)step) %
		       9973) /
		97.0f -
		31.0f;
}

/* As a backward pass: small ranges, a large one, small ones, from the end to the start. */
static int backward(struct ddp *p)
{
	static const uint64_t counts[] = { 100, 12000, DDP_BUCKET_MIN - 200,
		DDP_BUCKET_MAX + 5, DDP_BUCKET_MIN - 5, 4, 1 };
	uint64_t at = COUNT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof counts / sizeof *counts; i++) {
		at -= counts[i];
		rc = ddp_grad_ready(p, at, counts[i]);
	}
	return rc < 0 ? -1 : ddp_grad_ready(p, 0, at);
}

/* Ranks of a machine share the host's memory; GPUs have their own, and where two ranks share one,
 * they need twice as much of it. */
static int memories(struct worker *w, struct ddp *p)
{
	struct dev host = { .name = "cpu", .is_host = true }, gpu = { .name = "gpu" };
	uint64_t size = (uint64_t)ddp_size(p);
	struct ddp_memory m;
	int rc = ddp_memory(p, &host, 100, 100 * size + (uint64_t)w->rank, &m);

	CHECK(rc == 0 && m.need == 100 * size && m.there == 100 * size &&
		m.ranks == (int)size);
	rc = ddp_memory(p, &host, 100, 100 * size - 1 + (uint64_t)w->rank, &m);
	CHECK(rc == 0 && m.need == 100 * size && m.there == 100 * size - 1);
	/* each fits on a GPU of its own; also where the driver does not name them */
	rc = ddp_memory(p, &gpu, 100, 150, &m);
	CHECK(rc == 0 && m.need == 100 && m.there == 150 && m.ranks == 1);
	gpu.uuid[0] = 7;
	rc = ddp_memory(p, &gpu, 100, 150, &m);
	CHECK(rc == 0 && m.need == 100 * size && m.there == 150);
	/* the last rank's alone is too small, which all learn */
	memset(gpu.uuid, w->rank + 1, sizeof gpu.uuid);
	rc = ddp_memory(p, &gpu, 100, w->rank == (int)size - 1 ? 99 : 150, &m);
	CHECK(rc == 0 && m.need == 100 && m.there == 99 && m.ranks == 1);
	rc = ddp_memory(p, &host, UINT64_MAX, UINT64_MAX, &m);
	CHECK(rc == 0 && m.need == UINT64_MAX);
	return rc;
}

static int steps(struct worker *w, struct ddp *p)
{
	struct dev cpu = { .name = "cpu", .is_host = true };
	uint64_t mine[2] = { UINT64_MAX - (uint64_t)w->rank, (uint64_t)w->rank << 33 };
	int rc = ddp_allgather(p, mine, 2, w->gathered);

	if (rc == 0)
		rc = memories(w, p);
	for (int i = 0; i < 3; i++)
		w->told[i] = (uint64_t)w->rank << 60 | (uint64_t)i;
	if (rc == 0)
		rc = ddp_broadcast(p, w->told, sizeof w->told);
	if (rc == 0)
		rc = ddp_bind(p, &cpu, w->data);
	if (rc == 0)
		CHECK_TEXT("tcp", ddp_backend(p));
	for (int s = 0; rc == 0 && s < STEPS; s++) {
		for (uint64_t i = 0; i < COUNT; i++)
			w->data[i] = value(w->rank, i, s);
		/* no float holds these */
		w->loss[s] = 1e9 + 1e-3 * w->rank + s;
		w->targets[s] = ((uint64_t)1 << 40) + (uint64_t)w->rank;
		rc = backward(p) < 0 ||
				ddp_grad_sync(p, &w->loss[s], &w->targets[s]) < 0 ?
			-1 :
			0;
		w->said = ddp_stop_flags(p);
	}
	return rc;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ddp *p;

	speaker = w->rank;
	w->rc = ddp_open(&p,
		&(struct ddp_options){ .open = open_comm,
			.arg = w,
			.overlap = w->overlap,
			.stop_flags = say });
	if (w->rc == 0 && !w->leaves)
		w->rc = steps(w, p);
	err_save(&w->error);
	ddp_close(p);
	return NULL;
}

static void run_all(struct worker *w, bool overlap, int leaves, int64_t timeout_ms)
{
	pthread_t threads[RANKS];

	for (int i = 0; i < RANKS; i++) {
		w[i].rank = i;
		w[i].overlap = overlap;
		w[i].leaves = i == leaves;
		w[i].timeout_ms = timeout_ms;
		w[i].data = xcalloc(COUNT, sizeof(float));
		for (int k = 0; k < i; k++) {
			int pair[2];

			CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
			w[i].fds[k] = pair[0];
			w[k].fds[i] = pair[1];
		}
	}
	for (int i = 0; i < RANKS; i++)
		pthread_create(&threads[i], NULL, work, &w[i]);
	for (int i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
}

static void free_all(struct worker *w)
{
	for (int i = 0; i < RANKS; i++)
		free(w[i].data);
}

static void check_rank(const struct worker *w)
{
	int64_t wrong = 0;

	CHECK_I64(0, w->rc);
	CHECK_I64(4, w->said);
	for (uint64_t i = 0; i < COUNT; i++) {
		double sum = 0;

		for (int r = 0; r < RANKS; r++)
			sum += (double)value(r, i, STEPS - 1);
		/* two additions of floats below 128, rounded each */
		wrong += !(w->data[i] - sum < 2e-5 && sum - w->data[i] < 2e-5);
	}
	CHECK_I64(0, wrong);
	for (int s = 0; s < STEPS; s++) {
		double loss = 0;

		for (int r = 0; r < RANKS; r++)
			loss += 1e9 + 1e-3 * r + s;
		CHECK(w->loss[s] == loss);
		CHECK(w->targets[s] == 3 * ((uint64_t)1 << 40) + 3);
	}
	for (int i = 0; i < 3; i++)
		CHECK(w->told[i] == (uint64_t)i); /* as rank 0 has it */
	for (int r = 0; r < RANKS; r++) {
		CHECK(w->gathered[2 * r] == UINT64_MAX - (uint64_t)r);
		CHECK(w->gathered[2 * r + 1] == (uint64_t)r << 33);
	}
}

static void test_sums(void)
{
	struct worker with[RANKS] = { { 0 } }, without[RANKS] = { { 0 } };

	run_all(with, true, -1, 20000);
	run_all(without, false, -1, 20000);
	for (int i = 0; i < RANKS; i++) {
		check_rank(&with[i]);
		check_rank(&without[i]);
		CHECK(memcmp(with[i].data, with[0].data, COUNT * sizeof(float)) == 0);
		CHECK(memcmp(without[i].data, with[0].data, COUNT * sizeof(float)) == 0);
	}
	free_all(with);
	free_all(without);
}

static void test_gone(void)
{
	struct worker w[RANKS] = { { 0 } };

	run_all(w, true, 1, 5000);
	for (int i = 0; i < RANKS; i += 2) {
		CHECK_I64(-1, w[i].rc);
		CHECK(w[i].error.code == EX_UNAVAILABLE ||
			w[i].error.code == EX_TEMPFAIL);
	}
	free_all(w);
}

static int refuse(struct comm *c, void *arg)
{
	(void)c, (void)arg;
	return err_set(EX_UNAVAILABLE, "no plug-in");
}

static void test_not_there(void)
{
	struct ddp *p;

	CHECK_FAILS(EX_UNAVAILABLE,
		ddp_open(&p, &(struct ddp_options){ .open = refuse }));
	CHECK(!p);
}

int main(void)
{
	test_sums();
	test_gone();
	test_not_there();
	TEST_END();
}
