/* supply.h - computes how many tokens are minted in which month. Pure, integers only.
 *
 * The amount minted depends only on the schedule and the month: no function here takes the
 * burned amount, and none may. */
#ifndef RNP_CMD_REWARD_SUPPLY_H
#define RNP_CMD_REWARD_SUPPLY_H

#include <stdint.h>

struct supply_schedule {
	int64_t start_base_units;       /* supply before the first month */
	int64_t first_month_base_units; /* minted in each month of the first year */
	int64_t damping_ppm;            /* from year to year, at most 10^6 */
	int64_t cap_ppm;       /* of the initial supply: the most that is ever minted */
	int64_t recycling_ppm; /* after the cap: fraction of the last full month's issuance */
};

struct supply_month {
	int64_t minted;   /* by the schedule */
	int64_t recycled; /* in addition, once the cap is reached */
	int64_t total;    /* minted by the schedule so far, at most the cap */
	int64_t left;     /* until the cap */
};

/* Month 0 is the first. Each year's months mint those of the year before times the damping,
 * rounded down; the month in which the cap is reached gets the remainder. */
void supply_at(const struct supply_schedule *s, int month, struct supply_month *out);

#endif
