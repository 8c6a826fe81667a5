/* player.h - plays a trace of jobs on a cluster of one or several GPU models. Pure.
 *
 * One loop plays all policies, in rounds: jobs arrive, the policy chooses who runs in this round
 * and on which model, those run, and who is done leaves. Jobs move and pause at no cost. A policy
 * is a row of player_policies. The live matcher is one of them: it gets the jobs as rnp.job records
 * have them and keeps its own time, because match_run is the function that rnp-price match
 * calls. */
#ifndef RNP_PRICE_SIMULATE_PLAYER_H
#define RNP_PRICE_SIMULATE_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/simulate/fair.h"

struct player_cluster {
	const char *names[FAIR_MODELS_MAX];
	int64_t gpus[FAIR_MODELS_MAX];
	int models;
	/* of each type of job on each model, over that on the first one; 0: does not run there.
	 * NULL: all are as fast as each other */
	double (*speed)[FAIR_MODELS_MAX];
};

struct player_job {
	int64_t arrival_s, gpus;
	double duration_s; /* how long it runs on all its GPUs, of the first model */
	int type;          /* of work; see trace.h */
	/* state */
	double done_s, finish_s; /* finish_s < 0: not finished */
};

/* A job that has arrived and not ended. Small, because queues sort many of these each round. */
struct player_present {
	double key; /* of the policy */
	uint32_t job;
	int32_t model; /* on which it runs in this round; -1: on none. 0: it has just arrived */
};

struct player {
	const struct player_policy *policy;
	const struct player_cluster *cluster;
	struct player_job *jobs; /* times count from the first arrival while it plays */
	size_t n, end;           /* the play ends with job end - 1 and those before it */
	/* those that are there, in the order of arrival, or as the policy sorts them */
	struct player_present *there, *moved; /* moved: room for as many */
	size_t nthere;
	bool changed; /* jobs came or went since the policy last set it to false */
	double used_s, last_s; /* GPU-seconds that were used until the last arrival */
	uint64_t seed;
	struct gavel *gavel; /* state of gavel.c's policies */
};

struct player_policy {
	const char *name;
	bool models; /* for a cluster with models (--cluster); false: for equal GPUs (--gpus) */
	double round_s; /* nobody runs longer before the next choice */
	bool ticks; /* each round is as long as that; false: it ends when the last one pauses */
	/* sets the model of those that run in the round that begins now */
	void (*choose)(struct player *p, double now_s);
	/* of one queue: the least key is served first; NULL: in the order of arrival, and nobody
	 * overtakes */
	double (*key)(const struct player_job *j);
	/* of gavel.c: what a whole share of a model's time is worth to a job, see fair.h */
	double (*rate)(const struct player *p, const struct player_job *j, int model);
	/* not NULL: plays the whole trace, without rounds */
	void (*play)(struct player *p);
};

#define PLAYER_POLICIES 8
extern const struct player_policy player_policies[PLAYER_POLICIES];

/* Whether a policy is for such clusters and has this name, or "all" are wanted. */
bool player_policy_is(const struct player_policy *policy, const char *name, bool models);

struct player_result {
	double mean_s, p50_s, p99_s; /* completion: from arrival to end */
	double makespan_s, wait_mean_s;
	/* Jain's index (1984) of each job's speed, its length over the time that it took: 1 if all
	 * were slowed alike, 1 / jobs if one had everything */
	double fairness;
	double slowdown_p99; /* time over length, at least 1 */
	double busy; /* fraction of the GPUs' time until the last arrival, 0 to 1 */
	size_t jobs, refused; /* refused: fit on no model */
};

/* Plays n jobs, sorted by arrival, until the jobs first to first + count - 1 have ended, and sums
 * those up: later ones arrive and compete, too. Jobs of 0 GPUs or no length end when they arrive.
 * seed: of the order in which max-min goes through the models. */
void player_run(const struct player_policy *policy, const struct player_cluster *cluster,
	struct player_job *jobs, size_t n, size_t first, size_t count, uint64_t seed,
	struct player_result *out);

/* How fast a job runs on a model, relative to the first; whether it can run there, and anywhere. */
double player_speed(const struct player_cluster *c, const struct player_job *j,
	int model);
bool player_runs_on(const struct player_cluster *c, const struct player_job *j,
	int model);
bool player_is_possible(const struct player_cluster *c, const struct player_job *j);

/* gavel.c: shares of the time of each model */
void gavel_choose(struct player *p, double now_s);
void gavel_free(struct gavel *g);
double gavel_equal(const struct player *p, const struct player_job *j, int model);
double gavel_fair(const struct player *p, const struct player_job *j, int model);
double gavel_makespan(const struct player *p, const struct player_job *j, int model);

/* live.c: the live matcher */
void live_play(struct player *p);

#endif
