/* world_policy.c - the price policies that play in worlds: ours, and those of others. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cmd/rnp-price/world.h"

#define STEP_HIGH 0.80
#define STEP_LOW  0.30
#define STEP      0.10
#define DAY_STEPS 48

/* --- the market's --------------------------------------------------------------------------- */

static double ask_median(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	double *last = own;

	(void)p;
	if (v->snapshot)
		*last = v->snapshot->median;
	return *last;
}

static double ask_undercut(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	double *last = own;

	(void)p;
	if (v->snapshot)
		*last = v->snapshot->market.lowest * 0.99;
	return *last;
}

/* Vast's scripts: raise by a tenth if more than 80% is busy, lower by a tenth if less than 30%,
 * once in a quarter of a day. */
static double ask_step10(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	struct {
		double ask;
		size_t at;
	} *s = own;
	double busy = 1 - (double)v->idle / v->units;

	(void)p;
	if (s->ask <= 0 && v->snapshot) {
		s->ask = v->snapshot->median;
		s->at = v->step;
	} else if (v->step >= s->at + DAY_STEPS / 4) {
		if (busy > STEP_HIGH)
			s->ask *= 1 + STEP;
		else if (busy < STEP_LOW)
			s->ask *= 1 - STEP;
		s->at = v->step;
	}
	return s->ask;
}

/* --- ours ----------------------------------------------------------------------------------- */

struct ours {
	struct demand demand;
	bool began;
	double ask;
	size_t changed[8]; /* steps of the last changes, a ring */
	int nchanges;
	size_t held_from;
	struct demand_market last; /* the market at the last step that had one */
};

static int changes_today(const struct ours *o, size_t step)
{
	int n = 0;

	for (int i = 0; i < o->nchanges && i < 8; i++)
		n += o->changed[i] + DAY_STEPS > step;
	return n;
}

static void learn(struct ours *o, const struct world_view *v)
{
	if (v->step && o->last.n)
		demand_observe(&o->demand, &o->last, o->ask, v->idle_before, v->taken,
			WORLD_STEP_HOURS);
	/* the hours that leases ran, and how many of them ended */
	demand_lease(&o->demand, v->running_hours, false);
	for (int i = 0; i < v->ended; i++)
		demand_lease(&o->demand, 0, true);
}

static double ask_ours(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	struct ours *o = own;
	struct demand_question q = { .market = &o->last };
	struct demand_answer best;

	(void)p;
	if (!o->began) {
		demand_init(&o->demand);
		o->began = true;
		o->ask = -1;
	}
	learn(o, v);
	if (!v->snapshot) {
		o->last.n =
			/* the others' prices are unknown: nothing is learned, nothing changed */
			0;
		return o->ask > 0 ? o->ask : 1;
	}
	o->last = v->snapshot->market;
	q.idle = v->idle > 1 ? v->idle : 1;
	q.units = v->units;
	q.last = o->ask;
	demand_best(&o->demand, &q, &best);
	if (demand_change(&q, &demand_rules_default,
		    (double)(v->step - o->held_from) * WORLD_STEP_HOURS,
		    changes_today(o, v->step), &best)) {
		if (o->ask > 0) {
			o->changed[o->nchanges % 8] = v->step;
			o->nchanges++;
		}
		o->ask = best.ask;
		o->held_from = v->step;
	}
	return o->ask;
}

static const struct world_policy policies[] = {
	{ "ours", sizeof(struct ours), 0, ask_ours },
	{ "undercut", sizeof(double), 0, ask_undercut },
	{ "step10", 2 * sizeof(double) + 16, 0, ask_step10 },
	{ "median", sizeof(double), 0, ask_median },
};

const char *const world_policy_names[] = { "ours", "undercut", "step10", "median", NULL };

const struct world_policy *world_policy(const char *name)
{
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
		if (strcmp(policies[i].name, name) == 0)
			return &policies[i];
	return NULL;
}
