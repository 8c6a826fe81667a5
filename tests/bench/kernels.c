/* kernels.c - benchmark of the device's operations against the limits of the machine,
 * interleaved in one run: matrix products against a bare oneDNN loop and against loops that
 * contain only multiply-add instructions, triad against STREAM with non-temporal stores. Prints
 * records to standard output; exit 1 when a limit is broken. --shapes [LEAST [MOST]]: products
 * with sides from 64 to 4096 instead of 4096 alone.
 *
 * Computation is measured in processor time of the process, so that other processes disturb it
 * less. Memory is measured by the clock. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/threads.h"
#include "common/record/bench.h"
#include "common/base/clock.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/stats.h"
#include "kernels/bulk/ops.h"
#include "kernels/bulk/peak.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ROUNDS 9
/* in ppm of the rate that it is compared with */
#define OF_BARE_MIN   950000
#define OF_PEAK_MIN   900000
#define OF_STREAM_MIN 950000

static struct dev dev;
static bool good = true;

/* nanoseconds of processor time, of all threads together */
static int64_t worked_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* --- a bare oneDNN loop of the same product, C = A B^T with all three row-major ----------- */

static struct {
	int (*engine_create)(void **, int, size_t);
	int (*stream_create)(void **, void *, unsigned);
	int (*stream_wait)(void *);
	int (*md_init)(void *, int, const int64_t *, int, const int64_t *);
	int (*matmul_init)(void *, const void *, const void *, const void *,
		const void *);
	int (*pd_create)(void **, const void *, const void *, void *, const void *);
	int (*create)(void **, const void *);
	int (*memory_create)(void **, const void *, void *, void *);
	int (*execute)(const void *, void *, int, const void *);
} dnnl;

static void *dnnl_engine, *dnnl_stream;

static bool bare_open(void)
{
	static const struct {
		const char *name;
		void *at;
	} functions[] = { { "dnnl_engine_create", &dnnl.engine_create },
		{ "dnnl_stream_create", &dnnl.stream_create },
		{ "dnnl_stream_wait", &dnnl.stream_wait },
		{ "dnnl_memory_desc_init_by_strides", &dnnl.md_init },
		{ "dnnl_matmul_desc_init", &dnnl.matmul_init },
		{ "dnnl_primitive_desc_create", &dnnl.pd_create },
		{ "dnnl_primitive_create", &dnnl.create },
		{ "dnnl_memory_create", &dnnl.memory_create },
		{ "dnnl_primitive_execute", &dnnl.execute } };
	void *l = dlopen("libdnnl.so.2", RTLD_NOW);

	for (size_t i = 0; l && i < sizeof functions / sizeof *functions; i++) {
		void *f = dlsym(l, functions[i].name);

		if (!f)
			return false;
		memcpy(functions[i].at, &f, sizeof f);
	}
	return l && !dnnl.engine_create(&dnnl_engine, 1, 0) &&
		!dnnl.stream_create(&dnnl_stream, dnnl_engine, 1);
}

struct bare {
	void *primitive;
	struct {
		int which;
		void *memory;
	} arguments[3];
};

static bool bare_make(struct bare *b, const struct product *p)
{
	static const int in[PRODUCT_TYPES] = { 3, 2, 0, 0, 5 }; /* f32, bf16, s8 */
	static _Alignas(16) char mds[3][4096], desc[16384];
	int64_t sizes[3][2] = { { (int64_t)p->m, (int64_t)p->k },
		{ (int64_t)p->k, (int64_t)p->n }, { (int64_t)p->m, (int64_t)p->n } };
	static const int which[3] = { 1, 33, 17 };
	const void *data[3] = { p->a, p->b, p->c };
	void *pd = NULL;

	for (int i = 0; i < 3; i++) {
		int64_t strides[2] = { i == 1 ? 1 : sizes[i][1],
			i == 1 ? (int64_t)p->ldb : 1 };
		int type = i < 2 ? in[p->type] : p->type == PRODUCT_I8 ? 4 : 3;

		if (dnnl.md_init(mds[i], 2, sizes[i], type, strides))
			return false;
	}
	if (dnnl.matmul_init(desc, mds[0], mds[1], NULL, mds[2]) ||
		dnnl.pd_create(&pd, desc, NULL, dnnl_engine, NULL) ||
		dnnl.create(&b->primitive, pd))
		return false;
	for (int i = 0; i < 3; i++) {
		void *at;

		memcpy(&at, &data[i], sizeof at);
		b->arguments[i].which = which[i];
		if (dnnl.memory_create(&b->arguments[i].memory, mds[i], dnnl_engine, at))
			return false;
	}
	return true;
}

static void bare_run(const struct bare *b)
{
	dnnl.execute(b->primitive, dnnl_stream, 3, b->arguments);
	dnnl.stream_wait(dnnl_stream);
}

/* --- nothing but multiply-add ---------------------------------------------------------------- */

#define PEAK_CYCLES 100000000

/* operations a second of all cores */
static double peak(enum product_type type)
{
	const struct peak *loop = peak_of(type, CPU_AVX512);
	uint64_t steps = PEAK_CYCLES / loop->cycles;
	int64_t from = worked_ns();

#pragma omp parallel
	loop->run(steps);
	/* operations of the whole team, divided by the time of one thread */
	return (double)loop->operations * (double)steps * threads_max() * threads_max() *
		1e9 / (double)(worked_ns() - from);
}

/* --- STREAM, tuned by hand -------------------------------------------------------------------- */

__attribute__((target("avx512f"))) static void stream_triad(double *a, const double *b,
	const double *c, double s, int64_t n)
{
#pragma omp parallel for schedule(static)
	for (int64_t i = 0; i < n; i += 8)
		_mm512_stream_pd(a + i,
			_mm512_fmadd_pd(_mm512_set1_pd(s), _mm512_load_pd(c + i),
				_mm512_load_pd(b + i)));
}

/* --- measure ---------------------------------------------------------------------------------- */

static void report(const char *test, const char *label, int64_t n, const char *unit,
	const double *samples, long limit)
{
	struct stats s;
	json_t *record;

	stats_of(samples, ROUNDS, &s);
	record = bench_record("kernels", test, "cpu", unit, &s);
	json_set_text(bench_params(record), "what", label);
	json_set_i64(bench_params(record), "n", n);
	if (limit)
		json_set_i64(bench_params(record), "limit", limit);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
	if (limit && s.median < (double)limit) {
		fprintf(stderr,
			"kernels: %s of %lld: %s is %.1f%%, under the limit of %.1f%%\n",
			test, (long long)n, label, s.median / 1e4, (double)limit / 1e4);
		good = false;
	}
}

static void *area(uint64_t bytes)
{
	void *p;

	if (dev.ops->alloc(&dev, &p, bytes) < 0) {
		fprintf(stderr, "kernels: %s\n", dev.error);
		exit(71);
	}
	return p;
}

/* Small random numbers of the type: the values influence power and so the clock rate. */
static void numbers(void *p, enum product_type type, uint64_t n)
{
	struct philox seed = { .seed = 1 };
	uint32_t *f = p;

	dev.ops->philox(&dev, p, n * product_element_bytes(type), &seed);
	for (uint64_t i = 0; type == PRODUCT_F32 && i < n;
		i++) /* 0.5 .. 1, either sign */
		f[i] = (f[i] & 0x807fffff) | 0x3f000000;
	for (uint64_t i = 0; type == PRODUCT_BF16 && i < n; i++)
		((uint16_t *)p)[i] = (((uint16_t *)p)[i] & 0x807f) | 0x3f00;
}

/* Processor time of that many products. */
static int64_t repeat(bool ours, const struct product *p, const struct bare *bare,
	int64_t runs)
{
	int64_t from = worked_ns();

	for (int64_t r = 0; r < runs; r++)
		if (ours)
			dev.ops->bulk->product(&dev, p);
		else
			bare_run(bare);
	return worked_ns() - from;
}

#define SAMPLE_NS 20000000 /* of processor time */

static void product(enum product_type type, uint64_t n)
{
	const char *name = product_type_names[type];
	struct product p = { type, area(n * n * 4), area(n * n * 4), area(n * n * 4), n,
		n, n, n, n, n };
	double work = 2 * (double)n * (double)n * (double)n;
	double speed[ROUNDS], of_bare[ROUNDS], of_peak[ROUNDS], peaks[ROUNDS];
	int64_t runs, ours = 1, bares = 1;
	struct bare bare;
	void *a, *b;

	memcpy(&a, &p.a, sizeof a);
	memcpy(&b, &p.b, sizeof b);
	numbers(a, type, n * n);
	numbers(b, type, n * n);
	if (!bare_make(&bare, &p)) {
		fprintf(stderr, "kernels: oneDNN does not multiply %s\n", name);
		exit(69);
	}
	for (runs = 1; repeat(true, &p, &bare, runs) < SAMPLE_NS;)
		runs *= 2;
	for (int i = -1; i < ROUNDS; i++) {
		int at = i < 0 ? 0 : i; /* round -1 is a warm-up */

		/* The two alternate in who goes first, each after a call that is not timed:
		 * units that were powered down need a moment. */
		for (int turn = 0; turn < 2; turn++) {
			bool our_turn = (turn == 0) == (i % 2 == 0);
			int64_t took;

			repeat(our_turn, &p, &bare, 1);
			took = repeat(our_turn, &p, &bare, runs);
			*(our_turn ? &ours : &bares) = took;
		}
		peaks[at] = peak(type);
		speed[at] = work * (double)runs * threads_max() * 1e9 / (double)ours;
		of_bare[at] = 1e6 * (double)bares / (double)ours;
		of_peak[at] = 1e6 * speed[at] / peaks[at];
	}
	char test[32];
	snprintf(test, sizeof test, "product_%s", name);
	report(test, "ours", (int64_t)n, "OP/s", speed, 0);
	report(test, "multiply-add loop", (int64_t)n, "OP/s", peaks, 0);
	report(test, "of bare oneDNN", (int64_t)n, "ppm", of_bare, OF_BARE_MIN);
	report(test, "of the multiply-add loop", (int64_t)n, "ppm", of_peak,
		n == 4096 ? OF_PEAK_MIN : 0);
	dev.ops->free(&dev, p.c);
	dev.ops->free(&dev, a);
	dev.ops->free(&dev, b);
}

static void triad(void)
{
	const int64_t n = 1 << 24;
	double *a = area((uint64_t)n * 8), *b = area((uint64_t)n * 8),
	       *c = area((uint64_t)n * 8);
	double speed[ROUNDS], of_stream[ROUNDS];

	dev.ops->fill(&dev, (uint32_t *)(void *)a, 0, (uint64_t)n * 2);
	dev.ops->fill(&dev, (uint32_t *)(void *)b, 0, (uint64_t)n * 2);
	dev.ops->fill(&dev, (uint32_t *)(void *)c, 0, (uint64_t)n * 2);
	for (int i = -1; i < ROUNDS; i++) {
		int at = i < 0 ? 0 : i;
		int64_t ours = INT64_MAX, theirs = INT64_MAX;

		/* the fastest of five each, alternating: bandwidth changes within minutes */
		for (int r = 0; r < 5; r++) {
			int64_t from = clock_mono_ns(), took;

			dev.ops->bulk->triad(&dev, a, b, c, 3, (uint64_t)n);
			took = clock_mono_ns() - from;
			ours = took < ours ? took : ours;
			from = clock_mono_ns();
			stream_triad(a, b, c, 3, n);
			took = clock_mono_ns() - from;
			theirs = took < theirs ? took : theirs;
		}
		speed[at] = 24 * (double)n * 1e9 / (double)ours;
		of_stream[at] = 1e6 * (double)theirs / (double)ours;
	}
	report("triad", "ours", n, "B/s", speed, 0);
	report("triad", "of STREAM", n, "ppm", of_stream, OF_STREAM_MIN);
	dev.ops->free(&dev, a);
	dev.ops->free(&dev, b);
	dev.ops->free(&dev, c);
}

int main(int argc, char **argv)
{
	static const uint64_t all[] = { 64, 128, 256, 512, 1024, 2048, 4096 };
	bool shapes = argc > 1 && strcmp(argv[1], "--shapes") == 0;
	uint64_t min = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t max = argc > 3 ? strtoull(argv[3], NULL, 10) : 4096;

	struct cpu_features has = cpu_features(cpu_level_best());

	if (cpu_level_best() < CPU_AVX512 || !has.vnni || !has.bf16) {
		fprintf(stderr, "kernels: SKIP: no AVX-512 with VNNI and BF16\n");
		return 0;
	}
	if (!bare_open()) {
		fprintf(stderr, "kernels: SKIP: no oneDNN (libdnnl.so.2)\n");
		return 0;
	}
	if (dev_open(&dev, "cpu") < 0) {
		fprintf(stderr, "kernels: %s\n", dev.error);
		return dev.code;
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i] < (shapes ? min : 4096) || all[i] > max)
			continue;
		product(PRODUCT_F32, all[i]);
		product(PRODUCT_BF16, all[i]);
		product(PRODUCT_I8, all[i]);
	}
	triad();
	dev_close(&dev);
	return !good;
}
#else
int main(void)
{
	fprintf(stderr, "kernels: SKIP: made for x86-64\n");
	return 0;
}
#endif
