/* measure.h - warm up, then repeat a test until its median is known well enough. */
#ifndef RNP_BENCH_MEASURE_H
#define RNP_BENCH_MEASURE_H

#include "cmd/rnp-bench/suite.h"
#include "common/progress.h"
#include "common/stats.h"

#define MEASURE_SPREAD_PPM 20000 /* half the interval's width over the median: 2% */

struct measured {
	struct stats stats;
	int clock_mhz; /* 0: not known */
	bool throttled;
};

/* Returns 0, or -1 with err_set by the test. The bar moves on by up to s->time_ms. */
int measure(const struct test *t, const struct settings *s, struct progress *bar,
	int64_t bar_from_ms, struct measured *out);

/* Whether n samples with this interval are enough. Pure. */
bool measure_enough(const struct stats *s, bool quick);

/* Whether clocks (one reading after each sample, in order) fell while the test ran: the median
 * of the second half is more than 5% below the best. Pure. */
bool measure_clock_fell(const double *mhz, size_t n);

/* The clock of this CPU now, in MHz, or 0: from the time of a chain of multiplications, which
 * take 3 cycles each on the x86 CPUs since 2008. */
double measure_clock_mhz(void);

#endif
