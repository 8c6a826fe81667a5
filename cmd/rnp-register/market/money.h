/* money.h - what booked time costs, what is held for it, and how long money lasts, in uusd and
 * milliseconds. Pure. */
#ifndef RNP_CMD_REGISTER_MARKET_MONEY_H
#define RNP_CMD_REGISTER_MARKET_MONEY_H

#include <stdint.h>

#define MARKET_HOUR_MS INT64_C(3600000)
/* No price is more in an hour, and no lease longer: products stay within 63 bits. */
#define MARKET_UUSD_MAX  INT64_C(1000000000000)
#define MARKET_HOURS_MAX 876000

/* Returns floor(uusd_per_hour x ready_ms / 3,600,000): of all the time that a node was ready so
 * far, so that pieces add up. */
int64_t market_cost(int64_t uusd_per_hour, int64_t ready_ms);

/* Returns for how long a limit lasts at that price: the most milliseconds whose cost is not above
 * it; INT64_MAX where nothing is paid. */
int64_t market_lasts_ms(int64_t uusd_per_hour, int64_t uusd);

/* Returns what to hold for nodes of that price together: their next hour, but no more than what
 * they may cost at most from now on. */
int64_t market_hold(int64_t uusd_per_hour, int64_t most_uusd);

/* Returns a node's price for a part of its GPUs: the whole, if it has none. The customer's share is
 * rounded up, the node's down. */
int64_t market_part_ceil(int64_t uusd, int64_t gpus, int64_t of);
int64_t market_part_floor(int64_t uusd, int64_t gpus, int64_t of);

/* A customer is warned when what is left covers no more than the next 15, 5 and 1 minutes, each
 * time once. Returns 15, 5 or 1, or 0: no warning is due. warned: the last that was given, 0: none.
 * Money that comes later makes them due again: then *warned becomes 0. */
int market_warning(int64_t left_ms, int *warned);

#endif
