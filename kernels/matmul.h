/* matmul.h - C = A B for f32, bf16 and int8: row-major, A is m x k, B is k x n, C is m x n.
 *
 * Nothing overlaps. One OpenMP team. Three definitions:
 *
 *   f32   c = sum over ascending p of a[p] * b[p], each product and sum rounded to f32
 *   bf16  the same; products of two bf16 are exact in f32, sums are rounded to f32
 *   i8    exact in 32 bits, wrapping beyond (never for k <= 131071)
 *
 * The fast versions add in another order and fuse, and bf16 instructions flush subnormals:
 * |fast - exact| <= (k + 2) 2^-23 sum|a b| + k 2^-126, likewise the reference; where all partial
 * sums are exact (whole numbers below 2^24) both are equal. Blocked as in Goto and van de Geijn,
 * "Anatomy of high-performance matrix multiplication" (2008). */
#ifndef RNP_KERNELS_MATMUL_H
#define RNP_KERNELS_MATMUL_H

#include <stdint.h>

typedef uint16_t bf16; /* the upper half of an f32 */

typedef void (*matmul_f32_fn)(int64_t m, int64_t n, int64_t k, const float *a,
	const float *b, float *c);
typedef void (*matmul_bf16_fn)(int64_t m, int64_t n, int64_t k, const bf16 *a,
	const bf16 *b, float *c);
typedef void (*matmul_i8_fn)(int64_t m, int64_t n, int64_t k, const int8_t *a,
	const int8_t *b, int32_t *c);

struct matmul {
	const char *f32_name, *bf16_name,
		*i8_name; /* which instructions: "avx512_vnni" */
	matmul_f32_fn f32;
	matmul_bf16_fn bf16;
	matmul_i8_fn i8;
};

extern const struct matmul matmul_reference;
const struct matmul *matmul_fast(
	void); /* the best for this CPU; the reference if none is */

static inline float matmul_bf16_to_f32(bf16 v)
{
	union {
		uint32_t bits;
		float value;
	} u = { (uint32_t)v << 16 };

	return u.value;
}

#endif
