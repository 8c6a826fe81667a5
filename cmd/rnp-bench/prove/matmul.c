/* matmul.c - runs the matmul test on any device. Matrices stay on the device; hashes of
 * rows, and the rounds that fit into memory_bytes, are copied to the host. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "kernels/bulk/ops.h"
#include "kernels/poc/ops.h"

/* --- the openings ------------------------------------------------------------------------- */

/* The rows that an answer holds; draw allocates rows and part frees them. */
struct opened {
	uint64_t n, drawn[POC_OPENINGS], at[2 * POC_OPENINGS];
	size_t count;
	unsigned char *rows;
};

static void opened_draw(struct opened *p, const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], uint64_t leaves,
	const unsigned char root[POC_HASH_BYTES])
{
	unsigned char x[POC_HASH_BYTES];

	poc_fold(x, c, seed, "matmul", root);
	poc_draw(p->drawn, POC_OPENINGS, leaves, x);
	p->count = 0;
	for (int i = 0; i < POC_OPENINGS; i++) {
		p->at[p->count++] = p->drawn[i];
		if (p->drawn[i] >= p->n)
			p->at[p->count++] = p->drawn[i] - p->n;
	}
	p->count = poc_sort(p->at, p->count);
	p->rows = xmalloc(p->count * p->n);
}

static json_t *opened_part(struct opened *p, const struct poc_tree *tree,
	const unsigned char root[POC_HASH_BYTES])
{
	json_t *part = json_object(), *openings = json_array();
	struct buf path = BUF_INIT;

	for (int i = 0; i < POC_OPENINGS; i++) {
		int64_t v[2] = { (int64_t)(p->drawn[i] / p->n) + 1,
			(int64_t)(p->drawn[i] % p->n) };

		json_push(openings, prove_tuple(v, 2));
	}
	poc_tree_open(tree, p->at, p->count, &path);
	poc_set_hash(part, "root", root);
	json_set(part, "openings", openings);
	poc_set_bytes(part, "rows", p->rows, p->count * p->n);
	poc_set_bytes(part, "path", buf_text(&path), path.len);
	buf_release(&path);
	free(p->rows);
	p->rows = NULL;
	return part;
}

/* --- the rounds --------------------------------------------------------------------------- */

/* A_t is saved for every t that is a multiple of every, including the first; the rows of other
 * rounds are computed again when they are opened. */
struct rounds {
	struct dev *dev;
	const struct poc_device *d;
	unsigned char seed[POC_HASH_BYTES];
	uint64_t n;
	int64_t every;
	int8_t *saved; /* in host memory */
	int8_t *a, *next, *b[POC_MATRICES];
	int32_t *c;
	uint32_t *row_salts, *column_salts;
	unsigned char *hashes;
	const struct prove_hooks *hooks;
};

/* Generates a matrix from the seed on the device; which: -1, 0 .. 7. */
static int fill_matrix(struct rounds *r, int8_t *out, int which)
{
	char name[3] = { which < 0 ? 'A' : 'B', (char)('0' + (which < 0 ? 0 : which)),
		0 };
	const struct dev_ops *ops = r->dev->ops;
	struct philox p;

	poc_sequence(&p, r->seed, name);
	if (ops->philox(r->dev, out, r->n * r->n, &p) < 0 ||
		ops->poc->balance(r->dev, out, r->n * r->n) < 0)
		return prove_failed(r->dev);
	return 0;
}

static int allocate(struct rounds *r)
{
	const struct dev_ops *ops = r->dev->ops;
	uint64_t square = r->n * r->n;

	if (ops->alloc(r->dev, (void **)&r->a, square) < 0 ||
		ops->alloc(r->dev, (void **)&r->next, square) < 0 ||
		ops->alloc(r->dev, (void **)&r->c, 4 * square) < 0 ||
		ops->alloc(r->dev, (void **)&r->row_salts, 4 * r->n) < 0 ||
		ops->alloc(r->dev, (void **)&r->column_salts, 4 * r->n) < 0 ||
		ops->alloc(r->dev, (void **)&r->hashes, POC_HASH_BYTES * r->n) < 0)
		return prove_failed(r->dev);
	for (int k = 0; k < POC_MATRICES && k < r->d->rounds; k++) {
		if (ops->alloc(r->dev, (void **)&r->b[k], square) < 0)
			return prove_failed(r->dev);
		if (prove_part(r->hooks, r->d, PROVE_MATMUL, 0, r->d->rounds) < 0 ||
			fill_matrix(r, r->b[k], k) < 0)
			return -1;
	}
	return 0;
}

static void release(struct rounds *r)
{
	void *all[] = { r->a, r->next, r->c, r->row_salts, r->column_salts, r->hashes };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		r->dev->ops->free(r->dev, all[i]);
	for (int k = 0; k < POC_MATRICES; k++)
		r->dev->ops->free(r->dev, r->b[k]);
	free(r->saved);
}

/* Computes one round for m rows of r->a into r->next, then exchanges the two. The salts are on
 * the device. */
static int next_round(struct rounds *r, uint64_t m, int64_t t)
{
	const struct product p = { .type = PRODUCT_I8,
		.c = r->c,
		.a = r->a,
		.b = r->b[(t - 1) % POC_MATRICES],
		.m = m,
		.n = r->n,
		.k = r->n,
		.lda = r->n,
		.ldb = r->n,
		.ldc = r->n };
	const struct int8_mix mix = { r->c, r->row_salts, r->column_salts, m, r->n };
	int8_t *swap;

	if (r->dev->ops->bulk->product(r->dev, &p) < 0 ||
		r->dev->ops->poc->mix(r->dev, r->next, &mix) < 0)
		return prove_failed(r->dev);
	swap = r->a, r->a = r->next, r->next = swap;
	return 0;
}

static int make_salts(struct rounds *r, int64_t t)
{
	struct philox p;

	poc_sequence(&p, r->seed, "rows");
	p.block = (uint64_t)t * r->n / 4;
	if (r->dev->ops->philox(r->dev, r->row_salts, 4 * r->n, &p) < 0)
		return prove_failed(r->dev);
	poc_sequence(&p, r->seed, "columns");
	p.block = (uint64_t)t * r->n / 4;
	if (r->dev->ops->philox(r->dev, r->column_salts, 4 * r->n, &p) < 0)
		return prove_failed(r->dev);
	return 0;
}

static int hash_round(struct rounds *r, unsigned char *out, int64_t t)
{
	struct sha256_rows in = { .rows = r->a,
		.row_bytes = r->n,
		.stride_bytes = r->n,
		.count = r->n,
		.index_bytes = 4,
		.prefix_bytes = 5 };

	for (int i = 0; i < 4; i++)
		in.prefix[1 + i] = (unsigned char)(t >> 8 * i);
	if (r->dev->ops->poc->sha256(r->dev, r->hashes, &in) < 0 ||
		r->dev->ops->get(r->dev, out, r->hashes, POC_HASH_BYTES * r->n) < 0)
		return prove_failed(r->dev);
	return 0;
}

static int keep_round(struct rounds *r, int64_t t)
{
	uint64_t square = r->n * r->n;

	if (t % r->every)
		return 0;
	if (r->dev->ops->get(r->dev, r->saved + (uint64_t)(t / r->every) * square, r->a,
		    square) < 0)
		return prove_failed(r->dev);
	return 0;
}

/* A dishonest prover may change the matrix before it is hashed and used. */
static int call_hook(struct rounds *r, int64_t t)
{
	uint64_t square = r->n * r->n;
	int8_t *a;
	int rc = 0;

	if (!r->hooks || !r->hooks->round)
		return 0;
	a = xmalloc(square);
	if (r->dev->ops->get(r->dev, a, r->a, square) < 0)
		rc = prove_failed(r->dev);
	if (rc == 0)
		r->hooks->round(r->hooks->ctx, t, a, (int64_t)r->n);
	if (rc == 0 && r->dev->ops->put(r->dev, r->a, a, square) < 0)
		rc = prove_failed(r->dev);
	free(a);
	return rc;
}

static int run_rounds(struct rounds *r, struct poc_tree *tree)
{
	if (fill_matrix(r, r->a, -1) < 0 || keep_round(r, 0) < 0)
		return -1;
	for (int64_t t = 1; t <= r->d->rounds; t++)
		if (make_salts(r, t) < 0 || next_round(r, r->n, t) < 0 ||
			call_hook(r, t) < 0 ||
			hash_round(r,
				tree->nodes + POC_HASH_BYTES * (uint64_t)(t - 1) * r->n,
				t) < 0 ||
			keep_round(r, t) < 0 ||
			prove_part(r->hooks, r->d, PROVE_MATMUL, t, r->d->rounds) < 0)
			return -1;
	return 0;
}

/* Computes the salts of round t for some rows only. */
static int put_salts(struct rounds *r, int64_t t, const uint64_t *rows, uint64_t m)
{
	uint32_t *all = xmalloc(12 * r->n), *columns = all + r->n, *mine = columns + r->n;
	int rc = 0;

	poc_salts(all, columns, r->seed, (int64_t)r->n, t);
	for (uint64_t i = 0; i < m; i++)
		mine[i] = all[rows[i]];
	if (r->dev->ops->put(r->dev, r->row_salts, mine, 4 * m) < 0 ||
		r->dev->ops->put(r->dev, r->column_salts, columns, 4 * r->n) < 0)
		rc = prove_failed(r->dev);
	free(all);
	return rc;
}

/* Opens the leaves at[0 .. count), which all lie between two adjacent saved rounds: rounds that
 * were not saved are computed for the rows that any of the leaves needs. */
static int open_some(struct rounds *r, unsigned char *out, const uint64_t *at,
	size_t count, int64_t first)
{
	int64_t last = (int64_t)(at[count - 1] / r->n) + 1;
	const int8_t *from = r->saved + (uint64_t)(first / r->every) * r->n * r->n;
	uint64_t *rows = xmalloc(count * sizeof *rows), m;
	int8_t *host = xmalloc(count * r->n);
	int rc = 0;

	for (size_t i = 0; i < count; i++)
		rows[i] = at[i] % r->n;
	m = poc_sort(rows, count);
	for (uint64_t i = 0; i < m; i++)
		memcpy(host + i * r->n, from + rows[i] * r->n, r->n);
	if (first < last && r->dev->ops->put(r->dev, r->a, host, m * r->n) < 0)
		rc = prove_failed(r->dev);
	for (int64_t t = first; rc == 0; t++) {
		for (size_t i = 0; i < count; i++)
			if ((int64_t)(at[i] / r->n) + 1 == t)
				memcpy(out + r->n * i,
					host + r->n * poc_find(rows, m, at[i] % r->n),
					r->n);
		if (t == last)
			break;
		rc = prove_part(r->hooks, r->d, PROVE_MATMUL, r->d->rounds, r->d->rounds);
		if (rc == 0)
			rc = put_salts(r, t + 1, rows, m);
		if (rc == 0)
			rc = next_round(r, m, t + 1);
		if (rc == 0 && r->dev->ops->get(r->dev, host, r->a, m * r->n) < 0)
			rc = prove_failed(r->dev);
	}
	free(host);
	free(rows);
	return rc;
}

static int open_all(struct rounds *r, struct opened *p)
{
	int rc = 0;

	for (size_t i = 0, end; i < p->count && rc == 0; i = end) {
		int64_t first = ((int64_t)(p->at[i] / r->n) + 1) / r->every * r->every;

		for (end = i; end < p->count &&
			(int64_t)(p->at[end] / r->n) + 1 < first + r->every;)
			end++;
		rc = open_some(r, p->rows + r->n * i, p->at + i, end - i, first);
	}
	return rc;
}

json_t *prove_matmul(const struct poc_challenge *c, const struct poc_device *d,
	struct dev *dev, int64_t memory_bytes, const struct prove_hooks *hooks)
{
	struct rounds r = { .dev = dev, .d = d, .n = (uint64_t)d->n, .hooks = hooks };
	struct opened p = { .n = (uint64_t)d->n };
	int64_t square = d->n * d->n, fit = memory_bytes / square;
	unsigned char root[POC_HASH_BYTES];
	struct poc_tree tree;
	json_t *part = NULL;

	if (fit < 2)
		fit = 2;
	r.every = (d->rounds + fit - 1) / fit;
	r.saved = xmalloc((size_t)(square * (d->rounds / r.every + 1)));
	poc_seed(r.seed, c, d->uuid);
	poc_tree_init(&tree, p.n * (uint64_t)d->rounds);
	if (allocate(&r) == 0 && run_rounds(&r, &tree) == 0) {
		poc_tree_build(&tree, root);
		opened_draw(&p, c, r.seed, tree.leaves, root);
		if (open_all(&r, &p) == 0)
			part = opened_part(&p, &tree, root);
		free(p.rows);
	}
	poc_tree_release(&tree);
	release(&r);
	return part;
}
