/* stats.c - computes medians and their intervals from order statistics. */
#include "common/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns log P(i heads in n fair coins), by lgamma_r because lgamma writes a global. */
static double log_share(size_t n, size_t i)
{
	int sign;

	return lgamma_r((double)n + 1, &sign) - lgamma_r((double)i + 1, &sign) -
		lgamma_r((double)(n - i) + 1, &sign) - (double)n * log(2);
}

size_t stats_rank(size_t n, int64_t *coverage_ppm)
{
	const double tail_max = (1e6 - STATS_COVERAGE_PPM) / 2e6;
	double tail = exp(log_share(n, 0)); /* P(fewer than k samples below the median) */
	size_t k = 1;

	while (k < n / 2) {
		double next = tail + exp(log_share(n, k));

		/* the slack keeps exact ties (none below 2^53) independent of lgamma's last bit */
		if (next > tail_max * (1 + 1e-12))
			break;
		tail = next;
		k++;
	}
	*coverage_ppm = tail < 0.5 ? (int64_t)((1 - 2 * tail) * 1e6) : 0;
	return k;
}

/* Sorts the array in place. */
static void from_unsorted(double *x, size_t n, struct stats *out)
{
	size_t k = stats_rank(n, &out->coverage_ppm);

	qsort(x, n, sizeof *x, compare);
	out->n = n;
	out->median = n % 2 ? x[n / 2] : x[n / 2 - 1] + (x[n / 2] - x[n / 2 - 1]) / 2;
	out->low = x[k - 1];
	out->high = x[n - k];
}

double stats_percentile(const double *samples, size_t n, unsigned percent)
{
	double *x = xmalloc(n * sizeof *x), at;

	memcpy(x, samples, n * sizeof *x);
	qsort(x, n, sizeof *x, compare);
	at = x[(n * percent + 99) / 100 - 1];
	free(x);
	return at;
}

void stats_of(const double *samples, size_t n, struct stats *out)
{
	double *x = xmalloc(n * sizeof *x);

	memcpy(x, samples, n * sizeof *x);
	from_unsorted(x, n, out);
	free(x);
}

void stats_of_ratio(const double *a, const double *b, size_t n, struct stats *out)
{
	double *x = xmalloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = a[i] / b[i];
	from_unsorted(x, n, out);
	free(x);
}

int64_t stats_spread_ppm(const struct stats *s)
{
	double spread;

	if (s->coverage_ppm < STATS_COVERAGE_PPM || s->median == 0)
		return INT64_MAX;
	spread = (s->high - s->low) / 2 / fabs(s->median) * 1e6;
	return spread < 1e15 ? (int64_t)ceil(spread) : INT64_MAX;
}
