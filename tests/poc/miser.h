/* miser.h - the cheat who keeps only a part of the memory, for real: a CPU device whose fill
 * pays, in time, for every block that it reads and does not keep. For tests/unit/poc/poc.c and
 * tests/bench/poc.c.
 *
 * It keeps the first of every `keep` blocks of a lane's slice. A block that it has not kept it
 * computes from its parents, those it has not kept from theirs, and so on. Versions that a
 * later step has overwritten it gets for free, and its answer is right: it is better off than a
 * real one. */
#ifndef RNP_TESTS_POC_MISER_H
#define RNP_TESTS_POC_MISER_H

#include <stdatomic.h>

#include "common/poc/poc.h"
#include "kernels/dev/dev.h"
#include "kernels/poc/ops.h"

struct miser {
	struct dev dev; /* first: its operations get its address */
	struct dev_ops ops;
	struct poc_ops poc;
	struct memfill steps[MEMFILL_SLICES * POC_PASSES_MAX];
	uint64_t keep;
	memfill_block_fn block;
	_Atomic uint64_t computed; /* blocks */
};

/* The block (step, lane, i) of the fill while step `now` is done; scratch when it had to be
 * computed. */
static const uint32_t *miser_obtain(struct miser *m, uint32_t scratch[MEMFILL_WORDS],
	uint64_t now, uint64_t step, uint64_t lane, uint64_t i, uint64_t *computed)
{
	const struct memfill *f = &m->steps[step];
	uint32_t before[MEMFILL_WORDS], refs[MEMFILL_REFS][MEMFILL_WORDS], salt[4];
	const uint32_t *prev, *ref[MEMFILL_REFS] = { NULL };
	struct memfill_ref from;

	if (i % m->keep == 0 || step + MEMFILL_SLICES <= now)
		return f->blocks +
			MEMFILL_WORDS * memfill_index(f, lane, step % MEMFILL_SLICES, i);
	memfill_salt(salt, f, lane, i);
	prev = miser_obtain(m, before, now, step, lane, i - 1, computed);
	for (int j = 0; j < MEMFILL_REFS; j++)
		if (memfill_ref_of(&from, f, salt, j))
			ref[j] = miser_obtain(m, refs[j], now, from.step, from.lane,
				from.i, computed);
	m->block(scratch, prev, ref, salt);
	++*computed;
	return scratch;
}

/* A lane of a step: blocks read from other slices are paid for in time, and then present. */
static void miser_lane(struct miser *m, const struct memfill *f, uint64_t lane,
	uint64_t *computed)
{
	uint64_t slice = f->step % MEMFILL_SLICES, last = f->per_slice - 1;
	const uint32_t *prev = f->blocks +
		MEMFILL_WORDS *
			memfill_index(f, lane, (slice + 3) % MEMFILL_SLICES, last);

	if (!f->step)
		prev = NULL;
	for (uint64_t i = 0; i < f->per_slice; i++) {
		uint32_t *out = f->blocks +
			MEMFILL_WORDS * memfill_index(f, lane, slice, i);
		const uint32_t *ref[MEMFILL_REFS] = { NULL };
		uint32_t scratch[MEMFILL_WORDS], salt[4];
		struct memfill_ref from;

		memfill_salt(salt, f, lane, i);
		for (int j = 0; j < MEMFILL_REFS; j++) {
			if (!memfill_ref_of(&from, f, salt, j))
				continue;
			miser_obtain(m, scratch, f->step, from.step, from.lane, from.i,
				computed);
			ref[j] = f->blocks +
				MEMFILL_WORDS *
					memfill_index(f, from.lane, from.slice, from.i);
		}
		m->block(out, prev, ref, salt);
		++*computed;
		prev = out;
	}
}

static int miser_memfill(struct dev *d, const struct memfill *f)
{
	struct miser *m = (struct miser *)d;

	m->steps[f->step] = *f;
#pragma omp parallel for schedule(dynamic)
	for (uint64_t lane = 0; lane < f->lanes; lane++) {
		uint64_t computed = 0;

		miser_lane(m, f, lane, &computed);
		atomic_fetch_add(&m->computed, computed);
	}
	return 0;
}

/* Opens; keep: one block of this number is kept. Returns 0 or -1 as dev_open. */
static int miser_open(struct miser *m, uint64_t keep)
{
	if (dev_open(&m->dev, "cpu") < 0)
		return -1;
	m->ops = *m->dev.ops;
	m->poc = *m->ops.poc;
	m->poc.memfill = miser_memfill;
	m->ops.poc = &m->poc;
	m->dev.ops = &m->ops;
	m->keep = keep;
	m->block = memfill_block_fast();
	atomic_store(&m->computed, 0);
	return 0;
}

#endif
