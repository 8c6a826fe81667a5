/* auction.h - McAfee's double auction of GPU-hours (P. McAfee, A dominant strategy double
 * auction, 1992). Pure.
 *
 * RNP-021's way to prices that nodes set: sealed asks and bids for one GPU model and hour. A bid
 * or ask may be for several units at one price; it counts as that many equal ones, and a bid is
 * served whole or not at all. */
#ifndef RNP_PRICE_MATCH_AUCTION_H
#define RNP_PRICE_MATCH_AUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct auction_order {
	int64_t uusd; /* for a unit */
	int64_t units;
	size_t id;      /* of the caller */
	int64_t traded; /* out: units; of a bid all or none */
};

struct auction_result {
	int64_t units; /* traded */
	int64_t buyers_uusd,
		sellers_uusd; /* for a unit: buyers pay at least what sellers get */
};

/* Clears the book: sorts bids by falling and asks by rising price (equal ones by id). With k the
 * last pair of units whose bid is not below its ask: if the mean of the next pair lies between
 * them all k trade at it; else k - 1 trade, buyers pay the k-th bid and sellers get the k-th
 * ask. A bid of which only a part would trade is left out. No trader can gain by misstating the
 * price of a single unit, nobody pays more than his bid or gets less than his ask, and what is
 * paid covers what is received. */
void auction_clear(struct auction_order *bids, size_t nbids, struct auction_order *asks,
	size_t nasks, struct auction_result *out);

#endif
