/* weights.c - how fast products of one row read quantised weights from memory, as they lie in a
 * file and packed, against a plain read of the same memory: each in turns, in processor time of one
 * thread. The matrices, 2048 x 2048, together are much larger than the caches. Argument: rounds
 * (5). Prints records of the rates of products as parts of that of the read, in ppm; exit 1 when a
 * packed type that the issue names is under 0.9 of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/json/json.h"
#include "common/record/bench.h"
#include "kernels/dev/team.h"
#include "kernels/lm/ops.h"

enum { N = 2048, K = 2048, ROUNDS_MAX = 100 };

#define BYTES (UINT64_C(128) << 20)

struct one {
	enum lm_weight type;
	const char *name;
	bool wanted; /* at 0.9 */
};

static const struct one types[] = { { LM_WEIGHT_Q8_0, "q8_0", true },
	{ LM_WEIGHT_Q4_0, "q4_0", true }, { LM_WEIGHT_Q4_K, "q4_k", true },
	{ LM_WEIGHT_Q6_K, "q6_k", true }, { LM_WEIGHT_Q5_0, "q5_0", false },
	{ LM_WEIGHT_Q5_K, "q5_k", false } };

static struct dev dev = DEV_INIT;
static struct lm_block8 x8[K / LM_WEIGHT_BLOCK];
static float y[N];

static double worked_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef uint64_t lanes __attribute__((vector_size(32), aligned(32)));

#ifdef __x86_64__
__attribute__((target("avx2")))
#endif
static uint64_t
sum_of(const unsigned char *p, uint64_t bytes)
{
	const lanes *at = (const lanes *)(const void *)p;
	lanes s[8] = { 0 };

	for (uint64_t i = 0; i + 8 <= bytes / sizeof *at; i += 8)
		for (int k = 0; k < 8; k++)
			s[k] += at[i + (uint64_t)k];
	for (int k = 1; k < 8; k++)
		s[0] += s[k];
	return s[0][0] + s[0][1] + s[0][2] + s[0][3];
}

static double read_rate(const unsigned char *p, uint64_t bytes)
{
	double begun = worked_s();
	volatile uint64_t sum = sum_of(p, bytes);

	(void)sum;
	return (double)bytes / (worked_s() - begun);
}

static double product_rate(enum lm_weight type, const unsigned char *w, uint64_t bytes,
	uint64_t count, bool packed)
{
	double begun = worked_s();

	for (uint64_t i = 0; i < count; i++) {
		struct lm_project p = { .type = type,
			.y = y,
			.x8 = x8,
			.w = w + i * bytes,
			.rows = 1,
			.n = N,
			.k = K,
			.ldx = K,
			.ldy = N,
			.packed = packed };

		if (dev.ops->lm->project(&dev, &p) < 0)
			exit(1);
	}
	return (double)(bytes * count) / (worked_s() - begun);
}

/* Memory in pages of a size: those of a mapped file are small. */
static unsigned char *map(uint64_t bytes, int advice)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);

	if (p == MAP_FAILED)
		exit(71);
	(void)madvise(p, bytes, advice);
	return p;
}

static double report(const struct one *t, const char *test, double *ratios, size_t rounds)
{
	struct stats s;
	json_t *record;

	stats_of(ratios, rounds, &s);
	record = bench_record("serve", test, "cpu", "ppm", &s);
	json_set_text(bench_params(record), "type", t->name);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
	fprintf(stderr, "weights: %s: %s: %.2f of a plain read\n", t->name, test,
		s.median / 1e6);
	return s.median;
}

static bool measure(const struct one *t, size_t rounds)
{
	uint64_t bytes = N * lm_weight_row_bytes(t->type, K), count = BYTES / bytes;
	uint32_t outputs = lm_pack_outputs(&dev, t->type);
	uint64_t all = (bytes * count + 31) / 32 * 32;
	unsigned char *file = map(all, MADV_NOHUGEPAGE),
		      *packed = map(all, MADV_HUGEPAGE);
	double plain[ROUNDS_MAX], fast[ROUNDS_MAX], median;

	for (uint64_t i = 0; i < bytes; i++)
		file[i] = (unsigned char)(i * 2654435761u >> 13);
	if (outputs)
		lm_pack(packed, file, t->type, N, K, outputs);
	for (uint64_t i = 1; i < count; i++) {
		memcpy(file + i * bytes, file, bytes);
		memcpy(packed + i * bytes, packed, bytes);
	}
	for (size_t r = 0; r < rounds; r++) {
		double limit = read_rate(packed, all);

		plain[r] = 1e6 * product_rate(t->type, file, bytes, count, false) / limit;
		fast[r] = outputs ?
			1e6 * product_rate(t->type, packed, bytes, count, true) / limit :
			0;
	}
	median = report(t, "weights as in the file", plain, rounds);
	if (outputs)
		median = report(t, "weights packed", fast, rounds);
	munmap(file, all);
	munmap(packed, all);
	return !outputs || !t->wanted || median >= 9e5;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	bool good = true;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: weights [rounds]\n");
		return 64;
	}
	team_resize(1);
	if (dev_open_cpu(&dev, CPU_AVX512) < 0 && dev_open_cpu(&dev, CPU_REF) < 0)
		return 69;
	for (size_t i = 0; i < sizeof x8 / sizeof *x8; i++)
		for (int k = 0; k < LM_WEIGHT_BLOCK; k++)
			x8[i].q[k] = (int8_t)(k - 16);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		good = measure(&types[i], (size_t)rounds) && good;
	dev_close(&dev);
	return good ? 0 : 1;
}
