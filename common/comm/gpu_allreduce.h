/* gpu_allreduce.h - sums a range of a GPU's memory over all ranks: by NCCL on the GPUs if it is
 * present, otherwise piece by piece through the host's memory. Uses comm.h and
 * kernels/dev/dev.h.
 *
 * It has its own handle of the device, so that it can wait for an event while the thread of the
 * training step continues. All functions belong to the thread that has the struct comm, and
 * every rank calls them in the same order. */
#ifndef RNP_COMMON_COMM_GPU_ALLREDUCE_H
#define RNP_COMMON_COMM_GPU_ALLREDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/comm/comm.h"

/* floats that go through the host at once */
#define GPU_ALLREDUCE_PIECE ((uint64_t)4 << 20)

struct gpu_allreduce;

/* Opens it for device "cuda:1", this rank's own; over is borrowed until close. nccl: try NCCL;
 * unless every rank has it no rank uses it, and gpu_allreduce_why says why. Returns 0 and *out
 * to be closed, or -1 with err_set(): the device's error, 69 or 71. When over fails meanwhile,
 * the first sum fails. */
int gpu_allreduce_open(struct gpu_allreduce **out, const char *device, struct comm *over,
	bool nccl);
void gpu_allreduce_close(struct gpu_allreduce *s); /* NULL is fine */

/* Replaces data[i], on the device, by the sum over all ranks, the same bits on every rank, once
 * the device has reached the event (of another handle of it). Returns when that is done: 0, or
 * -1 with err_set(). */
int gpu_allreduce_sum(struct gpu_allreduce *s, float *data, uint64_t n, void *event);

const char *gpu_allreduce_backend(const struct gpu_allreduce
		*s); /* "nccl", or else the name of over: "tcp", "mpi" */
const char *gpu_allreduce_why(
	/* why it is not NCCL; "": it is, or NCCL was not asked for */
	const struct gpu_allreduce *s);

#endif
