/* aggregate.c - each rule is a direct evaluation of its formula in double, whatever
 * the chunks, the threads and the order in which deltas came; a rule holds against what it is
 * there for. */
#include "common/lm/rounds/aggregate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/base/rng.h"
#include "common/lm/rounds/aggregate_x86.h"
#include "common/lm/rounds/outer.h"
#include "tests/unit/test.h"

enum { N = 3 * AGGREGATE_BLOCK + 77, K = 10 };

static float deltas[K][N], last[N];
static const uint64_t tokens[K] = { 5, 3, 8, 1, 2, 2, 7, 4, 9, 6 };

/* Deltas about a common direction; the last two are outliers. */
static void make_deltas(void)
{
	struct rng rng;

	rng_seed(&rng, 7, 0);
	for (int i = 0; i < N; i++) {
		double common = rng_f64(&rng) - 0.5;

		last[i] = (float)(common + 0.2 * rng_f64(&rng));
		for (int k = 0; k < K; k++)
			deltas[k][i] = (float)(common + rng_f64(&rng) - 0.5) *
				(k == 8                ? 100.f :
						k == 9 ? -3.f :
							 1.f);
	}
}

/* d by the interface, in chunks of `step` elements. */
static void aggregated(double *d, struct aggregate *a, const char *rule, size_t k,
	const float *const *x, const uint64_t *t, uint64_t step)
{
	struct aggregate_rule r;
	const float *chunk[K];

	CHECK(aggregate_parse(&r, rule) == 0);
	CHECK(aggregate_begin(a, &r, t, k) == 0);
	for (bool looks = true; looks;) {
		looks = aggregate_looks(a);
		for (uint64_t at = 0; at < N; at += step) {
			uint64_t n = N - at < step ? N - at : step;

			for (size_t j = 0; j < k; j++)
				chunk[j] = x[j] + at;
			if (looks)
				aggregate_look(a, chunk, last + at, n);
			else
				aggregate_chunk(a, d + at, chunk, last + at, n);
		}
		if (looks)
			aggregate_look_end(a);
		else
			aggregate_end(a);
	}
}

/* --- direct evaluations --------------------------------------------------------------------- */

static double weight(size_t i)
{
	double sum = 0;

	for (int k = 0; k < K; k++)
		sum += (double)tokens[k];
	return (double)tokens[i] / sum;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(const double *v)
{
	double s[K];

	memcpy(s, v, sizeof s);
	qsort(s, K, sizeof *s, ascending);
	return (s[K / 2 - 1] + s[K / 2]) / 2;
}

static void direct_mean(double *d)
{
	for (int i = 0; i < N; i++) {
		d[i] = 0;
		for (int k = 0; k < K; k++)
			d[i] += weight((size_t)k) * (double)deltas[k][i];
	}
}

static void direct_clip(double *d)
{
	double norm[K];

	for (int k = 0; k < K; k++) {
		norm[k] = 0;
		for (int i = 0; i < N; i++)
			norm[k] += (double)deltas[k][i] * (double)deltas[k][i];
		norm[k] = sqrt(norm[k]);
	}
	for (int i = 0; i < N; i++) {
		d[i] = 0;
		for (int k = 0; k < K; k++)
			d[i] += weight((size_t)k) * (double)deltas[k][i] *
				fmin(1, median_of(norm) / norm[k]);
	}
}

static void direct_trimmed(double *d)
{
	for (int i = 0; i < N; i++) {
		double sum = 0, all = 0;

		for (int k = 0; k < K; k++) {
			int below = 0, above = 0;

			for (int j = 0; j < K; j++) {
				below += deltas[j][i] < deltas[k][i];
				above += deltas[j][i] > deltas[k][i];
			}
			if (below < 2 || above < 2) /* floor(0.25 * 10) */
				continue;
			sum += weight((size_t)k) * (double)deltas[k][i];
			all += weight((size_t)k);
		}
		d[i] = sum / all;
	}
}

static void direct_cclip(double *c)
{
	static double move[N];

	for (int i = 0; i < N; i++)
		c[i] = (double)last[i];
	for (int round = 0; round < 3; round++) {
		double dist[K];

		for (int k = 0; k < K; k++) {
			dist[k] = 0;
			for (int i = 0; i < N; i++)
				dist[k] += pow((double)deltas[k][i] - c[i], 2);
			dist[k] = sqrt(dist[k]);
		}
		for (int i = 0; i < N; i++) {
			move[i] = 0;
			for (int k = 0; k < K; k++)
				move[i] += weight((size_t)k) *
					((double)deltas[k][i] - c[i]) *
					fmin(1, median_of(dist) / dist[k]);
		}
		for (int i = 0; i < N; i++)
			c[i] += move[i];
	}
}

static void direct_krum(double *d)
{
	double score[K], all = 0;
	int rank[K];

	for (int k = 0; k < K; k++) {
		double dist[K];

		score[k] = 0;
		for (int j = 0; j < K; j++) {
			dist[j] = 0;
			for (int i = 0; i < N; i++)
				dist[j] += pow((double)deltas[k][i] -
						(double)deltas[j][i],
					2);
			dist[j] = sqrt(dist[j]);
		}
		qsort(dist, K, sizeof *dist, ascending);
		for (int j = 1; j <= K - 2 - 2; j++) /* the first is its own */
			score[k] += dist[j];
	}
	for (int k = 0; k < K; k++) {
		rank[k] = 0;
		for (int j = 0; j < K; j++)
			rank[k] += score[j] < score[k];
		if (rank[k] < K - 2)
			all += weight((size_t)k);
	}
	for (int i = 0; i < N; i++) {
		d[i] = 0;
		for (int k = 0; k < K; k++)
			if (rank[k] < K - 2)
				d[i] += weight((size_t)k) / all * (double)deltas[k][i];
	}
}

static double want[N], got[N], other[N];

static bool near_to(const double *a, const double *b)
{
	double max = 0, scale = 0;

	for (int i = 0; i < N; i++) {
		max = fmax(max, fabs(a[i] - b[i]));
		scale = fmax(scale, fabs(b[i]));
	}
	return max <= 1e-12 * scale;
}

static const struct {
	const char *name;
	void (*direct)(double *);
} rules[] = { { "mean", direct_mean }, { "clip", direct_clip },
	{ "trimmed:0.25", direct_trimmed }, { "cclip", direct_cclip },
	{ "krum:2", direct_krum } };
#define RULES (sizeof rules / sizeof *rules)

static void in_order(const float **x)
{
	for (int k = 0; k < K; k++)
		x[k] = deltas[k];
}

static void formulas(void)
{
	const float *x[K];

	in_order(x);
	for (size_t r = 0; r < RULES; r++) {
		struct aggregate a = AGGREGATE_INIT;
		double norm = 0, dot = 0, d_norm = 0;

		rules[r].direct(want);
		aggregated(got, &a, rules[r].name, K, x, tokens, N);
		CHECK(near_to(got, want));
		for (int i = 0; i < N; i++) {
			norm += (double)deltas[3][i] * (double)deltas[3][i];
			dot += (double)deltas[3][i] * got[i];
			d_norm += got[i] * got[i];
		}
		CHECK(fabs(a.norm[3] - sqrt(norm)) < 1e-9 * sqrt(norm));
		CHECK(fabs(a.d_norm - sqrt(d_norm)) < 1e-9 * sqrt(d_norm));
		CHECK(fabs((double)aggregate_cosine_ppm(&a, 3) -
			      1e6 * dot / sqrt(norm * d_norm)) <= 0.51);
		aggregate_release(&a);
	}
}

/* The bits are those of the whole, for chunks of any size and any number of threads. */
static void chunks_and_threads(void)
{
	static const uint64_t steps[] = { AGGREGATE_BLOCK, 2 * AGGREGATE_BLOCK };
	const float *x[K];

	in_order(x);
	for (size_t r = 0; r < RULES; r++) {
		struct aggregate a = AGGREGATE_INIT, b = AGGREGATE_INIT;

		aggregated(want, &a, rules[r].name, K, x, tokens, N);
		for (int i = 0; i < 4; i++) {
#ifdef _OPENMP
			omp_set_num_threads(1 + i);
#endif
			aggregated(other, &b, rules[r].name, K, x, tokens, steps[i % 2]);
			CHECK(memcmp(want, other, sizeof want) == 0);
			CHECK(memcmp(a.norm, b.norm, K * sizeof *a.norm) == 0);
			aggregate_release(&b);
		}
		aggregate_release(&a);
	}
}

/* Trimming and choosing do not depend on the order of members, up to the rounding of sums. */
static void permuted(void)
{
	const float *x[K];
	uint64_t t[K];

	for (size_t r = 0; r < RULES; r++) {
		struct aggregate a = AGGREGATE_INIT;

		rules[r].direct(want);
		for (int k = 0; k < K; k++) {
			x[k] = deltas[(3 * k + 4) % K];
			t[k] = tokens[(3 * k + 4) % K];
		}
		aggregated(got, &a, rules[r].name, K, x, t, N);
		CHECK(near_to(got, want));
		aggregate_release(&a);
	}
}

/* Equal values at the edges of what is trimmed: they share what is left of them. */
static void ties(void)
{
	static const uint64_t even[K] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	static float zeros[K][N];
	const float *x[K];
	struct aggregate a = AGGREGATE_INIT;

	for (int k = 0; k < K; k++)
		x[k] = zeros[k];
	zeros[2][0] = 1;
	zeros[3][0] = 1;
	zeros[4][0] = 1; /* two of the three are trimmed */
	zeros[5][1] = -8;
	aggregated(got, &a, "trimmed:0.25", K, x, even, N);
	CHECK(fabs(got[0] - 1.0 / 6) < 1e-15);
	CHECK(got[1] == 0 && got[2] == 0);
	CHECK(a.norm[0] == 0 && aggregate_cosine_ppm(&a, 0) == 0);
	aggregate_release(&a);
}

/* One that sends numbers a hundred times too large, of ten, moves d little. */
static void holds(void)
{
	const float *x[K];
	double honest = 0, harm[RULES] = { 0 };

	in_order(x);
	for (size_t r = 0; r < RULES; r++) {
		struct aggregate a = AGGREGATE_INIT;

		aggregated(got, &a, rules[r].name, K, x, tokens, N);
		for (int i = 0; i < N; i++)
			harm[r] += pow(got[i] - (double)last[i], 2);
		aggregate_release(&a);
	}
	for (int i = 0; i < N; i++)
		honest += pow((double)deltas[0][i] - (double)last[i], 2);
	CHECK(harm[0] > 10 * honest); /* the mean does not hold */
	for (size_t r = 1; r < RULES; r++)
		CHECK(harm[r] < honest);
}

static void names(void)
{
	static const char *const bad[] = { "", "median", "meanest", "mean:1",
		"clip:", "trimmed:0.5", "trimmed:-1", "trimmed:nan", "trimmed:x", "krum",
		"krum:0", "krum:1.5", "cclip:3" };
	static const char *const good[] = { "mean", "clip", "trimmed:0.25", "trimmed:0",
		"cclip", "krum:2" };
	struct aggregate_rule r;
	struct aggregate a;
	char name[32];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_USAGE, aggregate_parse(&r, bad[i]));
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CHECK(aggregate_parse(&r, good[i]) == 0);
		aggregate_name(name, &r);
		CHECK_TEXT(good[i], name);
	}
	CHECK(aggregate_parse(&r, "trimmed") == 0 && r.trim == 0.25);
	CHECK(aggregate_parse(&r, "krum:4") == 0);
	CHECK_FAILS(EX_DATAERR, aggregate_begin(&a, &r, tokens, K));
	aggregate_release(&a);
	CHECK(aggregate_parse(&r, "mean") == 0);
	CHECK_FAILS(EX_DATAERR, aggregate_begin(&a, &r, tokens, 0));
	aggregate_release(&a);
}

/* The fast sums have the bits of the plain ones: each product and each sum rounded by itself, lane
 * by lane. */
static void fast_sums(void)
{
	enum { LEN = 133 };
	float x[LEN], y[LEN];
	double d[LEN], plain[LEN], lanes[3][8] = { { 0 } }, right[3][8] = { { 0 } };
	struct rng rng;
	uint64_t n;

	rng_seed(&rng, 5, 5);
	for (int i = 0; i < LEN; i++) {
		x[i] = (float)(rng_f64(&rng) - 0.5);
		y[i] = (float)(rng_f64(&rng) * 1e-6);
		d[i] = plain[i] = rng_f64(&rng) * 1e3;
	}
	n = aggregate_norm_and_dot_fast(x, d, LEN, lanes[0], lanes[1]);
	CHECK(n % 8 == 0 && n <= LEN);
	CHECK(aggregate_product_fast(x, y, LEN, lanes[2]) == n);
	for (uint64_t i = 0; i < n; i++) {
		right[0][i % 8] += (double)x[i] * (double)x[i];
		right[1][i % 8] += (double)x[i] * d[i];
		right[2][i % 8] += (double)x[i] * (double)y[i];
	}
	CHECK(memcmp(lanes, right, sizeof lanes) == 0);
	outer_mean_add(d, x, 0.3, LEN);
	for (uint64_t i = 0; i < LEN; i++)
		plain[i] += 0.3 * (double)x[i];
	CHECK(memcmp(d, plain, sizeof d) == 0);
}

int main(void)
{
	fast_sums();
	make_deltas();
	formulas();
	chunks_and_threads();
	permuted();
	ties();
	holds();
	names();
	TEST_END();
}
