/* train.h - the workers of a simulation with real training steps: one trainer acts as each
 * of them in turn. Uses local/session.h, common/lm/rounds/update.h, common/lm/rounds/judge.h. */
#ifndef RNP_TRAIN_SIM_TRAIN_H
#define RNP_TRAIN_SIM_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-train/local/session.h"
#include "common/lm/rounds/judge.h"
#include "common/lm/rounds/round.h"
#include "common/lm/rounds/update.h"

#define SIM_WORKERS_MAX 64

/* Replaces a hostile worker's delta by the one that it sends. */
enum sim_evil {
	SIM_HONEST,
	SIM_FLIP,   /* its negative */
	SIM_SCALE,  /* its delta times a hundred */
	SIM_RANDOM, /* noise of the same norm */
	SIM_STALE,  /* its first delta, again and again */
	SIM_IDLE,   /* almost zero: it made no steps */
	SIM_COPY,   /* what worker 0 sent last, plus a little noise */
};
int sim_evil_parse(enum sim_evil *e, const char *name);

struct sim_train_options {
	struct update_options update;
	struct outer_dn dn;
	struct grad method; /* of the workers' containers */
	uint64_t workers;
	enum sim_evil evil; /* behaviour of the last n_evil workers */
	uint64_t n_evil;
	uint64_t judge;        /* members verified per round */
	int64_t score_min_ppm; /* deltas with a lower score are refused; INT64_MIN: no check */
	uint64_t inner_steps; /* H: a joiner's warm-up has at most 50 of them */
	uint64_t seed;
};

/* The state of a worker between its turns. */
struct sim_state {
	float *m, *v; /* AdamW's; NULL: zeros */
	float *e;     /* error feedback; NULL: zeros */
	uint64_t adamw_steps;
	bool fresh; /* it joined a run that others began */
	/* containers, by the parity of their turn, since one may be late while the next is
	 * made; the first one for stale workers */
	struct buf delta[2], first;
	double loss; /* over the last tenth of its steps */
	int64_t score_ppm;
};

struct sim_train {
	struct session s;
	struct sim_train_options o;
	struct dev cpu;
	bool cpu_open;
	uint64_t count;                               /* parameters */
	float *theta, *published, *v, *buffer, *last; /* [count] */
	float *m0, *v0;       /* AdamW's initial state; NULL: zeros */
	uint64_t start_steps; /* steps of the schedule before round 0 */
	uint64_t adamw_start;
	float *delta;             /* [count] */
	struct sim_state *states; /* [workers] */
	struct update_range all;
	uint64_t round_steps; /* inner steps of all rounds so far */
	/* of the last round */
	double loss;
	uint64_t refused, copied;
	struct update_result result;
	unsigned char model[32]; /* BLAKE2b-256 of published */
};

/* Opens model, data and trainer. Close either way. */
int sim_train_open(struct sim_train *t, const struct session_options *s,
	const struct sim_train_options *o);
void sim_train_close(struct sim_train *t);

/* Makes the first steps like a single machine with the batch of all workers; the run starts
 * from the result. Uses the run's first sequences. */
int sim_train_start(struct sim_train *t, uint64_t steps);

/* Callbacks for struct sim_callbacks; arg: the struct sim_train. */
int64_t sim_train_work(void *arg, uint64_t worker, const struct round_assignment *a);
int64_t sim_train_update(void *arg, struct round *r, const uint64_t *worker_of);

/* --- for streaming workers (stream.h) ----------------------------------------------------- */

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

/* Computes the loss of published on the validation text. */
int sim_train_eval(struct sim_train *t, double *loss);

#endif
