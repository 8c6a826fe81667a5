/* world_policy.c - the price policies that play in worlds: ours, and those of others. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cmd/rnp-price/quote/sellers.h"
#include "cmd/rnp-price/simulate/world.h"

#define STEP_HIGH     0.80
#define STEP_LOW      0.30
#define STEP          0.10
#define DAY_STEPS     48
#define ASKS_SEEN     (FOLLOWER_HOURS * 2) /* steps of half an hour */
#define SELLERS_KNOWN 256

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
	double asks[ASKS_SEEN];    /* of the last steps, the newest first */
	size_t nasks;
	struct seller {
		uint64_t id;
		size_t from, last; /* steps: there without a break */
		struct follower follower;
	} sellers[SELLERS_KNOWN]; /* a table by id */
	double usual;             /* lowest price */
};

static int changes_today(const struct ours *o, size_t step)
{
	int n = 0;

	for (int i = 0; i < o->nchanges && i < 8; i++)
		n += o->changed[i] + DAY_STEPS > step;
	return n;
}

/* Returns what is known of a seller; NULL: there is no room for more. */
static struct seller *seller_of(struct ours *o, uint64_t id)
{
	for (size_t i = 0; i < SELLERS_KNOWN; i++) {
		struct seller *s = &o->sellers[(id + i) % SELLERS_KNOWN];

		if (!s->follower.price)
			s->id = id;
		if (s->id == id)
			return s;
	}
	return NULL;
}

/* Whether a seller has been there for a day, or from the beginning. */
static bool has_stood(struct seller *s, size_t step)
{
	if (!s->follower.price)
		s->from = step;
	else if (s->last + 1 < step)
		s->from = step;
	s->last = step;
	return !s->from || s->from + DAY_STEPS <= step;
}

/* Removes from the market those who follow us and those who are not believed. */
static void judge(struct ours *o, struct demand_market *m, size_t step)
{
	struct demand_market all = *m;
	bool stood[DEMAND_SELLERS_MAX];

	m->n = 0;
	for (size_t i = 0; i < all.n; i++) {
		struct seller *s = all.sellers[i].id ? seller_of(o, all.sellers[i].id) :
						       NULL;

		stood[m->n] = !s || has_stood(s, step);
		if (s &&
			follower_sees(&s->follower, all.sellers[i].price, o->asks,
				o->nasks))
			m->followers += all.sellers[i].count;
		else
			m->sellers[m->n++] = all.sellers[i];
	}
	if (!m->n) /* they are the whole market: no price but ours says anything */
		*m = all;
	else
		sellers_believe(m, stood, &o->usual);
}

static void remember(struct ours *o)
{
	memmove(o->asks + 1, o->asks, (ASKS_SEEN - 1) * sizeof *o->asks);
	o->asks[0] = o->ask;
	o->nasks += o->nasks < ASKS_SEEN;
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
	if (v->step)
		remember(o);
	if (!v->snapshot) {
		o->last.n =
			/* the others' prices are unknown: nothing is learned, nothing changed */
			0;
		return o->ask > 0 ? o->ask : 1;
	}
	o->last = v->snapshot->market;
	judge(o, &o->last, v->step);
	if (!o->last.n)
		return o->ask > 0 ? o->ask : 1;
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
