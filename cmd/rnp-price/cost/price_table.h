/* price_table.h - the break-even price of GPU models, from a policy's section "prices".
 *
 * Pure except for the given policy. Uses policy, money, json. */
#ifndef RNP_PRICE_COST_PRICE_TABLE_H
#define RNP_PRICE_COST_PRICE_TABLE_H

#include <jansson.h>
#include <stdint.h>

#include "common/record/policy.h"

/* Returns msrp / days / 24 plus a surcharge, rounded half up to 10^-decimals dollars; in uusd.
 * decimals 0 to 6. */
int64_t price_hourly(int64_t msrp_uusd, int64_t days, int64_t surcharge_ppm,
	int decimals);

/* Returns msrp / days, rounded in the same way. */
int64_t price_daily(int64_t msrp_uusd, int64_t days, int decimals);

/* Returns the table as an array of rnp.floor records, one per model, each with all connectivity
 * tiers. The caller owns it. NULL with EX_DATAERR: the policy has no such table. */
json_t *price_table(const struct policy *p);

#endif
