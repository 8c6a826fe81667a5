/* sched.h - which job runs next on a cluster whose jobs can be preempted, and how well that
 * works. Pure.
 *
 * sched_order makes the decision: it puts the waiting and running jobs in the order in which an
 * algorithm serves them. sched_run simulates a trace in rounds: at the start of each, jobs are
 * started in that order as far as there are GPUs. One function decides for both. No placement:
 * GPUs are all alike. */
#ifndef RNP_PRICE_SCHED_H
#define RNP_PRICE_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHED_ROUND_S 300

enum sched_algorithm {
	SCHED_FIFO, /* in order of arrival, without overtaking or preemption */
	SCHED_LAS, /* least attained service (Nuyens and Wierman 2008; Tiresias, NSDI 2019) */
	SCHED_LAS_QUEUES, /* the same in three queues, with borders at 8 and 80 GPU-hours */
	SCHED_SHORTEST,   /* shortest remaining time: knows the future */
	SCHED_ALGORITHMS
};
extern const char *const sched_names[SCHED_ALGORITHMS];

struct sched_job {
	int64_t arrival_s, gpus;
	double duration_s; /* how long it runs on all its GPUs */
	/* state of the simulation */
	double done_s, finish_s; /* finish < 0: not finished */
	double share;            /* weight of its owner, usually 1 */
	int type;                /* index of its type of work; see sched_read.h */
};

/* The key of least attained service: what a job or an owner was served, for his share (0 or less:
 * 1). The smallest is next, on a live market (match) as in a trace (sched_order). */
double sched_attained(double served, double share);

/* One waiting or running job, as an algorithm sees it. */
struct sched_entry {
	double key;
	size_t job;
};

/* Sorts n entries in the order of service. Ties: the earlier arrival, then the lower index. */
void sched_order(enum sched_algorithm a, const struct sched_job *jobs,
	struct sched_entry *entries, size_t n);

struct sched_result {
	double mean_s, p50_s, p99_s; /* completion: from arrival to end */
	double makespan_s, wait_mean_s;
	/* Jain's index (1984) of each job's speed, its length over the time that it took: 1 if all
	 * were slowed alike, 1 / jobs if one had everything */
	double fairness;
	double slowdown_p99; /* time over length, at least 1 */
	double busy; /* fraction of the GPUs' time until the last arrival, 0 to 1 */
	size_t jobs, refused; /* refused: needed more GPUs than there are */
};

/* Simulates n jobs, sorted by arrival, on `gpus` GPUs. Jobs of 0 GPUs or no length end when
 * they arrive. */
void sched_run(enum sched_algorithm a, struct sched_job *jobs, size_t n, int64_t gpus,
	struct sched_result *out);

/* Sums up what became of n jobs: those that have not finished were refused. All but busy. */
void sched_sum_up(const struct sched_job *jobs, size_t n, struct sched_result *out);

#endif
