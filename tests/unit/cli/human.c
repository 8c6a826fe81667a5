/* human.c - units by the name of the field, prefixes by the size of the number. */
#include "common/cli/human.h"

#include "common/base/clock.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

#define NOW INT64_C(1795435200000) /* 2026-11-23T12:00:00Z */

static void shows(const char *want, const char *key, const char *value, const char *unit)
{
	json_t *v = json_parse(value, strlen(value), JSON_DEPTH_MAX, "test");
	struct buf got = BUF_INIT;

	CHECK(v != NULL);
	human_value(&got, key, v, unit, NOW);
	CHECK_TEXT(want, buf_text(&got));
	buf_release(&got);
	json_decref(v);
}

static void heads(const char *want, const char *path)
{
	struct buf got = BUF_INIT;

	human_heading(&got, path);
	CHECK_TEXT(want, buf_text(&got));
	buf_release(&got);
}

/* What follows is an amount of a record with this token. */
static void named(const char *token)
{
	json_t *record = json_pack("{ss}", "token", token);

	human_use_token_of(record);
	json_decref(record);
}

int main(void)
{
	/* money: exact, two decimals at least */
	shows("$0.3762 an hour", "ask_uusd", "376200", NULL);
	shows("$1599.00", "msrp_uusd", "1599000000", NULL);
	shows("$0.000001", "uusd_per_gpu_hour", "1", NULL);
	shows("-$2.50", "change_uusd", "-2500000", NULL);
	shows("7.57142856 tokens", "base_units", "757142856", NULL);
	human_set_token("TEST");
	shows("-7.50 TEST", "base_units", "-750000000", NULL);
	named("RENDER");
	/* sizes and rates */
	shows("24 GiB", "gpu_memory_bytes", "25769803776", NULL);
	shows("1023 B", "size_bytes", "1023", NULL);
	shows("1 KiB", "size_bytes", "1024", NULL);
	shows("1 Gbit/s", "down_bps", "1000000000", NULL);
	shows("940 Mbit/s", "up_bps", "940000000", NULL);
	shows("45.6 GB/s", "memory_bandwidth_bps", "45600000000", NULL);
	shows("3.69 GHz", "clock_max_mhz", "3690", NULL);
	shows("450 W", "power_limit_mw", "450000", NULL);
	shows("92.9 %", "uptime_ppm", "928571", NULL);
	/* durations */
	shows("1.64 s", "elapsed_ns", "1640000000", NULL);
	shows("250 \302\265s", "ping_us", "250", NULL);
	shows("2 h 5 min", "up_s", "7500", NULL);
	shows("2 min", "interval_s", "120", NULL);
	shows("3 d 4 h", "up_s", "273600", NULL);
	shows("0 s", "worked_s", "0", NULL);
	/* times are relative while they are near */
	shows("5 min ago", "at", "\"2026-11-23T11:55:00Z\"", NULL);
	shows("in 1 h", "deadline_at", "\"2026-11-23T13:00:00Z\"", NULL);
	shows("2026-01-02 03:04 UTC", "from", "\"2026-01-02T03:04:05Z\"", NULL);
	shows("soon", "at", "\"soon\"", NULL);
	/* numbers of a record in the unit that it names */
	shows("3.59 TFLOP/s", "median", "3591500000000", "FLOP/s");
	shows("12.3 ns", "low", "12.3", "ns");
	shows("16", "samples", "16", "ns");
	/* the rest */
	shows("12,345,678", "tokens", "12345678", NULL);
	shows("1,234", "tokens", "1234", NULL);
	shows("-123,456", "change", "-123456", NULL);
	shows("12345678", "seed", "12345678", NULL);
	shows("15.5 k tokens/s", "tokens_per_s", "15491", NULL);
	shows("150 tokens/s", "tokens_per_s", "150", NULL);
	shows("20.3 k tokens/s", "median", "20319", "tokens/s");
	shows("15.5 k/s", "requests_seen_per_s", "15491", NULL);
	shows("10.4000", "loss", "10.4", NULL);
	shows("yes", "ok", "true", NULL);
	shows("768 x 12", "shape", "[768,12]", NULL);
	shows("none", "gpus", "[]", NULL);
	shows("a, b", "reasons", "[\"a\",\"b\"]", NULL);
	shows("model X, memory 1 GiB", "gpu",
		"{\"model\":\"X\",\"memory_bytes\":1073741824}", NULL);
	/* what an object's name says of its numbers; whole numbers that are texts */
	shows("low $0.50, mid $1.00, known yes", "day_uusd",
		"{\"low\":500000,\"mid\":1000000,\"known\":true}", NULL);
	shows("up 2 min, n 7", "day_uusd_left", "{\"up_s\":120,\"n\":7}", NULL);
	shows("106613615.40 RENDER", "left_base_units", "\"10661361540000000\"", NULL);
	named("a\033]0;token");
	shows("1.00 TEST", "base_units", "100000000", NULL);
	shows("99999999999999999999", "left_base_units", "\"99999999999999999999\"",
		NULL);
	shows("1.44e-04", "lr", "0.000144", NULL);
	shows("4.00e-05", "learning_rate", "0.00004", NULL);
	shows("3.56", "changes_a_day_ppm", "3560000", NULL);
	shows("a b", "text", "\"a\\tb\"", NULL);
	heads("gpu model", "gpus.0.model");
	heads("gpu memory", "gpus.0.memory_bytes");
	heads("country", "labels.country");
	heads("$/gpu hour", "uusd_per_gpu_hour");
	heads("up", "up_s");
	heads("tokens per s", "tokens_per_s");
	heads("policy sha256", "policy_sha256");
	TEST_END();
}
