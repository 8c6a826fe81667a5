/* fair.h - shares of the time of several GPU models, so that who gets least gets most. Pure.
 *
 * The heterogeneity-aware policies of Gavel (Narayanan et al., OSDI 2020, section 4) are linear
 * programs: x[i][j] is the part of its time that job i spends on model j, and
 *
 *   maximise  min over i of  sum over j of rate[i][j] x[i][j]
 *   where     sum over j of x[i][j] <= 1,  sum over i of gpus[i] x[i][j] <= capacity[j],  x >= 0.
 *
 * What a rate is decides the policy: throughput over what an equal share of every model would
 * give is max-min fairness, throughput over what is left to do is the shortest makespan, and 1
 * for every model is a policy that thinks all GPUs alike. */
#ifndef RNP_PRICE_SIMULATE_FAIR_H
#define RNP_PRICE_SIMULATE_FAIR_H

#include <stddef.h>

#define FAIR_MODELS_MAX 8
#define FAIR_GAP        1e-6 /* of the optimum, at most, is lost */

/* Jobs that are alike. */
struct fair_class {
	double jobs, gpus;            /* how many, and what each of them takes */
	double rate[FAIR_MODELS_MAX]; /* while it runs; at least one is over 0 */
	double x[FAIR_MODELS_MAX];    /* result: the same for each of the class */
};

/* Fills in x of n classes, n > 0, for `models` models of which there are capacity[j] > 0 GPUs.
 * Of the many optima it takes the one in the middle (the analytic centre), as an interior-point
 * solver does, so that nobody is left with nothing who needs not be. Returns the least that
 * anybody gets, within FAIR_GAP. */
double fair_allocate(struct fair_class *c, size_t n, const double *capacity, int models);

#endif
