/* check_int8.c - compares every version of int8 with its reference: exact or bounded cases,
 * edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/kcheck.h"

struct arguments {
	const int8_t *in;
	uint64_t n;
	struct int8_mix mix;
};

/* works in place: its input is copied there before each run */
static int run_balance(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	if (d->ops->copy(d, out, a->in, a->n) < 0)
		return -1;
	return d->ops->poc->balance(d, out, a->n);
}

static int run_mix(struct dev *d, void *out, const void *arguments)
{
	return d->ops->poc->mix(d, out, &((const struct arguments *)arguments)->mix);
}

static void bytes(struct kcheck *k, uint64_t n, unsigned offset)
{
	int8_t *in = malloc(n * n), *want = malloc(n * n);
	struct arguments a = { .n = n * n };
	struct kcase c = { .run = run_balance,
		.arguments = &a,
		.want = want,
		.out_bytes = n * n,
		.offset = offset,
		.work = (double)n * (double)n,
		.unit = "B" };

	kcheck_random(in, n * n, n);
	for (uint64_t i = 0; i < n * n; i++)
		want[i] = in[i];
	int8_balance_ref(want, n * n);
	a.in = kcheck_put(k, in, n * n, 0);
	snprintf(c.label, sizeof c.label, "balance %llu", (unsigned long long)(n * n));
	kcheck_case(k, &c);
	free(in), free(want);
}

static void mix(struct kcheck *k, uint64_t rows, uint64_t n, unsigned offset)
{
	uint64_t words = rows * n;
	uint32_t *in = malloc((words + rows + n) * 4);
	int8_t *want = malloc(words);
	struct arguments a = { .mix = { .c = (int32_t *)in,
				       .row_salt = in + words,
				       .column_salt = in + words + rows,
				       .rows = rows,
				       .n = n } };
	struct kcase c = { .run = run_mix,
		.arguments = &a,
		.want = want,
		.out_bytes = words,
		.offset = offset,
		.work = 5 * (double)words,
		.unit = "B" };

	kcheck_random(in, (words + rows + n) * 4, n);
	int8_mix_ref(want, &a.mix);
	a.mix.c = kcheck_put(k, in, words * 4, 4);
	a.mix.row_salt = kcheck_put(k, in + words, rows * 4, 0);
	a.mix.column_salt = kcheck_put(k, in + words + rows, n * 4, 8);
	snprintf(c.label, sizeof c.label, "mix %llu x %llu", (unsigned long long)rows,
		(unsigned long long)n);
	kcheck_case(k, &c);
	free(in), free(want);
}

void check_int8(struct kcheck *k)
{
	static const uint64_t sides[] = { 1, 7, 31, 32, 33, 64, 65, 130 };

	if (k->bench) {
		bytes(k, 4096, 0);
		mix(k, 4096, 4096, 0);
		return;
	}
	for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
		bytes(k, sides[i], (unsigned)i % 2);
		mix(k, 3, sides[i], (unsigned)i % 2);
		mix(k, sides[i], 17, 0);
	}
}
