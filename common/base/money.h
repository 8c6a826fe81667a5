/* money.h - amounts in whole smallest units: 128 bits in between, named rounding, shares that
 * add up.
 *
 * Pure: no I/O, no clock, no floats. */
#ifndef RNP_COMMON_BASE_MONEY_H
#define RNP_COMMON_BASE_MONEY_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define MONEY_USD_DECIMALS    6 /* uusd: 10^-6 US dollars */
#define MONEY_RENDER_DECIMALS 8 /* base_units: 10^-8 RENDER */
#define MONEY_PPM             1000000

enum money_round { MONEY_FLOOR, MONEY_CEIL, MONEY_HALF_UP, MONEY_HALF_EVEN };

/* Computes a * b / c with one rounding at the end; a, b >= 0, c > 0. Returns 0, or -1 with
 * err_set(EX_DATAERR) when the result does not fit. */
int money_muldiv(int64_t a, int64_t b, int64_t c, enum money_round round, int64_t *out);

/* The same if the result is known to fit (for example result <= a): bug() otherwise. */
int64_t muldiv_floor(int64_t a, int64_t b, int64_t c);
int64_t muldiv_ceil(int64_t a, int64_t b, int64_t c);
int64_t muldiv_half_up(int64_t a, int64_t b, int64_t c);

/* Splits total over n weights in proportion, so that the parts add up to total exactly:
 * everybody gets the floor, the remaining units go to the largest remainders, ties to the lower
 * index (Hare quota, largest remainder). total >= 0, weights >= 0. When all weights are zero,
 * every part is 0 and -1 is returned with err_set(EX_DATAERR) unless total is 0. The sum of
 * weights may exceed 64 bits, as long as it fits 95 bits. parts may be weights itself. O(n)
 * time, 16 bytes of memory per part. */
int money_split(int64_t total, const int64_t *weights, size_t n, int64_t *parts);

/* The second half of such a split, for shares of another kind: each part has the floor of its
 * share, and rests[i * step] is the remainder of part i, all to one denominator. The `left` units
 * go to the largest rests, ties to the lower index; left < n, at most the number of rests above
 * 0. O(n) time, no memory. */
void money_give_rests(int64_t left, const unsigned __int128 *rests, size_t step, size_t n,
	int64_t *parts);

/* Writes an amount with that many decimals, like "1234.5"; trailing zeros are kept. */
void money_format(struct buf *out, int64_t amount, int decimals);

#endif
