/* init.c - random initial parameters, which depend on seed and position alone. */
#include "common/lm/model/init.h"

#include <math.h>

#include "common/base/rng.h"

#define DEVIATION      0.02
#define PIECE_ELEMENTS ((uint64_t)1 << 14) /* elements per thread */

/* Returns the natural logarithm of 0 < x < 1: x is m 2^e with m about 1, and ln m is the series
 * of 2 artanh((m - 1) / (m + 1)), whose terms shrink by a factor of 34 each; 11 of them are
 * good to 1e-17. */
static double logarithm(double x)
{
	int e;
	double m = frexp(x, &e), z, square, sum = 0;

	if (m < 0.70710678118654752440) {
		m *= 2;
		e--;
	}
	z = (m - 1) / (m + 1);
	square = z * z;
	for (int k = 21; k > 0; k -= 2)
		sum = sum * square + 1.0 / k;
	return 2 * z * sum + e * 0.69314718055994530942;
}

double lm_init_quantile(double p)
{
	double q = p - 0.5, r = q < 0 ? p : 1 - p, x;

	if (fabs(q) <= 0.425) {
		r = 0.180625 - q * q;
		return q *
			(((59.109374720 * r + 159.29113202) * r + 50.434271938) * r +
				3.3871327179) /
			(((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1);
	}
	r = sqrt(-logarithm(r));
	if (r <= 5) {
		r -= 1.6;
		x = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r +
			    1.4234372777) /
			((0.12021132975 * r + 0.73700164250) * r + 1);
	} else {
		r -= 5;
		x = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r +
			    6.6579051150) /
			((0.012258202635 * r + 0.24197894225) * r + 1);
	}
	return q < 0 ? -x : x;
}

/* Fills elements from..from + count of sequence i. */
static void fill_normal(float *to, double deviation, uint64_t seed, uint32_t i,
	uint64_t from, uint64_t count)
{
	struct rng r;

	rng_seed(&r, seed, i);
	rng_seek(&r, from / 2);
	if (from % 2)
		(void)rng_u64(&r);
	for (uint64_t k = 0; k < count; k++) {
		/* the middle of one of 2^52 steps: never 0, never 1 */
		double u = ((double)(rng_u64(&r) >> 12) + 0.5) * 0x1p-52;

		to[k] = (float)(deviation * lm_init_quantile(u));
	}
}

void lm_init_read(float *to, const struct lm_config *c, uint64_t seed, uint32_t i,
	uint64_t from, uint64_t count)
{
	int64_t pieces = (int64_t)((count + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS);
	double deviation = DEVIATION;
	struct lm_place p;

	lm_layout_at(c, i, &p);
	if (p.dims == 1) {
		bool norm = p.part == LM_ATTN_NORM || p.part == LM_FFN_NORM ||
			p.part == LM_OUT_NORM;

		for (uint64_t k = 0; k < count; k++)
			to[k] = norm ? 1 : 0;
		return;
	}
	if (p.part == LM_O || p.part == LM_DOWN)
		deviation /= sqrt(2.0 * c->layers);
#pragma omp parallel for if (pieces > 1)
	for (int64_t piece = 0; piece < pieces; piece++) {
		uint64_t at = (uint64_t)piece * PIECE_ELEMENTS;

		fill_normal(to + at, deviation, seed, i, from + at,
			count - at < PIECE_ELEMENTS ? count - at : PIECE_ELEMENTS);
	}
}
