/* memfill.c - reference of the memory test's fill. */
#include "kernels/poc/memfill.h"

#include <stddef.h>

#define SIDE 16

static uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static void quarter(uint32_t *x, int a, int b, int c, int d)
{
	x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 16);
	x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 12);
	x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 8);
	x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 7);
}

static void double_round(uint32_t x[SIDE])
{
	quarter(x, 0, 4, 8, 12);
	quarter(x, 1, 5, 9, 13);
	quarter(x, 2, 6, 10, 14);
	quarter(x, 3, 7, 11, 15);
	quarter(x, 0, 5, 10, 15);
	quarter(x, 1, 6, 11, 12);
	quarter(x, 2, 7, 8, 13);
	quarter(x, 3, 4, 9, 14);
}

/* applies V; T happens by where the columns are written */
static void columns(uint32_t out[MEMFILL_WORDS], const uint32_t in[MEMFILL_WORDS],
	int transposed)
{
	for (int c = 0; c < SIDE; c++) {
		uint32_t x[SIDE];

		for (int r = 0; r < SIDE; r++)
			x[r] = in[SIDE * r + c];
		double_round(x);
		double_round(x);
		for (int r = 0; r < SIDE; r++)
			out[transposed ? SIDE * c + r : SIDE * r + c] = x[r];
	}
}

void memfill_block(uint32_t out[MEMFILL_WORDS], const uint32_t *prev,
	const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4])
{
	uint32_t x[MEMFILL_WORDS], y[MEMFILL_WORDS];

	for (int i = 0; i < MEMFILL_WORDS; i++)
		x[i] = (prev ? prev[i] : 0) ^ (i < 4 ? salt[i] : 0);
	for (int j = 0; j < MEMFILL_REFS; j++)
		for (int i = 0; ref[j] && i < MEMFILL_WORDS; i++)
			x[i] ^= ref[j][i];
	columns(y, x, 1);
	columns(out, y, 0);
	for (int i = 0; i < MEMFILL_WORDS; i++)
		out[i] ^= x[i];
}

static void fill_lane(const struct memfill *m, uint64_t lane)
{
	uint64_t slice = m->step % MEMFILL_SLICES;
	const uint32_t *prev = NULL;

	if (m->step)
		prev = m->blocks +
			MEMFILL_WORDS *
				memfill_index(m, lane, (slice + 3) % MEMFILL_SLICES,
					m->per_slice - 1);
	for (uint64_t i = 0; i < m->per_slice; i++) {
		uint32_t *out = m->blocks +
			MEMFILL_WORDS * memfill_index(m, lane, slice, i);
		const uint32_t *ref[MEMFILL_REFS] = { NULL };
		struct memfill_ref from;
		uint32_t salt[4];

		memfill_salt(salt, m, lane, i);
		for (int j = 0; j < MEMFILL_REFS; j++)
			if (memfill_ref_of(&from, m, salt, j))
				ref[j] = m->blocks +
					MEMFILL_WORDS *
						memfill_index(m, from.lane, from.slice,
							from.i);
		memfill_block(out, prev, ref, salt);
		prev = out;
	}
}

void memfill_ref(const struct memfill *m, uint64_t from, uint64_t to)
{
	for (uint64_t lane = from; lane < to; lane++)
		fill_lane(m, lane);
}

#ifndef __x86_64__
memfill_fn memfill_fast(void)
{
	return memfill_ref;
}

memfill_block_fn memfill_block_fast(void)
{
	return memfill_block;
}
#endif
