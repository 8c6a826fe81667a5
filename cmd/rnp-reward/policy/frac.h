/* frac.h - exact fractions of 128 bits, never negative. Pure: no floats, no I/O.
 *
 * Rewards are computed with these and rounded once, at the end, so that every machine and
 * compiler gets the same base units. A fraction is reduced only when it would not fit
 * otherwise: most never need it, and Euclid's algorithm on 128 bits is slow. */
#ifndef RNP_CMD_REWARD_POLICY_FRAC_H
#define RNP_CMD_REWARD_POLICY_FRAC_H

#include <stdbool.h>
#include <stdint.h>

typedef unsigned __int128 u128;

struct frac {
	u128 num, den; /* den > 0 */
};
#define FRAC_ZERO ((struct frac){ 0, 1 })

struct frac frac_of(uint64_t num, uint64_t den); /* reduced; den > 0 */

/* Parses "0.25": at most 9 places, or a whole number of at most 18 digits; `what` names it in
 * the error. Returns 0, or -1 with EX_DATAERR. */
int frac_parse(const char *text, const char *what, struct frac *out);

void frac_reduce(struct frac *a);

/* Each returns false if the result does not fit even in lowest terms. frac_sub needs a >= b,
 * frac_div b > 0. out may be a or b. */
bool frac_add(struct frac *out, struct frac a, struct frac b);
bool frac_sub(struct frac *out, struct frac a, struct frac b);
bool frac_mul(struct frac *out, struct frac a, struct frac b);
bool frac_div(struct frac *out, struct frac a, struct frac b);

/* Returns -1, 0, 1 if a is less than, equal to, greater than b. Exact for any two fractions. */
int frac_cmp(struct frac a, struct frac b);

/* Computes floor(a x unit); returns false if it does not fit int64_t. */
bool frac_floor(struct frac a, uint64_t unit, int64_t *out);

u128 u128_gcd(u128 a, u128 b);

/* Computes total x w / sum and the remainder, for w <= sum < 2^125 and total >= 0: exact
 * although the product may have 190 bits. */
int64_t frac_share(int64_t total, u128 w, u128 sum, u128 *rest);

#endif
