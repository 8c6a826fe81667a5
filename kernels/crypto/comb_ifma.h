/* comb_ifma.h - multiples of a point by tables of them, without doublings. Uses point_ifma,
 * ed25519; included by sources of kernels/crypto.
 *
 * A scalar k is sum k_i 2^(8 i) with 32 digits from -128 to 127, and k P is the sum of 32 rows,
 * each from the table of its digit's place (Brickell, Gordon, McCurley, Wilson, "Fast
 * Exponentiation with Precomputation", 1992): 32 additions of 7 multiplications in place of 253
 * doublings of 7 to 8 and 51 additions of 8. The sum is exact for every point of the curve, with
 * torsion or without. */
#ifndef RNP_KERNELS_CRYPTO_COMB_IFMA_H
#define RNP_KERNELS_CRYPTO_COMB_IFMA_H

#ifdef __x86_64__
#include "kernels/crypto/ed25519.h"
#include "kernels/crypto/point_ifma.h"

#define COMB_BITS   8
#define COMB_PLACES 32 /* 256 bits */
/* digits 0 to 128; the sign is the addition's */
#define COMB_ROWS  (1 + (1 << (COMB_BITS - 1)))
#define COMB_WORDS 16 /* sum, diff, t2d, padded to whole vectors */

/* Row [i][j] is j 2^(8 i) P with z = 1. 516 KiB. */
struct ed25519_table {
	uint64_t row[COMB_PLACES][COMB_ROWS][COMB_WORDS] __attribute__((aligned(64)));
};

/* Fills a table, whose memory is 0, with the multiples of a point that is the same in all lanes. */
void comb_fill(struct ed25519_table *t, const struct point *point);

/* Returns the table of B, which is made at the first call, from any thread. */
const struct ed25519_table *comb_base(void);

/* Digits of eight scalars, those of one place side by side. */
struct comb_digits {
	int16_t at[COMB_PLACES][FE_LANES];
};

/* Writes a scalar below 2^253 as the digits of a lane: they are its bytes, less 256 where they are
 * above 127, which the next one makes up for. */
static inline void comb_digits_of(struct comb_digits *d, int lane,
	const unsigned char scalar[32])
{
	int carry = 0;

	for (int i = 0; i < COMB_PLACES; i++) {
		int digit = scalar[i] + carry;

		carry = digit >= 1 << (COMB_BITS - 1);
		d->at[i][lane] = (int16_t)(digit - (carry << 8));
	}
}

IFMA_INLINE void comb_find(const uint64_t *rows[8], __mmask8 *negative,
	const struct ed25519_table *const tables[8], const struct comb_digits *d,
	int place)
{
	const uint64_t *first[FE_LANES];

	for (int i = 0; i < FE_LANES; i++)
		first[i] = tables[i]->row[place][0];
	*negative = find_rows(rows, first, COMB_WORDS, d->at[place]);
	for (int i = 0; i < FE_LANES; i++) {
		__builtin_prefetch(rows[i]);
		__builtin_prefetch(rows[i] + 8);
	}
}

/* Adds to each lane of p the multiple of its table's point by its scalar. The rows of the next
 * place are on their way from the cache while those of one are added. */
IFMA_INLINE void comb_add(struct point *p, const struct ed25519_table *const tables[8],
	const struct comb_digits *d)
{
	const uint64_t *rows[2][FE_LANES];
	__mmask8 negative[2];

	comb_find(rows[0], &negative[0], tables, d, 0);
	for (int place = 0; place < COMB_PLACES; place++) {
		int now = place & 1;
		struct fe three[3];

		if (place + 1 < COMB_PLACES)
			comb_find(rows[!now], &negative[!now], tables, d, place + 1);
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
