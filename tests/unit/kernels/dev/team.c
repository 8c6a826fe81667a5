/* team.c - tests that every piece is done once and in order, barriers hold, thread numbers are
 * stable, sleepers wake, forks and resizes leave a team that works, callers of several threads
 * take turns, and a waiting thread uses no processor time. */
#include "kernels/dev/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/bulk/ops.h"
#include "kernels/dev/dev.h"
#include "tests/unit/test.h"

#define SIZE 4 /* whatever the machine has */
#define N    10000

/* --- lists ------------------------------------------------------------------------------- */

struct count {
	_Atomic uint32_t done[N];
	_Atomic int wrong;
	uint64_t grain, n;
};

static void count_part(void *work, uint64_t from, uint64_t to)
{
	struct count *c = work;

	if (from >= to || to > c->n || from % c->grain || (to % c->grain && to != c->n) ||
		team_me() < 0 || team_me() >= team_threads() || !team_inside())
		c->wrong++;
	for (uint64_t i = from; i < to; i++)
		c->done[i]++;
}

static void check_cuts(void)
{
	static const uint64_t ns[] = { 0, 1, 2, 3, SIZE, 63, 64, 65, 1000, N };
	static const uint64_t grains[] = { 1, 3, 16, 64, N };

	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
			for (uint32_t pieces = 0; pieces <= 100000; pieces += 20000) {
				struct count *c = calloc(1, sizeof *c);
				struct team_op op = { count_part, c, ns[i], grains[g],
					pieces, 0 };
				int bad = 0;

				c->n = ns[i];
				c->grain = grains[g];
				if (ns[i] > grains[g])
					team_run(&op, 1);
				for (uint64_t k = 0; k < N; k++)
					bad += c->done[k] !=
						(k < ns[i] && ns[i] > grains[g]);
				CHECK_I64(0, bad + c->wrong);
				free(c);
			}
}

/* x[i] of one operation is made of those of the one before, by other threads */
struct chain {
	uint32_t *from, *to;
};

static void chain_part(void *work, uint64_t from, uint64_t to)
{
	struct chain *c = work;

	for (uint64_t i = from; i < to; i++)
		c->to[i] = c->from[N - 1 - i] * 3 + c->from[(i * 7) % N];
}

static void check_order(void)
{
	enum { OPS = 200 };
	static uint32_t x[2][N], want[2][N];
	static struct team_op ops[OPS];
	static struct chain steps[OPS];

	for (uint32_t i = 0; i < N; i++)
		x[0][i] = want[0][i] = i;
	for (int k = 0; k < OPS; k++) {
		struct chain slow = { want[k % 2], want[(k + 1) % 2] };

		chain_part(&slow, 0, N);
		steps[k] = (struct chain){ x[k % 2], x[(k + 1) % 2] };
		/* all sizes of pieces, operations that one thread does, and empty ones */
		ops[k] = (struct team_op){ chain_part, &steps[k], N,
			k % 5 == 0 ? N : 1 + (uint64_t)(k % 7) * 100, (uint32_t)(k % 4),
			k % 11 == 0 ? N : 0 };
	}
	for (int turn = 0; turn < 20; turn++) {
		for (uint32_t i = 0; i < N; i++)
			x[0][i] = i;
		team_run(ops, OPS);
		CHECK(memcmp(x[OPS % 2], want[OPS % 2], sizeof x[0]) == 0);
	}
}

/* --- regions ------------------------------------------------------------------------------- */

struct region {
	_Atomic int calls, inside, wrong;
	_Atomic int seen[SIZE];
	int threads;
};

static void region_plain(void *data)
{
	struct region *r = data;

	r->calls++;
	if (team_threads() != r->threads || team_me() >= r->threads)
		r->wrong++;
	r->seen[team_me()]++;
}

static void region_barriers(void *data)
{
	struct region *r = data;

	region_plain(data);
	for (int i = 1; i <= 50; i++) {
		r->inside++;
		/* some come late, so that others sleep */
		if (i % 10 == 0 && team_me() == i / 10 % r->threads)
			usleep(500);
		team_barrier();
		if (r->inside != i * r->threads)
			r->wrong++;
		team_barrier();
	}
}

static void check_regions(void)
{
	static const int asked[] = { 0, 1, 2, 3, SIZE, SIZE + 1, 1 << 20, -1 };

	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
		for (int barriers = 0; barriers < 2; barriers++) {
			struct region r = { .threads = SIZE };

			if (asked[i] > 0 && asked[i] < SIZE)
				r.threads = asked[i];
			team_each(asked[i], barriers ? region_barriers : region_plain,
				&r);
			CHECK_I64(r.threads, r.calls);
			CHECK_I64(0, r.wrong);
			for (int t = 0; t < r.threads; t++)
				CHECK_I64(1, r.seen[t]);
		}
	CHECK(!team_inside());
	CHECK_I64(0, team_me());
	CHECK_I64(1, team_threads());
}

static void nested(void *data)
{
	struct region *r = data, alone = { .threads = 1 };
	struct count *c = calloc(1, sizeof *c);
	struct team_op op = { count_part, c, N, 1, 4, 0 };
	int me = team_me();

	c->n = N;
	c->grain = 1;
	region_plain(data);
	team_each(0, region_barriers, &alone);
	team_run(&op, 1);
	if (alone.calls != 1 || alone.wrong || c->wrong || c->done[N - 1] != 1 ||
		team_me() != me || team_threads() != r->threads)
		r->wrong++;
	free(c);
	team_barrier();
}

static void check_nested(void)
{
	struct region r = { .threads = SIZE };

	team_each(0, nested, &r);
	CHECK_I64(SIZE, r.calls);
	CHECK_I64(0, r.wrong);
}

/* --- life ---------------------------------------------------------------------------------- */

static int64_t used_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A team that has worked and then has nothing to do for a second uses nothing. */
static void check_idle(void)
{
	int64_t before;

	check_order();
	before = used_ns();
	usleep(1000000);
	CHECK(used_ns() - before < 200000000);
	check_order();
}

static void wait_for_late(void *data)
{
	(void)data;
	if (team_me() == 0)
		usleep(1000000);
	team_barrier();
}

static void sleep_part(void *work, uint64_t from, uint64_t to)
{
	(void)work, (void)to;
	if (from == 0)
		usleep(1000000);
}

/* Nor do threads that wait for one of theirs, at a barrier or at the end. */
static void check_waiting(void)
{
	struct team_op op = { sleep_part, NULL, SIZE, 1, 1, 0 };
	int64_t before = used_ns();

	team_each(0, wait_for_late, NULL);
	CHECK(used_ns() - before < 200000000);
	before = used_ns();
	team_run(&op, 1);
	CHECK(used_ns() - before < 200000000);
}

static void check_resize(void)
{
	for (int n = 1; n <= SIZE; n++) {
		struct region r = { .threads = n };

		team_resize(n);
		CHECK_I64(n, team_size());
		team_each(0, region_barriers, &r);
		CHECK_I64(n, r.calls);
		CHECK_I64(0, r.wrong);
	}
	team_resize(SIZE);
	team_resize(SIZE); /* nothing was started */
}

#ifndef __SANITIZE_THREAD__
/* The child of a fork, from a process whose team has threads, has a team of its own. */
static void check_fork(void)
{
	pid_t child;
	int status;

	check_order();
	child = fork();
	if (child == 0) {
		team_resize(SIZE);
		check_order();
		check_regions();
		_exit(test_failures != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	check_order();
}

/* The system gives no threads: the team is the caller. */
static void check_no_threads(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct rlimit none = { 1, 1 };
		struct region r = { .threads = 0 };

		team_resize(SIZE);
		if (geteuid() == 0) /* the limit does not hold for root */
			(void)!setuid(65534);
		setrlimit(RLIMIT_NPROC, &none);
		r.threads = team_size();
		team_each(0, region_barriers, &r);
		check_order();
		_exit(test_failures || r.threads != 1 || r.calls != r.threads || r.wrong);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

#endif

/* --- several callers ------------------------------------------------------------------------ */

static void *call_often(void *arg)
{
	struct count *c = arg;
	struct team_op op = { count_part, c, N, 16, 2, 0 };

	for (int i = 0; i < 300; i++) {
		struct region r = { .threads = SIZE };

		team_run(&op, 1);
		team_each(0, i % 8 ? region_plain : region_barriers, &r);
		if (r.calls != SIZE || r.wrong)
			c->wrong++;
	}
	return NULL;
}

static void check_callers(void)
{
	enum { CALLERS = 3 };
	pthread_t threads[CALLERS];
	struct count *c[CALLERS];

	for (int i = 0; i < CALLERS; i++) {
		c[i] = calloc(1, sizeof *c[i]);
		c[i]->n = N;
		c[i]->grain = 16;
		CHECK(pthread_create(&threads[i], NULL, call_often, c[i]) == 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		int bad = 0;

		CHECK(pthread_join(threads[i], NULL) == 0);
		for (int k = 0; k < N; k++)
			bad += c[i]->done[k] != 300;
		CHECK_I64(0, bad + c[i]->wrong);
		free(c[i]);
	}
}

/* Two devices, each used by a thread of its own. */
static void *use_device(void *arg)
{
	uint32_t word = *(const uint32_t *)arg, words = 1 << 20;
	struct dev d;
	void *a, *b;
	intptr_t bad = 0;

	if (dev_open_cpu(&d, cpu_level_best()) < 0 ||
		d.ops->alloc(&d, &a, 4 * words) < 0 ||
		d.ops->alloc(&d, &b, 4 * words) < 0)
		return (void *)1;
	for (int i = 0; i < 20; i++) {
		bad += d.ops->fill(&d, a, word + (uint32_t)i, words) < 0;
		bad += d.ops->copy(&d, b, a, 4 * words) < 0;
		for (uint32_t k = 0; k < words; k += 997)
			bad += ((uint32_t *)b)[k] != word + (uint32_t)i;
	}
	d.ops->free(&d, a);
	d.ops->free(&d, b);
	dev_close(&d);
	return (void *)bad;
}

static void check_devices(void)
{
	uint32_t words[2] = { 7, 1000000 };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, use_device, &words[i]) == 0);
	for (int i = 0; i < 2; i++) {
		void *bad;

		CHECK(pthread_join(threads[i], &bad) == 0);
		CHECK(!bad);
	}
}

/* --- pragmas -------------------------------------------------------------------------------- */

#ifdef _OPENMP
/* gcc's calls for pragmas reach the team: loops of all kinds, up and down, and locks. */
static void check_pragmas(void)
{
	static _Atomic int done[N];
	int64_t sum = 0;
	int wrong = 0, named = 0, plain = 0;

#pragma omp parallel for schedule(dynamic, 7) reduction(+ : sum)
	for (int i = 0; i < N; i++)
		sum += i;
	CHECK_I64((int64_t)N * (N - 1) / 2, sum);
#pragma omp parallel for schedule(dynamic)
	for (uint64_t i = N; i > 0; i--)
		done[i - 1]++;
#pragma omp parallel for schedule(dynamic, 3)
	for (int i = N - 1; i > -1; i -= 2)
		done[i]++;
#pragma omp parallel
	{
		/* more loops without a barrier than the team keeps */
		for (int k = 0; k < 100; k++) {
#pragma omp for schedule(dynamic, 5) nowait
			for (uint64_t i = 0; i < 64; i++)
				done[i]++;
		}
#pragma omp barrier
#pragma omp for schedule(dynamic, 5)
		for (int i = 0; i < 64; i++)
			if (done[i] != 101 + i % 2)
#pragma omp critical(name)
				wrong++;
		for (int k = 0; k < 1000; k++) {
#pragma omp critical(name)
			named++;
#pragma omp critical
			plain++;
		}
#pragma omp for schedule(dynamic)
		for (uint64_t i = 5; i < 5; i++)
			done[0]++;
	}
	CHECK_I64(0, wrong);
	CHECK_I64(1000 * SIZE, named);
	CHECK_I64(1000 * SIZE, plain);
	for (int i = 64; i < N; i++)
		wrong += done[i] != 1 + i % 2;
	CHECK_I64(0, wrong);
}
#endif

#ifdef _OPENMP
/* oneDNN, built for libgomp, works with this team. */
static void check_onednn(void)
{
	enum { SIDE = 384 };
	struct team_counts before, after;
	struct product p = { .type = PRODUCT_F32,
		.m = SIDE,
		.n = SIDE,
		.k = SIDE,
		.lda = SIDE,
		.ldb = SIDE,
		.ldc = SIDE };
	struct dev d;
	float *a;

	if (!product_dnnl_there()) {
		fprintf(stderr, "team: SKIP: no oneDNN (libdnnl.so.2)\n");
		return;
	}
	CHECK(dev_open_cpu(&d, cpu_level_best()) == 0);
	a = calloc(SIDE * SIDE, 3 * sizeof *a);
	p.a = a;
	p.b = a + SIDE * SIDE;
	p.c = a + 2 * SIDE * SIDE;
	team_counts(&before);
	CHECK(d.ops->bulk->product(&d, &p) == 0);
	team_counts(&after);
	/* a CPU below AVX2 has the reference, one with tiles may have taken those */
	CHECK(strcmp(d.kernel, "oneDNN") != 0 || after.runs > before.runs);
	free(a);
	dev_close(&d);
}
#endif

int main(void)
{
	CHECK(team_cpus() >= 1);
	CHECK(team_size() >= 1 && team_size() <= TEAM_MAX);
	team_resize(SIZE);
	check_cuts();
	check_order();
	check_regions();
	check_nested();
	check_idle();
	check_waiting();
	check_resize();
#ifndef __SANITIZE_THREAD__ /* which gives the child of a threaded process no threads */
	check_fork();
	check_no_threads();
#endif
	check_callers();
	check_devices();
#ifdef _OPENMP
	check_pragmas();
	check_onednn();
#endif
	TEST_END();
}
