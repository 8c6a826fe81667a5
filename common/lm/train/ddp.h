/* ddp.h - data-parallel training: sums the gradients of several ranks while the backward pass
 * continues. Implements the hooks grad_ready and grad_sync of train.h. Uses comm.h and threads.
 *
 * One thread opens the struct comm, sums the ranges that grad_ready reports, in their order,
 * and closes it. Ranges are joined to DDP_BUCKET_MIN floats by their sizes alone, so every rank
 * sums the same pieces, and the same number of ranks gives the same bits, with overlap or
 * without it. Gradients on a GPU are summed by gpu_allreduce.h: with NCCL if it is installed. */
#ifndef RNP_COMMON_LM_TRAIN_DDP_H
#define RNP_COMMON_LM_TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/comm/comm.h"
#include "kernels/lm/ops.h"

/* floats; smaller ranges are joined with the next */
#define DDP_BUCKET_MIN ((uint64_t)1 << 20)
#define DDP_BUCKET_MAX ((uint64_t)4 << 20) /* floats of one all-reduce */

struct ddp;

struct ddp_options {
	/* Opens the communicator. Called on the thread, returns as comm_mpi_open. */
	int (*open)(struct comm *c, void *arg);
	void *arg;
	bool overlap; /* false: all sums happen in grad_sync */
	/* Returns the bits that this rank sends to the others with each grad_sync; NULL: 0.
	 * Called on the step's thread. */
	unsigned (*stop_flags)(void);
};

/* Opens the ranks. Returns 0 and *out, or -1 with err_set(): as open, 71 no thread. */
int ddp_open(struct ddp **out, const struct ddp_options *o);

/* Waits for sums in progress and for the other ranks, which must close too. A process whose
 * training failed while others continue must exit without calling it. NULL is fine. */
void ddp_close(struct ddp *p);

int ddp_rank(const struct ddp *p);
int ddp_size(const struct ddp *p);

/* Numbers the ranks of this machine from 0: processes within one boot and one container, which
 * see the same GPUs. Every rank must call it. Returns 0, *local and how many they are, or -1 with
 * err_set() as ddp_allgather. */
int ddp_local_rank(struct ddp *p, int *local, int *ranks);

/* What ranks need of memory that they share: the host's, on one machine, or a GPU's. */
struct ddp_memory {
	uint64_t need,
		there; /* bytes: their sum; the least that any of them found free */
	int ranks;
};

/* Finds whether the ranks' memory suffices; each says what it needs and what is free where its
 * device's memory is. *m, the same on every rank: the first memory of which there is too little, or
 * else rank 0's. Errors as grad_sync. */
int ddp_memory(struct ddp *p, const struct dev *d, uint64_t need, uint64_t there,
	struct ddp_memory *m);

/* Sets the flat array of gradients and its device, both borrowed; every rank calls it before
 * the first grad_ready. If ranks share a GPU, NCCL is not tried. Returns 0, or -1 with
 * err_set(): the device's error, or as grad_sync. */
int ddp_bind(struct ddp *p, struct dev *d, float *gradients);

/* Return the backend that sums the gradients: "nccl", "tcp" or "mpi"; and the reason why it is
 * not NCCL, "" if NCCL was not expected. */
const char *ddp_backend(const struct ddp *p);
const char *ddp_why(const struct ddp *p);

/* Implement lm_grad_ready_fn and lm_grad_sync_fn; arg is the struct ddp. grad_sync sums loss
 * and targets, exactly and in the order of ranks. Both return 0, or -1 with err_set(): 75 a
 * rank stalls, 69 a rank is gone; all later calls then fail alike. */
int ddp_grad_ready(void *arg, uint64_t from, uint64_t count);
int ddp_grad_sync(void *arg, double *loss_sum, uint64_t *targets);

/* Returns the OR of all ranks' stop flags, as of the last grad_sync. */
unsigned ddp_stop_flags(const struct ddp *p);

/* Gathers `mine` [n] of every rank into `all` [size][n]. Must not be called between grad_ready
 * and grad_sync. Errors as grad_sync. */
int ddp_allgather(struct ddp *p, const uint64_t *mine, size_t n, uint64_t *all);

/* Copies rank 0's `bytes` of data to every other rank, as comm_broadcast. Must not be called
 * between grad_ready and grad_sync. Errors as grad_sync. */
int ddp_broadcast(struct ddp *p, void *data, size_t bytes);

/* Return the total time of sums (including waits for slower ranks), and the part of it for
 * which steps waited. */
struct ddp_times {
	int64_t sum_ns, wait_ns;
};
void ddp_times(struct ddp *p, struct ddp_times *out);

#endif
