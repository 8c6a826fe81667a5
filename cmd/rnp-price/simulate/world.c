/* world.c - plays price policies in markets of real offers and simulated customers: see
 * world.h. */
#include "cmd/rnp-price/simulate/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/quote/sellers.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define OUTSIDE_COUNT 20  /* number of outside sellers */
#define OUTSIDE_RATIO 1.5 /* their price relative to the median */
#define WAVE          0.3 /* amplitude of demand over a day */
#define DAY_STEPS     48
#define COPY_STEPS    2
#define FAULT_EVERY   (3 * DAY_STEPS)
#define FAULT_STEPS   24
#define NOTHING       1e-6 /* the price of a hostile offer */
#define BELIEVED      0.51 /* or so much of the first quartile of the sellers */
/* of the logarithm of what a customer pays at most, around the median */
#define LIMIT_SPREAD 0.35
#define IN_STOCK     0.7
#define LOYAL_PART   0.5
#define GRID         20

const char *const world_kind_names[WORLD_KINDS] = { "formula", "cheapest", "loyal",
	"fall", "copy", "follow", "outage", "frozen", "hostile" };

const double world_philly_leases[WORLD_LEASES] = { 0.0529, 0.0554, 0.0585, 0.0618, 0.0651,
	0.0682, 0.0714, 0.0751, 0.0790, 0.0824, 0.0846, 0.0864, 0.0885, 0.0911, 0.0947,
	0.0998, 0.1045, 0.1079, 0.1112, 0.1141, 0.1170, 0.1197, 0.1233, 0.1289, 0.1346,
	0.1386, 0.1417, 0.1444, 0.1469, 0.1491, 0.1517, 0.1544, 0.1577, 0.1617, 0.1721,
	0.1913, 0.2014, 0.2122, 0.2258, 0.2342, 0.2487, 0.2717, 0.2942, 0.3082, 0.3210,
	0.3332, 0.3432, 0.3632, 0.4412, 0.5040, 0.5510, 0.6172, 0.6870, 0.7795, 0.9144,
	1.1603, 1.4704, 1.9988, 2.8916, 3.8556, 5.4012, 8.0859, 12.3626, 14.9319 };

/* --- luck ----------------------------------------------------------------------------------- */

/* Returns the i-th random number of a step, whatever happened before; 0 <= x < 1. */
static double luck(const struct world *w, size_t step, int unit, int i)
{
	struct rng r;

	rng_seed(&r, w->seed, (uint64_t)step * 4096 + (uint64_t)unit * 16 + (uint64_t)i);
	return rng_f64(&r);
}

/* --- customers ------------------------------------------------------------------------------ */

static double wave(size_t step)
{
	return 1 + WAVE * sin(2 * M_PI * (double)(step % DAY_STEPS) / DAY_STEPS);
}

/* Returns the weight of everybody else, by prices over the median. copied: our own price an
 * hour ago, or 0. */
static double others_weight(const struct world *w, const struct world_snapshot *s,
	double copied)
{
	double sum = OUTSIDE_COUNT * pow(OUTSIDE_RATIO, -w->beta);

	for (size_t j = 0; j < s->market.n; j++)
		sum += s->market.sellers[j].count *
			pow(s->market.sellers[j].price / s->median, -w->beta);
	if (copied > 0)
		sum += w->units * pow(copied / s->median, -w->beta);
	return sum;
}

/* Returns how many of 8 idle units at the lowest price a customer takes at rate 1. */
static double reach(const struct world *w, const struct world_snapshot *s)
{
	double own = pow(s->market.lowest / s->median, -w->beta);

	return w->units * own / (w->units * own + others_weight(w, s, 0));
}

void world_open(struct world *w)
{
	double sum = 0;
	size_t n = w->series->n;

	for (size_t i = 0; i < n; i++)
		sum += reach(w, &w->series->steps[i]);
	/* leases begun in a step if all units are idle = load x units / lease */
	w->base_rate = w->load * w->units * WORLD_STEP_HOURS / w->lease_hours /
		(sum / (double)n);
	if (w->kind == WORLD_CHEAPEST || w->kind == WORLD_LOYAL)
		/* customers come one by one: as many per step as would give the load if all
		 * units were idle */
		w->base_rate = w->load * w->units * WORLD_STEP_HOURS / w->lease_hours;
}

/* Simulates a customer who takes the cheapest available unit if it is below his limit. */
static bool takes_cheapest(const struct world *w, const struct world_snapshot *s,
	double ask, size_t step, int unit)
{
	double u = luck(w, step, unit, 2), v = luck(w, step, unit, 3);
	double z = sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);

	if (ask > s->median * exp(LIMIT_SPREAD * z))
		return false;
	for (size_t j = 0; j < s->market.n; j++)
		if (s->market.sellers[j].price < ask &&
			luck(w, step, (int)(j % 32) + 64, 4) < IN_STOCK)
			return false;
	return true;
}

/* Returns the probability that one idle unit is leased in this step. */
static double chance(const struct world *w, const struct world_snapshot *s, double ask,
	int idle, double copied, size_t step)
{
	double own = pow(ask / s->median, -w->beta), rate = w->base_rate * wave(step),
	       share;

	if (w->kind == WORLD_FALL && step >= w->series->n / 2)
		rate /= 3;
	if (w->kind == WORLD_CHEAPEST)
		return -expm1(-rate / idle * 2);
	share = own / (idle * own + others_weight(w, s, copied));
	if (w->kind == WORLD_LOYAL) {
		double lowest = pow(s->market.lowest / s->median, -w->beta);
		double fair = lowest / (w->units * lowest + others_weight(w, s, 0));
		/* loyal customers look only at us, each with a limit of his own */
		double willing = 0.5 *
			erfc(log(ask / s->median) / LIMIT_SPREAD / M_SQRT2);

		share = LOYAL_PART * willing / w->units +
			(1 - LOYAL_PART) * share / (fair * w->units);
	}
	return -expm1(-rate * share);
}

/* The k-th lease has the k-th length, so that policies do not differ by luck in the longest
 * ones. */
static double lease_length(const struct world *w, long k)
{
	double u = luck(w, (size_t)k, 0, 1) * WORLD_LEASES;

	return w->lease_hours * w->lease_shape[(int)u];
}

/* --- running -------------------------------------------------------------------------------- */

static bool copies(const struct world *w)
{
	return w->kind == WORLD_COPY || w->kind == WORLD_FOLLOW;
}

/* Returns for how many steps something has been wrong with the feed, 0: nothing is. */
static size_t fault_steps(const struct world *w, size_t step)
{
	size_t since = (step + w->seed % FAULT_EVERY) % FAULT_EVERY;

	if (!step || since >= FAULT_STEPS)
		return 0;
	return since + 1 < step ? since + 1 : step;
}

static void list_seller(struct world_snapshot *s, double price, double count, uint64_t id)
{
	struct demand_market *m = &s->market;

	if (m->n == DEMAND_SELLERS_MAX)
		return;
	m->sellers[m->n++] = (struct demand_seller){ price, count, id };
	if (price < m->lowest)
		m->lowest = price;
}

/* Returns what the feed tells at a step, or NULL; *shown is for what differs from the truth. */
static const struct world_snapshot *feed_at(const struct world *w, size_t step,
	double copied, struct world_snapshot *shown)
{
	const struct world_snapshot *s = &w->series->steps[step];
	size_t fault = fault_steps(w, step);
	bool second = (step + w->seed % FAULT_EVERY) / FAULT_EVERY % 2;

	if (w->kind == WORLD_OUTAGE && fault)
		return NULL;
	if (w->kind == WORLD_FROZEN)
		return s - fault;
	if (!(w->kind == WORLD_HOSTILE && fault) &&
		!(w->kind == WORLD_FOLLOW && copied > 0))
		return s;
	*shown = *s;
	if (w->kind == WORLD_FOLLOW)
		list_seller(shown, copied, w->units, 1);
	else
		list_seller(shown,
			second ? BELIEVED * sellers_quartile(&s->market) : NOTHING, 1, 2);
	return shown;
}

struct run {
	double left[WORLD_UNITS_MAX], price[WORLD_UNITS_MAX], length[WORLD_UNITS_MAX];
	double revenue, busy;
	long leases; /* begun so far */
	struct world_view view;
};

/* Advances the leases by a step. */
static void work(const struct world *w, struct run *r)
{
	r->view.ended = 0;
	r->view.ended_hours = r->view.running_hours = 0;
	for (int u = 0; u < w->units; u++) {
		double hours = r->left[u] < WORLD_STEP_HOURS ? r->left[u] :
							       WORLD_STEP_HOURS;

		if (hours <= 0)
			continue;
		r->revenue += (r->price[u] - w->working) * hours;
		r->busy += hours;
		r->view.running_hours += hours;
		r->left[u] -= hours;
		if (r->left[u] <= 0) {
			r->view.ended++;
			r->view.ended_hours += r->length[u];
		}
	}
}

static void lease_out(const struct world *w, struct run *r, size_t step, double ask,
	double copied)
{
	const struct world_snapshot *s = &w->series->steps[step];
	int idle = 0, taken = 0;
	double p;

	for (int u = 0; u < w->units; u++)
		idle += r->left[u] <= 0;
	p = idle ? chance(w, s, ask, idle, copied, step) : 0;
	for (int u = 0, i = 0; u < w->units; u++) {
		if (r->left[u] > 0 || luck(w, step, i++, 0) >= p)
			continue;
		if (w->kind == WORLD_CHEAPEST && !takes_cheapest(w, s, ask, step, i))
			continue;
		r->length[u] = r->left[u] = lease_length(w, r->leases++);
		r->price[u] = ask;
		taken++;
	}
	r->view.idle_before = idle;
	r->view.taken = taken;
}

void world_run(const struct world *w, const struct world_policy *p,
	struct world_result *out)
{
	struct run r;
	void *own = xcalloc(1, p->size + 1);
	double last = -1, *asks = xmalloc(w->series->n * sizeof *asks);
	long changes = 0;

	memset(&r, 0, sizeof r);
	memset(out, 0, sizeof *out);
	for (size_t t = 0; t < w->series->n; t++) {
		struct world_snapshot shown;
		double ask,
			copied = copies(w) && t >= COPY_STEPS ? asks[t - COPY_STEPS] : 0;
		int idle = 0, recent = 0;

		for (int u = 0; u < w->units; u++)
			idle += r.left[u] <= 0;
		r.view.step = t;
		r.view.units = w->units;
		r.view.idle = idle;
		r.view.snapshot = feed_at(w, t, copied, &shown);
		asks[t] = ask = p->ask(own, p, &r.view);
		changes += last >= 0 && ask != last;
		for (size_t k = t; k > 0 && k + DAY_STEPS > t; k--)
			recent += asks[k] != asks[k - 1];
		if (recent > out->day_changes_max)
			out->day_changes_max = recent;
		last = ask;
		lease_out(w, &r, t, ask, copied);
		work(w, &r);
	}
	out->revenue = r.revenue;
	out->busy = r.busy / ((double)w->series->n * WORLD_STEP_HOURS * w->units);
	out->changes_a_day = (double)changes / ((double)w->series->n / DAY_STEPS);
	free(asks);
	free(own);
}

/* --- in hindsight --------------------------------------------------------------------------- */

static double ask_fixed(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	(void)own;
	(void)v;
	return p->parameter;
}

static double ask_of_median(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	double *last = own;

	if (v->snapshot)
		*last = v->snapshot->median * p->parameter;
	return *last;
}

static double ask_of_lowest(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	double *last = own;

	if (v->snapshot)
		*last = v->snapshot->market.lowest * p->parameter;
	return *last;
}

double world_hindsight(const struct world *world, char which[40])
{
	struct world sound = *world, *w = &sound;
	static const struct {
		const char *name;
		double (*ask)(void *, const struct world_policy *,
			const struct world_view *);
		double low, high;
	} families[] = { { "fixed", ask_fixed, 0.4, 2.5 },
		{ "of median", ask_of_median, 0.25, 2 },
		{ "of lowest", ask_of_lowest, 0.7, 3 } };
	double best = 0, typical = 0;

	/* it knows the truth, whatever the feed tells */
	sound.kind = w->kind == WORLD_FOLLOW                        ? WORLD_COPY :
		w->kind >= WORLD_OUTAGE && w->kind <= WORLD_HOSTILE ? WORLD_FORMULA :
								      w->kind;
	for (size_t i = 0; i < w->series->n; i++)
		typical += w->series->steps[i].market.lowest / (double)w->series->n;
	for (size_t f = 0; f < sizeof families / sizeof *families; f++)
		for (int i = 0; i < GRID; i++) {
			struct world_policy p = { .size = sizeof(double),
				.ask = families[f].ask };
			struct world_result r;

			p.parameter = families[f].low *
				pow(families[f].high / families[f].low,
					(double)i / (GRID - 1));
			if (f == 0)
				p.parameter *= typical;
			world_run(w, &p, &r);
			if (r.revenue <= best)
				continue;
			best = r.revenue;
			if (which)
				snprintf(which, 40, "%.3f %s", p.parameter,
					families[f].name);
		}
	return best;
}
