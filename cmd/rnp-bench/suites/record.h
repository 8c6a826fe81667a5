/* record.h - makes the rnp.bench record of a test that was measured. */
#ifndef RNP_BENCH_SUITES_RECORD_H
#define RNP_BENCH_SUITES_RECORD_H

#include "cmd/rnp-bench/suites/measure.h"

/* Returns a new record of a test with at least one batch, without a node. device "": unknown,
 * and the record says so. Takes params. */
json_t *record_make(const char *suite, const struct test *t, const char *device,
	const struct measurement *m, json_t *takes_params);

/* Returns the object "unknown" of a record, created if missing. Borrowed. */
json_t *record_unknown(json_t *record);

#endif
