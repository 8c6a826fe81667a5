/* memory.c - runs the memory test on any device. The blocks stay on the device; their
 * hashes, and the blocks that are opened, are copied to the host. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "kernels/poc/ops.h"

struct fill {
	const struct poc_device *d;
	struct dev *dev;
	const struct prove_hooks *hooks;
	unsigned char *hashes; /* on the device */
	json_t *paths;         /* the answer's */
	struct memfill m;
	int64_t leaves;
	struct poc_tree trees[MEMFILL_SLICES * POC_PASSES_MAX];
	/* leaves of the whole fill, followed by the blocks */
	uint64_t at[POC_NEEDED_MAX];
	uint32_t *blocks;
	size_t count;
};

/* Blocks must be copied before the next step overwrites them. */
static int keep(struct fill *f, const uint64_t *drawn)
{
	size_t n = poc_needed(f->at + f->count, f->d, &f->m, drawn,
		(int)poc_step_openings(f->d, (int64_t)f->m.step));

	for (size_t k = f->count; k < f->count + n; k++) {
		uint64_t step = f->at[k] / (uint64_t)f->leaves;
		uint64_t leaf = f->at[k] % (uint64_t)f->leaves;
		uint64_t per = f->m.per_slice;

		uint64_t index = memfill_index(&f->m, leaf / per, step % MEMFILL_SLICES,
			leaf % per);

		if (f->dev->ops->get(f->dev, f->blocks + MEMFILL_WORDS * k,
			    f->m.blocks + MEMFILL_WORDS * index, MEMFILL_BYTES) < 0)
			return prove_failed(f->dev);
	}
	f->count += n;
	return 0;
}

/* Runs one step and hashes its blocks, lane by lane. */
static int fill_step(struct fill *f, unsigned char *leaves)
{
	const struct memfill *m = &f->m;
	const struct dev_ops *ops = f->dev->ops;
	struct sha256_rows in = { .row_bytes = MEMFILL_BYTES,
		.stride_bytes = MEMFILL_BYTES,
		.count = m->per_slice,
		.first = m->step * m->per_slice,
		.index_bytes = 4,
		.prefix_bytes = 5 };

	if (ops->poc->memfill(f->dev, m) < 0)
		return prove_failed(f->dev);
	if (f->hooks && f->hooks->step)
		f->hooks->step(f->hooks->ctx, m);
	for (uint64_t lane = 0; lane < m->lanes; lane++) {
		in.rows = m->blocks +
			MEMFILL_WORDS *
				memfill_index(m, lane, m->step % MEMFILL_SLICES, 0);
		for (int i = 0; i < 4; i++)
			in.prefix[1 + i] = (unsigned char)(lane >> 8 * i);
		if (ops->poc->sha256(f->dev,
			    f->hashes + POC_HASH_BYTES * lane * m->per_slice, &in) < 0)
			return prove_failed(f->dev);
	}
	if (ops->get(f->dev, leaves, f->hashes,
		    POC_HASH_BYTES * m->lanes * m->per_slice) < 0)
		return prove_failed(f->dev);
	return 0;
}

/* Sorts the saved blocks with their leaves and removes duplicates. */
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

/* Opens the drawn leaves of step u's tree, then frees it: no step after the third reads from
 * it. */
static void close_tree(struct fill *f, int64_t u)
{
	json_t *holder = json_object();
	uint64_t at[POC_NEEDED_MAX];
	struct buf path = BUF_INIT;
	size_t n = 0;

	for (size_t k = 0; k < f->count; k++)
		if ((int64_t)f->at[k] / f->leaves == u)
			at[n++] = f->at[k] % (uint64_t)f->leaves;
	n = poc_sort(at, n);
	poc_tree_open(&f->trees[u], at, n, &path);
	poc_set_bytes(holder, "path", buf_text(&path), path.len);
	json_push(f->paths, json_incref(json_object_get(holder, "path")));
	buf_release(&path);
	json_decref(holder);
	poc_tree_release(&f->trees[u]);
}

static json_t *tuples(const uint64_t *drawn, int64_t n, int64_t u, int64_t per_slice,
	json_t *takes_list)
{
	for (int64_t k = 0; k < n; k++) {
		int64_t v[3] = { u, (int64_t)drawn[k] / per_slice,
			(int64_t)drawn[k] % per_slice };

		json_push(takes_list, prove_tuple(v, 3));
	}
	return takes_list;
}

/* Runs all steps and appends to roots and openings. */
static int fill_run(struct fill *f, const struct poc_challenge *c, json_t *roots,
	json_t *openings)
{
	unsigned char seed[POC_HASH_BYTES], root[POC_HASH_BYTES], x[POC_HASH_BYTES];
	char hex[2 * POC_HASH_BYTES + 1];
	uint64_t drawn[POC_LAST_OPENINGS];
	int64_t steps = MEMFILL_SLICES * f->d->passes;

	poc_seed(seed, c, f->d->uuid);
	poc_first_key(&f->m.key, seed);
	if (prove_part(f->hooks, f->d, PROVE_MEMORY, 0, steps) < 0)
		return -1;
	for (int64_t u = 0; u < steps; u++) {
		struct poc_tree *tree = &f->trees[u];
		int64_t opened = poc_step_openings(f->d, u);

		f->m.step = (uint64_t)u;
		poc_tree_init(tree, (uint64_t)f->leaves);
		if (fill_step(f, tree->nodes) < 0)
			return -1;
		poc_tree_build(tree, root);
		sodium_bin2hex(hex, sizeof hex, root, sizeof root);
		json_push_text(roots, hex);
		poc_fold_step(x, c, seed, u, root);
		poc_draw(drawn, (int)opened, (uint64_t)f->leaves, x);
		tuples(drawn, opened, u, f->d->per_slice, openings);
		if (keep(f, drawn) < 0)
			return -1;
		poc_next_key(&f->m.key, x);
		if (u >= MEMFILL_SLICES - 1)
			close_tree(f, u - (MEMFILL_SLICES - 1));
		if (prove_part(f->hooks, f->d, PROVE_MEMORY, u + 1, steps) < 0)
			return -1;
	}
	for (int64_t u = steps - (MEMFILL_SLICES - 1); u < steps; u++)
		close_tree(f, u);
	return 0;
}

json_t *prove_memory(const struct poc_challenge *c, const struct poc_device *d,
	struct dev *dev, const struct prove_hooks *hooks)
{
	json_t *part = json_object(), *roots = json_array(), *openings = json_array();
	struct fill f = { .d = d, .dev = dev, .hooks = hooks, .paths = json_array() };
	uint64_t bytes;
	uint32_t *sorted;
	int rc;

	f.leaves = poc_step_leaves(d);
	f.m = (struct memfill){ .lanes = (uint64_t)d->lanes,
		.per_slice = (uint64_t)d->per_slice };
	f.blocks = xmalloc((size_t)POC_NEEDED_MAX * MEMFILL_BYTES);
	json_set(part, "roots", roots);
	json_set(part, "openings", openings);
	json_set(part, "paths", f.paths);
	bytes = (uint64_t)f.leaves * MEMFILL_SLICES * MEMFILL_BYTES;
	rc = dev->ops->alloc(dev, (void **)&f.m.blocks, bytes);
	if (rc == 0)
		rc = dev->ops->alloc(dev, (void **)&f.hashes,
			(uint64_t)f.leaves * POC_HASH_BYTES);
	rc = rc < 0 ? prove_failed(dev) : fill_run(&f, c, roots, openings);
	if (rc == 0) {
		sorted = sorted_blocks(&f);
		poc_set_bytes(part, "blocks", sorted, f.count * MEMFILL_BYTES);
		free(sorted);
	} else {
		json_decref(part);
		part = NULL;
	}
	for (int64_t u = 0; u < MEMFILL_SLICES * d->passes; u++)
		poc_tree_release(&f.trees[u]);
	dev->ops->free(dev, f.hashes);
	dev->ops->free(dev, f.m.blocks);
	free(f.blocks);
	return part;
}
