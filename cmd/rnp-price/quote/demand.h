/* demand.h - what a node learns about its customers, and the ask that earns most. Pure: values
 * in, values out; the same code prices a live node and plays in simulated worlds.
 *
 * How customers choose is unknown, so several models are weighed against each other by what is
 * observed (Bayesian model averaging over a grid): customers who spread over all sellers by
 * price (conditional logit, McFadden 1974), demand that falls with a power of the price over
 * the lowest rival's, and customers who come one by one and take the cheapest unless it is sold
 * out or above their own limit. Each has a steepness, and a rate at which an idle unit is leased
 * if it asks what the lowest rival asks.
 * Rates drift: at each step a little of the belief moves to the neighbouring ones.
 *
 * The ask maximises what all units earn in the long run, less the energy of working. It depends
 * on how many are idle: the last idle unit gets customers that several would share, and waits for
 * a better price. That is a birth-death chain over the leased units with a price for each state
 * (Gallego and van Ryzin 1994 for sales; here units come back), solved by policy iteration
 * (Howard 1960) with the expected rates of the belief. Only the mean length of leases matters
 * (the chain is insensitive to the rest, as Engset's is). Expected rates are above what expected
 * occupancy would allow, so that high prices about which little is known are tried first. Prices
 * are per unit and hour, in any one currency. */
#ifndef RNP_PRICE_QUOTE_DEMAND_H
#define RNP_PRICE_QUOTE_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEMAND_SELLERS_MAX 64
#define DEMAND_SHAPES      21
#define DEMAND_RATES       25
/* leases that the first belief about their length is worth */
#define DEMAND_LEASES_PRIOR 3.0

/* The rivals at one time: each with its lowest price and how much it has. */
struct demand_market {
	size_t n; /* 0: no rivals are known */
	struct demand_seller {
		double price, count;
		uint64_t id; /* the same at another time; 0: not known */
	} sellers[DEMAND_SELLERS_MAX];
	double lowest; /* lowest price that is believed */
	double followers; /* units of those who copy our price, and are not among the sellers */
};

struct demand {
	double weights[DEMAND_SHAPES][DEMAND_RATES]; /* the belief; sums to 1 */
	double lease_hours, leases;                  /* observed, including the prior's */
	double usual
		[DEMAND_SHAPES]; /* each shape's rate at the lowest price, smoothed over time */
	long observations;
};

/* Sets the prior: at the lowest rival's price a unit is busy half of the time, give or take a
 * factor of 3.5 in the load. */
void demand_init(struct demand *d);

/* Returns NULL if d may be a belief that demand_observe and demand_lease left behind, else what is
 * wrong with it, a few words: one that was read from a file may be damaged. Everything that
 * passes can be asked and observed further without a division by zero or an infinite number. */
const char *demand_check(const struct demand *d);

/* Observes one interval: `idle` units were offered at ask for dt_hours, `taken` of them were
 * leased. A market without sellers, or no idle unit, teaches nothing. Returns false for
 * impossible values. */
bool demand_observe(struct demand *d, const struct demand_market *m, double ask,
	double idle, double taken, double dt_hours);

/* Observes that leases ran for `hours` more; whole: one of them ended. */
void demand_lease(struct demand *d, double hours, bool whole);

/* The input of the computation of an ask. */
struct demand_question {
	const struct demand_market *market;
	double idle;    /* units that are or may become idle, at least 1 */
	double units;   /* all, leased ones included; less than idle: as many as idle */
	double floor;   /* lower bound of the ask */
	double working; /* additional cost of an hour of work, per unit */
	double last;    /* the present ask; <= 0: there is none */
};
struct demand_answer {
	double ask;       /* the ask that earns most */
	double value;     /* expected per unit and hour, in the long run */
	double occupancy; /* expected fraction of the time, 0 to 1 */
	/* what is gained over the last ask while the number of idle units stays, relative to value:
	 * later asks are the best ones in either case */
	double gain;
};

/* Computes the best ask now; value and occupancy are those of the best asks in all states. market
 * must have sellers. */
void demand_best(const struct demand *d, const struct demand_question *q,
	struct demand_answer *out);

/* Computes what an ask would earn and how busy it would keep the units if it never changed. */
void demand_value(const struct demand *d, const struct demand_question *q, double ask,
	struct demand_answer *out);

double demand_mean_lease(const struct demand *d);

/* --- when to change the price ----------------------------------------------------------------- */

struct demand_rules {
	double hold_hours; /* a price stays at least this long unless much is to be gained */
	double gain;       /* least relative gain that is worth a change: 0.01 */
	double gain_early; /* the same before hold_hours are over */
	int changes_max;   /* in 24 hours */
};
extern const struct demand_rules demand_rules_default;

/* Whether to change from the last ask of q to the best one: it earns enough more, and a change is
 * allowed. A last ask below the floor is always changed. */
bool demand_change(const struct demand_question *q, const struct demand_rules *rules,
	double held_hours, int changes_today, const struct demand_answer *best);

#endif
