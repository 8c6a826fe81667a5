/* split.c - splits a pool by fractions, exactly. money_split does it for 64-bit integer weights
 * with one division each; these weights, over a common denominator, have up to 124 bits. */
#include <stdlib.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"

#define SUM_MAX ((u128)1 << 124)

/* Returns a denominator that all weights divide; 0 if there is none of 128 bits. Most share
 * one, so that one division each is all it takes. */
static u128 common_denominator(struct frac *weights, size_t n, bool reduce)
{
	u128 all = 1;

	for (size_t i = 0; i < n; i++) {
		u128 factor;

		if (!weights[i].num)
			continue;
		if (reduce)
			frac_reduce(&weights[i]);
		if (all == weights[i].den || all % weights[i].den == 0)
			continue;
		factor = weights[i].den / u128_gcd(all, weights[i].den);
		if (__builtin_mul_overflow(all, factor, &all))
			return 0;
	}
	return all;
}

/* Scales all weights to one denominator, which then cancels out. */
static bool to_whole(struct frac *weights, size_t n, bool reduce, u128 *sum)
{
	u128 all = common_denominator(weights, n, reduce);

	*sum = 0;
	if (!all)
		return false;
	for (size_t i = 0; i < n; i++) {
		u128 whole = 0;

		if (weights[i].num &&
			__builtin_mul_overflow(weights[i].num, all / weights[i].den,
				&whole))
			return false;
		if (whole > SUM_MAX || (*sum += whole) > SUM_MAX)
			return false;
	}
	for (size_t i = 0; i < n; i++)
		weights[i] = (struct frac){
			weights[i].num ? weights[i].num * (all / weights[i].den) : 0, 1
		};
	return true;
}

int split_fracs(int64_t total, struct frac *weights, size_t n, int64_t *parts)
{
	int64_t left = total;
	u128 sum;

	if (!to_whole(weights, n, false, &sum) && !to_whole(weights, n, true, &sum))
		return err_set(EX_DATAERR,
			"the shares have no common denominator of 128 bits");
	for (size_t i = 0; i < n; i++)
		parts[i] = 0;
	if (!sum || !total)
		return 0;
	for (size_t i = 0; i < n; i++) {
		parts[i] = frac_share(total, weights[i].num, sum, &weights[i].den);
		left -= parts[i];
	}
	/* the remainders, in place of the denominators, which are all 1 now */
	money_give_rests(left, &weights[0].den, sizeof *weights / sizeof weights->den, n,
		parts);
	return 0;
}
