/* hetero.h - plays a trace of jobs on a cluster of several GPU models, on which each job runs at
 * speeds of its own. Pure.
 *
 * Gavel's mechanism (Narayanan et al., OSDI 2020, section 5): when jobs have come or gone, a
 * policy says which part of its time each job is to spend on each model (fair.h); in rounds of
 * 360 s the jobs that are furthest below their share run first, while there are GPUs. Jobs
 * move between models from round to round at no cost. HETERO_MATCH is what match.h does
 * instead, by the same function as rnp-price match --preempt: when jobs come or end, one that was
 * served less stops one that was served more, which goes on elsewhere from its last round; until
 * then a job stays where it began. */
#ifndef RNP_PRICE_HETERO_H
#define RNP_PRICE_HETERO_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/fair.h"
#include "cmd/rnp-price/sched.h"

#define HETERO_ROUND_S    360
#define HETERO_RESET_S    1920 /* an allocation is kept at least this long */
#define HETERO_MATCH_GPUS 64   /* GPUs of a node, as match sees the cluster */

enum hetero_algorithm {
	HETERO_MAX_MIN, /* max-min fairness that takes all GPUs for equal: the baseline */
	HETERO_GAVEL,   /* max-min fairness over throughputs */
	HETERO_MAKESPAN, /* the shortest time until all present jobs have ended */
	HETERO_MATCH, /* rnp-price match --algorithm gavel --preempt, at equal prices */
	HETERO_ALGORITHMS
};
extern const char *const hetero_names[HETERO_ALGORITHMS];

struct hetero_cluster {
	const char *names[FAIR_MODELS_MAX];
	int64_t gpus[FAIR_MODELS_MAX];
	int models;
	/* of each type of job on each model, over that on the first one; 0: does not run there */
	double (*speed)[FAIR_MODELS_MAX];
};

/* Simulates n jobs, sorted by arrival, whose duration_s is that on the first model, until the
 * jobs first to first + count - 1 have ended, and sums those up: later ones arrive and compete,
 * too. A job that fits on no model is refused. seed: of the order in which the baseline goes
 * through the models. */
void hetero_run(enum hetero_algorithm a, const struct hetero_cluster *cluster,
	struct sched_job *jobs, size_t n, size_t first, size_t count, uint64_t seed,
	struct sched_result *out);

#endif
