/* money.c - pieces of time add up to the uusd, limits hold to the ms, warnings come once. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/money.h"

#include "tests/unit/test.h"

/* Whatever the readings, the charges are those of the whole. */
static void pieces(void)
{
	uint64_t x = 7;

	for (int i = 0; i < 1000; i++) {
		int64_t price, at = 0, paid = 0;

		x = x * 6364136223846793005u + 1442695040888963407u;
		price = (int64_t)(x >> 24) % 100000000;
		for (int k = 0; k < 50; k++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			at += (int64_t)(x >> 40) % 61000;
			paid += market_cost(price, at) - paid;
		}
		CHECK_I64(market_cost(price, at), paid);
		CHECK((__int128)paid * MARKET_HOUR_MS <= (__int128)price * at);
		CHECK(((__int128)paid + 1) * MARKET_HOUR_MS > (__int128)price * at);
	}
	CHECK_I64(832527, market_cost(410000, 7310000));
	CHECK_I64(0, market_cost(0, 1000));
	CHECK_I64(MARKET_UUSD_MAX * MARKET_HOURS_MAX,
		market_cost(MARKET_UUSD_MAX, MARKET_HOURS_MAX * MARKET_HOUR_MS));
}

static void lasts(void)
{
	CHECK_I64(INT64_MAX, market_lasts_ms(0, 5));
	CHECK_I64(0, market_lasts_ms(3600000, -1));
	for (int64_t price = 1; price < 100000000; price = price * 7 + 3)
		for (int64_t uusd = 0; uusd < 1000000000; uusd = uusd * 11 + 1) {
			int64_t ms = market_lasts_ms(price, uusd);

			CHECK(market_cost(price, ms) <= uusd);
			CHECK(market_cost(price, ms + 1) > uusd);
		}
}

static void holds(void)
{
	CHECK_I64(820000, market_hold(820000, 3280000));
	CHECK_I64(200000, market_hold(820000, 200000));
	CHECK_I64(0, market_hold(820000, -1));
	CHECK_I64(334, market_part_ceil(1000, 1, 3));
	CHECK_I64(333, market_part_floor(1000, 1, 3));
	CHECK_I64(1000, market_part_ceil(1000, 0, 0));
}

static void warnings(void)
{
	static const struct {
		int64_t left_s;
		int due;
	} steps[] = { { 3600, 0 }, { 901, 0 }, { 900, 15 }, { 600, 0 }, { 301, 0 },
		{ 299, 5 }, { 200, 0 }, { 60, 1 }, { 10, 0 }, { 0, 0 }, { 2000, 0 },
		{ 800, 15 }, { 3, 1 }, { 250, 0 } };
	int warned = 0;

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		CHECK_I64(steps[i].due, market_warning(steps[i].left_s * 1000, &warned));
}

int main(void)
{
	pieces();
	lasts();
	holds();
	warnings();
	TEST_END();
}
