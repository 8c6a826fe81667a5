/* project.h - a linear layer with weights as they lie in a model file: what inference is made of;
 * and the quantisation of activations that products with quantised weights take. libc only.
 *
 * Plain weights: y[r][j] = from[r][j] + bias[j] + sum over t < k of x[r][t] W[j][t], with W decoded
 * exactly to f32. Error: (k + 4) 4 u S with S = |from| + |bias| + sum |x W|, u = 2^-24; sums are
 * f32. The reference adds in f64 in the order of t. A GPU with tensor cores rounds x to bf16 where
 * the weights are bf16, k is a multiple of 8 from 32 on, and x and W lie at multiples of 16 bytes,
 * as do their rows: a further error of 2^-9 of the sum of |x W|, as PyTorch and llama.cpp have it
 * there; infinite numbers may become NaN.
 *
 * Quantised weights: the activations are blocks of 32 int8 (lm_quantize). With I_b the sum over a
 * block of part code q, exact in int32, the sum of an output is, in f32 and in the order of b,
 *
 *     s = fma(scale_w scale_x, I_b, s) ;  s = fma(min_w, sum_x, s) where the type has a minimum
 *
 * then y = (s + bias) + from. Every version gives these bits, on a GPU too (but for the bits of a
 * NaN, and where an infinite scale meets a sum of 0).
 *
 * Shapes: x is rows x k with stride ldx, y and from rows x n with stride ldy, all f32; x8 is rows x
 * k / 32 blocks without gaps; W is n rows of k weights of `type`, one row after the other without
 * gaps, k a multiple of lm_weight_block; on a GPU x8 is at a multiple of 16 bytes. W needs no
 * alignment: it may be a mapped file. from (may be y) and bias may be NULL. y overlaps neither x
 * nor W. rows, n, k may be 0. The bits of a row follow from the row and W alone: not from the other
 * rows, their number, or the team. */
#ifndef RNP_KERNELS_LM_PROJECT_H
#define RNP_KERNELS_LM_PROJECT_H

#include "kernels/lm/weight.h"

/* 32 activations: number i is scale q[i]. */
struct lm_block8 {
	int8_t q[LM_WEIGHT_BLOCK];
	float scale;
	float sum; /* of the numbers: scale times the sum of q, rounded once */
	/* the sum of all q with the other sign, and that of q[16..31]: what an offset of the
	 * codes makes good begins with it */
	int32_t minus[2];
};

/* Blocks of 32 numbers become int8: scale = largest |x| / 127, q = x times 1 / scale, rounded to
 * nearest even. A block whose numbers are all below 2^-100 is zeros. All versions give the same
 * bits. x is rows x k with stride ldx, k a multiple of 32. */
struct lm_quantize {
	struct lm_block8 *to; /* [rows][k / 32] */
	const float *x;
	uint64_t rows, k, ldx;
};

struct lm_project {
	enum lm_weight type;
	float *y;
	const float *x;             /* of plain weights */
	const struct lm_block8 *x8; /* of quantised ones */
	const float *from, *bias;
	const void *w;
	uint64_t rows, n, k, ldx, ldy;
	bool packed; /* w is what lm_pack made for this device */
};

/* Up to three layers of lm_norm of the same x in one operation: norms, products and SwiGLU are what
 * the operations of these names make, to the bit. All have the same type, x, rows and k, which is
 * ldx, too. */
#define LM_GROUP 3

struct lm_project_group {
	struct lm_project p[LM_GROUP];
	uint32_t n;
	/* [k]; NULL: x and x8 are what the products take, as of lm_project: CPU only; or x alone of
	 * one product with quantised weights, and x8 is NULL: the operation quantises it: GPU
	 * only */
	const float *norm;
	float eps;
	/* not NULL: there are two, g and u, of as many outputs and without `from`, and what is
	 * stored is SwiGLU of them alone, [rows, outputs]; their y are not used, but without
	 * `norm`, as work space */
	float *gated;
	/* without `norm`: not NULL: gated, a multiple of 32, quantised */
	struct lm_block8 *gated8;
	bool gelu;
};

/* Where byte `at` of a block of Q6_K lies among packed ones, which have its fields in the order in
 * which they are used: f16, scales, then of each half upper bits and nibbles. */
HD uint64_t lm_packed_6_k(uint64_t at)
{
	return at < 128  ? 50 + at / 64 * 96 + at % 64 :
		at < 192 ? 18 + at / 32 % 2 * 96 + at % 32 :
		at < 208 ? at - 190 :
			   at - 208;
}

KERNELS_BEGIN

/* outputs from .. to - 1 of every row */
void lm_project_ref(const struct lm_project *p, uint64_t from, uint64_t to);
/* blocks of all rows, one row after the other */
void lm_quantize_ref(const struct lm_quantize *q, uint64_t from, uint64_t to);

/* Copies quantised weights in the order in which a CPU's vectors take them, so that products need
 * not transpose them; none of their bits change, nor do those of products. Of each group of
 * `outputs` rows the first bytes of all, which are one field of a block, come first, then the
 * next field of all, where a field has 4 bytes, or 2 if it is an f16 alone; so row j's group is
 * where it was. Rows after the last whole group stay as they are. The fields of Q6_K change places,
 * too: lm_packed_6_k. */
void lm_pack(void *to, const void *w, enum lm_weight type, uint64_t n, uint64_t k,
	uint32_t outputs);

KERNELS_END

#endif
