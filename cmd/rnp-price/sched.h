/* sched.h - who runs next on a cluster whose jobs can be set aside, and what comes of it. Pure.
 *
 * sched_order is the decision: it puts the jobs that are there in the order in which an
 * algorithm serves them. sched_run plays a trace in rounds: at the start of each, jobs are
 * taken in that order as far as there are GPUs. One function decides for both. No placement:
 * GPUs are all alike. */
#ifndef RNP_PRICE_SCHED_H
#define RNP_PRICE_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHED_ROUND_S 300

enum sched_algorithm {
	SCHED_FIFO, /* in order of arrival; nobody overtakes, nobody is set aside */
	SCHED_LAS, /* least attained service (Nuyens and Wierman 2008; Tiresias, NSDI 2019) */
	SCHED_LAS_QUEUES, /* the same in three queues, with borders at 8 and 80 GPU-hours */
	SCHED_SHORTEST,   /* shortest remaining time: knows the future */
	SCHED_ALGORITHMS
};
extern const char *const sched_names[SCHED_ALGORITHMS];

struct sched_job {
	int64_t arrival_s, gpus;
	double duration_s; /* that it runs, on all its GPUs */
	/* of the simulation */
	double done_s, finish_s; /* finish < 0: not yet */
	double share;            /* weight of its owner, 1: as everybody */
};

/* One job that is there, as an algorithm sees it. */
struct sched_entry {
	double key;
	size_t job;
};

/* Put n entries in the order of service. Ties: who came first, then the lower index. */
void sched_order(enum sched_algorithm a, const struct sched_job *jobs,
	struct sched_entry *entries, size_t n);

struct sched_result {
	double mean_s, p50_s, p99_s; /* completion: from arrival to end */
	double makespan_s, wait_mean_s;
	double busy;          /* part of the GPUs' time until the last arrival, 0 to 1 */
	size_t jobs, refused; /* refused: wanted more GPUs than there are */
};

/* Play n jobs, sorted by arrival, on so many GPUs. Jobs of 0 GPUs or no length end when they
 * arrive. */
void sched_run(enum sched_algorithm a, struct sched_job *jobs, size_t n, int64_t gpus,
	struct sched_result *out);

#endif
