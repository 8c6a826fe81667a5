/* point_ifma.h - points of edwards25519 in the eight lanes of AVX-512: their sums, their encoding,
 * and rows of tables of them. Uses field_ifma, lanes_x86; included by sources of kernels/crypto. */
#ifndef RNP_KERNELS_CRYPTO_POINT_IFMA_H
#define RNP_KERNELS_CRYPTO_POINT_IFMA_H

#ifdef __x86_64__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/crypto/field_ifma.h"
#include "kernels/crypto/lanes_x86.h"

/* Points are those of -x^2 + y^2 = 1 + d x^2 y^2 in extended coordinates (Hisil, Wong, Carter,
 * Dawson, "Twisted Edwards Curves Revisited", 2008): x = X/Z, y = Y/Z, T = XY/Z. Its formulas
 * have no exceptions on this curve, so that points with torsion are added like all others. */
struct point {
	struct fe x, y, z, t;
};

/* A point that is to be added often. Of one whose z is 1, z2 is absent. */
struct addend {
	struct fe sum, diff, t2d, z2; /* y + x, y - x, 2 d t, 2 z */
};

/* clang-format off */
static const uint64_t curve_d[5] = { 0x34dca135978a3, 0x1a8283b156ebd, 0x5e7a26001c029, 0x739c663a03cbb, 0x52036cee2b6ff };
static const uint64_t curve_2d[5] = { 0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff };
static const uint64_t root_of_minus_1[5] = { 0x61b274a0ea0b0, 0xd5a5fc8f189d, 0x7ef5e9cbd0c60, 0x78595a6804c9e, 0x2b8324804fc1d };
/* clang-format on */

IFMA_INLINE struct point identity(void)
{
	return (struct point){ fe_small(0), fe_small(1), fe_small(1), fe_small(0) };
}

/* The last step of every formula: E F, G H, F G and, if asked for, E H. */
IFMA_INLINE void complete(struct point *p, struct fe e, struct fe f, struct fe g,
	struct fe h, bool with_t)
{
	p->x = fe_mul(e, f);
	p->y = fe_mul(g, h);
	p->z = fe_mul(f, g);
	if (with_t)
		p->t = fe_mul(e, h);
}

/* Doubles p. Its T is not read, and is computed only if an addition follows. */
IFMA_INLINE void double_once(struct point *p, bool with_t)
{
	struct wide xx = fe_square_wide(p->x), yy = fe_square_wide(p->y);
	struct wide zz = fe_square_wide(p->z), xy = fe_mul_wide(p->x, p->y);
	struct wide g = wide_sub(yy, xx, SHIFT_WIDE);

	complete(p, fe_carry(wide_add(xy, xy)),
		fe_carry(wide_sub(wide_add(zz, zz), g, SHIFT_DIFF)), fe_carry(g),
		fe_carry(wide_add(yy, xx)), with_t);
}

IFMA static inline void double_times(struct point *p, int n)
{
	while (--n > 0)
		double_once(p, false);
	double_once(p, true);
}

/* The second half of an addition, from the products a to d of the paper. In the lanes of
 * `negative` the addend's sum and diff have changed places, and t2d has the other sign: c is
 * then subtracted where it is added. */
IFMA_INLINE void add_products(struct point *p, struct wide a, struct wide b,
	struct wide c, struct wide d, __mmask8 negative, bool with_t)
{
	struct fe less = fe_carry(wide_sub(d, c, SHIFT_WIDE));
	struct fe more = fe_carry(wide_add(d, c));

	complete(p, fe_carry(wide_sub(b, a, SHIFT_WIDE)), fe_blend(negative, less, more),
		fe_blend(negative, more, less), fe_carry(wide_add(b, a)), with_t);
}

/* Adds q, or -q in the lanes of `negative`, to p. */
IFMA_INLINE void add(struct point *p, const struct addend *q, __mmask8 negative,
	bool with_t)
{
	struct wide a = fe_mul_wide(fe_sub(p->y, p->x),
		fe_blend(negative, q->diff, q->sum));
	struct wide b = fe_mul_wide(fe_add(p->y, p->x),
		fe_blend(negative, q->sum, q->diff));

	add_products(p, a, b, fe_mul_wide(p->t, q->t2d), fe_mul_wide(p->z, q->z2),
		negative, with_t);
}

/* The same for an addend whose z is 1. */
IFMA_INLINE void add_flat(struct point *p, const struct addend *q, __mmask8 negative,
	bool with_t)
{
	struct wide a = fe_mul_wide(fe_sub(p->y, p->x),
		fe_blend(negative, q->diff, q->sum));
	struct wide b = fe_mul_wide(fe_add(p->y, p->x),
		fe_blend(negative, q->sum, q->diff));

	add_products(p, a, b, fe_mul_wide(p->t, q->t2d),
		wide_add(wide_of(p->z), wide_of(p->z)), negative, with_t);
}

IFMA_INLINE struct addend addend_of(const struct point *p)
{
	struct addend a;

	a.sum = fe_add(p->y, p->x);
	a.diff = fe_sub(p->y, p->x);
	a.t2d = fe_mul(p->t, fe_set(curve_2d));
	a.z2 = fe_add(p->z, p->z);
	return a;
}

/* --- encodings --------------------------------------------------------------------------- */

/* Reads 255 bits a lane, and the 256th as a bit of the result. */
IFMA static inline __mmask8 load_encoded(struct fe *out, const unsigned char *const in[8])
{
	uint64_t word[4][FE_LANES] __attribute__((aligned(64)));
	const __m512i mask = _mm512_set1_epi64(FE_MASK);
	__m512i w[4];

	for (int i = 0; i < FE_LANES; i++)
		for (int j = 0; j < 4; j++)
			memcpy(&word[j][i], in[i] + 8 * j, 8);
	for (int j = 0; j < 4; j++)
		w[j] = _mm512_load_si512(word[j]);
	out->v[0] = _mm512_and_si512(w[0], mask);
	for (int i = 1; i < 4;
		i++) /* limb i begins at bit 51 i, which is in word i - 1 */
		out->v[i] = _mm512_and_si512(
			_mm512_or_si512(_mm512_srli_epi64(w[i - 1],
						(unsigned)(FE_BITS * i - 64 * (i - 1))),
				_mm512_slli_epi64(w[i],
					(unsigned)(64 * i - FE_BITS * i))),
			mask);
	out->v[4] = _mm512_and_si512(_mm512_srli_epi64(w[3], 12), mask);
	return _mm512_movepi64_mask(w[3]);
}

/* Returns the lanes in which a, the number below p, is odd. */
IFMA_INLINE __mmask8 is_odd(struct fe a)
{
	return _mm512_test_epi64_mask(fe_freeze(a).v[0], _mm512_set1_epi64(1));
}

/* Finds -A from its encoding (RFC 8032, 5.1.3). Returns the lanes in which there is such a point;
 * the others get the identity, so that no z becomes 0 there. */
IFMA static inline __mmask8 load_negated(struct point *p,
	const unsigned char *const in[8])
{
	struct fe one = fe_small(1), y, yy, u, v, v3, x, vxx;
	__mmask8 odd = load_encoded(&y, in), right, turned, there;

	yy = fe_square(y);
	u = fe_sub(yy, one);
	v = fe_add(fe_mul(yy, fe_set(curve_d)), one);
	v3 = fe_mul(fe_square(v), v);
	x = fe_mul(u, fe_mul(fe_square(v3), v)); /* u v^7 */
	x = fe_mul(fe_mul(fe_pow_p58(x), v3), u);
	vxx = fe_mul(fe_square(x), v);
	right = fe_is_zero(fe_sub(vxx, u));
	turned = fe_is_zero(fe_add(vxx, u));
	there = right | turned;
	x = fe_blend(right, fe_mul(x, fe_set(root_of_minus_1)), x);
	x = fe_blend((__mmask8) ~(is_odd(x) ^ odd), x, fe_sub(fe_small(0), x));
	p->x = fe_blend(there, fe_small(0), x);
	p->y = fe_blend(there, one, y);
	p->z = one;
	p->t = fe_mul(p->x, p->y);
	return there;
}

/* --- rows of tables ---------------------------------------------------------------------- */

/* Writes the limbs of numbers as one row a lane, words apart; the rest of the last vector is 0. */
IFMA_INLINE void store_rows(uint64_t *rows, size_t apart, const struct fe *numbers, int n)
{
	for (int at = 0; at < 5 * n; at += 8) {
		__m512i m[8];

		for (int i = 0; i < 8; i++)
			m[i] = at + i < 5 * n ? numbers[(at + i) / 5].v[(at + i) % 5] :
						_mm512_setzero_si512();
		lanes_transpose(m);
		for (size_t lane = 0; lane < FE_LANES; lane++)
			_mm512_store_si512(rows + lane * apart + at, m[lane]);
	}
}

/* Reads n numbers, each lane from its own row. */
IFMA_INLINE void load_rows(struct fe *numbers, int n, const uint64_t *const rows[8])
{
#pragma GCC unroll 3
	for (int at = 0; at < 5 * n; at += 8) {
		__m512i m[8];

#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			m[i] = _mm512_load_si512(rows[i] + at);
		lanes_transpose(m);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			if (at + i < 5 * n)
				numbers[(at + i) / 5].v[(at + i) % 5] = m[i];
	}
}

/* --- digits ------------------------------------------------------------------------------ */

/* Writes a scalar below 2^253 as n signed digits of so many bits, each `apart` numbers after the
 * one before: from -2^(bits - 1) to 2^(bits - 1). */
static inline void digits_of(int16_t *digits, int apart, int n, int bits,
	const unsigned char scalar[32])
{
	int carry = 0;

	for (int i = 0; i < n; i++) {
		int at = i * bits, digit = carry;

		for (int b = 0, byte = at / 8; b < 3 && byte + b < 32; b++)
			digit += (int)(((uint32_t)scalar[byte + b] << 8 * b >> at % 8) &
				((1u << bits) - 1));
		carry = digit >= 1 << (bits - 1);
		digits[i * apart] = (int16_t)(digit - (carry << bits));
	}
}

/* Finds each lane's row, which is that of its digit without the sign, in a table of so many words a
 * row. Returns the lanes of negative digits. */
IFMA_INLINE __mmask8 find_rows(const uint64_t *rows[8], const uint64_t *const tables[8],
	size_t words, const int16_t digits[8])
{
	unsigned negative = 0;

	for (int i = 0; i < FE_LANES; i++) {
		int digit = digits[i];

		negative |= (unsigned)(digit < 0) << i;
		rows[i] = tables[i] + words * (size_t)(digit < 0 ? -digit : digit);
	}
	return (__mmask8)negative;
}

#endif
#endif
