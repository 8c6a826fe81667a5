/* metrics_text.c - Prometheus' text format as records. */
#include "common/registry/metrics_text.h"

#include <math.h>

#include "tests/unit/test.h"
#include "common/json/json.h"
#include "common/json/schema.h"

static json_t *found; /* all records of a text */

static int keep(void *ctx, const json_t *record)
{
	(void)ctx;
	CHECK(schema_check(record, "record", "rnp.metric") == 0);
	json_push(found, json_deep_copy(record));
	return 0;
}

static int parse(const char *text)
{
	json_decref(found);
	found = json_array();
	return metrics_parse(text, strlen(text), "metrics", keep, NULL);
}

static const json_t *nth(size_t i, const char *key)
{
	return json_object_get(json_array_get(found, i), key);
}

static const char *text_of(size_t i, const char *key)
{
	const char *text = json_string_value(nth(i, key));

	return text ? text : "";
}

static double number(size_t i, const char *key)
{
	return nth(i, key) ? json_number_value(nth(i, key)) : NAN;
}

static void check_samples(void)
{
	CHECK(parse("# HELP rnp_bytes_total Bytes \"sent\".\n"
		    "# TYPE rnp_bytes_total counter\n"
		    "rnp_bytes_total{to=\"a\\\"b\\\\c\\nd\",at=\"\"} 3 1700000000000\n"
		    "\n# a comment\n"
		    "up 1\n"
		    "ratio  0.25\n"
		    "never NaN\n"
		    "most +Inf") == 0);
	CHECK_I64(5, (int64_t)json_array_size(found));
	CHECK_TEXT("rnp_bytes_total", text_of(0, "name"));
	CHECK_TEXT("counter", text_of(0, "type"));
	CHECK_TEXT("B", text_of(0, "unit"));
	CHECK_TEXT("Bytes \"sent\".", text_of(0, "help"));
	CHECK_TEXT("a\"b\\c\nd",
		json_string_value(json_object_get(nth(0, "labels"), "to")));
	CHECK(json_is_integer(nth(0, "value")));
	/* what follows is of no family */
	CHECK_TEXT("untyped", text_of(1, "type"));
	CHECK_TEXT("", text_of(1, "help"));
	CHECK(number(2, "value") == 0.25);
	CHECK(!nth(3, "value") && !nth(4, "value"));
}

/* 100 values: 50 up to 1 s, 40 between 1 and 2 s, 10 beyond. */
static void check_histogram(void)
{
	CHECK(parse("# TYPE t_seconds histogram\n"
		    "t_seconds_bucket{r=\"x\",le=\"1\"} 50\n"
		    "t_seconds_bucket{r=\"x\",le=\"2\"} 90\n"
		    "t_seconds_bucket{r=\"x\",le=\"+Inf\"} 100\n"
		    "t_seconds_sum{r=\"x\"} 120\n"
		    "t_seconds_count{r=\"x\"} 100\n"
		    "t_seconds_bucket{r=\"y\",le=\"1\"} 0\n"
		    "t_seconds_bucket{r=\"y\",le=\"+Inf\"} 0\n"
		    "t_seconds_sum{r=\"y\"} 0\n"
		    "t_seconds_count{r=\"y\"} 0\n"
		    "t_seconds_other 7\n") == 0);
	CHECK_I64(3, (int64_t)json_array_size(found));
	CHECK_TEXT("t_seconds", text_of(0, "name"));
	CHECK_TEXT("s", text_of(0, "unit"));
	CHECK(number(0, "count") == 100 && number(0, "mean") == 1.2);
	CHECK(number(0, "p50") == 1 && number(0, "p99") == 2);
	CHECK_TEXT("y", json_string_value(json_object_get(nth(1, "labels"), "r")));
	CHECK(number(1, "count") == 0 && !nth(1, "p50") && !nth(1, "mean"));
	CHECK_TEXT("untyped", text_of(2, "type"));
	/* a quarter of the way through the second bucket */
	CHECK(parse("# TYPE t histogram\nt_bucket{le=\"4\"} 1\nt_bucket{le=\"8\"} 5\n") ==
		0);
	CHECK(fabs(number(0, "p50") - 5.5) < 1e-9 && number(0, "count") == 5);
}

static void check_refused(void)
{
	static const char *const texts[] = { "1x 3", "x", "x{ 3", "x{a=\"1} 3",
		"x{a=\"\\q\"} 3", "x{a=\"1\",a=\"2\"} 3", "x 3 4 y", "x 0x10",
		"x{a=\"1\"b=\"2\"} 3", "x\xff 1", "# TYPE t histogram\nt_bucket 3",
		"# TYPE t histogram\nt_bucket{le=\"2\"} 3\nt_bucket{le=\"1\"} 4",
		"# TYPE t histogram\nt_bucket{le=\"1\"} 3\nt_bucket{le=\"2\"} 2",
		"# TYPE t histogram\nt_bucket{le=\"NaN\"} 3",
		"# TYPE t histogram\nt_bucket{le=\"1\"} NaN" };

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		CHECK_FAILS(EX_DATAERR, parse(texts[i]));
	CHECK_FAILS(EX_DATAERR, metrics_parse("a 1\0b 2\n", 8, "metrics", keep, NULL));
	CHECK(parse("a 1\nb{\n") == -1);
	CHECK(strstr(err_get()->text, "line 2") != NULL);
	err_clear();
	CHECK(parse("") == 0 && json_array_size(found) == 0);
}

int main(void)
{
	check_samples();
	check_histogram();
	check_refused();
	json_decref(found);
	TEST_END();
}
