/* comb_ifma.h - multiples of a point by tables of them, without doublings. Uses point_ifma, ed25519;
 * included by sources of kernels/sig.
 *
 * A scalar k is sum k_i 2^(8 i) with 32 digits from -128 to 127, and k P is the sum of 32 rows, each
 * from the table of its digit's place (Brickell, Gordon, McCurley, Wilson, "Fast Exponentiation with
 * Precomputation", 1992): 32 additions of 7 multiplications in place of 253 doublings of 7 to 8 and
 * 51 additions of 8. The sum is exact for every point of the curve, with torsion or without.
 *
 * Digits of 10 bits take 26 additions, and a table of 1.6 MiB that takes 2.5 ms to make in place of
 * 0.7: wide tables, for keys that have signed ten thousands. Processor time of `usage` was the same
 * with 11 and 12 bits, whose tables a cache that others use, too, does not keep. */
#ifndef RNP_KERNELS_SIG_COMB_IFMA_H
#define RNP_KERNELS_SIG_COMB_IFMA_H

#ifdef __x86_64__
#include "kernels/sig/ed25519.h"
#include "kernels/sig/point_ifma.h"

#define COMB_BITS       8
#define COMB_BITS_WIDE  10
#define COMB_PLACES(b)  ((254 + (b)-1) / (b)) /* a scalar below 2^253 and the last carry */
#define COMB_PLACES_MAX COMB_PLACES(COMB_BITS)
/* digits 0 to 2^(b - 1); the sign is the addition's */
#define COMB_ROWS(b) ((size_t)1 + (1 << ((b)-1)))
#define COMB_WORDS   16 /* sum, diff, t2d, padded to whole vectors */

/* Row j of place i, at COMB_WORDS (i COMB_ROWS(bits) + j), is j 2^(bits i) P with z = 1. */
struct ed25519_table {
	int bits; /* COMB_BITS or COMB_BITS_WIDE */
	uint64_t row[] __attribute__((aligned(64)));
};

/* Returns a table of the multiples of a point that is the same in all lanes, which the caller frees;
 * NULL: there is no memory. */
struct ed25519_table *comb_new(const struct point *point, bool wide);

/* Returns a table of B, which is made at the first call, from any thread; NULL: there is no memory
 * for it. */
const struct ed25519_table *comb_base(bool wide);

/* Digits of eight scalars, those of one place side by side. */
struct comb_digits {
	int16_t at[COMB_PLACES_MAX][FE_LANES];
};

/* Writes a scalar below 2^253 as the digits of a lane, which are so many bits of it each, less
 * 2^bits where they are half of that or more, which the next one makes up for. */
IFMA_INLINE void comb_digits_of(struct comb_digits *d, int lane,
	const unsigned char scalar[32], int bits)
{
	uint64_t word[5] = { 0 };
	int carry = 0;

	memcpy(word, scalar, 32);
#pragma GCC unroll 32
	for (int i = 0; i < COMB_PLACES(bits); i++) {
		int at = i * bits % 64, digit;
		uint64_t v = word[i * bits / 64] >> at;

		if (at + bits > 64)
			v |= word[i * bits / 64 + 1] << (64 - at);
		digit = (int)(v & ((1u << bits) - 1)) + carry;
		carry = digit >= 1 << (bits - 1);
		d->at[i][lane] = (int16_t)(digit - (carry << bits));
	}
}

IFMA_INLINE void comb_find(const uint64_t *rows[8], __mmask8 *negative,
	const struct ed25519_table *const tables[8], const struct comb_digits *d,
	int place, int bits)
{
	const uint64_t *first[FE_LANES];

	for (int i = 0; i < FE_LANES; i++)
		first[i] = tables[i]->row + (size_t)place * COMB_ROWS(bits) * COMB_WORDS;
	*negative = find_rows(rows, first, COMB_WORDS, d->at[place]);
	for (int i = 0; i < FE_LANES; i++) {
		__builtin_prefetch(rows[i]);
		__builtin_prefetch(rows[i] + 8);
	}
}

/* Adds to each lane of p the multiple of its table's point by its scalar; tables and digits are all of
 * so many bits. The rows of the next place are on their way from the cache while those of one are
 * added. */
IFMA_INLINE void comb_add(struct point *p, const struct ed25519_table *const tables[8],
	const struct comb_digits *d, int bits)
{
	const uint64_t *rows[2][FE_LANES];
	__mmask8 negative[2];

	comb_find(rows[0], &negative[0], tables, d, 0, bits);
	for (int place = 0; place < COMB_PLACES(bits); place++) {
		int now = place & 1;
		struct fe three[3];

		if (place + 1 < COMB_PLACES(bits))
			comb_find(rows[!now], &negative[!now], tables, d, place + 1,
				bits);
		load_rows(three, 3, rows[now]);
		add_flat(p,
			&(struct addend){ .sum = three[0],
				.diff = three[1],
				.t2d = three[2] },
			negative[now], true);
	}
}

#endif
#endif
