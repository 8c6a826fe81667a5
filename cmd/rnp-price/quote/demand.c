/* demand.c - the belief about customers on a grid, and the ask that is best under it: see
 * demand.h. */
#include "cmd/rnp-price/quote/demand.h"

#include <math.h>
#include <string.h>

#define ASKS        56
#define ASKS_BELOW  8    /* of them well under the lowest rival's price */
#define ASKS_FINE   9    /* just under it, where customers change sides */
#define ASK_LOW     0.60 /* times the lowest rival's price */
#define ASK_HIGH    4.00
#define UNITS_MAX   64   /* more are computed in as many equal lots */
#define ITERATIONS  12   /* of policies; most beliefs need four */
#define LOAD_LOW    0.03 /* rate times the prior's mean lease, at the lowest price */
#define LOAD_HIGH   40.0
#define LOAD_SPREAD 1.25 /* standard deviation of its logarithm in the prior */
/* fraction of the belief that moves to each neighbour per observed hour */
#define DRIFT       0.004
#define LEASE_PRIOR 12.0 /* hours */
/* weight of the old value in the smoothed rate at each observation */
#define USUAL_KEEP 0.98
#define WEIGHT_MIN 1e-12
/* Bounds of a belief that is read from a file: see demand_check. */
#define OBSERVATIONS_MAX (1L << 40)
#define HOURS_MAX        1e12
#define USUAL_MIN        1e-9
#define SUM_ERROR        1e-6

/* How customers choose: they spread over all sellers; or by a power of the price over the
 * lowest; or they come one by one and take the cheapest seller if he is below a limit of their
 * own, and a fraction takes others, because the cheapest is sometimes sold out. Of the last kind
 * as many come whether one unit is idle or many. steep is the power, for the last kind that
 * fraction. */
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

/* Returns the rate of one unit among a few if all ask the lowest price. */
static double lowest_rate(double weight)
{
	return 1 / (4 + weight);
}

/* Whether low <= x <= high; false for NaN. */
static bool within(double x, double low, double high)
{
	return x >= low && x <= high;
}

const char *demand_check(const struct demand *d)
{
	double sum = 0;

	if (d->observations < 0 || d->observations > OBSERVATIONS_MAX)
		return "an impossible number of observations";
	if (!within(d->leases, DEMAND_LEASES_PRIOR, OBSERVATIONS_MAX) ||
		!within(d->lease_hours, LEASE_PRIOR * DEMAND_LEASES_PRIOR, HOURS_MAX))
		return "impossible leases";
	for (int s = 0; s < DEMAND_SHAPES; s++) {
		double least = d->observations && shapes[s].kind == SPREAD ? USUAL_MIN :
									     0;

		if (!within(d->usual[s], least, lowest_rate(0)))
			return "an impossible usual rate";
		for (int i = 0; i < DEMAND_RATES; i++) {
			if (!within(d->weights[s][i], 0, 1))
				return "an impossible weight";
			sum += d->weights[s][i];
		}
	}
	if (!within(sum, 1 - SUM_ERROR, 1 + SUM_ERROR))
		return "weights that do not add up to 1";
	return NULL;
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

/* Returns a shape's rate at ask relative to that at the usual market's lowest price. sharing: the
 * units at our price, idle ones of ours and those of followers; weight: of the rivals, for
 * SPREAD; usual: the smoothed rate at the lowest price there. */
static double shape_rate(const struct shape *s, double ratio, double sharing,
	double weight, double usual)
{
	double w = pow(ratio, -s->steep);

	if (s->kind == SPREAD)
		return w / (sharing * w + weight) / usual;
	if (s->kind == CHEAPEST)
		return (ratio < 1 ? 1 / sqrt(ratio) : s->steep / (ratio * ratio)) /
			sharing / lowest_rate(0);
	return w;
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
		shape = shape_rate(&shapes[s], ratio, idle + m->followers, weight,
			d->usual[s]);
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

/* --- the best asks ---------------------------------------------------------------------------- */

/* The chain of all units: state k has k of them leased. */
struct plan {
	int units;     /* or lots of units */
	double lot;    /* units in one of them */
	double length; /* of a lease, mean hours */
	double working;
	int nasks; /* that may be chosen; asks[nasks] is another one that is looked at */
	double asks[ASKS + 1];
	double rates[ASKS + 1]
		    [UNITS_MAX + 1]; /* leases per hour with so many idle units */
	int best[UNITS_MAX];         /* the ask of each state */
	double more[UNITS_MAX]; /* what one more leased unit is worth in each state */
	double value, occupancy;
};

/* Returns the i-th ratio to the lowest price, ascending: even steps of the logarithm, with finer
 * ones from 0.955 to 0.995. */
static double ask_ratio(int i)
{
	const int above = ASKS - ASKS_BELOW - ASKS_FINE;

	if (i < ASKS_BELOW)
		return ASK_LOW * pow(0.955 / ASK_LOW, (double)i / ASKS_BELOW);
	if (i < ASKS_BELOW + ASKS_FINE)
		return 0.955 + 0.005 * (i - ASKS_BELOW);
	return pow(ASK_HIGH, (double)(i - ASKS_BELOW - ASKS_FINE) / (above - 1)) * 1.002;
}

/* Adds the rates of one shape, whose expected rate at the lowest price is `mean`. */
static void add_rates(struct plan *p, const struct shape *s, double mean, double weight,
	double usual, const struct demand_market *m)
{
	for (int a = 0; a <= p->nasks; a++) {
		double ratio = p->asks[a] / m->lowest, w = pow(ratio, -s->steep);

		for (int n = 1; n <= p->units; n++) {
			double sharing = n * p->lot + m->followers;

			p->rates[a][n] += mean * n *
				(s->kind == SPREAD ? w / (sharing * w + weight) / usual :
						     shape_rate(s, ratio, sharing, 0, 1));
		}
	}
}

/* Fills in asks and rates. other: an ask that is looked at, too. */
static void plan_open(struct plan *p, const struct demand *d,
	const struct demand_question *q, double other)
{
	double rates[DEMAND_RATES], lowest = q->market->lowest;
	double units = q->units > q->idle ? q->units : q->idle;

	memset(p, 0, sizeof *p);
	p->units = units > UNITS_MAX ? UNITS_MAX : units > 1 ? (int)units : 1;
	p->lot = units > UNITS_MAX ? units / UNITS_MAX : 1;
	p->length = demand_mean_lease(d);
	p->working = q->working;
	for (int i = 0; i < ASKS; i++)
		if (ask_ratio(i) * lowest >= q->floor)
			p->asks[p->nasks++] = ask_ratio(i) * lowest;
	if (!p->nasks)
		p->asks[p->nasks++] = q->floor;
	p->asks[p->nasks] = other > 0 ? other : lowest;
	rates_of(rates);
	for (int s = 0; s < DEMAND_SHAPES; s++) {
		double weight = shapes[s].kind == SPREAD ?
			rivals_weight(q->market, shapes[s].steep) :
			0;
		double mean = 0;

		for (int i = 0; i < DEMAND_RATES; i++)
			mean += d->weights[s][i] * rates[i];
		add_rates(p, &shapes[s], mean, weight,
			d->usual[s] > 0 ? d->usual[s] : lowest_rate(weight), q->market);
	}
}

/* Computes value, occupancy and more[] of the asks in best[]. */
static void plan_value(struct plan *p)
{
	double part = 1, sum = 1, earned = 0, leased = 0, gain, before = 0;

	for (int k = 0; k < p->units; k++) {
		double rate = p->rates[p->best[k]][p->units - k];

		earned += part * rate * (p->asks[p->best[k]] - p->working) * p->length;
		part *= rate * p->length / (k + 1);
		sum += part;
		leased += part * (k + 1);
		if (sum > 1e200) { /* only the last states matter */
			part *= 1e-200;
			sum *= 1e-200;
			earned *= 1e-200;
			leased *= 1e-200;
		}
	}
	gain = earned / sum;
	p->value = gain / p->units;
	p->occupancy = leased / sum / p->units;
	for (int k = 0; k < p->units; k++) {
		double rate = p->rates[p->best[k]][p->units - k];

		before = p->more[k] = (gain + k / p->length * before) / rate -
			(p->asks[p->best[k]] - p->working) * p->length;
	}
}

/* Returns what an ask gains per hour in state k: leases, and the way to the next state. */
static double plan_gain(const struct plan *p, int k, int ask)
{
	return p->rates[ask][p->units - k] *
		((p->asks[ask] - p->working) * p->length + p->more[k]);
}

/* Finds the best ask of each state. */
static void plan_solve(struct plan *p)
{
	bool changed = true;

	for (int i = 0; i < ITERATIONS && changed; i++) {
		plan_value(p);
		changed = false;
		for (int k = 0; k < p->units; k++) {
			int best = p->best[k];

			for (int a = 0; a < p->nasks; a++)
				if (plan_gain(p, k, a) > plan_gain(p, k, best))
					best = a;
			changed |= best != p->best[k];
			p->best[k] = best;
		}
	}
	plan_value(p);
}

/* Returns the present state. */
static int state_of(const struct plan *p, const struct demand_question *q)
{
	int idle = (int)(q->idle / p->lot + 0.5);

	if (idle < 1)
		idle = 1;
	return idle < p->units ? p->units - idle : 0;
}

void demand_best(const struct demand *d, const struct demand_question *q,
	struct demand_answer *out)
{
	struct plan p;
	double gain;
	int k;

	plan_open(&p, d, q, q->last);
	plan_solve(&p);
	k = state_of(&p, q);
	gain = plan_gain(&p, k, p.best[k]) - plan_gain(&p, k, p.nasks);
	*out = (struct demand_answer){ p.asks[p.best[k]], p.value, p.occupancy,
		p.value > 0 ? gain / (p.value * p.units) : gain };
}

void demand_value(const struct demand *d, const struct demand_question *q, double ask,
	struct demand_answer *out)
{
	struct plan p;

	plan_open(&p, d, q, ask);
	for (int k = 0; k < p.units; k++)
		p.best[k] = p.nasks;
	plan_value(&p);
	*out = (struct demand_answer){ ask, p.value, p.occupancy, 0 };
}

bool demand_change(const struct demand_question *q, const struct demand_rules *rules,
	double held_hours, int changes_today, const struct demand_answer *best)
{
	if (q->last <= 0 || q->last < q->floor)
		return true;
	if (changes_today >= rules->changes_max || best->ask == q->last)
		return false;
	return best->gain >=
		(held_hours >= rules->hold_hours ? rules->gain : rules->gain_early);
}
