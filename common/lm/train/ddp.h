/* parallel.h - data-parallel training: the gradients of several ranks are summed while the backward pass goes on. The hooks `ready` and
 * `settle` of train.h. Uses comm.h and threads.
 *
 * A thread of its own opens the struct comm, sums the ranges that `ready` names, in their order, and closes it. Ranges are joined to
 * DDP_BUCKET_MIN floats by their sizes alone, so every rank sums the same pieces, and the same number of ranks gives the same bits,
 * with overlap or without it. Gradients of a GPU are summed by sums.h: by NCCL where it is there. */
#ifndef RNP_COMMON_LM_TRAIN_DDP_H
#define RNP_COMMON_LM_TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/comm/comm.h"
#include "kernels/lm/ops.h"

#define DDP_BUCKET_MIN ((uint64_t)1 << 20) /* floats: smaller ranges wait for the next */
#define DDP_BUCKET_MAX ((uint64_t)4 << 20) /* floats of one all-reduce */

struct ddp;

struct ddp_options {
	/* Called on the thread; both as comm_mpi_open. */
	int (*open)(struct comm *c, void *arg);
	void *arg;
	bool overlap; /* false: sum everything in settle */
	/* Bits that this rank says to the others with each settle; NULL: 0. Called on the thread of the step. */
	unsigned (*stop_flags)(void);
};

/* Returns 0 and *out, or -1 with err_set(): what open says, 71 no thread. */
int ddp_open(struct ddp **out, const struct ddp_options *o);

/* Waits for sums in progress and for the other ranks, which must close, too: a process whose work failed while others go on must end
 * without this. NULL is fine. */
void ddp_close(struct ddp *p);

int ddp_rank(const struct ddp *p);
int ddp_size(const struct ddp *p);

/* *local becomes the number of this rank among those of this machine (a boot of it, and a container on it: processes that see the same
 * GPUs), from 0. Called by every rank. Returns 0, or -1 with err_set() as ddp_allgather. */
int ddp_local_rank(struct ddp *p, int *local);

/* The flat gradients that ranges are of, and their device, both borrowed; before the first ready, by every rank. Where ranks share a GPU,
 * NCCL is not tried. Returns 0, or -1 with err_set(): the device's error, or as settle. */
int ddp_bind(struct ddp *p, struct dev *d, float *gradients);

/* What sums the gradients: "nccl", "tcp", "mpi"; and why it is not NCCL, "" where that was not to be. */
const char *ddp_backend(const struct ddp *p);
const char *ddp_why(const struct ddp *p);

/* lm_grad_ready_fn and lm_grad_sync_fn; arg is the struct ddp. settle sums loss and targets, exactly and in the order of ranks. Return
 * 0, or -1 with err_set(): 75 a rank stalls, 69 a rank is gone; all later calls then fail alike. */
int ddp_grad_ready(void *arg, uint64_t from, uint64_t count);
int ddp_grad_sync(void *arg, double *loss_sum, uint64_t *targets);

/* What any rank said with the last settle. */
unsigned ddp_stop_flags(const struct ddp *p);

/* all [size][n] becomes the mine [n] of all ranks. Not between ready and settle. Errors as settle. */
int ddp_allgather(struct ddp *p, const uint64_t *mine, size_t n, uint64_t *all);

/* Where time went, of all steps: in sums (with the wait for slower ranks), and of it what the step had to wait for. */
struct ddp_times {
	int64_t sum_ns, wait_ns;
};
void ddp_times(struct ddp *p, struct ddp_times *out);

#endif
