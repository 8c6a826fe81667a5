/* mem.c - measures the bandwidth of copy and triad and the latency of random access, all
 * beyond the caches. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/hw/device.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/base/rng.h"
#include "kernels/bulk/ops.h"

#define ARRAY_MIN       (INT64_C(256) << 20)
#define ARRAY_QUICK_MIN (INT64_C(64) << 20)
#define CHASE_MAX       (INT64_C(1) << 30)
#define CACHE_UNKNOWN   (INT64_C(32) << 20)
#define HUGE_PAGE       (INT64_C(2) << 20)
#define SLICES          16 /* of the arrays; a step works on one slice */
#define HOPS            100000

/* A cache line of the chase. */
struct node {
	struct node *next;
	char rest[56];
};

static struct {
	struct dev dev;
	int64_t bytes; /* of one array */
	double *a, *b, *c;
	int slice, done; /* the next slice, and how many since the batch began */
	struct node *nodes, *at;
	int64_t chase_bytes;
} mem;

static void unmap(void *p, int64_t bytes)
{
	if (p)
		munmap(p, (size_t)bytes);
}

/* Memory stays mapped for all batches: mapping its pages takes longer than measuring it. */
static void close_mem(void)
{
	unmap(mem.a, mem.bytes);
	unmap(mem.b, mem.bytes);
	unmap(mem.c, mem.bytes);
	unmap(mem.nodes, mem.chase_bytes);
	dev_close(&mem.dev);
	memset(&mem, 0, sizeof mem);
}

/* Uses huge pages if the system has them: the result is that of memory, not of page tables. */
static void *map(int64_t bytes)
{
	void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, (size_t)bytes, MADV_HUGEPAGE);
	return p;
}

/* STREAM's rule: each array is at least four times all last-level caches. With --quick twice:
 * mapping the pages takes longer than the tests, and a stream through two arrays of that size
 * never returns to data that is still in a cache. */
static int choose_size(const struct settings *s, int arrays, int64_t *bytes)
{
	int64_t cache = hw_cache_read(), available = hw_available_read();
	int64_t min = s->quick ? ARRAY_QUICK_MIN : ARRAY_MIN;

	*bytes = (s->quick ? 2 : 4) * (cache ? cache : CACHE_UNKNOWN);
	if (*bytes < min)
		*bytes = min;
	*bytes = (*bytes + SLICES * HUGE_PAGE - 1) / (SLICES * HUGE_PAGE) *
		(SLICES * HUGE_PAGE);
	if (available && *bytes * arrays > available / 10 * 9)
		return err_set(EX_UNAVAILABLE,
			"the mem suite needs %" PRId64 " MiB beyond the caches, %" PRId64
			" MiB are available",
			*bytes * arrays >> 20, available >> 20);
	return 0;
}

static size_t elements(void)
{
	return (size_t)mem.bytes / sizeof(double);
}

static int open_arrays(const struct settings *s)
{
	mem.done = 0;
	if (mem.c)
		return 0;
	if (choose_size(s, 3, &mem.bytes) < 0)
		return -1;
	if (device_open(&mem.dev, "cpu") < 0)
		return -1;
	mem.a = map(mem.bytes);
	mem.b = map(mem.bytes);
	mem.c = map(mem.bytes);
	if (!mem.a || !mem.b || !mem.c)
		return err_sys(EX_OSERR, "no memory for three arrays of %" PRId64 " MiB",
			mem.bytes >> 20);
		/* each thread first touches the memory that it will work on: that decides the
		 * NUMA node */
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < elements(); i++) {
		mem.a[i] = 0;
		mem.b[i] = (double)(i % 1000);
		mem.c[i] = (double)(i % 77);
	}
	return 0;
}

/* Returns where the next step works. It continues where the last one ended, and returns to a
 * slice only after all of the arrays, which no cache holds: a step can be short without
 * measuring the cache. */
static size_t next_slice(void)
{
	size_t at = (size_t)mem.slice * (elements() / SLICES);

	mem.slice = (mem.slice + 1) % SLICES;
	mem.done += mem.done < SLICES;
	return at;
}

static int step_copy(double *work)
{
	size_t at = next_slice();

	mem.dev.ops->copy(&mem.dev, mem.a + at, mem.b + at, (uint64_t)mem.bytes / SLICES);
	*work = 2.0 * (double)mem.bytes / SLICES;
	return 0;
}

static int step_triad(double *work)
{
	size_t at = next_slice();

	mem.dev.ops->bulk->triad(&mem.dev, mem.a + at, mem.b + at, mem.c + at, 3,
		elements() / SLICES);
	*work = 3.0 * (double)mem.bytes / SLICES;
	return 0;
}

/* Checks what the steps of this batch wrote: a = b + factor c. */
static bool is_right(double factor)
{
	size_t n = elements() / SLICES;

	for (int s = 1; s <= mem.done; s++) {
		size_t at = (size_t)((mem.slice - s + SLICES) % SLICES) * n;

		for (size_t i = at; i < at + n; i += 4093)
			if (mem.a[i] != mem.b[i] + factor * mem.c[i])
				return false;
	}
	return true;
}

static int check_copy(void)
{
	if (!is_right(0))
		bug("the copy is wrong");
	return 0;
}

static int check_triad(void)
{
	if (!is_right(3))
		bug("the triad is wrong");
	return 0;
}

static void describe_arrays(json_t *params)
{
	json_set_i64(params, "array_bytes", mem.bytes);
	json_set_i64(params, "cache_bytes", hw_cache_read());
	json_set_i64(params, "threads", threads_max());
	json_set_text(params, "kernel",
		strcmp(mem.dev.isa, "ref") == 0 ? "reference" : mem.dev.isa);
}

/* Makes one cycle through all nodes in random order (Sattolo 1986), so that no prefetcher helps
 * and no part of it fits into a cache. */
static int open_chase(const struct settings *s)
{
	struct node *nodes;
	struct rng rng;
	size_t n;

	if (mem.nodes)
		return 0;
	if (choose_size(s, 1, &mem.chase_bytes) < 0)
		return -1;
	if (mem.chase_bytes > CHASE_MAX && hw_cache_read() < CHASE_MAX / 2)
		mem.chase_bytes =
			CHASE_MAX; /* making the cycle takes longer than walking it */
	nodes = mem.nodes = map(mem.chase_bytes);
	if (!nodes)
		return err_sys(EX_OSERR, "no memory for %" PRId64 " MiB",
			mem.chase_bytes >> 20);
	n = (size_t)mem.chase_bytes / sizeof *nodes;
	rng_seed(&rng, 1, 2);
	for (size_t i = 0; i < n; i++)
		nodes[i].next = &nodes[i];
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = rng_below(&rng, i);
		struct node *next = nodes[i].next;

		nodes[i].next = nodes[j].next;
		nodes[j].next = next;
	}
	mem.at = nodes;
	return 0;
}

static int step_chase(double *work)
{
	struct node *at = mem.at;

	for (int i = 0; i < HOPS; i++)
		at = at->next;
	mem.at =
		at; /* the next step continues from here, so that no step can be optimised away */
	*work = HOPS;
	return 0;
}

static void describe_chase(json_t *params)
{
	json_set_i64(params, "array_bytes", mem.chase_bytes);
	json_set_i64(params, "cache_bytes", hw_cache_read());
	json_set_i64(params, "threads", 1);
}

static const struct test tests[] = {
	{ "copy", "B/s", "copy past the cache, 2 x 8 bytes an element, all cores", false,
		open_arrays, step_copy, check_copy, describe_arrays, NULL },
	{ "triad", "B/s", "a = b + s c past the cache, 3 x 8 bytes an element, all cores",
		false, open_arrays, step_triad, check_triad, describe_arrays, NULL },
	{ "latency", "ns", "one dependent random access, one thread", true, open_chase,
		step_chase, NULL, describe_chase, NULL },
	{ 0 },
};

const struct suite suite_mem = { "mem", tests, suite_cpu_model, close_mem, NULL, NULL };
