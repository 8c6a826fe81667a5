/* suite_cpu - matrix products on all cores, a hash chain on one. */
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cmd/rnp-bench/suite.h"
#include "common/err.h"
#include "common/hw.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/rng.h"
#include "kernels/hashchain.h"
#include "kernels/matmul.h"

#define N       2048 /* three matrices of f32 are 50 MB; packing is 5% of the time */
#define N_QUICK 768
#define STEPS   2000 /* hashes: about 0.1 ms with SHA-NI */

static struct {
	int64_t n;
	void *a, *b, *c;
	unsigned char state[32];
} cpu;

const char *suite_cpu_model(void)
{
	static struct hw_cpu found;
	static bool read;
	struct hw_causes why = { 0 };

	if (!read)
		hw_cpu_read(&found, &why);
	read = true;
	return found.model;
}

int suite_threads(void)
{
#ifdef _OPENMP
	return omp_get_max_threads();
#else
	return 1;
#endif
}

/* --- matrix products ----------------------------------------------------------------------- */

static void *filled(size_t count, size_t size, void (*put)(void *, size_t, int))
{
	void *p = xmalloc(count * size);
	struct rng rng;

	rng_seed(&rng, 1, 1);
	for (size_t i = 0; i < count; i++)
		put(p, i, (int)(rng_u32(&rng) % 17) - 8);
	return p;
}

static void put_f32(void *p, size_t i, int v)
{
	((float *)p)[i] = (float)v;
}

static void put_bf16(void *p, size_t i, int v)
{
	float f = (float)v;
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	((bf16 *)p)[i] = (bf16)(bits >> 16);
}

static void put_i8(void *p, size_t i, int v)
{
	((int8_t *)p)[i] = (int8_t)v;
}

static int open_matmul(const struct settings *s, size_t size,
	void (*put)(void *, size_t, int))
{
	size_t count;

	cpu.n = s->quick ? N_QUICK : N;
	count = (size_t)cpu.n * (size_t)cpu.n;
	cpu.a = filled(count, size, put);
	cpu.b = filled(count, size, put);
	cpu.c = xmalloc(count * 4);
	return 0;
}

static void close_matmul(void)
{
	free(cpu.a);
	free(cpu.b);
	free(cpu.c);
	cpu.a = cpu.b = cpu.c = NULL;
}

/* Whole numbers from -8 to 8: every sum is exact in f32, so a row must be equal bit by bit. */
static int compare_row(const void *want)
{
	size_t bytes = (size_t)cpu.n * 4;

	if (memcmp(want, (char *)cpu.c + (size_t)(cpu.n - 1) * bytes, bytes) != 0)
		bug("the matrix product is wrong");
	return 0;
}

#define DEFINE_MATMUL(type, element, value)                                    \
	static int open_##type(const struct settings *s)                       \
	{                                                                      \
		return open_matmul(s, sizeof(element), put_##type);            \
	}                                                                      \
	static int step_##type(double *work)                                   \
	{                                                                      \
		matmul_fast()->type(cpu.n, cpu.n, cpu.n, cpu.a, cpu.b, cpu.c); \
		*work = 2 * (double)cpu.n * (double)cpu.n * (double)cpu.n;     \
		return 0;                                                      \
	}                                                                      \
	static int check_##type(void)                                          \
	{                                                                      \
		value *row = xmalloc((size_t)cpu.n * sizeof *row);             \
		matmul_reference.type(1, cpu.n, cpu.n,                         \
			(element *)cpu.a + (cpu.n - 1) * cpu.n, cpu.b, row);   \
		compare_row(row);                                              \
		free(row);                                                     \
		return 0;                                                      \
	}                                                                      \
	static void describe_##type(json_t *params)                            \
	{                                                                      \
		json_set_i64(params, "n", cpu.n);                              \
		json_set_i64(params, "threads", suite_threads());              \
		json_set_text(params, "kernel", matmul_fast()->type##_name);   \
	}

DEFINE_MATMUL(f32, float, float)
DEFINE_MATMUL(bf16, bf16, float)
DEFINE_MATMUL(i8, int8_t, int32_t)

/* --- hash chain ---------------------------------------------------------------------------- */

static int open_chain(const struct settings *s)
{
	(void)s;
	memset(cpu.state, 1, sizeof cpu.state);
	return 0;
}

static int step_chain(double *work)
{
	hashchain_fast()->run(cpu.state, STEPS);
	*work = STEPS;
	return 0;
}

static int check_chain(void)
{
	unsigned char a[32], b[32];

	memcpy(a, cpu.state, sizeof a);
	memcpy(b, cpu.state, sizeof b);
	hashchain_fast()->run(a, 100);
	hashchain_reference.run(b, 100);
	if (memcmp(a, b, sizeof a) != 0)
		bug("the hash chain is wrong");
	return 0;
}

static void describe_chain(json_t *params)
{
	json_set_i64(params, "threads", 1);
	json_set_text(params, "kernel", hashchain_fast()->name);
}

static const struct test tests[] = {
	{ "matmul_f32", "FLOP/s", "matrix product, f32, all cores", false, open_f32,
		step_f32, check_f32, describe_f32, close_matmul },
	{ "matmul_bf16", "FLOP/s", "matrix product, bf16 into f32, all cores", false,
		open_bf16, step_bf16, check_bf16, describe_bf16, close_matmul },
	{ "matmul_int8", "OP/s", "matrix product, int8 into int32, all cores", false,
		open_i8, step_i8, check_i8, describe_i8, close_matmul },
	{ "hash_chain", "1/s", "SHA-256 of SHA-256 of ..., one thread", false, open_chain,
		step_chain, check_chain, describe_chain, NULL },
	{ 0 },
};

const struct suite suite_cpu = { "cpu", tests, suite_cpu_model, NULL };
