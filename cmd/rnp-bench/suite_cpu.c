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
#include "kernels/dev.h"
#include "kernels/half.h"
#include "kernels/hashchain.h"

#define N       2048 /* three matrices of f32 are 50 MB */
#define N_QUICK 768
#define STEPS   2000 /* hashes: about 0.1 ms with SHA-NI */

static struct {
	struct dev dev;
	struct product product; /* C = A B^T; B is as random as its transpose */
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

/* Whole numbers from -8 to 8, exact in every type. */
static void put(enum product_type type, void *p, size_t i, int v)
{
	if (type == PRODUCT_F32)
		((float *)p)[i] = (float)v;
	else if (type == PRODUCT_BF16)
		((uint16_t *)p)[i] = bf16_from_f32((float)v);
	else
		((int8_t *)p)[i] = (int8_t)v;
}

static void free_matrix(const void *m)
{
	void *p;

	memcpy(&p, &m, sizeof p); /* products take what they only read as const */
	cpu.dev.ops->free(&cpu.dev, p);
}

static void close_product(void)
{
	if (!cpu.dev.ops)
		return;
	free_matrix(cpu.product.a);
	free_matrix(cpu.product.b);
	free_matrix(cpu.product.c);
	cpu.product = (struct product){ 0 };
	dev_close(&cpu.dev);
}

/* n x n on the device; NULL: no memory */
static void *filled(enum product_type type, uint64_t n)
{
	struct rng rng;
	void *p;

	if (cpu.dev.ops->alloc(&cpu.dev, &p, n * n * product_element_bytes(type)) < 0)
		return NULL;
	rng_seed(&rng, 1, 1);
	for (size_t i = 0; i < n * n; i++)
		put(type, p, i, (int)(rng_u32(&rng) % 17) - 8);
	return p;
}

static int open_product(const struct settings *s, enum product_type type)
{
	uint64_t n = s->quick ? N_QUICK : N;
	struct product *p = &cpu.product;

	if (dev_open(&cpu.dev, "cpu") < 0)
		return err_set(cpu.dev.code, "%s", cpu.dev.error);
	*p = (struct product){ .type = type,
		.m = n,
		.n = n,
		.k = n,
		.lda = n,
		.ldb = n,
		.ldc = n };
	p->a = filled(type, n);
	p->b = filled(type, n);
	if (p->a && p->b && cpu.dev.ops->alloc(&cpu.dev, &p->c, n * n * 4) == 0)
		return 0;
	err_set(EX_OSERR, "%s", cpu.dev.error);
	close_product();
	return -1;
}

static int open_f32(const struct settings *s)
{
	return open_product(s, PRODUCT_F32);
}

static int open_bf16(const struct settings *s)
{
	return open_product(s, PRODUCT_BF16);
}

static int open_i8(const struct settings *s)
{
	return open_product(s, PRODUCT_I8);
}

static int step_product(double *work)
{
	const struct product *p = &cpu.product;

	if (cpu.dev.ops->product(&cpu.dev, p) < 0)
		return err_set(cpu.dev.code, "%s", cpu.dev.error);
	*work = 2 * (double)p->m * (double)p->n * (double)p->k;
	return 0;
}

/* Every sum is exact in f32, so that the last row must be equal bit by bit. */
static int check_product(void)
{
	struct product row = cpu.product;
	uint64_t last = row.m - 1;
	void *want = xmalloc(row.n * 4);

	row.a = (const char *)row.a + last * row.lda * product_element_bytes(row.type);
	row.c = want;
	row.m = 1;
	product_ref(&row);
	if (memcmp(want, (char *)cpu.product.c + last * row.ldc * 4, row.n * 4) != 0)
		bug("the matrix product is wrong");
	free(want);
	return 0;
}

static void describe_product(json_t *params)
{
	const char *kernel = cpu.dev.kernel;

	json_set_i64(params, "n", (int64_t)cpu.product.n);
	json_set_i64(params, "threads", suite_threads());
	json_set_text(params, "kernel",
		strcmp(kernel, "ref") == 0 ? "reference" : kernel);
}

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
		step_product, check_product, describe_product, close_product },
	{ "matmul_bf16", "FLOP/s", "matrix product, bf16 into f32, all cores", false,
		open_bf16, step_product, check_product, describe_product, close_product },
	{ "matmul_int8", "OP/s", "matrix product, int8 into int32, all cores", false,
		open_i8, step_product, check_product, describe_product, close_product },
	{ "hash_chain", "1/s", "SHA-256 of SHA-256 of ..., one thread", false, open_chain,
		step_chain, check_chain, describe_chain, NULL },
	{ 0 },
};

const struct suite suite_cpu = { "cpu", tests, suite_cpu_model, NULL };
