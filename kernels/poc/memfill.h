/* memfill.h - fills memory in a way that is slow without the memory: lanes of 1 KiB blocks in
 * four slices, several passes over them.
 *
 * Shape: block (lane, at) with at < 4 * per_slice lies at blocks + (lane * 4 * per_slice + at)
 * * MEMFILL_WORDS, little-endian words. Step u = 4 * pass + slice writes the blocks at = slice
 * * per_slice + i for all lanes, i ascending; all lanes of a step are independent of each
 * other; a step needs the whole step before it.
 *
 * Formula: block = F(prev, ref[0] .. ref[7], salt).
 *   prev  the block before it in the lane, with its present contents; zero for the first of a lane
 *   salt  block ((lane << 32) | (u * per_slice + i)) of the step's Philox sequence: 4 words
 *   ref   blocks of finished slices: in pass 0 of those before this one (none in slice 0:
 *         zero), later of the three others. With count = finished slices * per_slice * lanes,
 *         below 2^32, the number of ref[j] is k = (r * count) >> 32, where r is salt[j], and from
 *         the fifth on salt[j - 4] rotated by 16 bits: lane k mod lanes, position k / lanes of
 *         the finished slices in ascending order
 *   F     X = prev ^ ref[0] ^ .. ^ ref[7], X[0..3] ^= salt; Y = V(T(V(X))) ^ X, where X is a
 *         16 x 16 matrix of words, T transposes, and V is two ChaCha double rounds (Bernstein
 *         2008) down each column, so that a changed bit of X changes half of all bits
 *
 * Exact: every version gives the same bytes. */
#ifndef RNP_KERNELS_POC_MEMFILL_H
#define RNP_KERNELS_POC_MEMFILL_H

#include <stdint.h>

#include "kernels/dev/hd.h"
#include "kernels/dev/philox.h"

#define MEMFILL_BYTES  1024
#define MEMFILL_WORDS  256
#define MEMFILL_SLICES 4
#define MEMFILL_REFS   8

struct memfill {
	uint32_t *blocks; /* belongs to the device */
	uint64_t lanes, per_slice;
	uint64_t step;
	struct philox key; /* of this step; key.block is ignored */
};

/* Computes which block another block takes as ref[which]. */
struct memfill_ref {
	uint64_t lane, slice, i, step; /* step: the one that wrote it */
};

/* Returns false if there is none (in the first slice of all). */
HD int memfill_ref_of(struct memfill_ref *out, const struct memfill *m,
	const uint32_t salt[4], int which)
{
	uint64_t slice = m->step % MEMFILL_SLICES, pass = m->step / MEMFILL_SLICES;
	uint64_t finished = pass ? MEMFILL_SLICES - 1 : slice, k, place;
	uint32_t r;

	if (!finished)
		return 0;
	r = salt[which % 4];
	if (which >= 4)
		r = r << 16 | r >> 16;
	k = (r * (finished * m->per_slice * m->lanes)) >> 32;
	place = k / m->lanes;
	out->lane = k % m->lanes;
	out->slice = place / m->per_slice;
	out->i = place % m->per_slice;
	if (out->slice >= slice)
		out->slice++;
	out->step = MEMFILL_SLICES * (out->slice < slice ? pass : pass - 1) + out->slice;
	return 1;
}

HD void memfill_salt(uint32_t salt[4], const struct memfill *m, uint64_t lane, uint64_t i)
{
	philox_block(salt, &m->key, lane << 32 | (m->step * m->per_slice + i));
}

HD uint64_t memfill_index(const struct memfill *m, uint64_t lane, uint64_t slice,
	uint64_t i)
{
	return (lane * MEMFILL_SLICES + slice) * m->per_slice + i;
}

KERNELS_BEGIN

/* Does step m->step for lanes from .. to - 1. */
typedef void (*memfill_fn)(const struct memfill *m, uint64_t from, uint64_t to);

void memfill_ref(const struct memfill *m, uint64_t from, uint64_t to);
void memfill_avx2(const struct memfill *m, uint64_t from, uint64_t to);
void memfill_avx512(const struct memfill *m, uint64_t from, uint64_t to);

/* Computes F; parents may be NULL (zero); out overlaps none of them. */
void memfill_block(uint32_t out[MEMFILL_WORDS], const uint32_t *prev,
	const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4]);

typedef void (*memfill_block_fn)(uint32_t out[MEMFILL_WORDS], const uint32_t *prev,
	const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4]);

/* Returns the best version for this CPU. */
memfill_fn memfill_fast(void);
memfill_block_fn memfill_block_fast(void);

KERNELS_END

#endif
