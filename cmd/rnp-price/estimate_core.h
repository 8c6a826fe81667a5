/* estimate_core.h - what a node would earn in a day on one market. Pure; uses offer, rivals, cost.
 *
 * Price: the quartiles of what the believed hosts of the market ask for such GPUs. Occupancy: the
 * part of the market's hosts with such GPUs that are rented, with Jeffreys' prior; where the market
 * does not say who is rented, it is assumed. The interval holds four fifths: the spread of prices
 * and the uncertainty of occupancy are taken as independent, in logarithms. */
#ifndef RNP_PRICE_ESTIMATE_CORE_H
#define RNP_PRICE_ESTIMATE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/cost.h"
#include "cmd/rnp-price/offer.h"
#include "cmd/rnp-price/rivals.h"

#define ESTIMATE_HOSTS_MIN   3   /* fewer say nothing of the spread */
#define ESTIMATE_SPREAD      0.3 /* of the logarithm of the price, where few hosts say it */
#define ESTIMATE_OCCUPANCY   0.5  /* where the market does not say */
#define ESTIMATE_UNCERTAINTY 0.25 /* of that, its standard deviation */

struct estimate_range {
	double low, mid, high;
};

struct estimate {
	size_t hosts;      /* that are believed */
	long rented, told; /* hosts that are rented, of those of which the market says */
	struct estimate_range uusd_per_hour; /* of the whole node, what customers pay */
	struct estimate_range occupancy;     /* 0 to 1 */
	struct estimate_range day_uusd;      /* what is left after the fee and power */
	double power_uusd;                   /* a day, at the middle */
	double hardware_uusd;                /* a day's depreciation, not taken off */
};

/* Estimates a market, whose offers q has and nobody else's. fee_ppm: the part of the customer's
 * price that the market keeps. Returns false where no host is believed. */
bool estimate_market(struct estimate *e, const struct rivals_question *q,
	const struct costs *c, int64_t fee_ppm);

#endif
