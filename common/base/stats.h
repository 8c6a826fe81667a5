/* stats.h - the median of measurements and its confidence interval. Uses libc, mem. Pure.
 *
 * The interval is the distribution-free one from order statistics: between the k-th smallest
 * and the k-th largest sample, k as large as the binomial distribution allows. It assumes only
 * that samples are independent. */
#ifndef RNP_COMMON_BASE_STATS_H
#define RNP_COMMON_BASE_STATS_H

#include <stddef.h>
#include <stdint.h>

#define STATS_COVERAGE_PPM 950000

struct stats {
	double median, low, high;
	size_t n;
	/* Probability that the true median lies within low..high: at least 950000 from 6
	 * samples on. With fewer, low and high are the extremes, and this is their coverage. */
	int64_t coverage_ppm;
};

/* Computes median and 95% interval of n >= 1 finite samples, in any order, without changing
 * them. The median of an even number of samples is the mean of the middle two. */
void stats_of(const double *samples, size_t n, struct stats *out);

/* Returns the smallest of n >= 1 samples, in any order, that `percent` of a hundred of them, 1 to
 * 100, do not exceed (nearest rank). */
double stats_percentile(const double *samples, size_t n, unsigned percent);

/* The same as stats_of for the n ratios a[i] / b[i], for pairs measured one after the other (A/B),
 * whose common noise cancels. b[i] is not 0. */
void stats_of_ratio(const double *a, const double *b, size_t n, struct stats *out);

/* Returns the k (from 1) of the interval for n samples, and its coverage. */
size_t stats_rank(size_t n, int64_t *coverage_ppm);

/* Returns half the interval's width over the median, in ppm; INT64_MAX if the median is 0 or
 * coverage is below 95%. */
int64_t stats_spread_ppm(const struct stats *s);

#endif
