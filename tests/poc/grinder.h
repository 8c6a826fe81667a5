/* grinder.h - the cheat who keeps only some lanes of the memory and grinds roots, for real. For
 * tests/poc/cheats.h.
 *
 * Zeros stand for the last `missing` lanes: they need no memory. After a step's honest lanes
 * are filled one block of them, the last of the first lane, is given another content in each
 * try, which gives another root; the root's fold draws the openings, and the try succeeds when
 * neither a missing lane nor the ground block is among them. All that a try costs is one path
 * of the tree and the fold. */
#ifndef RNP_TESTS_POC_GRINDER_H
#define RNP_TESTS_POC_GRINDER_H

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/mem.h"
#include "common/poc/poc.h"

struct grinder {
	struct prove_hooks hooks;
	const struct poc_challenge *c;
	const struct poc_device *d;
	int64_t missing, tries; /* lanes; tries at most, each step */
	uint32_t salt;
	uint64_t tried, lucky, steps; /* of all steps */
};

/* How likely a try of step u is to draw nothing that is missing. */
static inline double grinder_try_passes(const struct poc_device *d, int64_t missing,
	int64_t u)
{
	double leaves = (double)poc_step_leaves(d), p = 1;
	double bad = (double)(missing * d->per_slice + 1);

	for (int64_t i = 0; i < poc_step_openings(d, u); i++)
		p *= leaves - bad > (double)i ?
			(leaves - bad - (double)i) / (leaves - (double)i) :
			0;
	return p;
}

/* The whole tree of a step, once. */
static inline void grinder_tree(struct poc_tree *t, const struct memfill *m)
{
	unsigned char root[POC_HASH_BYTES];

	poc_tree_init(t, m->lanes * m->per_slice);
	for (uint64_t lane = 0; lane < m->lanes; lane++)
		poc_leaves(t->nodes + POC_HASH_BYTES * lane * m->per_slice,
			m->blocks +
				MEMFILL_WORDS *
					memfill_index(m, lane, m->step % MEMFILL_SLICES,
						0),
			MEMFILL_BYTES, m->per_slice, (uint32_t)lane,
			m->step * m->per_slice);
	poc_tree_build(t, root);
}

/* The root after block `at` of the first lane has changed: one path. */
static inline void grinder_root(struct poc_tree *t, const struct memfill *m, uint64_t at,
	const uint32_t *block, unsigned char root[POC_HASH_BYTES])
{
	unsigned char *level = t->nodes;

	poc_leaves(level + POC_HASH_BYTES * at, block, MEMFILL_BYTES, 1, 0,
		m->step * m->per_slice + at);
	for (uint64_t width = t->leaves; width > 1; width = (width + 1) / 2) {
		unsigned char pair[1 + 2 * POC_HASH_BYTES] = { 0x01 };
		unsigned char *next = level + POC_HASH_BYTES * width;

		if ((at | 1) < width) {
			memcpy(pair + 1, level + POC_HASH_BYTES * (at & ~UINT64_C(1)),
				2 * POC_HASH_BYTES);
			crypto_hash_sha256(next + POC_HASH_BYTES * (at / 2), pair,
				sizeof pair);
		} else {
			memcpy(next + POC_HASH_BYTES * (at / 2),
				level + POC_HASH_BYTES * at, POC_HASH_BYTES);
		}
		at /= 2;
		level = next;
	}
	memcpy(root, level, POC_HASH_BYTES);
}

static inline bool grinder_lucky(const struct grinder *g, const struct memfill *m,
	const unsigned char root[POC_HASH_BYTES])
{
	uint64_t drawn[POC_LAST_OPENINGS], per = m->per_slice;
	unsigned char seed[POC_HASH_BYTES], x[POC_HASH_BYTES];
	int count = (int)poc_step_openings(g->d, (int64_t)m->step);

	poc_seed(seed, g->c, g->d->uuid);
	poc_fold_step(x, g->c, seed, (int64_t)m->step, root);
	poc_draw(drawn, count, m->lanes * per, x);
	for (int i = 0; i < count; i++)
		if (drawn[i] / per >= m->lanes - (uint64_t)g->missing ||
			drawn[i] == per - 1)
			return false;
	return true;
}

static inline void grinder_step(void *ctx, const struct memfill *m)
{
	struct grinder *g = ctx;
	uint64_t slice = m->step % MEMFILL_SLICES;
	uint32_t *ground = m->blocks +
		MEMFILL_WORDS * memfill_index(m, 0, slice, m->per_slice - 1);
	unsigned char root[POC_HASH_BYTES];
	struct poc_tree tree;
	bool lucky = false;

	for (uint64_t lane = m->lanes - (uint64_t)g->missing; lane < m->lanes; lane++)
		memset(m->blocks + MEMFILL_WORDS * memfill_index(m, lane, slice, 0), 0,
			m->per_slice * MEMFILL_BYTES);
	grinder_tree(&tree, m);
	for (int64_t i = 0; i < g->tries && !lucky; i++) {
		ground[0] = g->salt;
		ground[1] = (uint32_t)i;
		grinder_root(&tree, m, m->per_slice - 1, ground, root);
		lucky = grinder_lucky(g, m, root);
		g->tried++;
	}
	g->lucky += lucky;
	g->steps++;
	poc_tree_release(&tree);
}

static inline void grinder_open(struct grinder *g, const struct poc_challenge *c,
	const struct poc_device *d)
{
	g->c = c;
	g->d = d;
	g->hooks = (struct prove_hooks){ .ctx = g, .step = grinder_step };
}

#endif
