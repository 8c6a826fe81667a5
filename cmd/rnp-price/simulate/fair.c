/* fair.c - solves the linear programs of fair.h with a barrier method.
 *
 * Newton's method minimises -tau t minus the logarithms of all slacks, a class counting as often
 * as it has jobs, for growing tau (Boyd and Vandenberghe, Convex Optimization, 11.3). Classes
 * meet only in t and in the capacities, so that a step costs one small matrix for each class and
 * one system of as many unknowns as there are models, and one. */
#include "cmd/rnp-price/simulate/fair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define J            FAIR_MODELS_MAX
#define TAU_GROWTH   20.0
#define STEPS_MAX    60   /* of Newton, for one tau */
#define DECREMENT_OK 1e-6 /* its square, at which a tau is done */
#define TO_BORDER    0.99 /* of the way to the next constraint, at most */

struct solver {
	struct fair_class *c;
	size_t n;
	const double *capacity;
	int models;
	double t, tau;
	double left[J]; /* slack of the capacities */
	struct row {
		double idle, over; /* slack of the time, and of the rate over t */
		double dx[J], didle, dover;
	} * rows;
	double dt, dleft[J];
};

/* --- slacks --------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int n)
{
	double s = 0;

	for (int j = 0; j < n; j++)
		s += a[j] * b[j];
	return s;
}

static double sum(const double *a, int n)
{
	double s = 0;

	for (int j = 0; j < n; j++)
		s += a[j];
	return s;
}

static void find_slacks(struct solver *s)
{
	memcpy(s->left, s->capacity, (size_t)s->models * sizeof *s->left);
	for (size_t i = 0; i < s->n; i++) {
		struct fair_class *c = &s->c[i];

		s->rows[i].idle = 1 - sum(c->x, s->models);
		s->rows[i].over = dot(c->rate, c->x, s->models) - s->t;
		for (int j = 0; j < s->models; j++)
			s->left[j] -= c->jobs * c->gpus * c->x[j];
	}
}

/* Half of what fits, the same for everybody. */
static void start(struct solver *s)
{
	double wanted = 0, least = INFINITY;

	for (size_t i = 0; i < s->n; i++)
		wanted += s->c[i].jobs * s->c[i].gpus;
	for (size_t i = 0; i < s->n; i++) {
		struct fair_class *c = &s->c[i];

		for (int j = 0; j < s->models; j++)
			c->x[j] = 0.5 * fmin(1.0 / s->models, s->capacity[j] / wanted);
		least = fmin(least, dot(c->rate, c->x, s->models));
	}
	s->t = least / 2;
}

/* --- a step of Newton ----------------------------------------------------------------------- */

/* The block of one class is M = D + b 11' + k rr', D diagonal: two rank-one updates, inverted
 * with Sherman and Morrison's formula. */
struct block {
	double d[J]; /* 1 / D */
	double b, ones, k;
	double z[J]; /* (D + b 11')^-1 r */
	double rho;  /* r'z */
};

/* out = (D + b 11')^-1 y */
static void solve_inner(const struct block *m, const double *y, double *out, int n)
{
	double s = 0;

	for (int j = 0; j < n; j++) {
		out[j] = m->d[j] * y[j];
		s += out[j];
	}
	s /= 1 / m->b + m->ones;
	for (int j = 0; j < n; j++)
		out[j] -= m->d[j] * s;
}

static void make_block(struct block *m, const struct solver *s, size_t i)
{
	const struct fair_class *c = &s->c[i];

	m->ones = 0;
	for (int j = 0; j < s->models; j++) {
		m->d[j] = c->x[j] * c->x[j] / c->jobs;
		m->ones += m->d[j];
	}
	m->b = c->jobs / (s->rows[i].idle * s->rows[i].idle);
	m->k = c->jobs / (s->rows[i].over * s->rows[i].over);
	solve_inner(m, c->rate, m->z, s->models);
	m->rho = dot(c->rate, m->z, s->models);
}

/* y = M^-1 y */
static void solve_block(const struct block *m, const double *rate, double *y, int n)
{
	double s, w[J];

	solve_inner(m, y, w, n);
	s = dot(rate, w, n) * m->k / (1 + m->k * m->rho);
	for (int j = 0; j < n; j++)
		y[j] = w[j] - m->z[j] * s;
}

static void gradient(const struct solver *s, size_t i, double *g)
{
	const struct fair_class *c = &s->c[i];

	for (int j = 0; j < s->models; j++)
		g[j] = -c->jobs / c->x[j] + c->jobs / s->rows[i].idle -
			c->jobs * c->rate[j] / s->rows[i].over +
			c->jobs * c->gpus / s->left[j];
}

/* Gauss's elimination with pivots; the solution replaces b. */
static void solve_dense(double a[J + 1][J + 1], double *b, int n)
{
	for (int k = 0; k < n; k++) {
		int p = k;

		for (int i = k + 1; i < n; i++)
			if (fabs(a[i][k]) > fabs(a[p][k]))
				p = i;
		for (int j = 0; j < n; j++) {
			double v = a[k][j];

			a[k][j] = a[p][j];
			a[p][j] = v;
		}
		for (double v = b[k]; p != k; p = k) {
			b[k] = b[p];
			b[p] = v;
		}
		for (int i = k + 1; i < n; i++) {
			double f = a[i][k] / a[k][k];

			for (int j = k; j < n; j++)
				a[i][j] -= f * a[k][j];
			b[i] -= f * b[k];
		}
	}
	for (int k = n; k--;) {
		for (int j = k + 1; j < n; j++)
			b[k] -= a[k][j] * b[j];
		b[k] /= a[k][k];
	}
}

/* Adds what a class contributes to the system of the capacities and t. With q_j the change of
 * model j's use over its slack squared, dx = -M^-1 (g + m dt + u q), where m = -k r and u is
 * how many GPUs the class takes. */
static void add_class(const struct solver *s, size_t i, double a[J + 1][J + 1], double *b)
{
	const struct fair_class *c = &s->c[i];
	double u = c->jobs * c->gpus, g[J], f;
	int n = s->models;
	struct block m;

	make_block(&m, s, i);
	gradient(s, i, g);
	f = m.k / (1 + m.k * m.rho);
	for (int j = 0; j < n; j++) {
		double e[J] = { 0 };

		e[j] = 1;
		solve_block(&m, c->rate, e, n);
		for (int l = 0; l < n; l++)
			a[l][j] += u * u * e[l];
		a[j][n] -= u * f * m.z[j];
		a[n][j] += u * f * m.z[j];
	}
	a[n][n] += f; /* k - m'M^-1 m without the difference of two large numbers */
	b[n] -= dot(m.z, g, n) * f + c->jobs / s->rows[i].over;
	solve_block(&m, c->rate, g, n);
	for (int j = 0; j < n; j++)
		b[j] -= u * g[j];
}

/* Finds the direction of Newton. Returns the decrement's square. */
static double find_direction(struct solver *s)
{
	double a[J + 1][J + 1] = { { 0 } }, b[J + 1] = { 0 }, decrement;
	int n = s->models;

	b[n] = s->tau;
	for (int j = 0; j < n; j++)
		a[j][j] = s->left[j] * s->left[j];
	for (size_t i = 0; i < s->n; i++)
		add_class(s, i, a, b);
	solve_dense(a, b, n + 1);
	s->dt = b[n];
	decrement = s->tau * s->dt;
	memset(s->dleft, 0, sizeof s->dleft);
	for (size_t i = 0; i < s->n; i++) {
		const struct fair_class *c = &s->c[i];
		struct row *r = &s->rows[i];
		struct block m;
		double g[J];

		make_block(&m, s, i);
		gradient(s, i, g);
		for (int j = 0; j < n; j++)
			r->dx[j] = -g[j] + m.k * c->rate[j] * s->dt -
				c->jobs * c->gpus * b[j];
		solve_block(&m, c->rate, r->dx, n);
		r->didle = -sum(r->dx, n);
		r->dover = dot(c->rate, r->dx, n) - s->dt;
		decrement -= dot(g, r->dx, n) + c->jobs * s->dt / r->over;
		for (int j = 0; j < n; j++)
			s->dleft[j] -= c->jobs * c->gpus * r->dx[j];
	}
	return decrement;
}

/* --- along it ------------------------------------------------------------------------------- */

static double longest_step(const struct solver *s)
{
	double most = 0; /* the fastest that a slack shrinks */

	for (int j = 0; j < s->models; j++)
		most = fmax(most, -s->dleft[j] / s->left[j]);
	for (size_t i = 0; i < s->n; i++) {
		const struct row *r = &s->rows[i];

		most = fmax(most, fmax(-r->didle / r->idle, -r->dover / r->over));
		for (int j = 0; j < s->models; j++)
			most = fmax(most, -r->dx[j] / s->c[i].x[j]);
	}
	return most > TO_BORDER ? TO_BORDER / most : 1;
}

/* By how much the function of the barrier changes with this step. */
static double change(const struct solver *s, double step)
{
	double f = -s->tau * s->dt * step;

	for (int j = 0; j < s->models; j++)
		f -= log1p(step * s->dleft[j] / s->left[j]);
	for (size_t i = 0; i < s->n; i++) {
		const struct row *r = &s->rows[i];
		double logs = log1p(step * r->didle / r->idle) +
			log1p(step * r->dover / r->over);

		for (int j = 0; j < s->models; j++)
			logs += log1p(step * r->dx[j] / s->c[i].x[j]);
		f -= s->c[i].jobs * logs;
	}
	return f;
}

/* Goes to the minimum for this tau, as far as rounding lets it. */
static void descend(struct solver *s)
{
	for (int k = 0; k < STEPS_MAX; k++) {
		double decrement = find_direction(s), step;

		if (!(decrement > DECREMENT_OK))
			return;
		for (step = longest_step(s);
			step > 1e-9 && change(s, step) > -0.1 * step * decrement;)
			step /= 2;
		if (!(step > 1e-9))
			return;
		s->t += step * s->dt;
		for (size_t i = 0; i < s->n; i++)
			for (int j = 0; j < s->models; j++)
				s->c[i].x[j] += step * s->rows[i].dx[j];
		find_slacks(s);
	}
}

double fair_allocate(struct fair_class *c, size_t n, const double *capacity, int models)
{
	struct solver s = { .c = c, .n = n, .capacity = capacity, .models = models };
	double constraints = models;

	s.rows = xcalloc(n, sizeof *s.rows);
	for (size_t i = 0; i < n; i++)
		constraints += c[i].jobs * (models + 2);
	start(&s);
	find_slacks(&s);
	/* the gap of the minimum for tau is constraints / tau */
	for (s.tau = constraints / s.t;; s.tau *= TAU_GROWTH) {
		descend(&s);
		if (constraints / s.tau < FAIR_GAP * s.t)
			break;
	}
	free(s.rows);
	return s.t;
}
