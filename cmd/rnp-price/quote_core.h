/* quote_core.h - from costs, rivals and rules to a price, with every step said. Pure.
 *
 * All prices are per hour of the whole node unless a name says per_gpu. A rival's price is what
 * its customer pays, so it is compared with our customer's price, the network's fee included.
 *
 * Rounding: a customer's price is rounded half up; an ask that is made from one is rounded
 * down, so that it stays under it; the floor is rounded up (cost.h). */
#ifndef RNP_PRICE_QUOTE_CORE_H
#define RNP_PRICE_QUOTE_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/demand.h"
#include "cmd/rnp-price/rivals.h"

#define QUOTE_NONE (-1)

struct quote_rules {
	int64_t fee_ppm;         /* the network's part of what the customer pays */
	int64_t undercut_ppm;    /* how far under the lowest rival */
	int64_t reliability_ppm; /* rivals below it do not count; those that do not say do */
	int64_t hysteresis_ppm; /* smaller changes are not made */
	const char *
		reference; /* chip whose rate prices those that no market lists, or NULL */
};

struct quote_input {
	const char *
		gpu_model; /* canonical, or the driver's own name; NULL: no GPU to sell */
	const char *no_gpu;            /* why there is none, when gpu_model is NULL */
	const struct gpu_model *known; /* NULL: not in our table */
	int64_t gpu_count;
	int64_t f32_gflops; /* of one GPU, measured or of the table; 0: not known */
	int64_t floor_uusd;
	int64_t last_ask_uusd; /* QUOTE_NONE: there is no last price */
	const struct offer_list *offers;
	const bool *seen; /* as in rivals_question; NULL: there is no history */
	/* What is believed of customers, NULL: nothing; units that are idle, at least 1; what
	 * an hour of work costs more than an idle one; when the last price was made another,
	 * and how often today */
	const struct demand *demand;
	double idle;
	int64_t working_uusd;
	double held_hours;
	int changes_today;
	/* fitted price of one GPU, what its customer pays; QUOTE_NONE: there is no fit */
	int64_t low_uusd, mid_uusd, high_uusd;
};

/* What the price stands on. QUOTE_BLIND: on nothing but the last price or the floor, since no
 * offer says anything; a caller must not take that for a market's price. */
enum quote_basis { QUOTE_BLIND, QUOTE_NO_GPU, QUOTE_MODEL, QUOTE_OWN, QUOTE_RIVAL };

struct quote {
	int64_t ask_uusd, customer_uusd, floor_uusd;
	int64_t rival_uusd;      /* QUOTE_NONE: no comparable rival */
	int64_t proportion_uusd; /* RNP-021's, of the whole node; QUOTE_NONE: cannot be told */
	enum quote_basis basis;
	double occupancy,
		/* expected at the price, and just under the rival; < 0: not known */
		occupancy_under;
	bool held;   /* the last price stands although another would earn a little more */
	json_t *why; /* array of texts; quote_release drops it */
};

/* What a customer pays for an ask: ask / (1 - fee), rounded half up. */
int64_t quote_customer(int64_t ask_uusd, int64_t fee_ppm);

/* The largest ask whose customer pays at most this: rounded down. */
int64_t quote_ask(int64_t customer_uusd, int64_t fee_ppm);

/* Price it. The floor and the last ask are at most 2^53, the fee at most a half, GPUs at most
 * 1024. Offers dearer than 10^10 uusd a GPU are left out, with the reason. */
void quote_price(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules);

/* The believed rivals as customers see them, prices for the whole node; none: m->n is 0. */
void quote_market(struct demand_market *m, const struct quote_input *in,
	const struct rivals *r);

void quote_release(struct quote *q);

#endif
