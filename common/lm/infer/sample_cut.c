/* sample_cut.c - a histogram of the weights over the range of the logits finds the bucket in which
 * they add up to what is needed; of the logits of this bucket another one, over a range that is
 * narrower, and so on until they are few, which are sorted, or all equal. */
#include "common/lm/infer/sample_cut.h"

#include <math.h>
#include <stdlib.h>

#define BUCKETS 512
#define LANES   4 /* additions to one bucket that do not wait for each other */
#define FEW     SCAN_BLOCK

/* How the logits from low to high are spread over buckets, the largest first. */
struct range {
	double low, high, per_unit;
};

static struct range range_of(const float *x, uint32_t n)
{
	float low = x[0], high = x[0];

	for (uint32_t i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	return (struct range){ low, high, BUCKETS / ((double)high - (double)low) };
}

/* A larger logit never has a later bucket. The largest has the first and the smallest the last. */
static int bucket_of(float x, const struct range *r)
{
	int b = (int)((r->high - x) * r->per_unit);

	return b < BUCKETS ? b : BUCKETS - 1;
}

static void tally(double sums[BUCKETS], const float *x, uint32_t n, const struct range *r,
	const struct scan *how, bool by_count)
{
	double share[SCAN_BLOCK], lanes[BUCKETS][LANES] = { 0 };

	for (uint32_t i = 0; i < SCAN_BLOCK; i++)
		share[i] = 1;
	for (uint32_t first = 0; first < n; first += SCAN_BLOCK) {
		uint32_t size = n - first < SCAN_BLOCK ? n - first : SCAN_BLOCK;

		if (!by_count)
			scan_shares(share, x + first, size, how);
		for (uint32_t i = 0; i < size; i++)
			lanes[bucket_of(x[first + i], r)][i % LANES] += share[i];
	}
	for (int b = 0; b < BUCKETS; b++)
		sums[b] = (lanes[b][0] + lanes[b][1]) + (lanes[b][2] + lanes[b][3]);
}

/* Returns the bucket in which the sums reach *needed, or the last with a sum; takes the sums before
 * it from *needed. */
static int find(const double sums[BUCKETS], double *needed)
{
	int b = 0, last = BUCKETS - 1;

	while (last && sums[last] <= 0)
		last--;
	while (b < last && sums[b] < *needed)
		*needed -= sums[b++];
	return b;
}

static uint32_t keep_bucket(float *to, const float *x, uint32_t n, const struct range *r,
	int bucket)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		float v = x[i];

		to[kept] = v;
		kept += bucket_of(v, r) == bucket;
	}
	return kept;
}

static int descending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x < y) - (x > y);
}

static struct cut cut_sorted(const float *x, uint32_t n, const struct scan *how,
	double needed, bool by_count)
{
	double share[SCAN_BLOCK], taken = 0;
	struct cut cut = { 0 };
	float sorted[FEW];

	for (uint32_t i = 0; i < n; i++)
		sorted[i] = x[i];
	qsort(sorted, n, sizeof *sorted, descending);
	scan_shares(share, sorted, n, how);
	for (uint32_t i = 0; i < n && (i == 0 || taken < needed); i++) {
		taken += by_count ? 1 : share[i];
		cut.equal = i && sorted[i] == cut.logit ? cut.equal + 1 : 1;
		cut.logit = sorted[i];
	}
	return cut;
}

/* All n logits are this one. */
static struct cut cut_equal(float logit, uint32_t n, const struct scan *how,
	double needed, bool by_count)
{
	double share[SCAN_BLOCK] = { 1 }, count;

	if (!by_count)
		scan_shares(share, &logit, 1, how);
	count = ceil(needed / share[0]);
	return (struct cut){ .logit = logit,
		.equal = !(count > 1) ? 1 :
			count < n     ? (uint32_t)count :
					n };
}

struct cut cut_at(float *spare, const float *x, uint32_t n, const struct scan *how,
	double needed, bool by_count)
{
	while (n > FEW) {
		struct range r = range_of(x, n);
		double sums[BUCKETS];

		if (!(r.high > r.low))
			return cut_equal(x[0], n, how, needed, by_count);
		tally(sums, x, n, &r, how, by_count);
		n = keep_bucket(spare, x, n, &r, find(sums, &needed));
		x = spare;
	}
	return cut_sorted(x, n, how, needed, by_count);
}

uint32_t cut_apply(struct cut cut, float *x, uint32_t *ids, uint32_t n)
{
	uint32_t kept = 0, equal = 0;

	for (uint32_t i = 0; i < n; i++) {
		float v = x[i];
		bool is_equal = v == cut.logit;

		x[kept] = v;
		ids[kept] = ids[i];
		kept += (v > cut.logit) | (is_equal & (equal < cut.equal));
		equal += is_equal;
	}
	return kept;
}
