/* reputation_core.h - rates how reliable a node is, from its verdicts. Pure; integers only, so
 * that every machine gets the same result, since it may decide about pay.
 *
 * A trial has the weight 2^(-age / half-life). With s the weights of the passed ones and n of
 * all, the reputation is the lower bound of Wilson's interval of s / n at z = 1.96 (E. B.
 * Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927): few
 * trials give little reputation, whatever their result. */
#ifndef RNP_CMD_REWARD_REPUTATION_CORE_H
#define RNP_CMD_REWARD_REPUTATION_CORE_H

#include <stdbool.h>
#include <stdint.h>

#define REPUTATION_ONE (INT64_C(1) << 32) /* a weight of 1 */

struct reputation {
	int64_t trials, passed;         /* that count */
	uint64_t passed_weight, weight; /* in units of 2^-32 */
};

/* 2^(-age / half_life) in units of 2^-32, rounded down; age >= 0, half_life > 0. */
uint64_t reputation_weight(int64_t age_ms, int64_t half_life_ms);

void reputation_add(struct reputation *r, bool passed, int64_t age_ms,
	int64_t half_life_ms);

/* Returns the lower bound in millionths, rounded down; 0 without trials. */
int64_t reputation_lower_ppm(const struct reputation *r);

#endif
