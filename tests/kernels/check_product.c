/* check_product.c - compares matrix products with their reference. Exact cases: whole numbers
 * so small that every order of addition is exact. Bounded cases: random numbers with zeros and
 * values of very different size, against the bound of product.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/half.h"
#include "kernels/dev/mem.h"
#include "tests/kernels/kcheck.h"

struct arguments {
	struct product p;
};

static int run(struct dev *d, void *out, const void *arguments)
{
	struct product p = ((const struct arguments *)arguments)->p;

	p.c = out;
	return d->ops->bulk->product(d, &p);
}

static void store(enum product_type type, void *to, uint64_t i, float v)
{
	if (type == PRODUCT_F32)
		((float *)to)[i] = v;
	else if (type == PRODUCT_BF16)
		((uint16_t *)to)[i] = bf16_from_f32(v);
	else if (type == PRODUCT_F16)
		((uint16_t *)to)[i] = f16_from_f32(v);
	else if (type == PRODUCT_F8)
		((uint8_t *)to)[i] = f8_from_f32(v);
	else
		((int8_t *)to)[i] = (int8_t)v;
}

static float load(enum product_type type, const void *from, uint64_t i)
{
	if (type == PRODUCT_F32)
		return ((const float *)from)[i];
	if (type == PRODUCT_BF16)
		return bf16_to_f32(((const uint16_t *)from)[i]);
	if (type == PRODUCT_F16)
		return f16_to_f32(((const uint16_t *)from)[i]);
	if (type == PRODUCT_F8)
		return f8_to_f32(((const uint8_t *)from)[i]);
	return ((const int8_t *)from)[i];
}

enum numbers { WHOLE, WILD, EXTREME };

/* WHOLE: integers -4 .. 4; WILD: a few bits times 2^-6 .. 2^6, some zeros; EXTREME: the ends of
 * int8. */
static float number(enum numbers what, uint64_t bits)
{
	if (what == WHOLE)
		return (float)(int)(bits % 9) - 4;
	if (what == EXTREME)
		return bits % 4 ? -128 : 127;
	if (bits % 16 == 0)
		return 0;
	return ldexpf((float)(int)(bits >> 8 & 15) - 7.5f, (int)(bits >> 16 & 7) - 4);
}

static void *matrix(enum product_type type, enum numbers what, uint64_t rows,
	uint64_t columns, uint64_t ld, uint64_t seed, uint64_t *bytes)
{
	uint64_t n = rows ? (rows - 1) * ld + columns : 0, *bits = malloc(n * 8 + 8);
	void *m;

	*bytes = n * product_element_bytes(type);
	m = malloc(*bytes + 1);
	kcheck_random(bits, n * 8, seed);
	for (uint64_t i = 0; i < n; i++)
		store(type, m, i,
			type == PRODUCT_I8 && what == WILD ? (int8_t)bits[i] :
							     number(what, bits[i]));
	free(bits);
	return m;
}

/* Sets want and bound of every element. The gaps between the rows of C keep the pattern, so
 * only ldc == n is compared in one piece. */
static void references(const struct product *p, float *want, float *bound)
{
	struct product r = *p;

	r.c = want;
	product_ref(&r);
	for (uint64_t i = 0; bound && i < p->m; i++)
		for (uint64_t j = 0; j < p->n; j++) {
			double s = 0;

			for (uint64_t t = 0; t < p->k; t++)
				s += fabs((double)load(p->type, p->a, i * p->lda + t) *
					load(p->type, p->b, j * p->ldb + t));
			bound[i * p->n + j] = (float)(product_bound(p->type, p->k) * s +
				(double)p->k * 0x1p-126);
		}
}

static void one(struct kcheck *k, struct product p, enum numbers what)
{
	static const char *const names[] = { "whole", "wild", "extreme" };
	uint64_t a_bytes, b_bytes;
	void *a = matrix(p.type, what, p.m, p.k, p.lda, 1, &a_bytes);
	void *b = matrix(p.type, what, p.n, p.k, p.ldb, 2, &b_bytes);
	float *want = malloc(p.m * p.n * 4 + 4), *bound = malloc(p.m * p.n * 4 + 4);
	bool exact = what == WHOLE || p.type == PRODUCT_I8;
	struct arguments there;
	struct kcase c = { .run = run,
		.arguments = &there,
		.want = k->bench ? NULL : want,
		.out_bytes = p.m * p.n * 4,
		.bound = exact ? NULL : bound,
		.offset = p.m % 3 * 4,
		.work = 2 * (double)p.m * (double)p.n * (double)p.k,
		.unit = "op" };

	p.ldc = p.n;
	p.a = a;
	p.b = b;
	if (!k->bench)
		references(&p, want, exact ? NULL : bound);
	there.p = p;
	there.p.a = kcheck_put(k, a, a_bytes,
		(unsigned)(p.n % 2 * product_element_bytes(p.type)));
	there.p.b = kcheck_put(k, b, b_bytes, 0);
	snprintf(c.label, sizeof c.label, "%s %s %llu x %llu x %llu, strides %llu, %llu",
		product_type_names[p.type], names[what], (unsigned long long)p.m,
		(unsigned long long)p.n, (unsigned long long)p.k,
		(unsigned long long)p.lda, (unsigned long long)p.ldb);
	kcheck_case(k, &c);
	free(a), free(b), free(want), free(bound);
}

/* C with gaps between its rows, which must stay unchanged. */
static int run_gaps(struct dev *d, void *out, const void *arguments)
{
	struct product p = ((const struct arguments *)arguments)->p;

	/* the same word in all gaps, whatever their old contents */
	if (d->ops->fill(d, out, 0x7f7f7f7f, (p.m - 1) * p.ldc + p.n) < 0)
		return -1;
	return run(d, out, arguments);
}

static void gaps(struct kcheck *k, enum product_type type)
{
	struct product p = { .type = type,
		.m = 9,
		.n = 7,
		.k = 21,
		.lda = 25,
		.ldb = 22,
		.ldc = 11 };
	uint64_t a_bytes, b_bytes, words = (p.m - 1) * p.ldc + p.n;
	void *a = matrix(type, WHOLE, p.m, p.k, p.lda, 3, &a_bytes);
	void *b = matrix(type, WHOLE, p.n, p.k, p.ldb, 4, &b_bytes);
	uint32_t want[9 * 11];
	struct arguments there;
	struct kcase c = { .run = run_gaps,
		.arguments = &there,
		.want = want,
		.out_bytes = words * 4 };

	mem_fill_ref(want, 0x7f7f7f7f, words);
	p.a = a, p.b = b, p.c = want;
	product_ref(&p);
	there.p = p;
	there.p.a = kcheck_put(k, a, a_bytes, 0);
	there.p.b = kcheck_put(k, b, b_bytes, 0);
	snprintf(c.label, sizeof c.label, "%s with gaps between rows",
		product_type_names[type]);
	kcheck_case(k, &c);
	free(a), free(b);
}

void check_product(struct kcheck *k)
{
	static const uint64_t shapes[][3] = { { 1, 1, 1 }, { 1, 5, 7 }, { 4, 4, 64 },
		{ 5, 3, 65 }, { 3, 9, 0 }, { 17, 33, 31 }, { 65, 66, 129 },
		{ 1, 130, 200 }, { 70, 2, 1100 } };

	for (int type = 0; type < PRODUCT_TYPES; type++) {
		if (k->bench) {
			for (uint64_t n = 64;
				n <= (type == PRODUCT_F16 || type == PRODUCT_F8 ? 1024 :
										  2048) &&
				(n <= 256 || strcmp(k->column, "ref") != 0);
				n *= 2)
				one(k,
					(struct product){ .type = type,
						.m = n,
						.n = n,
						.k = n,
						.lda = n,
						.ldb = n },
					WHOLE);
			continue;
		}
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
			struct product p = { .type = type,
				.m = shapes[i][0],
				.n = shapes[i][1],
				.k = shapes[i][2],
				.lda = shapes[i][2] + i % 2 * 3,
				.ldb = shapes[i][2] + i % 3 };

			one(k, p, WHOLE);
			one(k, p, WILD);
			if (type == PRODUCT_I8)
				one(k, p, EXTREME);
		}
		gaps(k, type);
		/* enough for tiles: more rows than a block has, more of k than is packed at
		 * once, odd ends */
		for (int i = 0; i < 3; i++) {
			static const uint64_t large[3][3] = { { 290, 47, 201 },
				{ 40, 150, 4101 }, { 33, 33, 2051 } };

			one(k,
				(struct product){ .type = (enum product_type)type,
					.m = large[i][0],
					.n = large[i][1],
					.k = large[i][2],
					.lda = large[i][2] + 1,
					.ldb = large[i][2] + (uint64_t)i },
				i == 1 ? WHOLE : WILD);
		}
		/* rows of 16 bytes, for tensor cores: small tiles, large ones, edges everywhere */
		for (int i = type == PRODUCT_I8 ? 0 : 1; i < 3; i++) {
			static const uint64_t aligned[3][3] = { { 130, 66, 2100 },
				{ 70, 34, 130 }, { 40, 200, 96 } };
			uint64_t ld = (aligned[i][2] + 15) / 16 * 16;

			one(k,
				(struct product){ .type = (enum product_type)type,
					.m = aligned[i][0],
					.n = aligned[i][1],
					.k = aligned[i][2],
					.lda = ld,
					.ldb = ld },
				i == 2 ? WHOLE : WILD);
		}
		if (!k->slow) /* wide enough to be split for oneDNN, unevenly */
			one(k,
				(struct product){ .type = (enum product_type)type,
					.m = 3,
					.n = 4100,
					.k = 70,
					.lda = 70,
					.ldb = 71 },
				WILD);
	}
}
