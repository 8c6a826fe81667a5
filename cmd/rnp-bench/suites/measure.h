/* measure.h - measures a test in batches spread over the run, until its median is known well
 * enough.
 *
 * Repetitions that follow each other agree far better than a repetition an hour later will,
 * because disturbances of a machine last for seconds. So a sample is the median of one batch,
 * and other tests run between two batches. */
#ifndef RNP_BENCH_SUITES_MEASURE_H
#define RNP_BENCH_SUITES_MEASURE_H

#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/stats.h"

#define MEASURE_SPREAD_PPM 20000 /* half the interval's width over the median: 2% */

/* The measurements of one test so far. */
struct measurement {
	double *batches, *mhz; /* medians of the batches; the clock after each step */
	size_t n, cap, n_mhz, cap_mhz;
	int64_t repetitions;
	struct run_conditions conditions;
};

/* clang-format off */
#define MEASUREMENT_INIT { .conditions = RUN_CONDITIONS_INIT }
/* clang-format on */

struct measured {
	struct stats stats;
	int64_t repetitions;
	int clock_mhz; /* 0: not known */
	struct run_conditions conditions;
};

void measurement_release(struct measurement *m);

/* Returns the largest number of batches of a test. */
int measure_batches(const struct settings *s);

/* Runs one batch of a test that is open: warms up, repeats, checks. Returns 0, or -1 with
 * err_set by the test. */
int measure_batch(struct measurement *m, const struct test *t, const struct watch *watch,
	const struct settings *s);

/* Adds part to m: its conditions, and the median of its batches as one batch. */
void measurement_move(struct measurement *m, struct measurement *part);

/* Summarises at least one batch of measurements. */
void measure_result(const struct measurement *m, struct measured *out);

/* Whether n batches with this interval are enough. Pure. */
bool measure_enough(const struct stats *s, bool quick);

/* Whether the clock (readings in order) fell while the test ran: the median of the second half
 * is more than 5% below the best. Pure. */
bool measure_clock_fell(const double *mhz, size_t n);

#endif
