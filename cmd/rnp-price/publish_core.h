/* publish_core.h - which price may be listed: bounded by what was listed a day before and by the
 * floor. Pure; uses money, err. */
#ifndef RNP_PRICE_PUBLISH_CORE_H
#define RNP_PRICE_PUBLISH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define PUBLISH_NONE (-1)

/* All prices are those of an hour of the whole node, in uusd. */
struct publish_input {
	int64_t ask_uusd, customer_uusd, floor_uusd; /* of the quote */
	int64_t day_before_uusd; /* what customers were asked a day ago; PUBLISH_NONE */
	int64_t max_change_ppm;  /* in a day, up or down */
};

struct publish_price {
	int64_t customer_uusd,
		ask_uusd; /* what is to be listed, and the node's part of it */
	bool limited;     /* the quote is further away than a day allows */
};

/* Computes what is to be listed. Returns 0, or -1 with EX_DATAERR: the quote is under its floor
 * or beyond every price; or EXIT_NO: a day's change does not lead up to the floor. */
int publish_price(const struct publish_input *in, struct publish_price *out);

/* The price of one of so many GPUs, rounded up, so that all together never cost less. */
int64_t publish_per_gpu(int64_t uusd, int64_t gpus);

/* Appends an amount as a JSON number of dollars: 379500 is 0.3795. */
void publish_dollars(struct buf *out, int64_t uusd);

#endif
