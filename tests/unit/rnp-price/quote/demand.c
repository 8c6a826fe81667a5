/* demand.c - demand, worlds: what is learned of customers, the ask that earns most, when it
 * changes. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/quote/demand.h"

#include <math.h>

#include "cmd/rnp-price/simulate/world.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static struct demand_market market_of(int n, const double *prices)
{
	struct demand_market m = { .n = (size_t)n, .lowest = prices[0] };

	for (int i = 0; i < n; i++)
		m.sellers[i] = (struct demand_seller){ prices[i], 1, 0 };
	return m;
}

/* Against customers of each shape, the learned ask earns at least 95% of the best one. */
static void check_learns(double steep, double load)
{
	static const double prices[] = { 1.0, 1.1, 1.3, 1.5 };
	struct demand_market m = market_of(4, prices);
	struct demand_question q = { .market = &m, .idle = 4 };
	struct demand_answer best;
	struct demand d;
	struct rng r;
	double top = 0, got, tried[] = { 0.9, 1.0, 1.15, 1.4 };

	demand_init(&d);
	rng_seed(&r, 99, (uint64_t)(steep * 10));
	for (int t = 0; t < 4000; t++) {
		double ask = tried[t / 48 % 4], rate = load / 12 * pow(ask, -steep);
		int taken = 0;

		for (int u = 0; u < 4; u++)
			taken += rng_f64(&r) < -expm1(-rate * 0.5);
		CHECK(demand_observe(&d, &m, ask, 4, taken, 0.5));
	}
	demand_best(&d, &q, &best);
	for (double ask = 0.8; ask <= 4; ask *= 1.01) {
		double l = load * pow(ask, -steep);

		if (ask * l / (1 + l) > top)
			top = ask * l / (1 + l);
	}
	got = load * pow(best.ask, -steep);
	CHECK(best.ask * got / (1 + got) > 0.95 * top);
	CHECK(fabs(best.occupancy - got / (1 + got)) < 0.08);
}

static void check_bounds(void)
{
	static const double prices[] = { 1.0, 1.2 };
	struct demand_market m = market_of(2, prices), none = { 0 };
	struct demand_question q = { .market = &m, .idle = 1, .floor = 1.7 };
	struct demand_answer best, low;
	struct demand d, before;

	demand_init(&d);
	demand_best(&d, &q, &best);
	CHECK(best.ask >= 1.7);
	q.floor = 9; /* beyond every ask: the floor itself */
	demand_best(&d, &q, &best);
	CHECK(best.ask == 9);
	q.floor = 0;
	demand_best(&d, &q, &low);
	q.working = 0.6; /* dear energy is worth fewer customers */
	demand_best(&d, &q, &best);
	CHECK(best.ask >= low.ask);
	before = d;
	CHECK(!demand_observe(&d, &m, 1, 1, 2, 1)); /* more taken than there were */
	CHECK(!demand_observe(&d, &m, NAN, 1, 0, 1));
	CHECK(!demand_observe(&d, &m, 1, 1, 0, -1));  /* the clock went back */
	CHECK(demand_observe(&d, &none, 1, 1, 0, 1)); /* a dead feed teaches nothing */
	CHECK(demand_observe(&d, &m, 1, 0, 0, 1));
	CHECK(memcmp(&before, &d, sizeof d) == 0);
	/* nobody comes for a year: the belief stays one, and asks little */
	for (int i = 0; i < 365 * 48; i++)
		CHECK(demand_observe(&d, &m, 1, 1, 0, 0.5));
	q.working = 0;
	demand_best(&d, &q, &best);
	/* the least rate of the belief is that of one unit among four: a lone one has more */
	CHECK(isfinite(best.value) && best.occupancy >= 0 && best.occupancy < 0.25);
}

/* A belief that was read from a file is checked: what can be learned passes, nothing else. */
static void check_damaged(void)
{
	static const double prices[] = { 1.0, 1.2 }, bad[] = { NAN, INFINITY, -1e-9, 2 };
	struct demand_market m = market_of(2, prices);
	struct demand d, sound;

	demand_init(&sound);
	CHECK(!demand_check(&sound));
	for (int t = 0; t < 300; t++) {
		demand_observe(&sound, &m, 0.9, 8, t % 3, t % 7 * 10);
		demand_lease(&sound, t, t % 2);
		CHECK(!demand_check(&sound));
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		d = sound;
		d.weights[DEMAND_SHAPES - 1][3] = bad[i];
		CHECK(demand_check(&d));
		d = sound;
		d.usual[2] = bad[i];
		CHECK(demand_check(&d));
		d = sound;
		d.leases = bad[i];
		CHECK(demand_check(&d));
		d = sound;
		d.lease_hours = bad[i];
		CHECK(demand_check(&d));
	}
	d = sound;
	d.usual[0] = 0; /* would be divided by */
	CHECK(demand_check(&d));
	d = sound;
	d.observations = -1;
	CHECK(demand_check(&d));
	d = sound;
	memset(d.weights, 0, sizeof d.weights);
	CHECK(demand_check(&d));
	memset(&d, 0xff, sizeof d);
	CHECK(demand_check(&d));
}

/* Whether an ask of `last` is changed to the best one. */
static bool changes(const struct demand *d, struct demand_question q, double last,
	double held_hours, int today, struct demand_answer *best)
{
	q.last = last;
	demand_best(d, &q, best);
	return demand_change(&q, &demand_rules_default, held_hours, today, best);
}

static void check_change(void)
{
	static const double prices[] = { 1.0, 1.2 };
	struct demand_market m = market_of(2, prices);
	struct demand_question q = { .market = &m, .idle = 1 };
	struct demand_answer best;
	struct demand d;
	int small = 0;

	demand_init(&d);
	CHECK(changes(&d, q, -1, 0, 0, &best)); /* no price yet */
	CHECK(!changes(&d, q, best.ask, 100, 0, &best));
	CHECK(changes(&d, q, 30, 100, 5, &best));
	CHECK(!changes(&d, q, 30, 100, 6, &best)); /* six changes today */
	q.floor = 40;
	CHECK(changes(&d, q, 30, 0, 6, &best)); /* under the floor: always */
	q.floor = 0;
	/* a small gain waits until the price has stood its time */
	for (double ask = 0.8; ask < 4; ask *= 1.01) {
		bool now = changes(&d, q, ask, 1, 0, &best);

		if (best.gain < 0.02 || best.gain > 0.08)
			continue;
		small++;
		CHECK(!now);
		CHECK(changes(&d, q, ask, 5, 0, &best));
	}
	CHECK(small > 0);
}

/* The asks of all states are found by trying every combination; the last idle units are dearer,
 * and what they earn is what a chain with those asks earns. */
static void check_states(void)
{
	static const double prices[] = { 1.0, 1.1, 1.3, 1.5 };
	struct demand_market m = market_of(4, prices);
	struct demand_question q = { .market = &m, .idle = 8, .units = 8 };
	struct demand_answer all, one, constant;
	struct demand d;

	demand_init(&d);
	demand_best(&d, &q, &all);
	q.idle = 1;
	demand_best(&d, &q, &one);
	CHECK(one.ask > all.ask);
	CHECK(one.value == all.value);
	for (double ask = 0.8; ask < 4; ask *= 1.02) {
		demand_value(&d, &q, ask, &constant);
		/* between two asks of the grid there may be a better one */
		CHECK(constant.value <= all.value * 1.01);
		CHECK(constant.occupancy > 0 && constant.occupancy < 1);
	}
	/* of a thousand units a sixty-fourth is a lot; more of them share the customers */
	q.units = q.idle = 1024;
	demand_best(&d, &q, &constant);
	CHECK(constant.value > 0 && constant.value < all.value);
	/* units that are leased at once however dear: their worth is finite */
	q.working = 0;
	for (int t = 0; t < 500; t++)
		demand_observe(&d, &m, 3.9, 8, 8, 0.5);
	demand_best(&d, &q, &all);
	CHECK(isfinite(all.value) && isfinite(all.ask));
}

/* --- worlds --------------------------------------------------------------------------------- */

#define STEPS 480

static void fill(struct world_series *s, struct world_snapshot *steps)
{
	memset(steps, 0, STEPS * sizeof *steps);
	for (int t = 0; t < STEPS; t++) {
		double low = 1 + 0.2 * ((t / 50) % 3);

		steps[t].market.sellers[0] = (struct demand_seller){ low, 3, 0 };
		steps[t].market.sellers[1] = (struct demand_seller){ 1.8, 5, 0 };
		steps[t].market.sellers[2] = (struct demand_seller){ 2.2, 2, 0 };
		steps[t].market.n = 3;
		steps[t].market.lowest = low;
		steps[t].median = 1.8;
	}
	*s = (struct world_series){ .steps = steps, .n = STEPS };
}

static double ask_lowest(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	(void)own;
	(void)p;
	return v->snapshot->market.lowest;
}

static void check_worlds(void)
{
	static struct world_snapshot steps[STEPS];
	static const struct world_policy lowest = { "lowest", 8, 0, ask_lowest };
	struct world_series s;
	struct world_result a, b;
	double busy = 0, ours = 0, under = 0;

	fill(&s, steps);
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct world w = { .kind = WORLD_FORMULA,
			.series = &s,
			.beta = 10,
			.load = 1,
			.lease_hours = 6,
			.units = 8,
			.seed = seed };
		double best;

		for (int i = 0; i < WORLD_LEASES; i++)
			w.lease_shape[i] = 1;
		world_open(&w);
		world_run(&w, &lowest, &a);
		busy += a.busy / 24;
		world_run(&w, &lowest, &b);
		CHECK(a.revenue == b.revenue); /* the same seed, the same luck */
		best = world_hindsight(&w, NULL);
		world_run(&w, world_policy("ours"), &b);
		ours += b.revenue / best / 24;
		CHECK(b.day_changes_max <= 6);
		world_run(&w, world_policy("undercut"), &b);
		under += b.revenue / best / 24;
	}
	/* all units idle would be wanted once over: of units that are taken at that rate half
	 * are busy, and more, because fewer idle ones share the customers */
	CHECK(busy > 0.45 && busy < 0.65);
	CHECK(ours > 0.9 && ours > under);
}

#define FROZEN_EVERY 144
#define FROZEN_STEPS 24
#define MAX_AGE      4
#define FAULT_SEEDS  10

/* Ours, whose feed stands still for twelve hours every three days; feed --max-age 2h refuses it
 * when it is that old. */
static size_t frozen_from; /* when the first of them begins */

static double ask_frozen(void *own, const struct world_policy *p,
	const struct world_view *v)
{
	static const struct world_snapshot *last;
	struct world_view seen = *v;
	size_t at;

	(void)p;
	at = (v->step + FROZEN_EVERY - frozen_from) % FROZEN_EVERY;
	if (at >= FROZEN_STEPS || !v->step)
		last = v->snapshot;
	seen.snapshot = at >= MAX_AGE && at < FROZEN_STEPS && v->step ? NULL : last;
	return world_policy("ours")->ask(own, world_policy("ours"), &seen);
}

/* Returns the mean revenue over the best in hindsight. */
static double mean_ratio(enum world_kind kind, const struct world_policy *policy)
{
	static struct world_snapshot steps[STEPS];
	struct world_series s;
	struct world_result r;
	double sum = 0;

	fill(&s, steps);
	for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++) {
		struct world w = { .kind = kind,
			.series = &s,
			.beta = 10,
			.load = 1,
			.lease_hours = 6,
			.units = 8,
			.seed = seed };

		for (int i = 0; i < WORLD_LEASES; i++)
			w.lease_shape[i] = 1;
		world_open(&w);
		frozen_from = seed * 9 % FROZEN_EVERY;
		world_run(&w, policy, &r);
		sum += r.revenue / world_hindsight(&w, NULL) / FAULT_SEEDS;
	}
	return sum;
}

/* A rival that copies us, a dead feed and a frozen one cost at most 2% of the revenue. */
static void check_faults(void)
{
	const struct world_policy *ours = world_policy("ours");
	struct world_policy frozen = *ours;
	double sound = mean_ratio(WORLD_FORMULA, ours);

	frozen.ask = ask_frozen;
	CHECK(mean_ratio(WORLD_COPY, ours) > sound - 0.02);
	CHECK(mean_ratio(WORLD_OUTAGE, ours) > sound - 0.02);
	CHECK(mean_ratio(WORLD_FORMULA, &frozen) > sound - 0.02);
}

/* Two nodes of ours that see each other's price do not pull each other down where demand
 * exceeds supply. */
static void check_two(void)
{
	struct demand d[2];
	double ask[2] = { 1, 1.02 }, left[2][4] = { { 0 } }, lowest = 9;
	struct rng r;

	rng_seed(&r, 5, 5);
	demand_init(&d[0]);
	demand_init(&d[1]);
	for (int t = 0; t < 1000; t++) {
		for (int k = 0; k < 2; k++) {
			double rival[] = { ask[!k], 2.0 };
			struct demand_market m = market_of(2, rival);
			struct demand_question q = { .market = &m };
			struct demand_answer best;
			int idle = 0, taken = 0;
			double rate, hours = 0;

			if (rival[0] > rival[1])
				m.lowest = 2.0;
			for (int u = 0; u < 4; u++)
				idle += left[k][u] <= 0;
			/* the third seller is sold out; a unit that asks what the other asks is
			 * wanted 24 times over */
			rate = 6.0 / 6 * pow(ask[k], -10) /
				(pow(ask[0], -10) + pow(ask[1], -10)) *
				(ask[k] < 3 ? 1 : 0.05) * 8;
			for (int u = 0; u < 4; u++) {
				hours += left[k][u] > 0 ? 0.5 : 0;
				if (left[k][u] > 0) {
					left[k][u] -= 0.5;
				} else if (rng_f64(&r) < -expm1(-rate * 0.5)) {
					left[k][u] = 6;
					taken++;
				}
			}
			demand_observe(&d[k], &m, ask[k], idle, taken, 0.5);
			demand_lease(&d[k], hours, false);
			for (int u = 0; u < taken; u++)
				demand_lease(&d[k], 0, true);
			q.idle = idle > 1 ? idle : 1;
			q.units = 4;
			q.last = ask[k];
			demand_best(&d[k], &q, &best);
			if (demand_change(&q, &demand_rules_default, t % 8 / 2.0, 0,
				    &best))
				ask[k] = best.ask;
		}
		for (int k = 0; k < 2; k++)
			if (t > 200 && ask[k] < lowest)
				lowest = ask[k];
	}
	/* no spiral: after the first days neither is ever below the seller that is sold out */
	CHECK(lowest > 2.0);
}

int main(void)
{
	check_learns(1.5, 3);
	check_learns(4, 1);
	check_learns(12, 2);
	check_bounds();
	check_damaged();
	check_change();
	check_states();
	check_worlds();
	check_faults();
	check_two();
	TEST_END();
}
