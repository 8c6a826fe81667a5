/* worth.h - what a rival's price would be for a node with another link and in another place.
 * Pure; uses fit.
 *
 * RNP-004 adds a surcharge to the base price for a node's link, in tiers of what it reaches both
 * up and down. A rival at p with a surcharge of s is therefore worth p / (1 + s) x (1 + t) on a
 * link with a surcharge of t. Place: the ratio of the two countries' levels in a fit. What is
 * not known of either is taken to be alike. */
#ifndef RNP_PRICE_QUOTE_WORTH_H
#define RNP_PRICE_QUOTE_WORTH_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-price/quote/fit.h"
#include "cmd/rnp-price/offers/offer.h"

#define WORTH_TIERS_MAX 64
#define WORTH_UNKNOWN   (-1)
#define WORTH_PLACE_MAX 2 /* a place is worth at most so many times another */

struct worth {
	struct worth_tier {
		int64_t min_bps, surcharge_ppm;
		char name[41];
	} tiers[WORTH_TIERS_MAX]; /* in any order */
	size_t ntiers;
	int64_t surcharge_ppm; /* of the node's own link; WORTH_UNKNOWN */
	const struct fit *fit; /* NULL: places are alike */
	const char *country;   /* of the node; NULL: unknown */
};

/* Reads the tiers of a policy's prices.connectivity (NULL: none) and finds the node's own
 * surcharge; down_bps and up_bps are in bits per second, WORTH_UNKNOWN if not measured. */
void worth_init(struct worth *w, const json_t *connectivity, int64_t down_bps,
	int64_t up_bps);

/* Returns the tier of a link; NULL: not known, or below every tier. */
const struct worth_tier *worth_tier(const struct worth *w, int64_t down_bps,
	int64_t up_bps);

/* Returns what an offer at `uusd` is worth for the node, each of the two steps rounded half up.
 * NULL for w: the same. uusd: at most 2^53. */
int64_t worth_of(const struct worth *w, const struct offer *o, int64_t uusd);

#endif
