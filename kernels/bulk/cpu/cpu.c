/* cpu.c - triad, random reads and products on the CPU: the team shares each. */
#include "kernels/bulk/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/dev/dev_cpu.h"

void bulk_cpu_choose(struct bulk_cpu *out, enum cpu_level level)
{
	const char *dnnl = getenv("RNP_DNNL");
	struct cpu_features has = cpu_features(level);

	*out = (struct bulk_cpu){ .triad = bulk_triad_ref,
		.random = bulk_random_ref,
		.dnnl = level > CPU_REF && !(dnnl && strcmp(dnnl, "0") == 0),
		.amx = has.amx && cpu_amx_permitted() };
	for (int i = 0; i < PRODUCT_TYPES; i++)
		out->product[i] = product_ref;
#ifdef __x86_64__
	if (level >= CPU_AVX2) {
		out->triad = bulk_triad_avx2;
		out->product[PRODUCT_F32] = product_f32_avx2;
		out->product[PRODUCT_BF16] = product_bf16_avx2;
		out->product[PRODUCT_F16] = product_f16_avx2;
		out->product[PRODUCT_F8] = product_f8_avx2;
		out->product[PRODUCT_I8] = product_i8_avx2;
	}
	if (level >= CPU_AVX512) {
		out->triad = bulk_triad_avx512;
		out->product[PRODUCT_F32] = product_f32_avx512;
		out->product[PRODUCT_BF16] = has.bf16 ? product_bf16_avx512bf16 :
							product_bf16_avx512;
		out->product[PRODUCT_F16] = product_f16_avx512;
		out->product[PRODUCT_F8] = product_f8_avx512;
		out->product[PRODUCT_I8] = has.vnni ? product_i8_avx512vnni :
						      product_i8_avx512;
	}
#endif
}

CPU_OPEN(bulk)

struct triad {
	bulk_triad_fn triad;
	double *a;
	const double *b, *c;
	double s;
};

static void triad_part(void *work, uint64_t from, uint64_t to)
{
	struct triad *t = work;

	t->triad(t->a + from, t->b + from, t->c + from, t->s, to - from);
}

static int cpu_triad(struct dev *d, double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	struct triad t = { cpu_of(d)->bulk->triad, a, b, c, s };

	return cpu_in_parts(d, n, 1 << 15, triad_part, &t);
}

struct random {
	bulk_random_fn random;
	struct bulk_random all;
	uint64_t sum;
};

static void random_part(void *work, uint64_t from, uint64_t to)
{
	struct random *r = work;
	struct bulk_random mine = r->all;
	uint64_t sum;

	mine.from += from;
	mine.count = to - from;
	sum = r->random(&mine);
	__atomic_fetch_add(&r->sum, sum, __ATOMIC_RELAXED);
}

static int cpu_random(struct dev *d, uint64_t *sum, const struct bulk_random *r)
{
	struct random work = { cpu_of(d)->bulk->random, *r, 0 };

	if (cpu_in_parts(d, r->count, 1 << 12, random_part, &work) < 0)
		return -1;
	*sum = work.sum;
	return 0;
}

struct product_work {
	product_fn product;
	const struct product *p;
};

static void rows_part(void *work, uint64_t from, uint64_t to)
{
	struct product_work *w = work;
	struct product p = *w->p;

	p.a = (const char *)p.a + from * p.lda * product_element_bytes(p.type);
	p.c = (char *)p.c + from * p.ldc * 4;
	p.m = to - from;
	w->product(&p);
}

static void columns_part(void *work, uint64_t from, uint64_t to)
{
	struct product_work *w = work;
	struct product p = *w->p;

	p.b = (const char *)p.b + from * p.ldb * product_element_bytes(p.type);
	p.c = (char *)p.c + from * 4;
	p.n = to - from;
	w->product(&p);
}

static int cpu_product(struct dev *d, const struct product *p)
{
	struct product_work w = { NULL, p };
	const char *by = NULL; /* what computed it, if not a kernel of the table */

	if ((unsigned)p->type >= PRODUCT_TYPES)
		return dev_fail(d, EX_SOFTWARE, "cpu: product of type %d", (int)p->type);
	if (p->type == PRODUCT_I8 && p->k > PRODUCT_I8_K_MAX)
		return dev_fail(d, EX_SOFTWARE, "cpu: product of int8 with k = %llu",
			(unsigned long long)p->k);
	if (cpu_settle(d) < 0)
		return -1;
	if (cpu_of(d)->bulk->amx && product_amx_large(p) && product_amx(p) == 0)
		by = "AMX";
	else if (cpu_of(d)->bulk->dnnl && product_dnnl(p) == 0)
		by = "oneDNN";
	else if (cpu_of(d)->bulk->amx && product_amx(p) == 0)
		by = "AMX";
	if (by) {
		snprintf(d->kernel, sizeof d->kernel, "%s", by);
		return 0;
	}
	memcpy(d->kernel, d->isa, sizeof d->kernel);
	w.product = cpu_of(d)->bulk->product[p->type];
	if (p->m >= p->n)
		return cpu_in_parts(d, p->m, 16, rows_part, &w);
	return cpu_in_parts(d, p->n, 16, columns_part, &w);
}

CPU_TABLE(bulk, BULK_OPS);
