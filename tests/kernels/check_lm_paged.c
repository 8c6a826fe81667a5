/* check_lm_paged.c - tests keys and values in blocks: rows of several sequences whose blocks
 * lie anywhere, wide and narrow heads, windows;
 * long because its cases are tables, and of all that a cache of blocks has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/lm/ref.h"
#include "tests/kernels/kcheck.h"

#define U         0x1p-24
#define ROWS_MAX  72
#define LIST_MAX  340 /* blocks of a row's list */
#define SEQUENCES 3
/* A chip's long rows are longer than the emulation's: of a shape with `far` below FAR_SOON it is so
 * many times as much, and so is a window. */
#define FAR_SOON    400
#define FAR_ON_CHIP 16

struct shape {
	uint64_t heads, kv_heads, head_dim, window, rows;
	uint32_t position[ROWS_MAX];
	float softcap;
	bool alone;      /* some rows alone, and the last without the first, too */
	bool one;        /* all rows are of one sequence, as those of a prompt */
	uint32_t first;  /* where not 0, the rows' positions are those from it on */
	uint64_t others; /* so many rows are before a prompt's, of sequences in turn */
	uint32_t far; /* where not 0, every 16th row's position is that less its number */
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

/* Computes rows from .. from + n - 1 as a step of their own, and compares their bits with those of
 * all, which are on the host. `there`: room for all rows. */
static int compare_rows(struct dev *d, const struct lm_paged_attend *a, const char *all,
	void *there, uint64_t from, uint64_t n)
{
	struct lm_paged_attend part = *a;
	uint64_t bytes = n * a->ldo * 4;
	char *alone = malloc(bytes);
	int rc;

	part.rows = n;
	part.q += from * a->ldq;
	part.position += from;
	part.table += from;
	rc = run_attend(d, there, &part);
	if (rc == 0)
		rc = d->ops->get(d, alone, there, bytes);
	if (rc == 0 && memcmp(all + from * a->ldo * 4, alone, bytes) != 0)
		rc = dev_fail(d, 70, "rows %llu and on have other bits than together",
			(unsigned long long)from);
	free(alone);
	return rc;
}

/* The same, and some rows alone, and all but the first, which must give the same bits. */
static int run_attend_alone(struct dev *d, void *out, const void *arguments)
{
	const struct lm_paged_attend *a = arguments;
	uint64_t bytes = a->rows * a->ldo * 4, step = a->rows > 16 ? 17 : 3;
	char *all = malloc(bytes);
	void *there = NULL;
	int rc = run_attend(d, out, arguments);

	if (rc == 0)
		rc = d->ops->alloc(d, &there, bytes);
	if (rc == 0)
		rc = d->ops->get(d, all, out, bytes);
	for (uint64_t r = 0; rc == 0 && r < a->rows; r += step)
		rc = compare_rows(d, a, all, there, r, 1);
	if (rc == 0 && a->rows > 2)
		rc = compare_rows(d, a, all, there, 2, a->rows - 2);
	d->ops->free(d, there);
	free(all);
	return rc;
}

/* Assigns `each` blocks to every sequence in turn, from the end of the pool. */
static void lists(uint32_t *blocks, uint32_t each)
{
	for (uint32_t s = 0; s < SEQUENCES; s++)
		for (uint32_t i = 0; i < each; i++)
			blocks[s * each + i] = (each - i) * SEQUENCES - 1 - s;
}

static uint32_t blocks_of(const struct shape *s)
{
	uint32_t last = 0;

	for (uint64_t r = 0; r < s->rows; r++)
		last = s->position[r] > last ? s->position[r] : last;
	return last / LM_PAGE + 1;
}

static const char *const types[LM_CACHE_TYPES] = { "f16", "f32", "q8_0" };

/* Rows of numbers as the cache stores them. */
static void keep(enum lm_cache_type type, char *to, const float *from, uint64_t rows,
	uint64_t width)
{
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t g = 0; g < (width + 31) / 32; g++)
			lm_cache_put_32(type, to + r * lm_cache_bytes(type, width),
				from + r * width, g, width);
}

/* Puts the rows of each head of a block together. */
static void by_head(char *kept, const struct lm_paged_attend *a, uint64_t tokens)
{
	uint64_t row = lm_cache_bytes(a->type, a->ldk), all = LM_PAGE * row;
	uint64_t each = lm_cache_bytes(a->type, a->head_dim);
	char *block = malloc(all);

	for (uint64_t t = 0; t < tokens; t += LM_PAGE) {
		memcpy(block, kept + t * row, all);
		for (uint64_t h = 0; h < a->kv_heads; h++)
			for (uint64_t i = 0; i < LM_PAGE; i++)
				memcpy(kept + t * row + (h * LM_PAGE + i) * each,
					block + i * row + h * each, each);
	}
	free(block);
}

/* Puts `blocks` blocks of n bytes so far apart as a cache does that has others between them. Frees
 * `side_by_side`. */
static char *spread(char *side_by_side, uint64_t blocks, uint64_t n, uint64_t stride)
{
	char *apart = calloc(blocks, stride);

	for (uint64_t i = 0; i < blocks; i++)
		memcpy(apart + i * stride, side_by_side + i * n, n);
	free(side_by_side);
	return apart;
}

/* Numbers of a row of keys or values of the reference. */
static double number_at(const struct lm_paged_attend *a, const void *cache, uint64_t r,
	uint64_t j, uint64_t column)
{
	uint64_t slot = a->blocks[a->table[r] + j / LM_PAGE] * LM_PAGE + j % LM_PAGE;

	return lm_cache_at(a->type,
		(const char *)cache + slot * lm_cache_bytes(a->type, a->ldk), column);
}

/* Adds to the bounds of a row's head what rounding to f16 may change, to first order and a tenth
 * more: in a score 2^-11 of the magnitudes of its terms, twice with Q8_0, in a weight 2^-11, and of
 * Q8_0 in a value. out is the reference's. */
static void add_rounding(float *bound, const struct lm_paged_attend *a, uint64_t r,
	uint64_t h)
{
	uint64_t last = a->position[r], kv = h / (a->heads / a->kv_heads) * a->head_dim;
	uint64_t first = a->window && last >= a->window ? last + 1 - a->window : 0;
	const float *q = a->q + r * a->ldq + h * a->head_dim;
	double *p = calloc(last + 1, sizeof *p), *terms = calloc(last + 1, sizeof *terms);
	double sum = 0, twice = a->type == LM_CACHE_Q8_0;

	for (uint64_t j = first; j <= last; j++) {
		for (uint64_t i = 0; i < a->head_dim; i++) {
			double x = a->scale * q[i] * number_at(a, a->keys, r, j, kv + i);

			p[j] += x;
			terms[j] += fabs(x);
		}
		p[j] = exp(a->softcap > 0 ? a->softcap * tanh(p[j] / a->softcap) : p[j]);
		sum += p[j];
	}
	for (uint64_t i = 0; i < a->head_dim; i++) {
		uint64_t at = r * a->ldo + h * a->head_dim + i;
		double all = 0;

		for (uint64_t j = first; j <= last; j++) {
			double v = number_at(a, a->values, r, j, kv + i);

			all += p[j] / sum *
				(fabs(v - a->out[at]) * (1 + (1 + twice) * terms[j]) +
					twice * fabs(v));
		}
		bound[at] += (float)(1.1 * 0x1p-11 * all);
	}
	free(p), free(terms);
}

/* Whether tensor cores may compute it. */
static bool rounds(const struct kcheck *k, const struct shape *s, enum lm_cache_type type)
{
	return !k->dev.is_host && type != LM_CACHE_F32 &&
		(s->head_dim == 64 || s->head_dim == 128 || s->head_dim == 256);
}

static void attend_in(struct kcheck *k, const struct shape *s, enum lm_cache_type type,
	bool heads_apart)
{
	uint32_t each = blocks_of(s), table[ROWS_MAX], blocks[LIST_MAX * SEQUENCES],
		 last = 0;
	uint64_t width = s->heads * s->head_dim, ldk = s->kv_heads * s->head_dim;
	uint64_t n = s->rows * width, tokens = (uint64_t)each * SEQUENCES * LM_PAGE;
	uint64_t pool = tokens * ldk;
	float *q = numbers(s->rows * (width + 4), 3), *keys = numbers(pool, 7);
	float *values = numbers(pool, 11), *want = malloc(n * sizeof *want);
	float *bound = malloc(n * sizeof *bound);
	double sum = sqrt((double)s->head_dim); /* the largest |scale q k| */
	struct kcase c = { .run = s->alone ? run_attend_alone : run_attend,
		.want = want,
		.bound = bound };
	uint64_t block = LM_PAGE * lm_cache_bytes(type, ldk);
	uint64_t blocks_all = tokens / LM_PAGE, pool_bytes;
	char *kept = malloc(blocks_all * block),
	     *kept_values = malloc(blocks_all * block);
	struct lm_paged_attend a = { .type = type,
		.out = want,
		.q = q,
		.keys = kept,
		.values = kept_values,
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

	keep(type, kept, keys, tokens, ldk);
	keep(type, kept_values, values, tokens, ldk);
	lists(blocks, each);
	for (uint64_t r = 0; r < s->rows; r++) {
		table[r] = s->one && r >= s->others ? each :
						      (uint32_t)(r % SEQUENCES) * each;
		last = s->position[r] > last ? s->position[r] : last;
	}
	a.keys_max = (uint64_t)last + 1;
	lm_paged_attend_ref(&a, 0, s->rows * s->heads);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)((double)(s->head_dim + 8) * 16 * U * (1 + sum) +
			((double)s->position[i / width] + 1) * 4 * U);
	for (uint64_t i = 0; i < s->rows * s->heads && rounds(k, s, type); i++)
		add_rounding(bound, &a, i / s->heads, i % s->heads);
	a.by_head = heads_apart;
	if (heads_apart) {
		by_head(kept, &a, tokens);
		by_head(kept_values, &a, tokens);
		a.stride = 2 * block + 64;
		kept = spread(kept, blocks_all, block, a.stride);
		kept_values = spread(kept_values, blocks_all, block, a.stride);
	}
	a.q = kcheck_put(k, q, s->rows * (width + 4) * 4, 0);
	pool_bytes = blocks_all * (a.stride ? a.stride : block);
	a.keys = kcheck_put(k, kept, pool_bytes, 0);
	a.values = kcheck_put(k, kept_values, pool_bytes, 0);
	a.position = kcheck_put(k, s->position, s->rows * 4, 0);
	a.table = kcheck_put(k, table, s->rows * 4, 0);
	a.blocks = kcheck_put(k, blocks, (uint64_t)each * SEQUENCES * sizeof *blocks, 0);
	c.arguments = &a;
	c.out_bytes = n * 4;
	c.work = (double)s->rows * (double)width * (double)a.keys_max * 4;
	c.unit = "op";
	snprintf(c.label, sizeof c.label,
		"paged %s%s %llu heads on %llu of %llu, %llu rows%s to %u, window %llu, softcap %g",
		types[type], heads_apart ? ", apart," : "", (unsigned long long)s->heads,
		(unsigned long long)s->kv_heads, (unsigned long long)s->head_dim,
		(unsigned long long)s->rows, s->one ? " of one sequence" : "", last,
		(unsigned long long)s->window, (double)s->softcap);
	kcheck_case(k, &c);
	free(q), free(keys), free(values), free(kept), free(kept_values), free(want),
		free(bound);
}

/* On a CPU as it lies in the caches of models, too. */
static void attend(struct kcheck *k, const struct shape *shape, enum lm_cache_type type)
{
	struct shape s = *shape;

	for (uint64_t r = 0; s.first && r < s.rows; r++)
		s.position[r] = s.first + (uint32_t)r;
	if (s.far && s.far < FAR_SOON && !k->dev.is_host &&
		strcmp(k->column, "emu") != 0) {
		s.far *= FAR_ON_CHIP;
		s.window *= FAR_ON_CHIP;
	}
	for (uint64_t r = 4; s.far && r < s.rows; r += 16)
		s.position[r] = s.far - (uint32_t)r;
	attend_in(k, &s, type, false);
	if (k->dev.is_host)
		attend_in(k, &s, type, true);
}

static uint64_t stride_of(const struct lm_paged_put *p)
{
	return p->stride ? p->stride : LM_PAGE * lm_cache_bytes(p->type, p->width);
}

/* Output: the keys of the pool, then its values. */
static int run_put(struct dev *d, void *out, const void *arguments)
{
	struct lm_paged_put p = *(const struct lm_paged_put *)arguments;
	uint64_t bytes = 4 * stride_of(&p);

	p.keys = out;
	p.values = (char *)out + bytes;
	if (d->ops->fill(d, out, 0, 2 * bytes / 4) < 0)
		return -1;
	return d->ops->lm->paged_put(d, &p);
}

static void put(struct kcheck *k, uint64_t width, enum lm_cache_type type, uint64_t head)
{
	static const uint32_t slots[] = { 5, 63, 0, 17, 16 };
	enum { ROWS = sizeof slots / sizeof *slots };
	uint64_t bytes = 4 * LM_PAGE * lm_cache_bytes(type, width);
	float *x = numbers(ROWS * width, 1), *y = numbers(ROWS * width, 2);
	char *want = calloc(2, bytes);
	struct lm_paged_put p = { .type = type,
		.keys = want,
		.values = want + bytes,
		.k = x,
		.v = y,
		.slot = slots,
		.rows = ROWS,
		.width = width };
	struct kcase c = { .run = run_put, .arguments = &p };

	for (uint64_t i = 0; i < 32 && width >= 64; i++)
		x[32 + i] = i % 2 ? 0x1p-101f : 0; /* practically zero for Q8_0 */
	lm_paged_put_ref(&p, 0, ROWS);
	if (head) {
		const struct lm_paged_attend a = { .type = type,
			.kv_heads = width / head,
			.head_dim = head,
			.ldk = width };

		by_head(want, &a, 4 * LM_PAGE);
		by_head(want + bytes, &a, 4 * LM_PAGE);
		p.stride = bytes / 4 + 64;
		want = spread(want, 8, bytes / 4, p.stride);
	}
	p.by_head = head;
	p.k = kcheck_put(k, x, ROWS * width * 4, 0);
	p.v = kcheck_put(k, y, ROWS * width * 4, 0);
	p.slot = kcheck_put(k, slots, sizeof slots, 0);
	c.want = want;
	c.out_bytes = 8 * stride_of(&p);
	snprintf(c.label, sizeof c.label, "paged_put %s of %llu by %llu", types[type],
		(unsigned long long)width, (unsigned long long)head);
	kcheck_case(k, &c);
	free(x), free(y), free(want);
}

/* q and k are rotated, and k and v stored, one after the other into the first half of the output,
 * and together into the second: each holds rows of q and k, then keys and values. */
struct in_one {
	struct lm_rotate_put all;
	const float *q, *k; /* before */
	bool must;          /* the device does so in one operation */
};

static uint64_t half_bytes(const struct in_one *g)
{
	const struct lm_rotate_put *x = &g->all;

	return 4 * x->put.rows * (x->q.ld + x->k.ld) +
		2 * 4 * LM_PAGE * lm_cache_bytes(x->put.type, x->put.width);
}

/* Sets where the results go, and what is rotated there. */
static int place(struct dev *d, struct lm_rotate_put *x, const struct in_one *g,
	char *half)
{
	uint64_t q = 4 * g->all.put.rows * g->all.q.ld,
		 k = 4 * g->all.put.rows * g->all.k.ld;

	*x = g->all;
	x->q.x = half;
	x->k.x = half + q;
	x->put.k = x->k.x;
	x->put.keys = half + q + k;
	x->put.values = (char *)x->put.keys +
		4 * LM_PAGE * lm_cache_bytes(x->put.type, x->put.width);
	return d->ops->fill(d, (uint32_t *)(void *)half, 0, half_bytes(g) / 4) < 0 ||
			d->ops->copy(d, half, g->q, q) < 0 ||
			d->ops->copy(d, half + q, g->k, k) < 0 ?
		-1 :
		0;
}

static int one_by_one(struct dev *d, const struct in_one *g, char *half)
{
	struct lm_rotate_put x;

	if (place(d, &x, g, half) < 0 || d->ops->lm->rotate(d, &x.q) < 0 ||
		d->ops->lm->rotate(d, &x.k) < 0)
		return -1;
	return d->ops->lm->paged_put(d, &x.put);
}

static int run_rotate_put(struct dev *d, void *out, const void *arguments)
{
	const struct in_one *g = arguments;
	char *half = (char *)out + half_bytes(g);
	struct lm_rotate_put x;
	int rc;

	if (one_by_one(d, g, out) < 0 || place(d, &x, g, half) < 0)
		return -1;
	rc = d->ops->lm->rotate_put(d, &x);
	if (rc == 1 && g->must)
		return dev_fail(d, 70, "done one by one");
	return rc == 1 ? one_by_one(d, g, half) : rc;
}

static void rotate_put(struct kcheck *k, uint64_t heads, uint64_t kv_heads, uint64_t dim,
	uint64_t rotary, enum lm_cache_type type, bool interleaved)
{
	static const uint32_t slots[] = { 5, 63, 0 }, positions[] = { 2, 0, 4 };
	enum { ROWS = sizeof slots / sizeof *slots, POSITIONS = 5 };
	uint64_t qs = ROWS * heads * dim, ks = ROWS * kv_heads * dim;
	float *q = numbers(qs, 1), *keys = numbers(ks, 2), *values = numbers(ks, 3),
	      *table = numbers(POSITIONS * rotary, 4);
	struct lm_rotate r = { .dtype = LM_DTYPE_F32,
		.table = kcheck_put(k, table, POSITIONS * rotary * 4, 0),
		.position = kcheck_put(k, positions, sizeof positions, 0),
		.rows = ROWS,
		.head_dim = rotary,
		.stride = dim,
		.interleaved = interleaved };
	struct in_one g = { .q = kcheck_put(k, q, qs * 4, 0),
		.k = kcheck_put(k, keys, ks * 4, 0),
		.must = strcmp(k->column, "emu") == 0 && dim % 32 == 0 };
	struct kcase c = { .run = run_rotate_put, .arguments = &g };
	char *want, *place;

	g.all.q = g.all.k = r;
	g.all.q.heads = heads;
	g.all.q.ld = heads * dim;
	g.all.k.heads = kv_heads;
	g.all.k.ld = kv_heads * dim;
	g.all.put = (struct lm_paged_put){ .type = type,
		.v = kcheck_put(k, values, ks * 4, 0),
		.slot = kcheck_put(k, slots, sizeof slots, 0),
		.rows = ROWS,
		.width = kv_heads * dim };
	want = calloc(2, half_bytes(&g));
	place = kcheck_put(k, want, half_bytes(&g), 0);
	if (one_by_one(&k->dev, &g, place) == 0 &&
		k->dev.ops->get(&k->dev, want, place, half_bytes(&g)) == 0)
		memcpy(want + half_bytes(&g), want, half_bytes(&g));
	c.want = want;
	c.out_bytes = 2 * half_bytes(&g);
	snprintf(c.label, sizeof c.label, "rotate_put %s %llu heads on %llu of %llu%s",
		types[type], (unsigned long long)heads, (unsigned long long)kv_heads,
		(unsigned long long)dim, interleaved ? ", interleaved" : "");
	kcheck_case(k, &c);
	free(q), free(keys), free(values), free(table), free(want);
}

void check_lm_paged(struct kcheck *k)
{
	static const struct shape shapes[] = {
		{ 1, 1, 8, 0, 1, { 0 }, 0, false, false, 0, 0, 0 },
		{ 2, 2, 4, 0, 3, { 0, 2, 15 }, 0, false, false, 0, 0, 0 },
		{ 4, 2, 16, 0, 5, { 16, 3, 40, 64, 63 }, 0, false, false, 0, 0, 0 },
		{ 3, 1, 20, 0, 4, { 77, 78, 79, 5 }, 0, false, false, 0, 0, 0 },
		{ 2, 1, 64, 0, 7, { 299, 0, 64, 127, 128, 129, 300 }, 0, false, false, 0,
			0, 0 },
		{ 4, 4, 12, 30, 4, { 29, 30, 31, 200 }, 0, false, false, 0, 0, 0 },
		{ 2, 1, 128, 90, 3, { 134, 90, 600 }, 0, false, false, 0, 0, 0 },
		{ 2, 1, 32, 0, 3, { 134, 9, 60 }, 0.75f, false, false, 0, 0, 0 },
		{ 1, 1, 264, 0, 2, { 20, 9 }, 0, false, false, 0, 0, 0 },
		/* heads of 64, 128 and 256 columns: groups of all sizes, keys in several parts */
		{ 6, 1, 64, 0, 3, { 0, 127, 270 }, 0, true, false, 0, 0, 0 },
		{ 4, 2, 128, 140, 3, { 399, 150, 128 }, 30, true, false, 0, 0, 0 },
		{ 3, 1, 256, 0, 2, { 140, 3 }, 0, false, false, 0, 0, 0 },
	};
	/* so many rows that a GPU computes all parts of a row in one block */
	static const struct shape many = { 16, 16, 64, 0, 16,
		{ 130, 0, 1, 127, 128, 129, 140, 200, 255, 256, 257, 135, 64, 5, 131, 9 },
		0, true, false, 0, 0, 0 };
	/* prompts: a tile whose rows see whole parts and not, positions in no order; a
	 * window that none has left; rows that are no tile because some have left theirs */
	static const struct shape prompts[] = {
		{ 32, 16, 64, 0, 16,
			{ 126, 127, 128, 129, 130, 255, 131, 132, 256, 257, 258, 0, 259,
				128, 9, 1 },
			0, true, true, 0, 0, 0 },
		{ 16, 16, 128, 300, 16,
			{ 160, 128, 129, 255, 256, 257, 258, 130, 131, 132, 133, 134, 135,
				136, 137, 138 },
			20, true, true, 0, 0, 0 },
		{ 20, 20, 64, 130, 13,
			{ 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137,
				138 },
			0, true, true, 0, 0, 0 },
		/* whole chunks and more, in blocks of rows: heads that share keys, odd widths,
		 * a softcap, a window that no row has reached */
		{ 6, 2, 64, 0, 16,
			{ 500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511, 512,
				513, 514, 515 },
			0, true, true, 0, 0, 0 },
		{ 4, 1, 96, 900, 13,
			{ 255, 256, 257, 258, 259, 260, 261, 262, 263, 264, 265, 266,
				267 },
			0, true, true, 0, 0, 0 },
		{ 2, 2, 256, 0, 11,
			{ 190, 191, 192, 193, 194, 195, 196, 197, 198, 199, 200 }, 25,
			true, true, 0, 0, 0 },
		{ 5, 5, 128, 0, 9, { 330, 331, 332, 333, 334, 335, 336, 337, 338 }, 0,
			true, true, 0, 0, 0 },
	};

	/* What tensor cores compute: a row alone, whose parts have their own blocks, far from the
	 * beginning; prompts as tiles, of which some rows belong to others; groups of heads of all
	 * sizes, and windows that leave the tile's first keys behind */
	static const struct {
		struct shape shape;
		enum lm_cache_type type;
	} parts[] = {
		{ { .heads = 4,
			  .kv_heads = 1,
			  .head_dim = 128,
			  .rows = 1,
			  .first = 2047 },
			LM_CACHE_F16 },
		{ { .heads = 3, .kv_heads = 1, .head_dim = 64, .rows = 2, .first = 1983 },
			LM_CACHE_Q8_0 },
		{ { .heads = 7,
			  .kv_heads = 1,
			  .head_dim = 128,
			  .rows = 3,
			  .first = 62,
			  .alone = true },
			LM_CACHE_Q8_0 },
		{ { .heads = 16,
			  .kv_heads = 2,
			  .head_dim = 64,
			  .rows = 2,
			  .first = 127,
			  .alone = true },
			LM_CACHE_F16 },
		{ { .heads = 20,
			  .kv_heads = 1,
			  .head_dim = 64,
			  .rows = 2,
			  .first = 191,
			  .window = 70,
			  .alone = true },
			LM_CACHE_F16 },
		{ { .heads = 4,
			  .kv_heads = 4,
			  .head_dim = 64,
			  .rows = 70,
			  .first = 59,
			  .alone = true,
			  .one = true,
			  .others = 3 },
			LM_CACHE_Q8_0 },
		{ { .heads = 16,
			  .kv_heads = 4,
			  .head_dim = 128,
			  .rows = 66,
			  .first = 62,
			  .alone = true,
			  .one = true },
			LM_CACHE_F16 },
		{ { .heads = 8,
			  .kv_heads = 4,
			  .head_dim = 64,
			  .rows = 70,
			  .first = 158,
			  .window = 67,
			  .alone = true,
			  .one = true },
			LM_CACHE_F16 },
		{ { .heads = 30,
			  .kv_heads = 10,
			  .head_dim = 64,
			  .rows = 26,
			  .first = 180,
			  .window = 65,
			  .softcap = 3,
			  .alone = true,
			  .one = true },
			LM_CACHE_Q8_0 },
		{ { .heads = 8,
			  .kv_heads = 8,
			  .head_dim = 256,
			  .rows = 33,
			  .first = 60,
			  .window = 40,
			  .alone = true,
			  .one = true },
			LM_CACHE_Q8_0 },
		{ { .heads = 34,
			  .kv_heads = 2,
			  .head_dim = 64,
			  .rows = 9,
			  .first = 40,
			  .alone = true,
			  .one = true },
			LM_CACHE_F16 },
		/* a few long rows among many short ones, whose parts have blocks of their own;
		 * beside a prompt, some of whose rows are long, too, under a window; more of them
		 * than there is room for in the emulation; and so many parts that rows take turns
		 * there */
		{ { .heads = 16,
			  .kv_heads = 8,
			  .head_dim = 64,
			  .rows = 32,
			  .first = 1,
			  .alone = true,
			  .far = 310 },
			LM_CACHE_F16 },
		{ { .heads = 8,
			  .kv_heads = 8,
			  .head_dim = 64,
			  .window = 265,
			  .rows = 36,
			  .first = 30,
			  .alone = true,
			  .one = true,
			  .others = 19,
			  .far = 330 },
			LM_CACHE_Q8_0 },
		{ { .heads = 32,
			  .kv_heads = 32,
			  .head_dim = 64,
			  .rows = 37,
			  .first = 1,
			  .far = 770 },
			LM_CACHE_F16 },
		{ { .heads = 32,
			  .kv_heads = 2,
			  .head_dim = 64,
			  .rows = 72,
			  .first = 1,
			  .far = 1900 },
			LM_CACHE_F16 },
	};

	if (k->dev.ops->lm->prepare(&k->dev, NULL) < 0)
		return;
	attend(k, &many, LM_CACHE_F16);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		attend(k, &parts[i].shape, parts[i].type);
	for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
		attend(k, &prompts[i], (enum lm_cache_type)(i % LM_CACHE_TYPES));
	attend(k, &prompts[3], LM_CACHE_Q8_0);
	for (int t = 0; t < LM_CACHE_TYPES; t++) {
		enum lm_cache_type type = (enum lm_cache_type)t;

		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			if (type != LM_CACHE_Q8_0 || shapes[i].head_dim % 32 == 0)
				attend(k, &shapes[i], type);
		put(k, 64, type, 0);
		if (k->dev.is_host)
			put(k, 96, type, 32);
		rotate_put(k, 6, 2, 64, 64, type, t == 1);
		rotate_put(k, 2, 1, 128, 24, type, t == 2);
		if (type == LM_CACHE_Q8_0)
			continue;
		put(k, 8, type, 0);
		put(k, 129, type, 0);
		if (k->dev.is_host)
			put(k, 60, type, 20);
		rotate_put(k, 2, 2, 40, 40, type, false);
	}
}
