/* burn_core.h - splits a job's dollars into burned tokens, fee and credits. Pure, integers
 * only. */
#ifndef RNP_CMD_REWARD_BURN_CORE_H
#define RNP_CMD_REWARD_BURN_CORE_H

#include <stdbool.h>
#include <stdint.h>

#define BURN_CHARGEBACK_MS (INT64_C(120) * 86400000) /* RNP-023 */

enum burn_payment { BURN_RENDER, BURN_CARD, BURN_TRANSFER };

/* How a policy divides a customer's payment, in 10^-6: burned, the network's fee, and the rest,
 * which is the operator's. */
struct burn_split {
	int64_t burned_ppm, fee_ppm;
};

struct burn {
	int64_t fee_uusd, burned_uusd, operator_uusd; /* their sum is what was paid */
	int64_t base_units; /* burned_uusd at the price, rounded down */
	int64_t credits;    /* one for each burned USD, in 10^-6 */
};

/* Splits usd at a price (both in 10^-6 USD, price > 0). The fee and the operator's part are
 * rounded down; the remainder is burned. Returns 0, or -1 (65): it does not fit. */
int burn_compute(struct burn *b, const struct burn_split *s, int64_t usd_uusd,
	int64_t price_uusd);

/* Returns when a payment is burned: tokens at once; a card payment by the day on which the
 * credit is used, and what is unused once a chargeback is no longer possible, which is never
 * exceeded; a bank transfer when it arrives. paid_ms: when the payment arrived; used_ms: when the credit was used, -1:
 * not used. */
int64_t burn_due(enum burn_payment how, int64_t paid_ms, int64_t used_ms);

/* Computes how much more must be burned so that burns exceed rewards by `over_ppm`; 0: enough is
 * burned. Returns 0, or -1 (65): it does not fit. */
int burn_top_up(int64_t rewarded_uusd, int64_t burned_uusd, int64_t over_ppm,
	int64_t *more_uusd);

/* Converts USD into tokens at a price > 0, rounded down. Returns 0, or -1 (65): it does not fit. */
int burn_base_units(int64_t uusd, int64_t price_uusd, int64_t *base_units);

#endif
