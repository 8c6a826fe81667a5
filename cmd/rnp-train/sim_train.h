/* sim_train.h - the workers of a simulation with real steps: one trainer is each of them in turn.
 * Uses session.h, update.h, judge.h. */
#ifndef RNP_TRAIN_SIM_TRAIN_H
#define RNP_TRAIN_SIM_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-train/session.h"
#include "common/lm/train/judge.h"
#include "common/lm/train/round.h"
#include "common/lm/train/update.h"

#define SIM_WORKERS_MAX 64

/* What a hostile worker sends in place of its delta. */
enum sim_evil {
	SIM_HONEST,
	SIM_FLIP,   /* its negative */
	SIM_SCALE,  /* a hundred times it */
	SIM_RANDOM, /* noise of its norm */
	SIM_STALE,  /* its first one, again and again */
	SIM_IDLE,   /* next to nothing: it made no steps */
	SIM_COPY,   /* what worker 0 sent last, with a little noise */
};
int sim_evil_parse(enum sim_evil *e, const char *name);

struct sim_train_options {
	struct update_options update;
	struct outer_dn dn;
	struct grad method; /* of the workers' containers */
	uint64_t workers;
	enum sim_evil evil; /* of the last n_evil of them */
	uint64_t n_evil;
	uint64_t judge;        /* members judged a round */
	int64_t score_min_ppm; /* below it deltas do not count; INT64_MIN: not asked */
	uint64_t inner_steps;  /* H: a joiner's own warm-up is of 50 of them at most */
	uint64_t seed;
};

/* A worker between its turns. */
struct sim_state {
	float *m, *v; /* AdamW's; NULL: zeros */
	float *e;     /* error feedback; NULL: zeros */
	uint64_t adamw_steps;
	bool fresh; /* it joined a run that others began */
	/* containers: by the parity of their turn, as one may be late while the next is made; of
	 * the stale the first */
	struct buf delta[2], first;
	double loss; /* of its last tenth */
	int64_t score_ppm;
};

struct sim_train {
	struct session s;
	struct sim_train_options o;
	struct dev cpu;
	bool cpu_open;
	uint64_t count;                         /* parameters */
	float *theta, *pub, *v, *buffer, *last; /* [count] */
	float *m0, *v0;       /* AdamW's state that the first have; NULL */
	uint64_t start_steps; /* of the schedule before round 0 */
	uint64_t adamw_start;
	float *delta;             /* [count] */
	struct sim_state *states; /* [workers] */
	struct update_range all;
	uint64_t round_steps; /* inner steps of the rounds so far */
	/* of the last round */
	double loss;
	uint64_t refused, copied;
	struct update_result result;
	unsigned char model[32]; /* BLAKE2b-256 of pub */
};

/* Opens model, data and trainer. Close either way. */
int sim_train_open(struct sim_train *t, const struct session_options *s,
	const struct sim_train_options *o);
void sim_train_close(struct sim_train *t);

/* Makes the first steps as one machine with the batch of all workers: what a run begins with. The
 * sequences are the run's first. */
int sim_train_start(struct sim_train *t, uint64_t steps);

/* As struct sim_callbacks has them; arg: the struct sim_train. */
int64_t sim_train_work(void *arg, uint64_t worker, const struct round_assignment *a);
int64_t sim_train_update(void *arg, struct round *r, const uint64_t *worker_of);

/* --- for streaming workers (sim_stream.h) ----------------------------------------------------- */

/* Worker w makes steps on a range from parameters theta, which become what it ends with; done:
 * inner steps before them. Returns 0, or -1. */
int sim_train_steps(struct sim_train *t, uint64_t worker, uint64_t done,
	struct lm_range range, uint64_t steps, float *theta);
/* The container of t->delta, n elements: those of a fragment's ranges. */
int sim_train_encode(struct sim_train *t, uint64_t worker,
	const struct update_range *ranges, size_t nranges, uint64_t n, struct buf *out);
/* The outer step of a fragment from a container a worker: bytes of the update, or -1. */
int64_t sim_train_step_fragment(struct sim_train *t, const struct buf *deltas,
	const struct update_range *ranges, size_t nranges);

/* The loss of pub on the validation text. */
int sim_train_eval(struct sim_train *t, double *loss);

#endif
