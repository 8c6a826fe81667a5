/* tile.h - products of small blocks: the fast matrix products, attention and output layer of
 * the CPU are built on them.
 *
 * A block product is C [rows, 16 panels] = A B with A row-major (k contiguous) and B in panels
 * of 16 columns. Both sides hold bf16 or both f32 (`halves`), whatever the dtype of the
 * activations; k is padded with zeros to a multiple of k_step on both sides. A panel is, for
 * f32, [k][16]; for bf16, [k / 2][16][2]: pairs along k are adjacent, as the instructions
 * require. */
#ifndef RNP_KERNELS_LM_CPU_TILE_H
#define RNP_KERNELS_LM_CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/lm/ops.h"

#define LM_TILE  32 /* rows and columns of a block of C */
#define LM_PANEL 16

/* The last operation on a finished block: to[i][j] = scale C (+ bias[j]) (+ from[i][j]). */
enum lm_out { LM_OUT_F32, LM_OUT_BF16, LM_OUT_F16 };

struct lm_done {
	enum lm_out out;
	void *to;
	const float *from, *bias; /* or NULL */
	float scale;
	uint64_t ld; /* of to and from, in elements */
	uint64_t rows, columns;
};

struct lm_tiles {
	bool halves;
	uint32_t k_step;

	/* called before and after a thread's block products */
	void (*begin)(void);
	void (*end)(void);

	/* c is f32 [LM_TILE][LM_TILE]; 1 <= rows <= LM_TILE; panels is 1 or 2 (the second
	 * panel_bytes after the first); k is a multiple of k_step; add: adds to the contents
	 * of c. c and b are aligned to 64 bytes. Rows of c beyond `rows` are unspecified
	 * afterwards. */
	void (*mul)(float *c, const void *a, uint64_t lda_bytes, uint64_t rows,
		const void *b, uint64_t panel_bytes, uint64_t panels, uint64_t k,
		bool add);

	/* Packs one panel of columns <= 16 of B: stored [columns][k] (by_k false) or
	 * [k][columns], stride ldb in elements; padded with zeros to 16 columns and k_padded. */
	void (*pack_b)(void *panel, enum lm_dtype dtype, const void *b, uint64_t ldb,
		uint64_t columns, uint64_t k, uint64_t k_padded, bool by_k);

	/* Packs rows of A, stored [rows][k] or (by_k) [k][rows], to rows of k_padded elements
	 * each. */
	void (*pack_a)(void *to, enum lm_dtype dtype, const void *a, uint64_t lda,
		uint64_t rows, uint64_t k, uint64_t k_padded, bool by_k);

	void (*done)(const struct lm_done *d, const float *c);
};

/* Returns the best tiles for these activations at a level, or NULL: use the reference. */
const struct lm_tiles *lm_tiles_for(enum cpu_level level, enum lm_dtype dtype);

static inline uint64_t lm_tile_bytes(const struct lm_tiles *t)
{
	return t->halves ? 2 : 4;
}

static inline uint64_t lm_pad_k(const struct lm_tiles *t, uint64_t k)
{
	return (k + t->k_step - 1) / t->k_step * t->k_step;
}

/* Returns the size of a panel, in bytes. */
static inline uint64_t lm_panel_bytes(const struct lm_tiles *t, uint64_t k)
{
	return lm_pad_k(t, k) * LM_PANEL * lm_tile_bytes(t);
}

#endif
