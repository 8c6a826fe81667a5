/* field_ifma.h - numbers modulo p = 2^255 - 19 in the eight lanes of AVX-512, multiplied by IFMA.
 * Uses libc and the compiler's intrinsics; included by sources of kernels/crypto and their tests.
 *
 * A number is five limbs of 51 bits, one vector a limb, one number a lane. IFMA multiplies the low
 * 52 bits of two words and adds the low or the high 52 bits of the product to a word of 64 bits
 * (Gueron and Krasnov, "Software Implementation of Modular Exponentiation, Using Advanced Vector
 * Instructions Architectures", 2012, on the idea). Nothing here is constant-time: what is
 * verified is public.
 *
 * Two types keep the bounds apart, for every input, not only the likely ones:
 * struct fe     limbs below 2^52, what a multiplication accepts;
 * struct wide   limbs below 2^63, a sum or product that fe_carry turns into a struct fe.
 * A product's limbs are below 267 * 2^52 (WIDE_MAX), so that sums of a few of them stay wide. */
#ifndef RNP_KERNELS_CRYPTO_FIELD_IFMA_H
#define RNP_KERNELS_CRYPTO_FIELD_IFMA_H

#ifdef __x86_64__
#include <immintrin.h>
#include <stdint.h>

#define IFMA_TARGET target("avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")
#define IFMA        __attribute__((IFMA_TARGET))
#define IFMA_INLINE static inline __attribute__((always_inline, IFMA_TARGET))

#define FE_BITS  51
#define FE_MASK  ((INT64_C(1) << FE_BITS) - 1)
#define FE_LANES 8

struct fe {
	__m512i v[5];
};

struct wide {
	__m512i v[5];
};

/* Returns the same number in all lanes; the limbs are below 2^51. */
IFMA_INLINE struct fe fe_set(const uint64_t limbs[5])
{
	struct fe r;

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		r.v[i] = _mm512_set1_epi64((int64_t)limbs[i]);
	return r;
}

IFMA_INLINE struct fe fe_small(int n)
{
	struct fe r;

	r.v[0] = _mm512_set1_epi64(n);
#pragma GCC unroll 4
	for (int i = 1; i < 5; i++)
		r.v[i] = _mm512_setzero_si512();
	return r;
}

/* Returns the lanes of b where mask has a bit, else those of a. */
IFMA_INLINE struct fe fe_blend(__mmask8 mask, struct fe a, struct fe b)
{
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		a.v[i] = _mm512_mask_blend_epi64(mask, a.v[i], b.v[i]);
	return a;
}

/* --- sums, not yet carried ---------------------------------------------------------------- */

IFMA_INLINE struct wide wide_of(struct fe a)
{
	struct wide r;

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		r.v[i] = a.v[i];
	return r;
}

IFMA_INLINE struct wide wide_add(struct wide a, struct wide b)
{
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		a.v[i] = _mm512_add_epi64(a.v[i], b.v[i]);
	return a;
}

/* Returns a - b + p * 2^shift, whose limbs must not be negative: those of b are below
 * 2^(51 + shift) - 19 * 2^shift. */
IFMA_INLINE struct wide wide_sub(struct wide a, struct wide b, int shift)
{
	const __m512i low = _mm512_set1_epi64((FE_MASK - 18) << shift);
	const __m512i other = _mm512_set1_epi64(FE_MASK << shift);

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		a.v[i] = _mm512_sub_epi64(_mm512_add_epi64(a.v[i], i ? other : low),
			b.v[i]);
	return a;
}
#define SHIFT_FE   2  /* b is a struct fe: 2^53 - 76 is more than 2^52 */
#define SHIFT_WIDE 10 /* b is one product: 2^61 - 19456 is more than WIDE_MAX */
#define SHIFT_DIFF 11 /* b is a difference of two products: 2^62 - 38912 */

/* One carry from each limb to the next: below 2^63 they become below 2^51 + 19 * 2^12. */
IFMA_INLINE struct fe fe_carry(struct wide a)
{
	const __m512i mask = _mm512_set1_epi64(FE_MASK);
	__m512i up[5];
	struct fe r;

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++) {
		up[i] = _mm512_srli_epi64(a.v[i], FE_BITS);
		r.v[i] = _mm512_and_si512(a.v[i], mask);
	}
	r.v[0] = _mm512_madd52lo_epu64(r.v[0], up[4], _mm512_set1_epi64(19));
#pragma GCC unroll 4
	for (int i = 1; i < 5; i++)
		r.v[i] = _mm512_add_epi64(r.v[i], up[i - 1]);
	return r;
}

/* --- products ----------------------------------------------------------------------------- */

/* Ten columns of 51 bits to five: 2^255 is 19. The compiler is not told that: it would shift and
 * add, four operations for one, and Zen 4 executes two a cycle of all together. */
IFMA_INLINE struct wide fold(const __m512i z[10])
{
	__m512i nineteen = _mm512_set1_epi64(19);
	struct wide r;

	__asm__("" : "+v"(nineteen));

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		r.v[i] = _mm512_add_epi64(z[i], _mm512_mullo_epi64(z[i + 5], nineteen));
	return r;
}

IFMA_INLINE void clear_columns(__m512i z[10])
{
#pragma GCC unroll 10
	for (int i = 0; i < 10; i++)
		z[i] = _mm512_setzero_si512();
}

/* Doubles the columns from `from` to `end` - 1. */
IFMA_INLINE void double_columns(__m512i z[10], int from, int end)
{
#pragma GCC unroll 10
	for (int i = from; i < end; i++)
		z[i] = _mm512_add_epi64(z[i], z[i]);
}

/* The high halves of the products count 2^52 = 2 * 2^51: they are summed first and doubled. Column
 * 5 is the largest: 4 low halves and twice 5 high ones, 14 * 2^52; folded onto column 0:
 * (1 + 19 * 14) * 2^52. */
IFMA_INLINE struct wide fe_mul_wide(struct fe a, struct fe b)
{
	__m512i z[10];

	clear_columns(z);
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
#pragma GCC unroll 5
		for (int j = 0; j < 5; j++)
			z[i + j + 1] = _mm512_madd52hi_epu64(z[i + j + 1], a.v[i],
				b.v[j]);
	double_columns(z, 1, 10);
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
#pragma GCC unroll 5
		for (int j = 0; j < 5; j++)
			z[i + j] = _mm512_madd52lo_epu64(z[i + j], a.v[i], b.v[j]);
	return fold(z);
}

/* The same sums as fe_mul_wide(a, a): high halves of mixed products count four times, those of
 * squares and low halves of mixed products twice. */
IFMA_INLINE struct wide fe_square_wide(struct fe a)
{
	__m512i z[10];

	clear_columns(z);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
		for (int j = i + 1; j < 5; j++)
			z[i + j + 1] = _mm512_madd52hi_epu64(z[i + j + 1], a.v[i],
				a.v[j]);
	double_columns(z, 2, 9);
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		z[2 * i + 1] = _mm512_madd52hi_epu64(z[2 * i + 1], a.v[i], a.v[i]);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
		for (int j = i + 1; j < 5; j++)
			z[i + j] = _mm512_madd52lo_epu64(z[i + j], a.v[i], a.v[j]);
	double_columns(z, 1, 10);
#pragma GCC unroll 5
	for (int i = 0; i < 5; i++)
		z[2 * i] = _mm512_madd52lo_epu64(z[2 * i], a.v[i], a.v[i]);
	return fold(z);
}

IFMA_INLINE struct fe fe_mul(struct fe a, struct fe b)
{
	return fe_carry(fe_mul_wide(a, b));
}

IFMA_INLINE struct fe fe_square(struct fe a)
{
	return fe_carry(fe_square_wide(a));
}

IFMA_INLINE struct fe fe_add(struct fe a, struct fe b)
{
	return fe_carry(wide_add(wide_of(a), wide_of(b)));
}

IFMA_INLINE struct fe fe_sub(struct fe a, struct fe b)
{
	return fe_carry(wide_sub(wide_of(a), wide_of(b), SHIFT_FE));
}

/* Squares n times. */
IFMA static inline struct fe fe_squares(struct fe a, int n)
{
	for (int i = 0; i < n; i++)
		a = fe_square(a);
	return a;
}

/* --- powers ------------------------------------------------------------------------------- */

/* Returns a^(2^250 - 1), and a^11 in *eleventh. */
IFMA static inline struct fe fe_pow_250(struct fe a, struct fe *eleventh)
{
	struct fe a2 = fe_square(a);
	struct fe a9 = fe_mul(fe_squares(a2, 2), a);
	struct fe a11 = fe_mul(a9, a2);
	struct fe e5 = fe_mul(fe_square(a11), a9); /* e5: a^(2^5 - 1), and so on */
	struct fe e10 = fe_mul(fe_squares(e5, 5), e5);
	struct fe e20 = fe_mul(fe_squares(e10, 10), e10);
	struct fe e40 = fe_mul(fe_squares(e20, 20), e20);
	struct fe e50 = fe_mul(fe_squares(e40, 10), e10);
	struct fe e100 = fe_mul(fe_squares(e50, 50), e50);
	struct fe e200 = fe_mul(fe_squares(e100, 100), e100);

	*eleventh = a11;
	return fe_mul(fe_squares(e200, 50), e50);
}

/* Returns 1 / a, and 0 for 0: a^(p - 2) = a^(2^255 - 21). */
IFMA static inline struct fe fe_invert(struct fe a)
{
	struct fe a11, e250 = fe_pow_250(a, &a11);

	return fe_mul(fe_squares(e250, 5), a11);
}

/* Returns a^((p - 5) / 8) = a^(2^252 - 3). */
IFMA static inline struct fe fe_pow_p58(struct fe a)
{
	struct fe a11, e250 = fe_pow_250(a, &a11);

	return fe_mul(fe_squares(e250, 2), a);
}

/* --- the one form ------------------------------------------------------------------------- */

/* Carries limb by limb; returns what leaves the last one. */
IFMA_INLINE __m512i carry_up(struct fe *a)
{
	const __m512i mask = _mm512_set1_epi64(FE_MASK);
	__m512i up = _mm512_setzero_si512();

#pragma GCC unroll 5
	for (int i = 0; i < 5; i++) {
		a->v[i] = _mm512_add_epi64(a->v[i], up);
		up = _mm512_srli_epi64(a->v[i], FE_BITS);
		a->v[i] = _mm512_and_si512(a->v[i], mask);
	}
	return up;
}

/* Returns a as the number below p. After two rounds it is below 2^255: a carry out of the second
 * leaves a small limb 0. */
IFMA static inline struct fe fe_freeze(struct fe a)
{
	const __m512i nineteen = _mm512_set1_epi64(19);
	struct fe over;

	for (int i = 0; i < 2; i++) {
		__m512i up = carry_up(&a);

		a.v[0] = _mm512_madd52lo_epu64(a.v[0], up, nineteen);
	}
	/* a >= p if a + 19 >= 2^255; then a + 19 - 2^255 is the result */
	over = a;
	over.v[0] = _mm512_add_epi64(over.v[0], nineteen);
	a.v[0] = _mm512_madd52lo_epu64(a.v[0], carry_up(&over), nineteen);
	(void)carry_up(&a);
	return a;
}

/* Returns the lanes in which a is 0 modulo p. */
IFMA_INLINE __mmask8 fe_is_zero(struct fe a)
{
	__m512i any;

	a = fe_freeze(a);
	any = a.v[0];
#pragma GCC unroll 4
	for (int i = 1; i < 5; i++)
		any = _mm512_or_si512(any, a.v[i]);
	return _mm512_testn_epi64_mask(any, any);
}

#endif
#endif
