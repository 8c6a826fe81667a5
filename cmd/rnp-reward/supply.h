/* supply.h - computes how many tokens are minted in which month. Pure, whole numbers only.
 *
 * The amount minted follows from the schedule and the month alone: no function here takes what
 * was burned, and none can. */
#ifndef RNP_CMD_REWARD_SUPPLY_H
#define RNP_CMD_REWARD_SUPPLY_H

#include <stdint.h>

struct supply_schedule {
	int64_t start_base_units;       /* supply before the first month */
	int64_t first_month_base_units; /* minted in each month of the first year */
	int64_t damping_ppm;            /* from year to year, at most 10^6 */
	int64_t cap_ppm; /* of the supply at the start: the most that is ever minted */
	int64_t recycling_ppm; /* after the cap: of the last full month's issuance */
};

struct supply_month {
	int64_t minted;   /* by the schedule */
	int64_t recycled; /* beside it, once the cap is reached */
	int64_t total;    /* minted by the schedule so far, at most the cap */
	int64_t left;     /* of the cap */
};

/* Month 0 is the first. Each year's month is the one before times the damping, rounded down;
 * the month in which the cap is reached gets what is left of it. */
void supply_at(const struct supply_schedule *s, int month, struct supply_month *out);

#endif
