/* bench.h - rnp.bench records from measurements. Uses stats, json, clock. */
#ifndef RNP_COMMON_RECORD_BENCH_H
#define RNP_COMMON_RECORD_BENCH_H

#include <jansson.h>

#include "common/base/stats.h"

/* Returns a new rnp.bench record with "at" now: the median is rounded to the nearest whole
 * unit, low down and high up. device NULL: the field is omitted. The caller owns the record and
 * may add fields. Values are at least 0; choose a unit in which whole numbers are fine enough
 * (ns, ppm). */
json_t *bench_record(const char *suite, const char *test, const char *device,
	const char *unit, const struct stats *s);

/* Returns the object "params" of a record, created if missing. Borrowed. */
json_t *bench_params(json_t *record);

#endif
