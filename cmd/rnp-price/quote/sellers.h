/* sellers.h - the sellers of a market: which are believed, and which only follow our own price.
 * Pure. */
#ifndef RNP_PRICE_QUOTE_SELLERS_H
#define RNP_PRICE_QUOTE_SELLERS_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-price/quote/demand.h"

/* Returns the price below which a quarter of what the sellers have is offered; the market must
 * have sellers. */
double sellers_quartile(const struct demand_market *m);

/* Removes who has not been there for long (stood[i]) and asks less than a quarter of the usual
 * lowest price, a slow mean that *usual keeps from call to call; 0 at first. Nobody may be left. */
void sellers_believe(struct demand_market *m, const bool *stood, double *usual);

/* What is known of a seller who may follow us: all 0 at first. */
struct follower {
	double price; /* when he was last seen; 0: never */
	double ask;   /* ours, to which he came last */
	double ratio; /* his price over ours */
	int copies;   /* changes to that ratio, less those to another one nearby */
};

#define FOLLOWER_COPIES     2 /* so many prove it */
#define FOLLOWER_COPIES_MAX 4 /* more are not counted: two others disprove it */
#define FOLLOWER_HOURS      6 /* so soon after us he changes his price */

/* Looks at a seller's price. asks: the n that customers saw from us in the last FOLLOWER_HOURS.
 *
 * Returns whether he follows: changes of his price led again and again to the same ratio, 0.90
 * to 1.02, to a price that we had just then, and ours had changed in between; and where we went
 * elsewhere he came after us. To undercut such a seller is of no use, as he is back an hour
 * later, and two who did so would go down to their floors together. */
bool follower_sees(struct follower *f, double price, const double *asks, size_t n);

#endif
