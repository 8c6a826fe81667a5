/* num.c - the whole text is the number, or it is an error. */
#include "common/base/num.h"

#include "tests/unit/test.h"

static int64_t i64(const char *text)
{
	int64_t v = -77;

	CHECK(num_i64(text, "n", INT64_MIN, INT64_MAX, &v) == 0);
	return v;
}

static int64_t decimal(const char *text, int decimals, int round)
{
	int64_t v = -77;

	CHECK(num_decimal(text, "n", decimals, round, &v) == 0);
	return v;
}

static void check_integers(void)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "0x10", "1e3", "1.0",
		"--1", "-", "9223372036854775808", "-9223372036854775809", "1_000", "١" };
	int64_t v;

	CHECK_I64(0, i64("0"));
	CHECK_I64(INT64_MIN, i64("-9223372036854775808"));
	CHECK_I64(INT64_MAX, i64("9223372036854775807"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, num_i64(bad[i], "n", INT64_MIN, INT64_MAX, &v));
	CHECK_FAILS(EX_DATAERR, num_i64("11", "n", 0, 10, &v));
}

static void check_decimals(void)
{
	int64_t v;

	CHECK_I64(1900000, decimal("1.90", 6, 0));
	CHECK_I64(1900000, decimal("1.9", 6, 0));
	CHECK_I64(-250000, decimal("-0.25", 6, 0));
	CHECK_I64(1000, decimal("1e-3", 6, 0));
	CHECK_I64(4, decimal("0.0000035", 6, 1));
	CHECK_I64(2, decimal("0.0000025", 6, 1)); /* half to even */
	CHECK_I64(3,
		decimal("0.00000250000000000000000000000000000000000000000000000000000000000"
			"0000000000000000000000000001",
			6, 1));
	CHECK_I64(115703, decimal("0.11570293333", 6, 1));
	CHECK_I64(0, decimal("0.00000000001", 6, 1));
	CHECK_I64(INT64_MAX, decimal("9223372036854.775807", 6, 0));
	CHECK_FAILS(EX_DATAERR, num_decimal("9223372036854.775808", "n", 6, 0, &v));
	CHECK_FAILS(EX_DATAERR, num_decimal("0.1234567", "n", 6, 0, &v));
	CHECK_FAILS(EX_DATAERR, num_decimal(".5", "n", 6, 0, &v));
	CHECK_FAILS(EX_DATAERR, num_decimal("5.", "n", 6, 0, &v));
	CHECK_FAILS(EX_DATAERR, num_decimal("1e999999999999", "n", 6, 0, &v));
	CHECK_FAILS(EX_DATAERR, num_decimal("nan", "n", 6, 0, &v));
}

static void check_units(void)
{
	int64_t v;

	CHECK(num_size("64MiB", "n", &v) == 0 && v == 67108864);
	CHECK(num_size("1.5GB", "n", &v) == 0 && v == 1500000000);
	CHECK(num_size("4096", "n", &v) == 0 && v == 4096);
	CHECK(num_duration_ms("250ms", "n", &v) == 0 && v == 250);
	CHECK(num_duration_ms("1.5h", "n", &v) == 0 && v == 5400000);
	CHECK(num_duration_ms("10", "n", &v) == 0 && v == 10000);
	CHECK_FAILS(EX_DATAERR, num_size("64MB ", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_size("1.5B", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_size("9000PiB1", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_size("9000PiB", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_size("-1", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_duration_ms("5min", "n", &v));
}

static void check_reals(void)
{
	double v;

	CHECK(num_f64("-1.5e3", "n", &v) == 0 && v == -1500);
	CHECK_FAILS(EX_DATAERR, num_f64("inf", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_f64("nan", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_f64("0x1p3", "n", &v));
	CHECK_FAILS(EX_DATAERR, num_f64("1e999", "n", &v));
}

int main(void)
{
	check_integers();
	check_decimals();
	check_units();
	check_reals();
	TEST_END();
}
