/* fit.c - fits prices to hardware: see fit.h for the model. */
#include "cmd/rnp-price/quote/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/offers/rivals.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"

#define HUBER 1.345
/* of a normal distribution, from its median absolute deviation */
#define MAD_SIGMA 1.4826
#define ROUNDS    12 /* of reweighting; the weights of catalogues converge in about eight */
/* with something left out: the weights begin where the whole ended */
#define ROUNDS_OUT        4
#define SIGMA_MIN         0.01
#define TRIPLES           64 /* sets of three offers from which a market's level is estimated */
#define LEFT_OUT_ROWS_MAX 5000 /* with more rows, cross-validation uses a part of them */

const char *const fit_number_names[FIT_NUMBERS] = { "one", "memory", "f32", "tensor",
	"bandwidth", "gpu_count", "spot", "years", "server" };
const char *const fit_effect_names[FIT_EFFECTS] = { "market", "model", "country",
	"tier" };

/* Ridge of each number, after standardising, and of each effect: the variance of a residual
 * over that of the coefficient. Determined by cross-validation over models and markets of the
 * catalogues of RunPod, Vast and Prime: f32 adds little to the tensor cores, and each market
 * has its own discount for spot and its own premium for new chips. */
static const double number_ridge[FIT_NUMBERS] = { 0, 1, 100, 1, 1, 1, 30, 100, 1 };
static const double effect_ridge[FIT_EFFECTS] = { 0.5, 3, 3, 0.1 };

void fit_release(struct fit *f)
{
	for (size_t i = 0; i < f->ncolumns; i++)
		free(f->columns[i].name);
	free(f->columns);
	free(f->rows);
	memset(f, 0, sizeof *f);
}

/* --- rows ----------------------------------------------------------------------------------- */

int fit_find(const struct fit *f, enum fit_effect effect, const char *name)
{
	for (size_t i = FIT_NUMBERS; i < f->ncolumns; i++)
		if (f->columns[i].effect == effect &&
			strcmp(f->columns[i].name, name) == 0)
			return (int)i;
	return -1;
}

static void add_column(struct fit *f, enum fit_effect effect, const char *name)
{
	f->columns = xgrow(f->columns, &f->cap, f->ncolumns + 1, sizeof *f->columns);
	f->columns[f->ncolumns++] = (struct fit_column){ .effect = effect,
		.name = xstrdup(name) };
}

static int column_of(struct fit *f, enum fit_effect effect, const char *name)
{
	int i = name ? fit_find(f, effect, name) : -1;

	if (!name)
		return -1;
	if (i < 0) {
		add_column(f, effect, name);
		i = (int)f->ncolumns - 1;
	}
	f->columns[i].rows++;
	return i;
}

/* Returns what the market states about where the machine stands: "secure", "community". */
static const char *tier_of(const struct offer *o)
{
	return o->secure < 0 ? NULL : o->secure ? "secure" : "community";
}

static uint64_t hash_text(uint64_t h, const char *text)
{
	return fnv1a_add(fnv1a_text(h, text), 0xff);
}

/* Hashes the seller and the goods: host, model, number of GPUs, spot or not. */
static uint64_t seller_hash(const struct offer *o)
{
	uint64_t h = hash_text(FNV1A, o->market);

	h = hash_text(hash_text(h, rivals_host(o)), o->gpu->name);
	return fnv1a_add(0, (h ^ (uint64_t)o->gpu_count) * 2 + o->spot);
}

bool fit_add(struct fit *f, const struct offer *o)
{
	struct fit_row row = { .weight = 1 };

	if (!o->gpu || o->own || o->gpu_share_ppm ||
		o->uusd_per_gpu_hour > RIVALS_GPU_HOUR_MAX ||
		!fit_numbers(row.x, o->gpu, o->gpu_memory_bytes, o->gpu_count, o->spot))
		return false;
	if (!f->ncolumns)
		for (int i = 0; i < FIT_NUMBERS; i++)
			add_column(f, FIT_MARKET, fit_number_names[i]);
	row.y = log((double)o->uusd_per_gpu_hour / 1e6);
	row.effect[FIT_MARKET] = column_of(f, FIT_MARKET, o->market);
	row.effect[FIT_MODEL] = column_of(f, FIT_MODEL, o->gpu->name);
	row.effect[FIT_COUNTRY] = column_of(f, FIT_COUNTRY, o->country);
	row.effect[FIT_TIER] = column_of(f, FIT_TIER, tier_of(o));
	f->rows = xgrow(f->rows, &f->rows_cap, f->nrows + 1, sizeof *f->rows);
	row.seller = seller_hash(o);
	f->rows[f->nrows++] = row;
	return true;
}

static int by_seller(const void *a, const void *b)
{
	const struct fit_row *x = a, *y = b;

	if (x->seller != y->seller)
		return x->seller < y->seller ? -1 : 1;
	return x->y < y->y ? -1 : x->y > y->y;
}

/* The price of one host for one model counts once, however often it is listed. From here on
 * rows are ordered by their hash, so that a fit does not depend on the order of its input. */
static void weigh(struct fit *f)
{
	qsort(f->rows, f->nrows, sizeof *f->rows, by_seller);
	for (size_t i = 0, j; i < f->nrows; i = j) {
		for (j = i; j < f->nrows && f->rows[j].seller == f->rows[i].seller; j++)
			;
		for (size_t k = i; k < j; k++)
			f->rows[k].weight = 1.0 / (double)(j - i);
	}
}

/* --- solving -------------------------------------------------------------------------------- */

/* Solves the symmetric positive definite system a b = c of n rows in place (Cholesky); the
 * result is in c. */
static void solve(double *a, double *c, size_t n)
{
	for (size_t j = 0; j < n; j++) {
		double d = a[j * n + j];

		for (size_t k = 0; k < j; k++)
			d -= a[j * n + k] * a[j * n + k];
		d = sqrt(d > 1e-12 ? d : 1e-12);
		a[j * n + j] = d;
		for (size_t i = j + 1; i < n; i++) {
			double s = a[i * n + j];

			for (size_t k = 0; k < j; k++)
				s -= a[i * n + k] * a[j * n + k];
			a[i * n + j] = s / d;
		}
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++)
			c[i] -= a[i * n + k] * c[k];
		c[i] /= a[i * n + i];
	}
	for (size_t i = n; i-- > 0;) {
		for (size_t k = i + 1; k < n; k++)
			c[i] -= a[k * n + i] * c[k];
		c[i] /= a[i * n + i];
	}
}

/* One regression problem: the rows that take part, and everything that depends on them. */
struct problem {
	const struct fit *f;
	const bool *skip; /* rows that are excluded; NULL: none */
	double *weights;  /* Huber's, carried over between rounds */
	double *beta;
	double *gram; /* ncolumns squared */
	double mean[FIT_NUMBERS], deviation[FIT_NUMBERS];
	double sigma;
};

static double predict_row(const struct problem *p, const struct fit_row *r)
{
	double y = 0;

	for (int i = 0; i < FIT_NUMBERS; i++)
		y += p->beta[i] * r->x[i];
	for (int e = 0; e < FIT_EFFECTS; e++)
		if (r->effect[e] >= 0)
			y += p->beta[r->effect[e]];
	return y;
}

/* Means and deviations of the numbers: after standardising, one ridge suits all. */
static void standardise(struct problem *p)
{
	double n = 0;

	memset(p->mean, 0, sizeof p->mean);
	memset(p->deviation, 0, sizeof p->deviation);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t r = 0; r < p->f->nrows; r++) {
			if (p->skip && p->skip[r])
				continue;
			n += !pass;
			for (int i = 1; i < FIT_NUMBERS; i++) {
				double d = p->f->rows[r].x[i] - p->mean[i];

				if (pass)
					p->deviation[i] += d * d / n;
				else
					p->mean[i] += p->f->rows[r].x[i];
			}
		}
		for (int i = 1; i < FIT_NUMBERS; i++) {
			if (pass)
				p->deviation[i] = sqrt(p->deviation[i]);
			else
				p->mean[i] /= n;
		}
	}
}

static void add_products(struct problem *p, const struct fit_row *r, double w)
{
	size_t n = p->f->ncolumns, at[FIT_NUMBERS + FIT_EFFECTS], k = 0;
	double v[FIT_NUMBERS + FIT_EFFECTS];

	for (int i = 0; i < FIT_NUMBERS; i++) {
		double x = i && p->deviation[i] > 1e-9 ?
			(r->x[i] - p->mean[i]) / p->deviation[i] :
			!i;

		at[k] = (size_t)i;
		v[k++] = x;
	}
	for (int e = 0; e < FIT_EFFECTS; e++)
		if (r->effect[e] >= 0) {
			at[k] = (size_t)r->effect[e];
			v[k++] = 1;
		}
	for (size_t i = 0; i < k; i++) {
		p->beta[at[i]] += w * v[i] * r->y;
		for (size_t j = 0; j <= i; j++)
			p->gram[at[i] > at[j] ? at[i] * n + at[j] : at[j] * n + at[i]] +=
				w * v[i] * v[j];
	}
}

/* A residual and its weight. */
struct part {
	double value, weight;
};

static int by_part(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

/* Returns the quantile q of n ascending values by weight. */
static double quantile(const struct part *v, size_t n, double q)
{
	double all = 0, below = 0;

	for (size_t i = 0; i < n; i++)
		all += v[i].weight;
	for (size_t i = 0; i < n; i++) {
		below += v[i].weight;
		if (below >= q * all)
			return v[i].value;
	}
	return n ? v[n - 1].value : 0;
}

static void solve_round(struct problem *p)
{
	size_t n = p->f->ncolumns;

	memset(p->beta, 0, n * sizeof *p->beta);
	memset(p->gram, 0, n * n * sizeof *p->gram);
	for (size_t r = 0; r < p->f->nrows; r++)
		if (!p->skip || !p->skip[r])
			add_products(p, &p->f->rows[r],
				p->weights[r] * p->f->rows[r].weight);
	for (size_t i = 0; i < n; i++)
		p->gram[i * n + i] += i < FIT_NUMBERS ?
			number_ridge[i] :
			effect_ridge[p->f->columns[i].effect];
	solve(p->gram, p->beta, n);
	for (int i = 1; i < FIT_NUMBERS; i++) {
		p->beta[i] = p->deviation[i] > 1e-9 ? p->beta[i] / p->deviation[i] : 0;
		p->beta[0] -= p->beta[i] * p->mean[i];
	}
}

static void reweight(struct problem *p)
{
	struct part *absolute = xmalloc((p->f->nrows + 1) * sizeof *absolute);
	size_t n = 0;

	for (size_t r = 0; r < p->f->nrows; r++)
		if (!p->skip || !p->skip[r])
			absolute[n++] = (struct part){
				fabs(p->f->rows[r].y - predict_row(p, &p->f->rows[r])),
				p->f->rows[r].weight
			};
	qsort(absolute, n, sizeof *absolute, by_part);
	p->sigma = MAD_SIGMA * quantile(absolute, n, 0.5);
	if (p->sigma < SIGMA_MIN)
		p->sigma = SIGMA_MIN;
	for (size_t r = 0; r < p->f->nrows; r++) {
		double e = fabs(p->f->rows[r].y - predict_row(p, &p->f->rows[r]));

		p->weights[r] = e <= HUBER * p->sigma ? 1 : HUBER * p->sigma / e;
	}
	free(absolute);
}

static void problem_open(struct problem *p, const struct fit *f)
{
	*p = (struct problem){ .f = f };
	p->weights = xmalloc((f->nrows + 1) * sizeof *p->weights);
	p->beta = xcalloc(f->ncolumns + 1, sizeof *p->beta);
	p->gram = xcalloc(f->ncolumns * f->ncolumns + 1, sizeof *p->gram);
	for (size_t r = 0; r < f->nrows; r++)
		p->weights[r] = 1;
}

static void problem_close(struct problem *p)
{
	free(p->weights);
	free(p->beta);
	free(p->gram);
}

static void problem_solve(struct problem *p, int rounds)
{
	standardise(p);
	for (int i = 0; i < rounds; i++) {
		solve_round(p);
		reweight(p);
	}
}

/* Returns the median of |exp(residual) - 1| over n residuals, which are sorted by the call. */
static double median_error(struct part *residuals, size_t n)
{
	struct part *e = xmalloc((n + 1) * sizeof *e);
	double m;

	for (size_t i = 0; i < n; i++)
		e[i] = (struct part){ fabs(expm1(residuals[i].value)),
			residuals[i].weight };
	qsort(e, n, sizeof *e, by_part);
	qsort(residuals, n, sizeof *residuals, by_part);
	m = quantile(e, n, 0.5);
	free(e);
	return m;
}

int fit_solve(struct fit *f)
{
	struct problem p;
	struct part *residuals;

	if (f->nrows < FIT_ROWS_MIN)
		return err_set(EX_DATAERR,
			"%zu offers with a model and a price: at least %d are wanted",
			f->nrows, FIT_ROWS_MIN);
	weigh(f);
	problem_open(&p, f);
	problem_solve(&p, ROUNDS);
	residuals = xmalloc(f->nrows * sizeof *residuals);
	for (size_t r = 0; r < f->nrows; r++) {
		residuals[r] = (struct part){ f->rows[r].y - predict_row(&p, &f->rows[r]),
			f->rows[r].weight };
		f->rows[r].huber = p.weights[r];
	}
	for (size_t i = 0; i < f->ncolumns; i++)
		f->columns[i].value = p.beta[i];
	f->sigma = p.sigma;
	f->error = median_error(residuals, f->nrows);
	f->low = quantile(residuals, f->nrows, 0.1);
	f->high = quantile(residuals, f->nrows, 0.9);
	f->low_new = f->low;
	f->high_new = f->high;
	free(residuals);
	problem_close(&p);
	return 0;
}

/* --- leaving out ---------------------------------------------------------------------------- */

/* Computes residuals of the rows with this level of an effect, from a fit without any of them. */
static size_t residuals_without(const struct fit *f, enum fit_effect effect, int level,
	struct part *out)
{
	bool *skip = xmalloc(f->nrows * sizeof *skip);
	struct problem p;
	size_t n = 0;

	problem_open(&p, f);
	for (size_t r = 0; r < f->nrows; r++) {
		skip[r] = f->rows[r].effect[effect] == level;
		p.weights[r] = f->rows[r].huber;
	}
	p.skip = skip;
	problem_solve(&p, ROUNDS_OUT);
	for (size_t r = 0; r < f->nrows; r++)
		if (skip[r])
			out[n++] = (struct part){ f->rows[r].y -
					predict_row(&p, &f->rows[r]),
				f->rows[r].weight };
	problem_close(&p);
	free(skip);
	return n;
}

/* Returns the next number of xorshift64, the same on every machine. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Returns the median error of a market's other offers if its level is the median of three,
 * shrunk by its ridge: the mean over TRIPLES of them. */
static double error_after_three(const struct part *residuals, size_t n)
{
	struct part *rest = xmalloc(n * sizeof *rest);
	double sum = 0;
	uint64_t state = 0x9e3779b97f4a7c15u;

	for (int t = 0; t < TRIPLES; t++) {
		struct part three[3];
		size_t at[3], k = 0;

		for (int i = 0; i < 3; i++) {
			bool again = true;

			while (again) {
				at[i] = next(&state) % n;
				again = (i > 0 && at[i] == at[0]) ||
					(i > 1 && at[i] == at[1]);
			}
			three[i] = residuals[at[i]];
		}
		qsort(three, 3, sizeof *three, by_part);
		for (size_t i = 0; i < n; i++)
			if (i != at[0] && i != at[1] && i != at[2]) {
				rest[k] = residuals[i];
				rest[k++].value -= three[1].value * 3 /
					(3 + effect_ridge[FIT_MARKET]);
			}
		sum += median_error(rest, k);
	}
	free(rest);
	return sum / TRIPLES;
}

/* Keeps every k-th row of many, so that cross-validation takes only seconds. */
static void thin(struct fit *f)
{
	size_t k = f->nrows / LEFT_OUT_ROWS_MAX + 1, n = 0;

	if (k == 1)
		return;
	for (size_t i = FIT_NUMBERS; i < f->ncolumns; i++)
		f->columns[i].left = 0;
	for (size_t r = 0; r < f->nrows; r += k)
		f->rows[n++] = f->rows[r];
	f->nrows = n;
	for (size_t r = 0; r < n; r++)
		for (int e = 0; e < FIT_EFFECTS; e++)
			if (f->rows[r].effect[e] >= 0)
				f->columns[f->rows[r].effect[e]].left++;
}

void fit_leave_out(struct fit *f)
{
	struct part *all, *some;
	double sum = 0;
	size_t n = 0;
	long markets = 0;

	for (size_t i = FIT_NUMBERS; i < f->ncolumns; i++)
		f->columns[i].left = f->columns[i].rows;
	thin(f);
	all = xmalloc((f->nrows + 1) * sizeof *all);
	some = xmalloc((f->nrows + 1) * sizeof *some);
	for (size_t c = FIT_NUMBERS; c < f->ncolumns; c++) {
		if (f->columns[c].effect == FIT_MODEL && f->columns[c].left &&
			(size_t)f->columns[c].left < f->nrows)
			n += residuals_without(f, FIT_MODEL, (int)c, all + n);
		if (f->columns[c].effect == FIT_MARKET &&
			f->columns[c].left >= FIT_ROWS_MIN &&
			(size_t)f->columns[c].left + FIT_ROWS_MIN <= f->nrows) {
			size_t k = residuals_without(f, FIT_MARKET, (int)c, some);

			f->columns[c].error = error_after_three(some, k);
			sum += f->columns[c].error;
			markets++;
		}
	}
	if (n) {
		f->error_model = median_error(all, n);
		f->low_new = quantile(all, n, 0.1);
		f->high_new = quantile(all, n, 0.9);
	}
	if (markets)
		f->error_market = sum / (double)markets;
	free(all);
	free(some);
}

/* --- prices --------------------------------------------------------------------------------- */

/* Returns a known level's effect; for an unknown one the mean over rows, so that the price is
 * an average one. */
static double effect_value(const struct fit *f, enum fit_effect e, const char *name,
	bool *known)
{
	int i = name ? fit_find(f, e, name) : -1;
	double sum = 0, rows = 0;

	*known = i >= 0;
	if (i >= 0)
		return f->columns[i].value;
	if (e == FIT_MODEL)
		return 0;
	for (size_t c = FIT_NUMBERS; c < f->ncolumns; c++)
		if (f->columns[c].effect == e) {
			sum += f->columns[c].value * (double)f->columns[c].rows;
			rows += (double)f->columns[c].rows;
		}
	return rows > 0 ? sum / rows : 0;
}

static int64_t to_uusd(double log_dollars)
{
	double v = exp(log_dollars) * 1e6;

	if (!(v > 1))
		return 1;
	return v < (double)RIVALS_GPU_HOUR_MAX ? (int64_t)(v + 0.5) : RIVALS_GPU_HOUR_MAX;
}

bool fit_price(const struct fit *f, const struct fit_question *q, struct fit_price *out)
{
	double x[FIT_NUMBERS], y = 0;
	bool ignored;

	if (!f->ncolumns || !q->model ||
		!fit_numbers(x, q->model, q->memory_bytes, q->gpu_count, q->spot))
		return false;
	for (int i = 0; i < FIT_NUMBERS; i++)
		y += f->columns[i].value * x[i];
	y += effect_value(f, FIT_MARKET, q->market, &out->market_known);
	y += effect_value(f, FIT_MODEL, q->model->name, &out->model_known);
	y += effect_value(f, FIT_COUNTRY, q->country, &ignored);
	y += effect_value(f, FIT_TIER, q->tier, &ignored);
	out->mid_uusd = to_uusd(y);
	out->low_uusd = to_uusd(y + (out->model_known ? f->low : f->low_new));
	out->high_uusd = to_uusd(y + (out->model_known ? f->high : f->high_new));
	return true;
}
