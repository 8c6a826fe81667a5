/* rivals.h - which offers a node's price is compared with: hosts with evidence. Pure; uses
 * offer.
 *
 * Comparable offers are grouped by host (else machine, else offer), and a host counts once,
 * with its cheapest offer. A host is believed unless its price is below half of a low
 * reference: the first quartile of the hosts, or, with fewer than four of them, the low end of
 * a price that does not come from these hosts (the fitted one, else an eighth of the break-even
 * price of the model's list price). Hosts are removed one by one, the cheapest first, until the
 * cheapest is believed, so that the price is the same as if they had never been there. */
#ifndef RNP_PRICE_OFFERS_RIVALS_H
#define RNP_PRICE_OFFERS_RIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offers/offer.h"
#include "common/record/gpu.h"

#define RIVALS_NONE      (-1)
#define RIVALS_ANY_COUNT 0 /* as a node's number of GPUs: every offer matches */
#define RIVALS_FEW_HOSTS 4 /* with fewer, the quartile is meaningless */
/* ten thousand dollars a GPU-hour: an error of the market */
#define RIVALS_GPU_HOUR_MAX INT64_C(10000000000)

/* How an offer relates to the node; the first two are comparable. */
enum rival_kind {
	RIVAL_COMPARABLE,
	RIVAL_OWN,
	RIVAL_OTHER_MODEL,
	RIVAL_UNSPECIFIC,
	RIVAL_SPOT,
	RIVAL_SHARE,
	RIVAL_NOT_RENTABLE,
	RIVAL_UNRELIABLE,
	RIVAL_ABSURD,
	RIVAL_OTHER_COUNT,
	RIVAL_UNSEEN,
	RIVAL_FOLLOWER,
	RIVAL_KINDS
};

struct rivals_question {
	const char *gpu_model;         /* canonical, or the driver's own name */
	const struct gpu_model *known; /* NULL: not in our table */
	int64_t gpu_count;
	int64_t reliability_ppm; /* hosts that state less do not count */
	int64_t low_uusd; /* low end of the fitted price per GPU; RIVALS_NONE: no fit */
	const struct offer_list *offers;
	const bool *
		/* per offer: whether its host was in an earlier snapshot; NULL: no history */
		seen;
	/* per offer: whether its host copies our price; NULL: none does */
	const bool *follows;
};

struct rivals {
	long counts[RIVAL_KINDS]; /* offers of each kind */
	/* the cheapest offer of each believed host, cheapest first */
	const struct offer **hosts;
	size_t nhosts;
	size_t nall;           /* hosts before implausible ones were removed */
	size_t ndoubtful;      /* hosts removed because they are implausibly cheap */
	int64_t doubtful_uusd; /* the cheapest of those, per GPU */
	int64_t limit_uusd;    /* lower prices were not believed; RIVALS_NONE: no limit */
	/* the limit comes from the quartile; else from the model's own price */
	bool limit_by_quartile;
	/* the cheapest own offer with half to twice as many GPUs */
	const struct offer *own;
	bool same_count; /* the hosts have exactly as many GPUs */
};

/* Classifies the offers of q. Release with rivals_release. */
void rivals_find(struct rivals *r, const struct rivals_question *q);
void rivals_release(struct rivals *r);

/* Returns how an offer relates to the node, ignoring its number of GPUs and its history. */
enum rival_kind rivals_kind(const struct rivals_question *q, const struct offer *o);

/* Returns the key that one host's offers share: host, else machine, else offer id. */
const char *rivals_host(const struct offer *o);

#endif
