/* auction.c - the double auction: random books against what it promises. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/match/auction.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/unit/test.h"

#define BOOK 8

static int64_t gain(const struct auction_order *o, const struct auction_result *c,
	bool buyer, int64_t true_uusd)
{
	return o->traded *
		(buyer ? true_uusd - c->buyers_uusd : c->sellers_uusd - true_uusd);
}

static const struct auction_order *order_of(const struct auction_order *o, int n,
	size_t id)
{
	for (int i = 0; i < n; i++)
		if (o[i].id == id)
			return &o[i];
	return NULL;
}

/* The gain of trader `id` of a book from stating another price than its true one. */
static int64_t gain_with(const struct auction_order *bids, int nb,
	const struct auction_order *asks, int na, bool buyer, size_t id, int64_t stated)
{
	struct auction_order b[BOOK], a[BOOK];
	struct auction_result c;
	int64_t true_uusd = order_of(buyer ? bids : asks, buyer ? nb : na, id)->uusd;

	memcpy(b, bids, sizeof b);
	memcpy(a, asks, sizeof a);
	for (int i = 0; i < (buyer ? nb : na); i++)
		if ((buyer ? b : a)[i].id == id)
			(buyer ? b : a)[i].uusd = stated;
	auction_clear(b, (size_t)nb, a, (size_t)na, &c);
	return gain(order_of(buyer ? b : a, buyer ? nb : na, id), &c, buyer, true_uusd);
}

static void check_book(struct rng *r, bool units)
{
	struct auction_order bids[BOOK] = { 0 }, asks[BOOK] = { 0 };
	struct auction_result c;
	int nb = (int)rng_below(r, BOOK + 1), na = (int)rng_below(r, BOOK + 1);
	int64_t bought = 0, sold = 0;

	for (int i = 0; i < nb; i++)
		bids[i] = (struct auction_order){ (int64_t)rng_below(r, 30),
			units ? 1 : 1 + (int64_t)rng_below(r, 4), (size_t)i, 0 };
	for (int i = 0; i < na; i++)
		asks[i] = (struct auction_order){ (int64_t)rng_below(r, 30),
			units ? 1 : 1 + (int64_t)rng_below(r, 4), (size_t)i, 0 };
	auction_clear(bids, (size_t)nb, asks, (size_t)na, &c);
	for (int i = 0; i < nb; i++) {
		CHECK(bids[i].traded == 0 || bids[i].traded == bids[i].units);
		CHECK(!bids[i].traded || bids[i].uusd >= c.buyers_uusd);
		bought += bids[i].traded;
	}
	for (int i = 0; i < na; i++) {
		CHECK(asks[i].traded >= 0 && asks[i].traded <= asks[i].units);
		CHECK(!asks[i].traded || asks[i].uusd <= c.sellers_uusd);
		sold += asks[i].traded;
	}
	CHECK_I64(bought, sold);
	CHECK_I64(bought, c.units);
	CHECK(c.buyers_uusd >= c.sellers_uusd);
	if (units && nb) {
		size_t id = rng_below(r, (uint64_t)nb);
		int64_t honest = gain(order_of(bids, nb, id), &c, true,
			order_of(bids, nb, id)->uusd);

		CHECK(gain_with(bids, nb, asks, na, true, id,
			      (int64_t)rng_below(r, 30)) <= honest);
	}
	if (units && na) {
		size_t id = rng_below(r, (uint64_t)na);
		int64_t honest = gain(order_of(asks, na, id), &c, false,
			order_of(asks, na, id)->uusd);

		CHECK(gain_with(bids, nb, asks, na, false, id,
			      (int64_t)rng_below(r, 30)) <= honest);
	}
}

/* The loss of welfare is at most that of the last pair. RNP_BOOKS: how many books. */
static void check_auctions(void)
{
	const char *books = getenv("RNP_BOOKS");
	struct rng r;

	rng_seed(&r, 9, 0);
	for (int t = 0; t < (books ? atoi(books) : 200000); t++)
		check_book(&r, t % 2);
}

int main(void)
{
	check_auctions();
	return test_failures != 0;
}
