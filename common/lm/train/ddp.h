/* parallel.h - data-parallel training: the gradients of several ranks are summed while the backward pass goes on. The hooks `ready` and
 * `settle` of train.h. Uses comm.h and threads.
 *
 * A thread of its own opens the struct comm, sums the ranges that `ready` names, in their order, and closes it. Ranges are joined to
 * LM_PARALLEL_JOIN floats by their sizes alone, so every rank sums the same pieces, and the same number of ranks gives the same bits,
 * with overlap or without it. Gradients of a GPU are summed by sums.h: by NCCL where it is there. */
#ifndef RNP_COMMON_LM_TRAIN_DDP_H
#define RNP_COMMON_LM_TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/comm/comm.h"
#include "kernels/dev/dev.h"

#define LM_PARALLEL_JOIN \
	((uint64_t)1 << 20) /* floats: smaller ranges wait for the next */
#define LM_PARALLEL_MOST ((uint64_t)4 << 20) /* floats of one all-reduce */

struct lm_parallel;

struct lm_parallel_options {
	/* Called on the thread; both as comm_mpi_open. */
	int (*open)(struct comm *c, void *arg);
	void *arg;
	bool overlap; /* false: sum everything in settle */
	/* Bits that this rank says to the others with each settle; NULL: 0. Called on the thread of the step. */
	unsigned (*say)(void);
};

/* Returns 0 and *out, or -1 with err_set(): what open says, 71 no thread. */
int lm_parallel_open(struct lm_parallel **out, const struct lm_parallel_options *o);

/* Waits for sums in progress and for the other ranks, which must close, too: a process whose work failed while others go on must end
 * without this. NULL is fine. */
void lm_parallel_close(struct lm_parallel *p);

int lm_parallel_rank(const struct lm_parallel *p);
int lm_parallel_size(const struct lm_parallel *p);

/* The flat gradients that ranges are of, and their device, both borrowed; before the first ready, by every rank. Where ranks share a GPU,
 * NCCL is not tried. Returns 0, or -1 with err_set(): the device's error, or as settle. */
int lm_parallel_bind(struct lm_parallel *p, struct dev *d, float *gradients);

/* What sums the gradients: "nccl", "tcp", "mpi"; and why it is not NCCL, "" where that was not to be. */
const char *lm_parallel_by(const struct lm_parallel *p);
const char *lm_parallel_why(const struct lm_parallel *p);

/* lm_ready_fn and lm_settle_fn; arg is the struct lm_parallel. settle sums loss and targets, exactly and in the order of ranks. Return
 * 0, or -1 with err_set(): 75 a rank stalls, 69 a rank is gone; all later calls then fail alike. */
int lm_parallel_ready(void *arg, uint64_t from, uint64_t count);
int lm_parallel_settle(void *arg, double *loss_sum, uint64_t *targets);

/* What any rank said with the last settle. */
unsigned lm_parallel_said(const struct lm_parallel *p);

/* all [size][n] becomes the mine [n] of all ranks. Not between ready and settle. Errors as settle. */
int lm_parallel_gather(struct lm_parallel *p, const uint64_t *mine, size_t n,
	uint64_t *all);

/* Where time went, of all steps: in sums (with the wait for slower ranks), and of it what the step had to wait for. */
struct lm_parallel_times {
	int64_t sum_ns, wait_ns;
};
void lm_parallel_times(struct lm_parallel *p, struct lm_parallel_times *out);

#endif
