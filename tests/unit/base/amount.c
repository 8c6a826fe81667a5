/* amount.c - units are read exactly, nothing may stand behind them, and slips are doubted. */
#include "common/base/amount.h"

#include "tests/unit/test.h"

static const struct amount_rate rates[] = { { "EUR", 1160000 }, { "", 0 } };

static int64_t read(const char *text, const struct amount_kind *k, const char *bare)
{
	int64_t v = -77;

	CHECK(amount_read(text, "n", k, bare, rates, &v) == 0);
	return v;
}

static char heard[500];

static void hear(const char *text)
{
	snprintf(heard, sizeof heard, "%s", text);
}

static const char *doubt(int64_t v, const struct amount_kind *k)
{
	heard[0] = '\0';
	CHECK(amount_doubt(v, "n", k) == 0);
	return heard;
}

static void check_units(void)
{
	CHECK_I64(150000, read("15 ct/kWh", &amount_per_kwh, NULL));
	CHECK_I64(150000, read("$0.15", &amount_per_kwh, NULL));
	CHECK_I64(150000, read("USD 0.15 / kWh", &amount_per_kwh, NULL));
	CHECK_I64(85300, read("85.30 USD/MWh", &amount_per_kwh, NULL));
	CHECK_I64(98948, read("85.30 EUR/MWh", &amount_per_kwh, NULL));
	CHECK_I64(98948, read("85.30", &amount_spot_kwh, "EUR/MWh"));
	CHECK_I64(-10000, read("-0.01", &amount_spot_kwh, ""));
	CHECK_I64(1160, read("0.1 EURct", &amount_usd, ""));
	CHECK_I64(1900000, read("1.90", &amount_usd, ""));
	CHECK_I64(150000, read("150000 uusd", &amount_usd, ""));
	CHECK_I64(450, read("0.45 kW", &amount_watts, NULL));
	CHECK_I64(450, read("450000 mW", &amount_watts, NULL));
	CHECK_I64(50000, read("5%", &amount_ppm, "ppm"));
	CHECK_I64(5, read("5", &amount_ppm, "ppm"));
	CHECK_I64(1460, read("4 years", &amount_days, NULL));
	CHECK_I64(100000000, read("100 Mbit/s", &amount_bits, NULL));
	CHECK_I64(INT64_C(8) << 30, read("8 GiB", &amount_memory, NULL));
	CHECK_I64(INT64_C(7500000000000), read("75000", &amount_render, ""));
}

static void check_refused(void)
{
	static const char *const bad[] = { "", " 1 USD", "1 USD 2", "$1 USD", "1",
		"1,5 USD", "1.234,56 USD", "1'000 USD", "+1 USD", "0x1 USD", "1 USD/h",
		"1 USD per", "USD", "1e999 USD", "1 BTC", "1 CHF", "0.1234567 USD",
		"10000000000000 USD" };
	int64_t v;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR,
			amount_read(bad[i], "n", &amount_per_kwh, NULL, rates, &v));
	CHECK_FAILS(EX_DATAERR, amount_read("1 EUR", "n", &amount_usd, "", NULL, &v));
	CHECK_FAILS(EX_DATAERR, amount_read("450 w", "n", &amount_watts, NULL, NULL, &v));
	CHECK_FAILS(EX_DATAERR, amount_read("0.5 W", "n", &amount_watts, NULL, NULL, &v));
	amount_read("0,12", "n", &amount_per_kwh, NULL, NULL, &v);
	CHECK_TEXT("n: '0,12' has a comma; did you mean 0.12 USD/kWh?", err_get()->text);
	amount_read("$1,599", "n", &amount_hardware, NULL, NULL, &v);
	CHECK_TEXT("n: '$1,599' has a comma; did you mean $1599?", err_get()->text);
	amount_read("0,5 W", "n", &amount_watts, NULL, NULL, &v);
	CHECK_TEXT("n: '0,5 W' is no amount such as \"450 W\"", err_get()->text);
	CHECK_FAILS(EX_DATAERR, amount_read("5 5", "n", &amount_ppm, "ppm", NULL, &v));
}

static void check_doubts(void)
{
	CHECK_TEXT("", doubt(0, &amount_watts));
	CHECK_TEXT("", doubt(150000, &amount_per_kwh));
	CHECK_TEXT("n: 85.30 USD/kWh is unusual; did you mean 0.853 USD/kWh (cents) or "
		   "0.0853 USD/kWh (per MWh)?",
		doubt(85300000, &amount_per_kwh));
	CHECK_TEXT("n: 350000 W is unusual; did you mean 350 W (mW)?",
		doubt(350000, &amount_watts));
	CHECK_TEXT("n: 0.0005% is unusual; did you mean 5% (percent)?",
		doubt(5, &amount_ppm));
	CHECK_TEXT("n: 0.0001 Mbit/s is unusual; did you mean 100 Mbit/s (Mbit/s) or "
		   "0.1 Mbit/s (kbit/s)?",
		doubt(100, &amount_bits));
	amount_refuse_doubtful();
	CHECK_FAILS(EX_DATAERR, amount_doubt(350000, "n", &amount_watts));
}

int main(void)
{
	err_listen(hear);
	check_units();
	check_refused();
	check_doubts();
	TEST_END();
}
