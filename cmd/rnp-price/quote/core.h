/* core.h - computes a price from costs, rivals and rules, and explains every step. Pure.
 *
 * All prices are per hour of the whole node unless a name says per_gpu. A rival's price is what
 * its customer pays, so it is compared with our customer's price, including the network's fee.
 *
 * Rounding: a customer's price is rounded half up; an ask that is derived from one is rounded
 * down, so that it stays below it; the floor is rounded up (cost/cost.h). */
#ifndef RNP_PRICE_QUOTE_CORE_H
#define RNP_PRICE_QUOTE_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/quote/demand.h"
#include "cmd/rnp-price/offers/rivals.h"
#include "cmd/rnp-price/quote/worth.h"

#define QUOTE_NONE (-1)

struct quote_rules {
	int64_t fee_ppm;         /* the network's fraction of what the customer pays */
	int64_t undercut_ppm;    /* how far below the lowest rival */
	int64_t reliability_ppm; /* rivals below it do not count; those that state none do */
	int64_t hysteresis_ppm; /* smaller changes are not made */
	/* chip whose price scales to chips that no market lists, or NULL */
	const char *reference;
};

struct quote_input {
	/* canonical, or the driver's own name; NULL: no GPU to sell */
	const char *gpu_model;
	const char *no_gpu;            /* why there is none, when gpu_model is NULL */
	const char *others;            /* GPUs that are not priced; NULL or "": none */
	const struct gpu_model *known; /* NULL: not in our table */
	int64_t gpu_count;
	int64_t f32_gflops; /* of one GPU, measured or from the table; 0: unknown */
	int64_t floor_uusd;
	int64_t last_ask_uusd; /* QUOTE_NONE: there is no last price */
	const struct offer_list *offers;
	const bool *seen;    /* as in rivals_question; NULL: no history */
	const bool *follows; /* the same */
	int64_t followers;   /* how many hosts these are */
	/* how links and places are compared; NULL: they are not */
	const struct worth *worth;
	int64_t peak_ppm; /* added to what is asked at this hour, unless customers are observed */
	/* when the last price was set, and how often it changed today */
	double held_hours;
	int changes_today;
	/* The belief about customers, NULL: none; idle units, at least 1, and all units;
	 * additional cost of an hour of work */
	const struct demand *demand;
	double idle, units;
	int64_t working_uusd;
	/* fitted price of one GPU, what its customer pays; QUOTE_NONE: there is no fit */
	int64_t low_uusd, mid_uusd, high_uusd;
};

/* What the price is based on. QUOTE_BLIND: only on the last price or the floor, because no
 * offer says anything; a caller must not take it for a market price. */
enum quote_basis { QUOTE_BLIND, QUOTE_NO_GPU, QUOTE_MODEL, QUOTE_OWN, QUOTE_RIVAL };

struct quote {
	int64_t ask_uusd, customer_uusd, floor_uusd;
	int64_t rival_uusd;      /* QUOTE_NONE: no comparable rival */
	int64_t worth_uusd;      /* the same on a link and in a place like ours */
	int64_t proportion_uusd; /* RNP-021's, of the whole node; QUOTE_NONE: unknown */
	enum quote_basis basis;
	double occupancy,
		/* expected at the price, and just below the rival; < 0: unknown */
		occupancy_under;
	bool same_count; /* the rival has exactly as many GPUs */
	bool held;   /* the last price stays although another would earn a little more */
	json_t *why; /* array of texts; quote_release drops it */
};

/* Returns what a customer pays for an ask: ask / (1 - fee), rounded half up. */
int64_t quote_customer(int64_t ask_uusd, int64_t fee_ppm);

/* Returns the largest ask whose customer pays at most this: rounded down. */
int64_t quote_ask(int64_t customer_uusd, int64_t fee_ppm);

/* Computes the price. The floor and the last ask are at most 2^53, the fee at most a half, GPUs
 * at most 1024. Offers above 10^10 uusd a GPU are ignored, with the reason. */
void quote_price(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules);

/* One way to sell a node: `parts` leases of `gpus` GPUs each. Prices are of one part. */
struct quote_split {
	int64_t gpus, parts;
	int64_t ask_uusd, customer_uusd, floor_uusd, rival_uusd;
	int64_t total_uusd; /* the asks of all parts */
};
#define QUOTE_SPLITS_MAX 64

/* Prices the node in each number of equal parts for which the market has a believed rival with
 * just as many GPUs, whole first. Each part bears its share of the floor, rounded up. What was
 * learned of customers is of the node as it is sold now, and is not used: the parts are compared as
 * if they were busy alike. Returns how many ways there are; *best becomes the one with the
 * highest total, the fewest parts of equal ones. */
size_t quote_splits(struct quote_split out[QUOTE_SPLITS_MAX],
	const struct quote_input *in, const struct quote_rules *rules, size_t *best);

/* Fills in the believed rivals as customers see them, with prices for the whole node; none:
 * m->n is 0. */
void quote_market(struct demand_market *m, const struct quote_input *in,
	const struct rivals *r);

void quote_release(struct quote *q);

#endif
