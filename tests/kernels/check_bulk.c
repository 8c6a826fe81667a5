/* check_bulk.c - compares every version of bulk with its reference: exact or bounded cases,
 * edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/mem.h"
#include "tests/kernels/kcheck.h"

struct arguments {
	const void *from, *second;
	uint64_t n;
	struct bulk_random random;
};

static int run_copy(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->copy(d, out, a->from, a->n);
}

static int run_fill(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->fill(d, out, 0xdeadbeef, a->n);
}

static int run_triad(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->bulk->triad(d, out, a->from, a->second, 0.3, a->n);
}

static int run_random(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->bulk->random(d, out, &a->random);
}

static void copy(struct kcheck *k, uint64_t n, unsigned to, unsigned from)
{
	unsigned char *bytes = malloc(n);
	struct arguments a = { .n = n };
	struct kcase c = { .run = run_copy,
		.arguments = &a,
		.want = bytes,
		.out_bytes = n,
		.offset = to,
		.work = 2 * (double)n,
		.unit = "B" };

	kcheck_random(bytes, n, n);
	a.from = kcheck_put(k, bytes, n, from);
	snprintf(c.label, sizeof c.label, "copy %llu bytes, offsets %u and %u",
		(unsigned long long)n, to, from);
	kcheck_case(k, &c);
	free(bytes);
}

static void fill(struct kcheck *k, uint64_t n, unsigned offset)
{
	uint32_t *want = malloc(n * 4);
	struct arguments a = { .n = n };
	struct kcase c = { .run = run_fill,
		.arguments = &a,
		.want = want,
		.out_bytes = n * 4,
		.offset = offset,
		.work = 4 * (double)n,
		.unit = "B" };

	mem_fill_ref(want, 0xdeadbeef, n);
	snprintf(c.label, sizeof c.label, "fill %llu words, offset %u",
		(unsigned long long)n, offset);
	kcheck_case(k, &c);
	free(want);
}

static void triad(struct kcheck *k, uint64_t n, unsigned offset)
{
	double *b = malloc(n * 8), *c = malloc(n * 8), *want = malloc(n * 8);
	struct arguments a = { .n = n };
	struct kcase kase = { .run = run_triad,
		.arguments = &a,
		.want = want,
		.out_bytes = n * 8,
		.offset = offset,
		.work = 24 * (double)n,
		.unit = "B" };
	uint64_t *bits = malloc(n * 8);

	kcheck_random(bits, n * 8, n);
	for (uint64_t i = 0; i < n; i++) {
		b[i] = (double)(int64_t)bits[i];
		c[i] = (double)(int64_t)bits[n - 1 - i] * 0x1p-7;
	}
	bulk_triad_ref(want, b, c, 0.3, n);
	a.from = kcheck_put(k, b, n * 8, 8);
	a.second = kcheck_put(k, c, n * 8, 0);
	snprintf(kase.label, sizeof kase.label, "triad of %llu, offset %u",
		(unsigned long long)n, offset);
	kcheck_case(k, &kase);
	free(b), free(c), free(want), free(bits);
}

static void random_reads(struct kcheck *k, uint64_t words, uint64_t count)
{
	uint64_t *table = malloc(words * 8), want;
	struct arguments a = {
		.random = { .words = words, .seed = 5, .from = 3, .count = count }
	};
	struct kcase c = { .run = run_random,
		.arguments = &a,
		.want = &want,
		.out_bytes = 8,
		.work = (double)count,
		.unit = "reads" };

	kcheck_random(table, words * 8, words);
	a.random.table = table;
	want = bulk_random_ref(&a.random);
	a.random.table = kcheck_put(k, table, words * 8, 0);
	snprintf(c.label, sizeof c.label, "%llu random reads of %llu words",
		(unsigned long long)count, (unsigned long long)words);
	kcheck_case(k, &c);
	free(table);
}

void check_bulk(struct kcheck *k)
{
	static const uint64_t sizes[] = { 1, 3, 15, 16, 17, 63, 64, 65, 129, 1000, 5003 };
	uint64_t large = k->slow ? 70001 : 700001; /* larger than a thread's caches */

	if (k->bench) {
		copy(k, UINT64_C(256) << 20, 0, 0);
		fill(k, UINT64_C(64) << 20, 0);
		triad(k, UINT64_C(16) << 20, 0);
		random_reads(k, UINT64_C(16) << 20, UINT64_C(1) << 22);
		return;
	}
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		copy(k, sizes[i], 0, 0);
		copy(k, sizes[i], 5, 5);
		copy(k, sizes[i], 1, 8);
		fill(k, sizes[i], 0);
		fill(k, sizes[i], 4);
		triad(k, sizes[i], 0);
		triad(k, sizes[i], 8);
		random_reads(k, sizes[i], 1000 + sizes[i]);
	}
	copy(k, large * 8, 3, 7);
	fill(k, large * 2, 12);
	triad(k, large, 24);
	random_reads(k, large, 0);
}
