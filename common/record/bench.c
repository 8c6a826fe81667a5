/* bench.c - rnp.bench records: a median with its interval, rounded so that the interval is
 * never too narrow. */
#include "common/record/bench.h"

#include <math.h>

#include "common/base/clock.h"
#include "common/json/json.h"

json_t *bench_record(const char *suite, const char *test, const char *device,
	const char *unit, const struct stats *s)
{
	json_t *record = json_record("rnp.bench");

	json_set_time(record, "at", clock_now_ms());
	json_set_text(record, "suite", suite);
	json_set_text(record, "test", test);
	json_set_text(record, "device", device);
	json_set_text(record, "unit", unit);
	json_set_i64(record, "median", llround(s->median));
	json_set_i64(record, "low", (int64_t)floor(s->low));
	json_set_i64(record, "high", (int64_t)ceil(s->high));
	json_set_i64(record, "samples", (int64_t)s->n);
	if (s->coverage_ppm < STATS_COVERAGE_PPM)
		json_set_i64(record, "coverage_ppm", s->coverage_ppm);
	return record;
}

json_t *bench_params(json_t *record)
{
	json_t *params = json_object_get(record, "params");

	if (!params) {
		params = json_object();
		json_set(record, "params", params);
	}
	return params;
}
