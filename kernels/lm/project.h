/* project.h - a linear layer whose weights stay in the types of a model file, for a few rows of
 * f32: the main operation of decoding. libc only.
 *
 * Formula: y[r][j] = from[r][j] + bias[j] + sum over t < k of x[r][t] W[j][t], with W decoded
 * exactly to f32. Shapes: x is rows x k with stride ldx, y and from are rows x n with stride
 * ldy, all f32; W is n rows of k weights of `type`, one row after the other without gaps, k a
 * multiple of 32 for the block types. W needs no alignment: it may be a mapped file. from (may
 * be y) and bias may be NULL. y overlaps neither x nor W. rows, n, k may be 0. Error: (k + 4) 4
 * u S with S = |from| + |bias| + sum |x W|, u = 2^-24; sums are f32. The reference adds in f64
 * in the order of t. The bits of a row depend only on the row and W: not on the other rows,
 * their number, or the team. */
#ifndef RNP_KERNELS_LM_PROJECT_H
#define RNP_KERNELS_LM_PROJECT_H

#include <stdint.h>

#include "kernels/dev/half.h"

enum lm_weight {
	LM_WEIGHT_F32,
	LM_WEIGHT_F16,
	LM_WEIGHT_BF16,
	LM_WEIGHT_Q8_0, /* blocks of 32: scale f16, 32 int8 */
	/* blocks of 32: scale f16, 16 bytes; low nibbles are weights 0..15, high ones 16..31;
	 * minus 8 */
	LM_WEIGHT_Q4_0,
	LM_WEIGHTS
};

#define LM_WEIGHT_BLOCK 32

/* Returns the size of 32 weights, in bytes. */
HD uint64_t lm_weight_block_bytes(enum lm_weight type)
{
	switch (type) {
	case LM_WEIGHT_F32:
		return 128;
	case LM_WEIGHT_Q8_0:
		return 34;
	case LM_WEIGHT_Q4_0:
		return 18;
	default:
		return 64;
	}
}

/* Returns the size of a row of k weights, in bytes. */
HD uint64_t lm_weight_row_bytes(enum lm_weight type, uint64_t k)
{
	return type <= LM_WEIGHT_BF16 ? k * lm_weight_block_bytes(type) / 32 :
					k / 32 * lm_weight_block_bytes(type);
}

/* Returns weight t of a row. */
HD float lm_weight_at(enum lm_weight type, const unsigned char *row, uint64_t t)
{
	const unsigned char *block = row + t / 32 * lm_weight_block_bytes(type);
	unsigned i = (unsigned)(t % 32);
	uint16_t half;
	float whole;

	switch (type) {
	case LM_WEIGHT_F32:
		memcpy(&whole, row + 4 * t, 4);
		return whole;
	case LM_WEIGHT_F16:
		memcpy(&half, row + 2 * t, 2);
		return f16_to_f32(half);
	case LM_WEIGHT_BF16:
		memcpy(&half, row + 2 * t, 2);
		return bf16_to_f32(half);
	case LM_WEIGHT_Q8_0:
		memcpy(&half, block, 2);
		return (float)(int8_t)block[2 + i] * f16_to_f32(half);
	default:
		memcpy(&half, block, 2);
		i = i < 16 ? block[2 + i] & 15u : block[2 + i - 16] >> 4;
		return ((float)i - 8) * f16_to_f32(half);
	}
}

struct lm_project {
	enum lm_weight type;
	float *y;
	const float *x, *from, *bias;
	const void *w;
	uint64_t rows, n, k, ldx, ldy;
};

KERNELS_BEGIN

/* Computes outputs from .. to - 1 of every row. */
void lm_project_ref(const struct lm_project *p, uint64_t from, uint64_t to);

KERNELS_END

#endif
