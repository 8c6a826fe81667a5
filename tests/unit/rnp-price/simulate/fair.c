/* fair.c - shares of time on several GPU models: the paper's example, and random programs against
 * a plain simplex. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/simulate/fair.h"

#include <math.h>

#include "common/base/rng.h"
#include "tests/unit/test.h"

#define CLASSES 6
#define MODELS  3
#define ROWS    (2 * CLASSES + MODELS)
#define COLUMNS (CLASSES * MODELS + 1 + ROWS + 1) /* x, t, slacks, right side */

static double tableau[ROWS + 1][COLUMNS];

/* Takes column k into the basis in place of row r's. */
static void pivot(int rows, int r, int k)
{
	double by = tableau[r][k];

	for (int j = 0; j < COLUMNS; j++)
		tableau[r][j] /= by;
	for (int i = 0; i <= rows; i++) {
		double f = tableau[i][k];

		for (int j = 0; i != r && f != 0 && j < COLUMNS; j++)
			tableau[i][j] -= f * tableau[r][j];
	}
}

/* The largest of the last row's objective, by Bland's rule, from the origin. */
static double simplex(int rows)
{
	int basis[ROWS], k, r;

	for (int i = 0; i < rows; i++)
		basis[i] = CLASSES * MODELS + 1 + i;
	for (;;) {
		for (k = 0; k < COLUMNS - 1 && tableau[rows][k] > -1e-11; k++)
			;
		if (k == COLUMNS - 1)
			return tableau[rows][COLUMNS - 1];
		r = -1;
		for (int i = 0; i < rows; i++) {
			double a = i < rows ? tableau[i][k] : 0, q, best;

			if (a < 1e-11)
				continue;
			q = tableau[i][COLUMNS - 1] / a;
			best = r < 0 ? 0 : tableau[r][COLUMNS - 1] / tableau[r][k];
			if (r < 0 || q < best || (q == best && basis[i] < basis[r]))
				r = i;
		}
		if (r < 0)
			return INFINITY; /* not bounded: none of ours */
		pivot(rows, r, k);
		basis[r] = k;
	}
}

static double optimum(const struct fair_class *c, int n, const double *capacity)
{
	int t = CLASSES * MODELS, rows = 2 * n + MODELS;

	memset(tableau, 0, sizeof tableau);
	for (int i = 0; i < rows; i++)
		tableau[i][t + 1 + i] = 1;
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < MODELS; j++) {
			int x = i * MODELS + j;

			tableau[i][x] = 1;
			tableau[n + i][x] = -c[i].rate[j];
			tableau[2 * n + j][x] = c[i].jobs * c[i].gpus;
		}
		tableau[i][COLUMNS - 1] = 1;
		tableau[n + i][t] = 1;
	}
	for (int j = 0; j < MODELS; j++)
		tableau[2 * n + j][COLUMNS - 1] = capacity[j];
	tableau[rows][t] = -1;
	return simplex(rows);
}

/* Nobody gets more time than there is, no model gives more, and the least is what was said. */
static void check_shares(const struct fair_class *c, int n, const double *capacity,
	int models, double t)
{
	double used[MODELS] = { 0 }, least = INFINITY;

	for (int i = 0; i < n; i++) {
		double time = 0, got = 0;

		for (int j = 0; j < models; j++) {
			CHECK(c[i].x[j] >= 0);
			time += c[i].x[j];
			got += c[i].x[j] * c[i].rate[j];
			used[j] += c[i].jobs * c[i].gpus * c[i].x[j];
		}
		CHECK(time <= 1);
		least = fmin(least, got);
	}
	for (int j = 0; j < models; j++)
		CHECK(used[j] <= capacity[j] * (1 + 1e-12));
	CHECK(least >= t * (1 - 1e-9));
}

/* Gavel's example, section 4.1: jobs that are 4, 3 and 2 times as fast on a V100 as on a K80, one
 * of each; the paper prints the optimum as {0.45, 0}, {0.45, 0.09}, {0.09, 0.91}. */
static void test_paper(void)
{
	double fast[] = { 4, 3, 2 }, capacity[] = { 1, 1 };
	double shares[3][2] = { { .45, 0 }, { .45, .09 }, { .09, .91 } };
	struct fair_class c[3];
	double t;

	for (int i = 0; i < 3; i++)
		c[i] = (struct fair_class){ .jobs = 1,
			.gpus = 1,
			.rate = { fast[i] / ((fast[i] + 1) / 2),
				1 / ((fast[i] + 1) / 2) } };
	t = fair_allocate(c, 3, capacity, 2);
	check_shares(c, 3, capacity, 2, t);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++)
			CHECK(fabs(c[i].x[j] - shares[i][j]) < 0.006);
}

/* 500 programs of all shapes: too few jobs, too many, models on which some cannot run. */
static void test_random(void)
{
	struct rng r;

	rng_seed(&r, 1, 2);
	for (int k = 0; k < 500; k++) {
		struct fair_class c[CLASSES] = { { 0 } };
		double capacity[MODELS], t, best;
		int n = 1 + (int)rng_below(&r, CLASSES);

		for (int j = 0; j < MODELS; j++)
			capacity[j] = 1 + (double)rng_below(&r, k % 2 ? 4 : 40);
		for (int i = 0; i < n; i++) {
			c[i].jobs = 1 + (double)rng_below(&r, k % 3 ? 3 : 300);
			c[i].gpus = (double)(1 << rng_below(&r, 4));
			for (int j = 0; j < MODELS; j++)
				c[i].rate[j] = rng_below(&r, 4) && j ?
					0 :
					0.01 + 10 * rng_f64(&r);
			if (k % 2)
				c[i].rate[rng_below(&r, MODELS)] = 1;
		}
		best = optimum(c, n, capacity);
		t = fair_allocate(c, (size_t)n, capacity, MODELS);
		check_shares(c, n, capacity, MODELS, t);
		CHECK(fabs(t - best) <= 2e-6 * best);
	}
}

/* Equal jobs share equally, and identical ones are one class or two. */
static void test_classes(void)
{
	struct fair_class one[1] = { { .jobs = 40, .gpus = 2, .rate = { 1, .5 } } },
			  two[2];
	double capacity[] = { 30, 10 }, a, b;

	two[0] = two[1] = one[0];
	two[0].jobs = 13;
	two[1].jobs = 27;
	a = fair_allocate(one, 1, capacity, 2);
	b = fair_allocate(two, 2, capacity, 2);
	CHECK(fabs(a - b) < 1e-6 * a);
	CHECK(fabs(a - (30 + 5) / 80.0) < 1e-6);
	CHECK(fabs(two[0].x[0] - two[1].x[0]) < 1e-4 &&
		fabs(two[0].x[0] - one[0].x[0]) < 1e-4);
}

int main(void)
{
	test_paper();
	test_random();
	test_classes();
	return test_failures != 0;
}
