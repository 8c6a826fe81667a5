/* check_lm_paged.c - keys and values in blocks: rows of several sequences whose blocks lie
 * anywhere, wide and narrow heads, windows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/lm/ref.h"
#include "tests/kernels/kcheck.h"

#define U         0x1p-24
#define ROWS_MAX  16
#define LIST_MAX  64 /* blocks of a row's list */
#define SEQUENCES 3

struct shape {
	uint64_t heads, kv_heads, head_dim, window, rows;
	uint32_t position[ROWS_MAX];
	float softcap;
};

/* Numbers from -1 to 1, the same in every run. */
static float *numbers(uint64_t n, uint64_t seed)
{
	float *x = malloc((n + 1) * sizeof *x);

	for (uint64_t i = 0; i < n; i++)
		x[i] = (float)((int)((i + seed) * 2654435761u % 2001) - 1000) / 1000;
	return x;
}

static int run_attend(struct dev *d, void *out, const void *arguments)
{
	struct lm_paged_attend a = *(const struct lm_paged_attend *)arguments;

	a.out = out;
	return d->ops->lm->paged_attend(d, &a);
}

/* Blocks of different sequences in turn, from the end of the pool. */
static void lists(uint32_t *blocks, uint32_t pool)
{
	for (uint32_t s = 0; s < SEQUENCES; s++)
		for (uint32_t i = 0; i < LIST_MAX; i++)
			blocks[s * LIST_MAX + i] = pool - 1 - (i * SEQUENCES + s);
}

static void attend(struct kcheck *k, const struct shape *s)
{
	enum { POOL = LIST_MAX * SEQUENCES };
	uint64_t width = s->heads * s->head_dim, ldk = s->kv_heads * s->head_dim;
	uint64_t n = s->rows * width, pool = (uint64_t)POOL * LM_PAGE * ldk;
	uint32_t table[ROWS_MAX], blocks[POOL], last = 0;
	float *q = numbers(s->rows * (width + 4), 3), *keys = numbers(pool, 7);
	float *values = numbers(pool, 11), *want = malloc(n * sizeof *want);
	float *bound = malloc(n * sizeof *bound);
	double sum = sqrt((double)s->head_dim); /* the largest |scale q k| */
	struct kcase c = { .run = run_attend, .want = want, .bound = bound };
	struct lm_paged_attend a = { .out = want,
		.q = q,
		.keys = keys,
		.values = values,
		.position = s->position,
		.table = table,
		.blocks = blocks,
		.rows = s->rows,
		.heads = s->heads,
		.kv_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.window = s->window,
		.ldq = width + 4,
		.ldk = ldk,
		.ldo = width,
		.softcap = s->softcap,
		.scale = (float)(1 / sqrt((double)s->head_dim)) };

	lists(blocks, POOL);
	for (uint64_t r = 0; r < s->rows; r++) {
		table[r] = (uint32_t)(r % SEQUENCES) * LIST_MAX;
		last = s->position[r] > last ? s->position[r] : last;
	}
	a.keys_max = (uint64_t)last + 1;
	lm_paged_attend_ref(&a, 0, s->rows * s->heads);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)((double)(s->head_dim + 8) * 16 * U * (1 + sum) +
			((double)s->position[i / width] + 1) * 4 * U);
	a.q = kcheck_put(k, q, s->rows * (width + 4) * 4, 0);
	a.keys = kcheck_put(k, keys, pool * 4, 0);
	a.values = kcheck_put(k, values, pool * 4, 0);
	a.position = kcheck_put(k, s->position, s->rows * 4, 0);
	a.table = kcheck_put(k, table, s->rows * 4, 0);
	a.blocks = kcheck_put(k, blocks, sizeof blocks, 0);
	c.arguments = &a;
	c.out_bytes = n * 4;
	c.work = (double)s->rows * (double)width * (double)a.keys_max * 4;
	c.unit = "op";
	snprintf(c.label, sizeof c.label,
		"paged_attend %llu heads on %llu of %llu, %llu rows to %u, window %llu, softcap %g",
		(unsigned long long)s->heads, (unsigned long long)s->kv_heads,
		(unsigned long long)s->head_dim, (unsigned long long)s->rows, last,
		(unsigned long long)s->window, (double)s->softcap);
	kcheck_case(k, &c);
	free(q), free(keys), free(values), free(want), free(bound);
}

/* out: the keys of the pool, behind them its values */
static int run_put(struct dev *d, void *out, const void *arguments)
{
	struct lm_paged_put p = *(const struct lm_paged_put *)arguments;
	uint64_t rows = 4 * LM_PAGE;

	p.keys = out;
	p.values = p.keys + rows * p.width;
	if (d->ops->fill(d, out, 0, 2 * rows * p.width) < 0)
		return -1;
	return d->ops->lm->paged_put(d, &p);
}

static void put(struct kcheck *k, uint64_t width)
{
	static const uint32_t slots[] = { 5, 63, 0, 17, 16 };
	enum { ROWS = sizeof slots / sizeof *slots };
	uint64_t all = 4 * LM_PAGE * width;
	float *x = numbers(ROWS * width, 1), *y = numbers(ROWS * width, 2);
	float *want = calloc(2 * all, sizeof *want);
	struct lm_paged_put p = { .keys = want,
		.values = want + all,
		.k = x,
		.v = y,
		.slot = slots,
		.rows = ROWS,
		.width = width };
	struct kcase c = { .run = run_put, .arguments = &p, .want = want };

	lm_paged_put_ref(&p, 0, ROWS);
	p.k = kcheck_put(k, x, ROWS * width * 4, 0);
	p.v = kcheck_put(k, y, ROWS * width * 4, 0);
	p.slot = kcheck_put(k, slots, sizeof slots, 0);
	c.out_bytes = 2 * all * 4;
	snprintf(c.label, sizeof c.label, "paged_put of %llu", (unsigned long long)width);
	kcheck_case(k, &c);
	free(x), free(y), free(want);
}

void check_lm_paged(struct kcheck *k)
{
	static const struct shape shapes[] = {
		{ 1, 1, 8, 0, 1, { 0 }, 0 },
		{ 2, 2, 4, 0, 3, { 0, 2, 15 }, 0 },
		{ 4, 2, 16, 0, 5, { 16, 3, 40, 64, 63 }, 0 },
		{ 3, 1, 20, 0, 4, { 77, 78, 79, 5 }, 0 },
		{ 2, 1, 64, 0, 7, { 299, 0, 64, 127, 128, 129, 300 }, 0 },
		{ 4, 4, 12, 30, 4, { 29, 30, 31, 200 }, 0 },
		{ 2, 1, 128, 90, 3, { 134, 90, 600 }, 0 },
		{ 2, 1, 32, 0, 3, { 134, 9, 60 }, 0.75f },
		{ 1, 1, 264, 0, 2, { 20, 9 }, 0 },
	};

	if (k->dev.ops->lm->prepare(&k->dev, NULL) < 0)
		return;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		attend(k, &shapes[i]);
	put(k, 8);
	put(k, 129);
}
