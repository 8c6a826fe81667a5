/* sums.h - how a range of a GPU's memory becomes the sum over all ranks: by NCCL on the GPUs where it is there, else piece by piece
 * through the host's memory. Uses comm.h and kernels/dev/dev.h.
 *
 * It has a handle of its own of the device, so that it can wait for a mark while the step's thread goes on. All functions are for the
 * thread that has the struct comm, and every rank calls them in the same order. */
#ifndef RNP_COMMON_COMM_GPU_ALLREDUCE_H
#define RNP_COMMON_COMM_GPU_ALLREDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/comm/comm.h"

#define GPU_ALLREDUCE_PIECE \
	((uint64_t)4 << 20) /* floats that go through the host at once */

struct gpu_allreduce;

/* device: "cuda:1", that of this rank; over is borrowed until close. nccl: try it; where it is not there for every rank no rank uses
 * it, and why says the cause. Returns 0 and *out to be closed, or -1 with err_set(): the device's error, 69 or 71. An over that fails meanwhile
 * fails at the first sum. */
int gpu_allreduce_open(struct gpu_allreduce **out, const char *device, struct comm *over,
	bool nccl);
void gpu_allreduce_close(struct gpu_allreduce *s); /* NULL is fine */

/* data[i], on the device, becomes the sum of all ranks' data[i], the same bits on every rank, once the device has come to the mark (of
 * another handle of it). Returns when that is done, 0 or -1 with err_set(). */
int gpu_allreduce_sum(struct gpu_allreduce *s, float *data, uint64_t n, void *mark);

const char *gpu_allreduce_backend(
	const struct gpu_allreduce *s); /* "nccl", else the name of over: "tcp", "mpi" */
const char *gpu_allreduce_why(
	const struct gpu_allreduce *s); /* it is not NCCL; "": it is, or was not to be */

#endif
