/* auction.c - McAfee's double auction: see auction.h. */
#include "cmd/rnp-price/match/auction.h"

#include <stdlib.h>
#include <string.h>

static int by_falling(const void *a, const void *b)
{
	const struct auction_order *x = a, *y = b;

	if (x->uusd != y->uusd)
		return x->uusd > y->uusd ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_rising(const void *a, const void *b)
{
	const struct auction_order *x = a, *y = b;

	if (x->uusd != y->uusd)
		return x->uusd < y->uusd ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* The price of unit i, counted from 0 over the orders; false: there are fewer. */
static bool unit_price(const struct auction_order *o, size_t n, int64_t i, int64_t *uusd)
{
	for (size_t k = 0; k < n; k++) {
		if (i < o[k].units) {
			*uusd = o[k].uusd;
			return true;
		}
		i -= o[k].units;
	}
	return false;
}

/* How many pairs of units have a bid that is not below its ask. */
static int64_t pairs(const struct auction_order *bids, size_t nbids,
	const struct auction_order *asks, size_t nasks)
{
	size_t b = 0, a = 0;
	int64_t in_bid = 0, in_ask = 0, k = 0;

	while (b < nbids && a < nasks && bids[b].uusd >= asks[a].uusd) {
		int64_t left_bid = bids[b].units - in_bid,
			left_ask = asks[a].units - in_ask;
		int64_t step = left_bid < left_ask ? left_bid : left_ask;

		k += step;
		in_bid += step;
		in_ask += step;
		if (in_bid == bids[b].units)
			b++, in_bid = 0;
		if (in_ask == asks[a].units)
			a++, in_ask = 0;
	}
	return k;
}

/* Serves whole bids from the best on, as far as `units` reach, then as many units of asks. */
static int64_t serve(struct auction_order *bids, size_t nbids, struct auction_order *asks,
	size_t nasks, int64_t units)
{
	int64_t bought = 0, sold = 0;

	for (size_t i = 0; i < nbids; i++)
		if (bids[i].units <= units - bought) {
			bids[i].traded = bids[i].units;
			bought += bids[i].units;
		} else {
			break; /* those after it must not gain from its being large */
		}
	for (size_t i = 0; i < nasks && sold < bought; i++) {
		asks[i].traded = bought - sold < asks[i].units ? bought - sold :
								 asks[i].units;
		sold += asks[i].traded;
	}
	return bought;
}

void auction_clear(struct auction_order *bids, size_t nbids, struct auction_order *asks,
	size_t nasks, struct auction_result *out)
{
	int64_t bid = 0, ask = 0, next_bid = 0, next_ask = 0, k, sum;

	memset(out, 0, sizeof *out);
	if (nbids)
		qsort(bids, nbids, sizeof *bids, by_falling);
	if (nasks)
		qsort(asks, nasks, sizeof *asks, by_rising);
	for (size_t i = 0; i < nbids; i++)
		bids[i].traded = 0;
	for (size_t i = 0; i < nasks; i++)
		asks[i].traded = 0;
	k = pairs(bids, nbids, asks, nasks);
	if (!k)
		return;
	unit_price(bids, nbids, k - 1, &bid);
	unit_price(asks, nasks, k - 1, &ask);
	/* the mean in halves, so that nothing is rounded before the comparison */
	if (unit_price(bids, nbids, k, &next_bid) &&
		unit_price(asks, nasks, k, &next_ask)) {
		sum = next_bid + next_ask;
		if (sum >= 2 * ask && sum <= 2 * bid) {
			out->buyers_uusd = sum / 2 + sum % 2; /* no deficit by rounding */
			out->sellers_uusd = sum / 2;
			out->units = serve(bids, nbids, asks, nasks, k);
			return;
		}
	}
	out->buyers_uusd = bid;
	out->sellers_uusd = ask;
	out->units = serve(bids, nbids, asks, nasks, k - 1);
}
