/* cost.c - what an hour costs, rounded up; RNP-004's table of break-even prices. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/cost/cost.h"

#include "cmd/rnp-price/cost/price_table.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static int parse(struct costs *c, const char *text)
{
	json_t *obj = json_parse_object(text, strlen(text), "costs");
	int rc;

	CHECK(obj != NULL);
	rc = cost_parse(c, obj, "costs", NULL, 0);
	json_decref(obj);
	return rc;
}

static void check_terms(void)
{
	struct costs c;
	struct cost_floor f;

	CHECK(parse(&c,
		      "{\"watts_load\":450,\"watts_idle\":60,\"uusd_per_kwh\":150000,"
		      "\"hardware_uusd\":1599000000,\"depreciation_days\":1460,"
		      "\"network_uusd_per_hour\":20000,\"fee_ppm\":50000,"
		      "\"margin_ppm\":100000}") == 0);
	CHECK(cost_floor(&c, 0, &f) == 0);
	CHECK_I64(67500, f.energy_uusd);
	CHECK_I64(45634, f.depreciation_uusd); /* 45633.56 up */
	CHECK_I64(20000, f.network_uusd);
	CHECK_I64(13314, f.margin_uusd); /* 13313.4 up */
	CHECK_I64(154156, f.floor_uusd); /* 146448 / 0.95 = 154155.8 up */
	CHECK_I64(7708, f.fee_uusd);
	CHECK_I64(f.floor_uusd,
		f.energy_uusd + f.depreciation_uusd + f.network_uusd + f.margin_uusd +
			f.fee_uusd);
	CHECK_I64(29000, f.idle_uusd);
	/* 1599 $ / ((0.154156 - 0.007708 - 0.0675 - 0.02) x 24) = 1130.2 */
	CHECK_I64(1131, cost_break_even_days(&c, &f, f.floor_uusd));
	CHECK_I64(-1, cost_break_even_days(&c, &f, 90000));
}

static void check_margin_of_nothing(void)
{
	struct costs c;
	struct cost_floor f;

	/* at a floor without margin the hardware is paid in its own time */
	CHECK(parse(&c,
		      "{\"watts_load\":320,\"uusd_per_kwh\":100000,"
		      "\"hardware_uusd\":699000000,\"depreciation_days\":180}") == 0);
	CHECK(cost_floor(&c, 23, &f) == 0);
	CHECK_I64(32000 + 161806, f.floor_uusd);
	CHECK_I64(180, cost_break_even_days(&c, &f, f.floor_uusd));
	CHECK(parse(&c, "{\"watts_load\":0,\"uusd_per_kwh\":0}") == 0);
	CHECK(cost_floor(&c, 0, &f) == 0);
	CHECK_I64(0, f.floor_uusd);
	CHECK_I64(0, cost_break_even_days(&c, &f, 0));
}

static void check_tariff(void)
{
	struct costs c;
	struct cost_floor f;

	CHECK(parse(&c,
		      "{\"watts_load\":1000,\"tariff\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,"
		      "16,17,18,19,20,21,22,23,24]}") == 0);
	CHECK(cost_floor(&c, 17, &f) == 0);
	CHECK_I64(18, f.energy_uusd);
}

static void check_bad(void)
{
	static const char *const bad[] = { "{}", "{\"watts_load\":1}",
		"{\"uusd_per_kwh\":1}", "{\"watts_load\":1.5,\"uusd_per_kwh\":1}",
		"{\"watts_load\":-1,\"uusd_per_kwh\":1}",
		"{\"watts_load\":1,\"uusd_per_kwh\":\"cheap\"}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"watts_idle\":2}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"hardware_uusd\":1}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"depreciation_days\":0}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"fee_ppm\":1000000}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"margin_ppm\":-1}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"network_uusd_per_hour\":null}",
		"{\"watts_load\":1,\"uusd_per_kwh\":1,\"tariff\":[]}",
		"{\"watts_load\":1,\"tariff\":[1,2]}", "{\"watts_load\":1,\"tariff\":5}",
		"{\"watts_load\":1,\"tariff\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		"-1]}" };
	struct costs c;
	struct cost_floor f;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, parse(&c, bad[i]));
	/* the largest of everything is refused, not wrapped */
	CHECK(parse(&c,
		      "{\"watts_load\":10000000,\"uusd_per_kwh\":1000000000000000,"
		      "\"hardware_uusd\":1000000000000000,\"depreciation_days\":1,"
		      "\"network_uusd_per_hour\":1000000000000000,\"fee_ppm\":999999,"
		      "\"margin_ppm\":1000000000}") == 0);
	CHECK_FAILS(EX_DATAERR, cost_floor(&c, 0, &f));
}

/* RNP-004: network-rules, sections 3.1 and 3.2 */
static void check_rnp_004(void)
{
	static const struct {
		int msrp, daily, hourly; /* dollars; cents; 1/10000 */
		int decimals;
	} rows[] = { { 1599, 888, 3700, 2 }, { 1199, 666, 2800, 2 },
		{ 799, 444, 1800, 2 }, { 1999, 1111, 4600, 2 }, { 1499, 833, 3500, 2 },
		{ 699, 388, 1600, 2 }, { 599, 333, 1400, 2 }, { 499, 277, 1200, 2 },
		{ 399, 222, 900, 2 }, { 999, 555, 2313, 4 }, { 219, 122, 507, 4 } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int64_t msrp = rows[i].msrp * INT64_C(1000000);

		CHECK_I64(rows[i].daily * INT64_C(10000), price_daily(msrp, 180, 2));
		CHECK_I64(rows[i].hourly * INT64_C(100),
			price_hourly(msrp, 180, 0, rows[i].decimals));
	}
	CHECK_I64(231250, price_hourly(999000000, 180, 0, 6));
	/* +22.5% and +50%, each with one rounding */
	CHECK_I64(283281, price_hourly(999000000, 180, 225000, 6));  /* 283281.25 */
	CHECK_I64(555208, price_hourly(1599000000, 180, 500000, 6)); /* 555208.33 */
	CHECK_I64(290219, price_hourly(999000000, 180, 255000, 6));  /* 290218.75 */
}

int main(void)
{
	check_terms();
	check_margin_of_nothing();
	check_tariff();
	check_bad();
	check_rnp_004();
	TEST_END();
}
