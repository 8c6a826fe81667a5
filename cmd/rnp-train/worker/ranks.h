/* ranks.h - a worker of several processes (an island): rank 0 talks to the coordinator and keeps
 * the state, the others train with it and follow what it tells them. Uses ddp.h, local/launch.h,
 * worker.h.
 *
 * Between steps the others wait for a command of rank 0: the run, parameters and AdamW's state, one
 * step with its text, or the end. Without ranks all functions of rank 0 do nothing. */
#ifndef RNP_TRAIN_WORKER_RANKS_H
#define RNP_TRAIN_WORKER_RANKS_H

#include "cmd/rnp-train/worker/worker.h"
#include "cmd/rnp-train/local/launch.h"

/* Joins the ranks of an MPI job, or those that l started, and chooses this one's device. Sets
 * w->ranks, rank and size. Returns 0, or -1 with err_set(): 69 no MPI, 71. */
int worker_open_ranks(struct worker *w, struct launch *l, bool mpi);

/* All but rank 0: does what rank 0 says until it says that this is the end. Returns 0, or -1 with
 * err_set(). */
int worker_follow(struct worker *w);

/* Ends the ranks, or this one with the pending error (failed): where the others are still in a sum,
 * the process ends here, and mpirun or the process that started it ends them. */
void worker_close_ranks(struct worker *w, struct launch *l, bool failed);

/* --- rank 0 ----------------------------------------------------------------------------------- */

/* How many sequences one pass takes, of --micro-batch or by the number of ranks. Returns 0, or -1
 * with err_set(EX_USAGE): the run's batch does not divide by it. */
int worker_share_batch(struct worker *w, uint64_t *rows);
/* Has the others open their loops for the run, passes of `rows` sequences, and holds the memory of
 * each machine against all of its ranks; o: of rank 0's trainer. Each function here returns 0, or
 * -1 with err_set(): 69 or 75 another rank is gone; this one also 65, the run is too large. */
int worker_lead_run(struct worker *w, uint64_t rows, const struct lm_train_options *o);
/* Gives the others the trainer's parameters, and (adam) AdamW's state with its count of steps. */
int worker_lead_state(struct worker *w, bool adam);
/* Before each step: its place, rate and text. */
int worker_lead_step(struct worker *w);
/* One step of the loop, by all. As lm_loop_step. */
int worker_make_step(struct worker *w, struct lm_step *step);

/* How many different GPUs the ranks train on. Every rank has said so when rank 0 called
 * worker_lead_run. */
int worker_gpus(const struct worker *w);

#endif
