/* world.h - a market of real offers with simulated customers, in which price policies earn.
 * Pure.
 *
 * Units of one model stand among the real sellers of a recorded series; in each step an idle unit
 * is leased with a probability that depends on its price and everybody else's.
 * Leases keep their price. What happens is a function of the seed alone: the same step and unit
 * have the same luck under every policy. */
#ifndef RNP_PRICE_SIMULATE_WORLD_H
#define RNP_PRICE_SIMULATE_WORLD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/quote/demand.h"

#define WORLD_STEPS_MAX  100000
#define WORLD_UNITS_MAX  64
#define WORLD_STEP_HOURS 0.5
#define WORLD_LEASES     64 /* quantiles of lease lengths */

/* One snapshot of a series. */
struct world_snapshot {
	struct demand_market market;
	double median;
};

/* A recorded market, one snapshot per step. */
struct world_series {
	char *name;
	struct world_snapshot *steps;
	size_t n, cap;
};

/* How customers choose; all but the first violate the formula of the 90 worlds on the grid. */
enum world_kind {
	WORLD_FORMULA,  /* spread over all sellers by (price / median)^-beta */
	WORLD_CHEAPEST, /* each takes the cheapest below a limit of his own */
	WORLD_LOYAL,    /* half of them consider only one brand */
	WORLD_FALL, /* the formula; from the middle on a third of the customers remain */
	WORLD_COPY, /* the formula; a rival who is in no feed copies our price an hour later */
	WORLD_FOLLOW, /* the same, and the feed shows him */
	/* the formula, and every three days something is wrong with the feed for twelve hours: */
	WORLD_OUTAGE,  /* there is none */
	WORLD_FROZEN,  /* it repeats the last snapshot before that */
	WORLD_HOSTILE, /* it lists somebody who has nothing to sell, for a millionth of a
			* dollar or, every other time, for just as much as is believed */
	WORLD_KINDS
};
extern const char *const world_kind_names[WORLD_KINDS];

struct world {
	enum world_kind kind;
	const struct world_series *series;
	/* load: at the lowest price, by all customers, relative to all units */
	double beta, load, lease_hours;
	int units;
	uint64_t seed;
	double working;                   /* cost of an hour of work, per unit */
	double base_rate;                 /* of customers, set by world_open */
	double lease_shape[WORLD_LEASES]; /* lengths over their mean */
};

/* The information that a policy has at a step. */
struct world_view {
	size_t step;
	const struct world_snapshot *snapshot; /* NULL: the feed is out */
	int units, idle, idle_before, taken;   /* before: at the start of the last step */
	double ended_hours;                    /* of leases that ended in the last step */
	int ended;
	double running_hours; /* that running leases worked in the last step */
};

/* A policy: sets a price at each step. Its `size` bytes of state are zeroed before a world
 * begins. */
struct world_policy {
	const char *name;
	size_t size;
	double parameter;
	double (*ask)(void *own, const struct world_policy *p,
		const struct world_view *v);
};

struct world_result {
	double revenue; /* less the cost of working */
	double busy;    /* fraction of the time, 0 to 1 */
	double changes_a_day;
	double day_changes_max; /* in 24 hours */
};

/* Lease lengths as those of Philly over 15 minutes, truncated at 72 h: means of 64 equal parts. */
extern const double world_philly_leases[WORLD_LEASES];

/* Sets what follows from the rest: base_rate, so that asking the lowest price gives the load. */
void world_open(struct world *w);

void world_run(const struct world *w, const struct world_policy *p,
	struct world_result *out);

/* Returns the largest revenue of fixed prices, of constant ratios to the median and to the
 * lowest price, each on a grid of 20, in the same world with a feed that tells the truth. If
 * `which` is not NULL, the name of the best one is written to it. */
double world_hindsight(const struct world *world, char which[40]);

/* Returns the policy with a name: "ours", "undercut", "step10", "median", "copy"; NULL: none. */
const struct world_policy *world_policy(const char *name);
extern const char *const world_policy_names[];

/* --- world_read.c: recorded markets, in the form of Prime's public history -------------------- */

/* Adds the lines of the file at path to s: JSON objects with price_stats.median and
 * by_provider, an object of {count, min} by name, prices in dollars. Snapshots without a
 * provider are skipped. Returns 0, or -1: 65 naming the line and the field, 66, 74. */
int world_series_read(struct world_series *s, char *path);
void world_series_release(struct world_series *s);

/* Reads one snapshot from its record. Returns 1, 0 if it has no provider, or -1 (65). */
int world_snapshot_read(struct world_snapshot *out, const json_t *record,
	const char *where);

#endif
