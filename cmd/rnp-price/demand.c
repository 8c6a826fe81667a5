/* demand.c - the belief about customers on a grid, and the ask that is best under it: see
 * demand.h. */
#include "cmd/rnp-price/demand.h"

#include <math.h>
#include <string.h>

#define ASKS 56
#define ASKS_FINE \
	9 /* of them just under the lowest rival's price, where customers change sides */
#define ASK_LOW     0.80 /* times the lowest rival's price */
#define ASK_HIGH    4.00
#define LOAD_LOW    0.03 /* rate times the prior's mean lease, at the lowest price */
#define LOAD_HIGH   40.0
#define LOAD_SPREAD 1.25 /* standard deviation of its logarithm in the prior */
/* fraction of the belief that moves to each neighbour per observed hour */
#define DRIFT       0.004
#define LEASE_PRIOR 12.0 /* hours */
#define USUAL_KEEP \
	0.98 /* weight of the old value in the smoothed rate at each observation */
#define CURIOUS \
	0.25 /* standard deviations of occupancy that count as gained: what is unknown is tried */
#define WEIGHT_MIN 1e-12

/* How customers choose: they spread over all sellers; or by a power of the price over the
 * lowest; or they take the cheapest seller, and a fraction takes others, because the cheapest
 * is sometimes sold out. steep is the power, for the last kind that fraction. */
enum kind { SPREAD, POWER, CHEAPEST };
static const struct shape {
	enum kind kind;
	double steep;
} shapes[DEMAND_SHAPES] = { { SPREAD, 1.5 }, { SPREAD, 2.5 }, { SPREAD, 4 },
	{ SPREAD, 6 }, { SPREAD, 9 }, { SPREAD, 13 }, { SPREAD, 19 }, { SPREAD, 28 },
	{ SPREAD, 40 }, { POWER, 0.7 }, { POWER, 1.5 }, { POWER, 2.5 }, { POWER, 4 },
	{ POWER, 7 }, { POWER, 12 }, { POWER, 20 }, { POWER, 32 }, { CHEAPEST, 0.6 },
	{ CHEAPEST, 0.3 }, { CHEAPEST, 0.1 }, { CHEAPEST, 0.02 } };

/* Prior of each kind, shared by its shapes. */
static const double kind_prior[] = { 0.50, 0.28, 0.22 };
static const int kind_shapes[] = { 9, 8, 4 };

const struct demand_rules demand_rules_default = { .hold_hours = 4,
	.gain = 0.01,
	.gain_early = 0.10,
	.changes_max = 6 };

static double rate_of(int i)
{
	return LOAD_LOW / LEASE_PRIOR *
		pow(LOAD_HIGH / LOAD_LOW, (double)i / (DEMAND_RATES - 1));
}

/* The rates do not change: computed once per call that loops over them. */
static void rates_of(double out[DEMAND_RATES])
{
	for (int i = 0; i < DEMAND_RATES; i++)
		out[i] = rate_of(i);
}

void demand_init(struct demand *d)
{
	double sum = 0;

	memset(d, 0, sizeof *d);
	for (int s = 0; s < DEMAND_SHAPES; s++)
		for (int i = 0; i < DEMAND_RATES; i++) {
			double z = log(rate_of(i) * LEASE_PRIOR) / LOAD_SPREAD;

			d->weights[s][i] = kind_prior[shapes[s].kind] /
				kind_shapes[shapes[s].kind] * exp(-0.5 * z * z);
			sum += d->weights[s][i];
		}
	for (int s = 0; s < DEMAND_SHAPES; s++)
		for (int i = 0; i < DEMAND_RATES; i++)
			d->weights[s][i] /= sum;
	d->lease_hours = LEASE_PRIOR * DEMAND_LEASES_PRIOR;
	d->leases = DEMAND_LEASES_PRIOR;
}

double demand_mean_lease(const struct demand *d)
{
	return d->lease_hours / d->leases;
}

void demand_lease(struct demand *d, double hours, bool whole)
{
	if (!(hours >= 0) || hours > 1e6)
		return;
	d->lease_hours += hours;
	d->leases += whole;
}

/* Returns the rivals' total weight for customers of this steepness, with prices relative to the
 * lowest. */
static double rivals_weight(const struct demand_market *m, double steep)
{
	double sum = 0;

	for (size_t j = 0; j < m->n; j++)
		sum += m->sellers[j].count * pow(m->sellers[j].price / m->lowest, -steep);
	return sum;
}

/* Returns a shape's rate at ask relative to that at the usual market's lowest price. weight: of
 * the rivals, for SPREAD; usual: the smoothed rate at the lowest price there. */
static double shape_rate(const struct shape *s, double ratio, double idle, double weight,
	double usual)
{
	double w = pow(ratio, -s->steep);

	if (s->kind == SPREAD)
		return w / (idle * w + weight) / usual;
	if (s->kind == CHEAPEST)
		return ratio < 1 ? 1 : s->steep / (ratio * ratio);
	return w;
}

/* Returns the rate of one unit among a few if all ask the lowest price. */
static double lowest_rate(double weight)
{
	return 1 / (4 + weight);
}

bool demand_observe(struct demand *d, const struct demand_market *m, double ask,
	double idle, double taken, double dt_hours)
{
	double rates[DEMAND_RATES], sum = 0, ratio, drift;

	if (!(idle >= 0) || !(taken >= 0) || taken > idle || !(dt_hours >= 0) ||
		!(ask >= 0))
		return false;
	if (!m->n || !(m->lowest > 0) || idle <= 0 || dt_hours <= 0 || ask <= 0)
		return true;
	rates_of(rates);
	ratio = ask / m->lowest;
	drift = dt_hours < 24 ? DRIFT * dt_hours : DRIFT * 24;
	for (int s = 0; s < DEMAND_SHAPES; s++) {
		double weight = 0, shape, old[DEMAND_RATES];

		if (shapes[s].kind == SPREAD) {
			weight = rivals_weight(m, shapes[s].steep);
			d->usual[s] = d->observations ? d->usual[s] * USUAL_KEEP +
					(1 - USUAL_KEEP) * lowest_rate(weight) :
							lowest_rate(weight);
		}
		shape = shape_rate(&shapes[s], ratio, idle, weight, d->usual[s]);
		memcpy(old, d->weights[s], sizeof old);
		for (int i = 0; i < DEMAND_RATES; i++) {
			double expected = rates[i] * shape * dt_hours, log_likely;
			double kept = old[i];

			if (i > 0)
				kept += drift * (old[i - 1] - old[i]);
			if (i < DEMAND_RATES - 1)
				kept += drift * (old[i + 1] - old[i]);
			log_likely = -(idle - taken) * expected;
			if (taken > 0)
				log_likely += taken * log(-expm1(-expected) + 1e-300);
			if (log_likely < -600)
				log_likely = -600;
			d->weights[s][i] = kept * exp(log_likely) + WEIGHT_MIN * kept;
			sum += d->weights[s][i];
		}
	}
	for (int s = 0; s < DEMAND_SHAPES; s++)
		for (int i = 0; i < DEMAND_RATES; i++)
			d->weights[s][i] /= sum;
	d->observations++;
	return true;
}

/* Returns the expected occupancy at a ratio of the lowest price, over the whole belief; *spread
 * becomes its standard deviation. */
static double occupancy(const struct demand *d, const struct demand_question *q,
	double ratio, const double weights[DEMAND_SHAPES],
	const double loads[DEMAND_RATES], double *spread)
{
	double sum = 0, squares = 0;

	for (int s = 0; s < DEMAND_SHAPES; s++) {
		double usual = d->usual[s] > 0 ? d->usual[s] : lowest_rate(weights[s]);
		double shape = shape_rate(&shapes[s], ratio, q->idle, weights[s], usual);

		for (int i = 0; i < DEMAND_RATES; i++) {
			double busy = loads[i] * shape / (1 + loads[i] * shape);

			sum += d->weights[s][i] * busy;
			squares += d->weights[s][i] * busy * busy;
		}
	}
	*spread = squares > sum * sum ? sqrt(squares - sum * sum) : 0;
	return sum;
}

/* Precomputes what does not depend on the ask: the rivals' weight for each shape, the loads. */
static void prepare(const struct demand *d, const struct demand_market *m,
	double weights[DEMAND_SHAPES], double loads[DEMAND_RATES])
{
	double lease = demand_mean_lease(d);

	for (int s = 0; s < DEMAND_SHAPES; s++)
		weights[s] = shapes[s].kind == SPREAD ?
			rivals_weight(m, shapes[s].steep) :
			0;
	rates_of(loads);
	for (int i = 0; i < DEMAND_RATES; i++)
		loads[i] *= lease;
}

void demand_value(const struct demand *d, const struct demand_question *q, double ask,
	struct demand_answer *out)
{
	double weights[DEMAND_SHAPES], loads[DEMAND_RATES], spread;

	prepare(d, q->market, weights, loads);
	out->ask = ask;
	out->occupancy = occupancy(d, q, ask / q->market->lowest, weights, loads,
		&spread);
	out->value = (ask - q->working) * (out->occupancy + CURIOUS * spread);
}

/* Returns the i-th ratio to the lowest price, ascending from 0.8: even steps of the logarithm,
 * with finer ones from 0.955 to 0.995. */
static double ask_ratio(int a)
{
	const int below = 8, above = ASKS - below - ASKS_FINE;

	if (a < below)
		return ASK_LOW * pow(0.955 / ASK_LOW, (double)a / below);
	if (a < below + ASKS_FINE)
		return 0.955 + 0.005 * (a - below);
	return pow(ASK_HIGH, (double)(a - below - ASKS_FINE) / (above - 1)) * 1.002;
}

void demand_best(const struct demand *d, const struct demand_question *q,
	struct demand_answer *out)
{
	double weights[DEMAND_SHAPES], loads[DEMAND_RATES];
	double lowest = q->market->lowest;

	prepare(d, q->market, weights, loads);
	*out = (struct demand_answer){ .ask = -1, .value = -INFINITY };
	for (int a = 0; a < ASKS; a++) {
		double ratio = ask_ratio(a), ask = ratio * lowest, busy, value, spread;

		if (ask < q->floor) {
			if (a < ASKS - 1)
				continue;
			ask = q->floor;
			ratio = ask / lowest;
		}
		busy = occupancy(d, q, ratio, weights, loads, &spread);
		value = (ask - q->working) * (busy + CURIOUS * spread);
		if (value > out->value)
			*out = (struct demand_answer){ ask, value, busy };
	}
}

bool demand_change(const struct demand *d, const struct demand_question *q,
	const struct demand_rules *rules, double last, double held_hours,
	int changes_today, const struct demand_answer *best)
{
	struct demand_answer now;
	double gain;

	if (last < 0 || last < q->floor)
		return true;
	if (changes_today >= rules->changes_max)
		return false;
	demand_value(d, q, last, &now);
	gain = best->value - now.value;
	if (!(now.value > 0))
		return gain > 0;
	gain /= now.value;
	return gain >=
		(held_hours >= rules->hold_hours ? rules->gain : rules->gain_early);
}
