/* record.c - makes the rnp.bench record of a measurement. */
#include "cmd/rnp-bench/suites/record.h"

#include "common/record/bench.h"
#include "common/json/json.h"

json_t *record_unknown(json_t *record)
{
	json_t *unknown = json_object_get(record, "unknown");

	if (!unknown) {
		unknown = json_object();
		json_set(record, "unknown", unknown);
	}
	return unknown;
}

json_t *record_make(const char *suite, const struct test *t, const char *device,
	const struct measurement *measurement, json_t *params)
{
	struct measured m;
	json_t *record;

	measure_result(measurement, &m);
	record = bench_record(suite, t->name, *device ? device : NULL, t->unit, &m.stats);
	json_set_i64(record, "repetitions", m.repetitions);
	json_set(record, "params", params);
	if (m.clock_mhz)
		json_set_i64(record, "clock_mhz", m.clock_mhz);
	else
		json_set_text(record_unknown(record), "clock_mhz", m.conditions.unknown);
	if (m.conditions.temperature_c >= 0)
		json_set_i64(record, "temperature_c", m.conditions.temperature_c);
	if (m.conditions.others >= 0)
		json_set_i64(record, "other_users", m.conditions.others);
	json_set_bool(record, "throttled", m.conditions.throttled);
	if (m.conditions.cause[0])
		json_set_text(record, "throttled_by", m.conditions.cause);
	if (!*device)
		json_set_text(record_unknown(record), "device",
			"/proc/cpuinfo does not name the CPU");
	return record;
}
