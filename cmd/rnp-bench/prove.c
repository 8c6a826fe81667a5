#include "cmd/rnp-bench/prove.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "kernels/hashlanes.h"
#include "kernels/matmul.h"

static void set_hash(json_t *obj, const char *key,
	const unsigned char hash[POC_HASH_BYTES])
{
	char hex[2 * POC_HASH_BYTES + 1];

	sodium_bin2hex(hex, sizeof hex, hash, POC_HASH_BYTES);
	json_set_text(obj, key, hex);
}

static json_t *tuple(const int64_t *v, int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_push(list, json_integer(v[i]));
	return list;
}

/* --- matmul ------------------------------------------------------------------------------- */

/* A_t is kept for every t that is a multiple of every, the first one included; the rows of
 * other rounds are computed again when they are opened. */
struct rounds {
	const struct poc_device *d;
	unsigned char seed[POC_HASH_BYTES];
	int64_t n, every;
	int8_t *kept, *b[POC_MATRICES];
	int32_t *c;
	uint32_t *row_salts, *column_salts;
};

static void rounds_init(struct rounds *r, const struct poc_challenge *c,
	const struct poc_device *d, int64_t memory_bytes)
{
	int64_t square = d->n * d->n, fit = memory_bytes / square;

	*r = (struct rounds){ .d = d, .n = d->n };
	poc_seed(r->seed, c, d->uuid);
	if (fit < 2)
		fit = 2;
	r->every = (d->rounds + fit - 1) / fit;
	r->kept = xmalloc((size_t)(square * (d->rounds / r->every + 1)));
	r->c = xmalloc((size_t)square * sizeof *r->c);
	r->row_salts = xmalloc((size_t)d->n * 8);
	r->column_salts = r->row_salts + d->n;
	for (int k = 0; k < POC_MATRICES && k < d->rounds; k++) {
		r->b[k] = xmalloc((size_t)square);
		poc_matrix(r->b[k], r->seed, k, d->n, 0, d->n);
	}
}

static void rounds_release(struct rounds *r)
{
	free(r->kept);
	free(r->c);
	free(r->row_salts);
	for (int k = 0; k < POC_MATRICES; k++)
		free(r->b[k]);
}

/* Rows of round t from the same m rows of round t - 1; which[i]: their numbers, NULL: all. */
static void next_rows(struct rounds *r, int8_t *out, const int8_t *in, int64_t m,
	int64_t t, const int64_t *which)
{
	matmul_fast()->i8(m, r->n, r->n, in, r->b[(t - 1) % POC_MATRICES], r->c);
	poc_salts(r->row_salts, r->column_salts, r->seed, r->n, t);
#pragma omp parallel for schedule(static)
	for (int64_t i = 0; i < m; i++)
		poc_next_row(out + i * r->n, r->c + i * r->n, r->n,
			r->row_salts[which ? which[i] : i], r->column_salts);
}

static void rounds_run(struct rounds *r, struct poc_tree *tree,
	unsigned char root[POC_HASH_BYTES], const struct prove_hooks *hooks)
{
	int64_t square = r->n * r->n;
	int8_t *a = xmalloc((size_t)(2 * square)), *next = a + square, *swap, *own = a;

	poc_matrix(a, r->seed, -1, r->n, 0, r->n);
	memcpy(r->kept, a, (size_t)square);
	for (int64_t t = 1; t <= r->d->rounds; t++) {
		next_rows(r, next, a, r->n, t, NULL);
		if (hooks && hooks->round)
			hooks->round(hooks->ctx, t, next, r->n);
		poc_leaves(tree->nodes + POC_HASH_BYTES * (t - 1) * r->n, next,
			(uint64_t)r->n, (uint64_t)r->n, (uint32_t)t, 0);
		if (t % r->every == 0)
			memcpy(r->kept + t / r->every * square, next, (size_t)square);
		swap = a, a = next, next = swap;
	}
	poc_tree_build(tree, root);
	free(own);
}

/* The rows of the leaves at[0 .. count), which all lie between two kept rounds, first and the
 * next one: what is not kept is computed for the rows that any of them needs. */
static void rounds_again(struct rounds *r, unsigned char *out, const uint64_t *at,
	size_t count, int64_t first)
{
	int64_t n = r->n, last = (int64_t)at[count - 1] / n + 1, m;
	const int8_t *from = r->kept + first / r->every * n * n;
	uint64_t *rows = xmalloc(count * sizeof *rows);
	int64_t *which = xmalloc(count * sizeof *which);
	int8_t *a, *next, *swap, *own;

	for (size_t i = 0; i < count; i++)
		rows[i] = at[i] % (uint64_t)n;
	m = (int64_t)poc_sort(rows, count);
	own = a = xmalloc((size_t)(2 * m * n)), next = a + m * n;
	for (int64_t i = 0; i < m; i++) {
		which[i] = (int64_t)rows[i];
		memcpy(a + i * n, from + which[i] * n, (size_t)n);
	}
	for (int64_t t = first;; t++) {
		for (size_t i = 0; i < count; i++)
			if ((int64_t)at[i] / n + 1 == t)
				memcpy(out + (size_t)n * i,
					a +
						n *
							(int64_t)poc_find(rows, (size_t)m,
								at[i] % (uint64_t)n),
					(size_t)n);
		if (t == last)
			break;
		next_rows(r, next, a, m, t + 1, which);
		swap = a, a = next, next = swap;
	}
	free(own);
	free(which);
	free(rows);
}

static void rounds_open(struct rounds *r, unsigned char *out, const uint64_t *at,
	size_t count)
{
	for (size_t i = 0, end; i < count; i = end) {
		int64_t first = ((int64_t)at[i] / r->n + 1) / r->every * r->every;

		for (end = i;
			end < count && (int64_t)at[end] / r->n + 1 < first + r->every;)
			end++;
		rounds_again(r, out + (size_t)r->n * i, at + i, end - i, first);
	}
}

void prove_rows_draw(struct prove_rows *p, const struct poc_challenge *c,
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

json_t *prove_rows_part(struct prove_rows *p, const struct poc_tree *tree,
	const unsigned char root[POC_HASH_BYTES])
{
	json_t *part = json_object(), *openings = json_array();
	struct buf path = BUF_INIT;

	for (int i = 0; i < POC_OPENINGS; i++) {
		int64_t v[2] = { (int64_t)(p->drawn[i] / p->n) + 1,
			(int64_t)(p->drawn[i] % p->n) };

		json_push(openings, tuple(v, 2));
	}
	poc_tree_open(tree, p->at, p->count, &path);
	set_hash(part, "root", root);
	json_set(part, "openings", openings);
	poc_set_bytes(part, "rows", p->rows, p->count * p->n);
	poc_set_bytes(part, "path", buf_text(&path), path.len);
	buf_release(&path);
	free(p->rows);
	p->rows = NULL;
	return part;
}

json_t *prove_matmul(const struct poc_challenge *c, const struct poc_device *d,
	int64_t memory_bytes, const struct prove_hooks *hooks)
{
	struct prove_rows p = { .n = (uint64_t)d->n };
	unsigned char root[POC_HASH_BYTES];
	struct poc_tree tree;
	json_t *part;
	struct rounds r;

	rounds_init(&r, c, d, memory_bytes);
	poc_tree_init(&tree, p.n * (uint64_t)d->rounds);
	rounds_run(&r, &tree, root, hooks);
	prove_rows_draw(&p, c, r.seed, tree.leaves, root);
	rounds_open(&r, p.rows, p.at, p.count);
	part = prove_rows_part(&p, &tree, root);
	poc_tree_release(&tree);
	rounds_release(&r);
	return part;
}

/* --- memory ------------------------------------------------------------------------------- */

struct fill {
	const struct poc_device *d;
	const struct prove_filler *by;
	struct memfill m;
	int64_t leaves, opened;
	struct poc_tree trees[MEMFILL_SLICES * POC_PASSES_MAX];
	uint64_t at
		[POC_NEEDED_MAX]; /* leaves of the whole fill, with the blocks in bytes */
	uint32_t *blocks;
	size_t count;
};

/* Blocks must be copied before the next step overwrites them. */
static int keep(struct fill *f, const uint64_t *drawn)
{
	size_t n = poc_needed(f->at + f->count, f->d, &f->m, drawn, (int)f->opened);

	for (size_t k = f->count; k < f->count + n; k++) {
		uint64_t step = f->at[k] / (uint64_t)f->leaves;
		uint64_t leaf = f->at[k] % (uint64_t)f->leaves;
		uint64_t per = f->m.per_slice;

		if (f->by->get(f->by->ctx, f->blocks + MEMFILL_WORDS * k, &f->m,
			    memfill_index(&f->m, leaf / per, step % MEMFILL_SLICES,
				    leaf % per)) < 0)
			return -1;
	}
	f->count += n;
	return 0;
}

/* The CPU as a filler. */
struct cpu_filler {
	const struct prove_hooks *hooks;
};

static int cpu_step(void *ctx, const struct memfill *m, unsigned char *leaves)
{
	uint64_t slice = m->step % MEMFILL_SLICES, per = m->per_slice;
	const struct prove_hooks *hooks = ((struct cpu_filler *)ctx)->hooks;
	memfill_fn fn = memfill_fast();
	int64_t lanes = (int64_t)m->lanes;

#pragma omp parallel for schedule(dynamic)
	for (int64_t lane = 0; lane < lanes; lane += 4)
		fn(m, (uint64_t)lane, (uint64_t)(lane + 4 < lanes ? lane + 4 : lanes));
	if (hooks && hooks->step)
		hooks->step(hooks->ctx, m);
#pragma omp parallel for schedule(dynamic)
	for (int64_t lane = 0; lane < lanes; lane++)
		poc_leaves(leaves + POC_HASH_BYTES * (uint64_t)lane * per,
			m->blocks +
				MEMFILL_WORDS *
					memfill_index(m, (uint64_t)lane, slice, 0),
			MEMFILL_BYTES, per, (uint32_t)lane, m->step * per);
	return 0;
}

static int cpu_get(void *ctx, uint32_t *out, const struct memfill *m, uint64_t index)
{
	(void)ctx;
	memcpy(out, m->blocks + MEMFILL_WORDS * index, MEMFILL_BYTES);
	return 0;
}

/* Sort the kept blocks with their leaves and drop what is there twice. */
static uint32_t *sorted_blocks(struct fill *f)
{
	uint64_t *sorted = xmalloc(f->count * sizeof *sorted);
	uint32_t *out = xmalloc(f->count * MEMFILL_BYTES);
	size_t n;

	memcpy(sorted, f->at, f->count * sizeof *sorted);
	n = poc_sort(sorted, f->count);
	for (size_t k = 0; k < f->count; k++)
		memcpy(out + MEMFILL_WORDS * poc_find(sorted, n, f->at[k]),
			f->blocks + MEMFILL_WORDS * k, MEMFILL_BYTES);
	memcpy(f->at, sorted, n * sizeof *sorted);
	f->count = n;
	free(sorted);
	return out;
}

/* The proofs of all steps, each over the leaves of its own tree. */
static json_t *fill_paths(struct fill *f, int64_t steps)
{
	json_t *paths = json_array(), *holder = json_object();
	size_t k = 0;

	for (int64_t u = 0; u < steps; u++) {
		uint64_t at[POC_NEEDED_MAX];
		struct buf path = BUF_INIT;
		size_t n = 0;

		for (; k < f->count && (int64_t)f->at[k] / f->leaves == u; k++)
			at[n++] = f->at[k] % (uint64_t)f->leaves;
		poc_tree_open(&f->trees[u], at, n, &path);
		poc_set_bytes(holder, "path", buf_text(&path), path.len);
		json_push(paths, json_incref(json_object_get(holder, "path")));
		buf_release(&path);
	}
	json_decref(holder);
	return paths;
}

static json_t *tuples(const uint64_t *drawn, int64_t n, int64_t u, int64_t per_slice,
	json_t *takes_list)
{
	for (int64_t k = 0; k < n; k++) {
		int64_t v[3] = { u, (int64_t)drawn[k] / per_slice,
			(int64_t)drawn[k] % per_slice };

		json_push(takes_list, tuple(v, 3));
	}
	return takes_list;
}

/* All steps; roots and openings are added to. */
static int fill_run(struct fill *f, const struct poc_challenge *c, json_t *roots,
	json_t *openings)
{
	unsigned char seed[POC_HASH_BYTES], root[POC_HASH_BYTES], x[POC_HASH_BYTES];
	char hex[2 * POC_HASH_BYTES + 1];
	uint64_t drawn[POC_OPENINGS];

	poc_seed(seed, c, f->d->uuid);
	poc_first_key(&f->m.key, seed);
	for (int64_t u = 0; u < MEMFILL_SLICES * f->d->passes; u++) {
		struct poc_tree *tree = &f->trees[u];

		f->m.step = (uint64_t)u;
		poc_tree_init(tree, (uint64_t)f->leaves);
		if (f->by->step(f->by->ctx, &f->m, tree->nodes) < 0)
			return -1;
		poc_tree_build(tree, root);
		sodium_bin2hex(hex, sizeof hex, root, sizeof root);
		json_push_text(roots, hex);
		poc_fold_step(x, c, seed, u, root);
		poc_draw(drawn, (int)f->opened, (uint64_t)f->leaves, x);
		tuples(drawn, f->opened, u, f->d->per_slice, openings);
		if (keep(f, drawn) < 0)
			return -1;
		poc_next_key(&f->m.key, x);
	}
	return 0;
}

json_t *prove_fill(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_filler *by, uint32_t *blocks)
{
	json_t *part = json_object(), *roots = json_array(), *openings = json_array();
	struct fill f = { .d = d, .by = by, .leaves = poc_step_leaves(d) };
	uint32_t *sorted;
	int rc;

	f.opened = poc_step_openings(d);
	f.m = (struct memfill){ .blocks = blocks,
		.lanes = (uint64_t)d->lanes,
		.per_slice = (uint64_t)d->per_slice };
	f.blocks = xmalloc((size_t)POC_NEEDED_MAX * MEMFILL_BYTES);
	json_set(part, "roots", roots);
	json_set(part, "openings", openings);
	rc = fill_run(&f, c, roots, openings);
	if (rc == 0) {
		sorted = sorted_blocks(&f);
		poc_set_bytes(part, "blocks", sorted, f.count * MEMFILL_BYTES);
		json_set(part, "paths", fill_paths(&f, MEMFILL_SLICES * d->passes));
		free(sorted);
	} else {
		json_decref(part);
		part = NULL;
	}
	for (int64_t u = 0; u < MEMFILL_SLICES * d->passes; u++)
		poc_tree_release(&f.trees[u]);
	free(f.blocks);
	return part;
}

json_t *prove_memory(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks)
{
	struct cpu_filler cpu = { hooks };
	const struct prove_filler by = { &cpu, cpu_step, cpu_get };
	uint32_t *blocks = xmalloc(
		(size_t)poc_step_leaves(d) * MEMFILL_SLICES * MEMFILL_BYTES);
	json_t *part = prove_fill(c, d, &by, blocks);

	free(blocks);
	return part;
}

/* --- chain -------------------------------------------------------------------------------- */

json_t *prove_chain(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks)
{
	size_t bytes = (size_t)d->segments * POC_HASH_BYTES;
	unsigned char seed[POC_HASH_BYTES], state[POC_HASH_BYTES], *ends = xmalloc(bytes);
	json_t *part = json_object();

	poc_seed(seed, c, d->uuid);
	poc_derive(state, seed, "chain");
	for (int64_t s = 0; s < d->segments; s++) {
		hashlanes_fast()(state, 1, (uint64_t)d->steps);
		if (hooks && hooks->segment)
			hooks->segment(hooks->ctx, s, state);
		memcpy(ends + POC_HASH_BYTES * s, state, POC_HASH_BYTES);
	}
	poc_set_bytes(part, "checkpoints", ends, bytes);
	free(ends);
	return part;
}
