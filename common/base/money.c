/* money.c - multiplies and divides amounts exactly, and splits totals without losing a unit. */
#include "common/base/money.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

typedef unsigned __int128 u128;

int money_muldiv(int64_t a, int64_t b, int64_t c, enum money_round round, int64_t *out)
{
	u128 product, quotient, rest;

	if (a < 0 || b < 0 || c <= 0)
		bug("muldiv of negative numbers: %" PRId64 " * %" PRId64 " / %" PRId64, a,
			b, c);
	product = (u128)a * (u128)b;
	quotient = product / (u128)c;
	rest = product % (u128)c;
	switch (round) {
	case MONEY_FLOOR:
		break;
	case MONEY_CEIL:
		quotient += rest != 0;
		break;
	case MONEY_HALF_UP:
		quotient += 2 * rest >= (u128)c;
		break;
	case MONEY_HALF_EVEN:
		quotient += 2 * rest > (u128)c || (2 * rest == (u128)c && (quotient & 1));
		break;
	}
	if (quotient > INT64_MAX)
		return err_set(EX_DATAERR,
			"%" PRId64 " x %" PRId64 " / %" PRId64 " does not fit 64 bits", a,
			b, c);
	*out = (int64_t)quotient;
	return 0;
}

static int64_t muldiv_fits(int64_t a, int64_t b, int64_t c, enum money_round round)
{
	int64_t out = 0;

	if (money_muldiv(a, b, c, round, &out) < 0)
		bug("%s", err_get()->text);
	return out;
}

int64_t muldiv_floor(int64_t a, int64_t b, int64_t c)
{
	return muldiv_fits(a, b, c, MONEY_FLOOR);
}

int64_t muldiv_ceil(int64_t a, int64_t b, int64_t c)
{
	return muldiv_fits(a, b, c, MONEY_CEIL);
}

int64_t muldiv_half_up(int64_t a, int64_t b, int64_t c)
{
	return muldiv_fits(a, b, c, MONEY_HALF_UP);
}

/* Selects instead of sorting: finds the smallest rest that gets a unit, digit by digit of 8 bits,
 * counting in each pass the rests that begin with the digits found so far. */
void money_give_rests(int64_t left, const u128 *rests, size_t step, size_t n,
	int64_t *parts)
{
	u128 any = 0, decided = 0, found = 0;
	int64_t counts[256];
	int shift = 120, digit;

	if (left <= 0)
		return;
	for (size_t i = 0; i < n; i++)
		any |= rests[i * step];
	while (shift && !(any >> shift))
		shift -= 8;
	/* ends early when all rests that begin with the digits found get a unit */
	for (bool all = false; shift >= 0 && !all; shift -= 8) {
		memset(counts, 0, sizeof counts);
		for (size_t i = 0; i < n; i++)
			if ((rests[i * step] & decided) == found)
				counts[rests[i * step] >> shift & 255]++;
		for (digit = 255; digit && counts[digit] < left; digit--)
			left -= counts[digit];
		found |= (u128)(unsigned)digit << shift;
		decided |= (u128)255 << shift;
		all = counts[digit] == left;
	}
	for (size_t i = 0; i < n; i++) {
		u128 digits = rests[i * step] & decided;

		if (digits > found || (digits == found && left-- > 0))
			parts[i]++;
	}
}

static int64_t share_of(int64_t total, int64_t weight, u128 sum, u128 *rest)
{
	u128 product = (u128)total * (u128)weight; /* < 2^126 */

	*rest = product % sum;
	return (int64_t)(product / sum);
}

int money_split(int64_t total, const int64_t *weights, size_t n, int64_t *parts)
{
	int64_t left = total;
	u128 sum = 0, *rests;

	if (total < 0)
		bug("split of %" PRId64, total);
	for (size_t i = 0; i < n; i++) {
		if (weights[i] < 0)
			bug("negative weight %" PRId64, weights[i]);
		sum += (u128)weights[i];
	}
	if (total == 0 || sum == 0) {
		for (size_t i = 0; i < n; i++)
			parts[i] = 0;
		return !total ?
			0 :
			err_set(EX_DATAERR,
				"nothing to split %" PRId64 " by: all weights are 0",
				total);
	}
	rests = xmalloc(n * sizeof *rests);
	for (size_t i = 0; i < n; i++) {
		parts[i] = share_of(total, weights[i], sum, &rests[i]);
		left -= parts[i];
	}
	money_give_rests(left, rests, 1, n, parts);
	free(rests);
	return 0;
}

void money_format(struct buf *out, int64_t amount, int decimals)
{
	uint64_t size = amount < 0 ? -(uint64_t)amount : (uint64_t)amount, one = 1;

	for (int i = 0; i < decimals; i++)
		one *= 10;
	buf_addf(out, "%s%" PRIu64, amount < 0 ? "-" : "", size / one);
	if (decimals)
		buf_addf(out, ".%0*" PRIu64, decimals, size % one);
}
