/* clock.c - RFC 3339 both ways, held against Python's datetime and libc's calendar. */
#include "common/base/clock.h"

#include <stdlib.h>
#include <time.h>

#include "tests/unit/test.h"

static int64_t parsed(const char *text)
{
	int64_t ms = -1;

	CHECK(clock_parse(text, "t", &ms) == 0);
	return ms;
}

static const char *formatted(int64_t ms)
{
	static char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	return text;
}

/* made with Python 3.11: (t - datetime(1970, 1, 1)) // timedelta(milliseconds=1) */
static void check_python(void)
{
	static const struct {
		const char *text;
		int64_t ms;
	} moments[] = {
		{ "1970-01-01T04:36:54.821Z", INT64_C(16614821) },
		{ "1972-02-29T02:16:07.507Z", INT64_C(68177767507) },
		{ "1999-12-31T14:30:41.388Z", INT64_C(946650641388) },
		{ "2000-02-29T06:06:31.029Z", INT64_C(951804391029) },
		{ "2000-03-01T12:27:38.780Z", INT64_C(951913658780) },
		{ "2026-11-21T00:44:28.272Z", INT64_C(1795221868272) },
		{ "2038-01-19T23:51:14.605Z", INT64_C(2147557874605) },
		{ "2099-12-31T03:57:20.031Z", INT64_C(4102372640031) },
		{ "2100-02-28T00:01:41.554Z", INT64_C(4107456101554) },
		{ "2100-03-01T00:56:24.702Z", INT64_C(4107545784702) },
		{ "2199-12-31T06:27:46.029Z", INT64_C(7258055266029) },
		{ "2200-01-01T16:14:48.448Z", INT64_C(7258176888448) },
		{ "2400-02-29T15:35:14.353Z", INT64_C(13574619314353) },
		{ "9999-12-31T07:43:14.779Z", INT64_C(253402242194779) },
	};

	for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
		CHECK_I64(moments[i].ms, parsed(moments[i].text));
		CHECK_TEXT(moments[i].text, formatted(moments[i].ms));
	}
}

/* every day from 1970 to 2200, one odd moment in it, against libc */
static void check_every_day(void)
{
	int wrong = 0, days = 0;

	for (int64_t day = 0; day < 84371; day++, days++) {
		time_t s = (time_t)(day * 86400 + day * 7919 % 86400);
		char text[CLOCK_TEXT_MAX];
		struct tm tm;

		gmtime_r(&s, &tm);
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
		wrong += strcmp(text, formatted(s * INT64_C(1000))) != 0;
		wrong += parsed(text) != s * INT64_C(1000);
	}
	CHECK_I64(0, wrong);
	CHECK_TEXT("2200-12-31T00:00:00Z", formatted((days - 1) * INT64_C(86400000)));
}

static void check_forms(void)
{
	CHECK_I64(0, parsed("1970-01-01T00:00:00Z"));
	CHECK_I64(0, parsed("1970-01-01t00:00:00z"));
	CHECK_I64(0, parsed("1970-01-01 02:00:00+02:00"));
	CHECK_I64(3600000, parsed("1970-01-01T00:00:00-01:00"));
	CHECK_I64(123, parsed("1970-01-01T00:00:00.1239999Z"));
	CHECK_I64(100, parsed("1970-01-01T00:00:00.1Z"));
	CHECK_I64(parsed("2016-12-31T23:59:59.999Z"), parsed("2016-12-31T23:59:60Z"));
	CHECK_TEXT("1970-01-01T00:00:00.001Z", formatted(1));
	CHECK_TEXT("1970-01-01T00:00:00Z", formatted(-5));
	CHECK_TEXT("9999-12-31T23:59:59.999Z", formatted(INT64_MAX));
}

static void check_bad(void)
{
	static const char *const bad[] = {
		"", "now", "2026-11-21", "2026-11-21T00:00:00", "2026-11-21T00:00Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-11-31T00:00:00Z",
		"2026-11-00T00:00:00Z", "2025-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
		"2026-11-21T24:00:00Z", "2026-11-21T00:60:00Z", "2026-11-21T00:00:61Z",
		"2026-11-21T00:00:00.Z", "2026-11-21T00:00:00ZZ",
		"2026-11-21T00:00:00+24:00", "2026-11-21T00:00:00+00:60",
		"2026-11-21T00:00:00+0100", " 2026-11-21T00:00:00Z",
		"2026-11-21T00:00:00Z ", "1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
		"+2026-11-21T00:00:00Z", "-999-11-21T00:00:00Z",
		"2026-11-21T00:00:00.00000000000000000000000000000000000000000000000000Z"
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int64_t ms = -7;

		CHECK_FAILS(EX_DATAERR, clock_parse(bad[i], "t", &ms));
		CHECK_I64(-7, ms);
	}
}

/* With RNP_NOW at 2026-11-23T12:34:56Z. */
static void check_people(void)
{
	static const struct {
		const char *text, *time;
	} rows[] = { { "now", "2026-11-23T12:34:56Z" },
		{ "today", "2026-11-23T00:00:00Z" },
		{ "yesterday", "2026-11-22T00:00:00Z" },
		{ "tomorrow", "2026-11-24T00:00:00Z" }, { "-7d", "2026-11-16T12:34:56Z" },
		{ "+90m", "2026-11-23T14:04:56Z" }, { "-2w", "2026-11-09T12:34:56Z" },
		{ "2026-11-20", "2026-11-20T00:00:00Z" },
		{ "2026-11-20 18:05", "2026-11-20T18:05:00Z" },
		{ "2026-11-20T18:05:00+01:00", "2026-11-20T17:05:00Z" } };
	static const char *const bad[] = { "", "7d", "-7", "-d", "-7 d", "-7dd",
		"-99999999d", "2026-13-01", "2026-11-20 24:00", "20.11.2026", "Today",
		"2026-11-2", "1969-12-31" };
	int64_t ms, want;

	setenv("RNP_NOW", "2026-11-23T12:34:56Z", 1);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CHECK(clock_parse(rows[i].time, "t", &want) == 0);
		CHECK(clock_parse_people(rows[i].text, "t", &ms) == 0);
		CHECK_I64(want, ms);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, clock_parse_people(bad[i], "t", &ms));
	unsetenv("RNP_NOW");
}

static void check_now(void)
{
	int64_t mono = clock_mono_ns();

	CHECK(setenv("RNP_NOW", "2026-11-21T03:04:05.678Z", 1) == 0);
	CHECK(clock_check_env() == 0);
	CHECK_I64(parsed("2026-11-21T03:04:05.678Z"), clock_now_ms());
	CHECK(setenv("RNP_NOW", "yesterday", 1) == 0);
	CHECK_FAILS(EX_USAGE, clock_check_env());
	CHECK(unsetenv("RNP_NOW") == 0);
	CHECK(clock_check_env() == 0);
	CHECK(llabs(clock_now_ms() - (int64_t)time(NULL) * 1000) < 5000);
	CHECK(clock_mono_ns() > mono);
}

int main(void)
{
	check_python();
	check_every_day();
	check_forms();
	check_bad();
	check_people();
	check_now();
	TEST_END();
}
