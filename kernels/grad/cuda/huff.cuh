/* huff.cuh - what the encoder and the decoder of huff.h on a GPU share: huff.cu, huff_put.cu (with
 * huff_plan.cuh and huff_stream.cuh), huff_get.cu.
 *
 * An encoder is a thread block: its threads count in shared memory, 16 symbols each at a time, plan
 * together but for the tree, and each warp makes streams, 16 symbols a lane, in shared memory at
 * positions given by prefix sums of the code lengths, and stores whole words. Each chunk is
 * written to a slot of its own; then all are moved together. A decoder is a warp, with a lane for
 * each stream, which loads 4 bytes and stores 8 symbols at a time.
 *
 * Only integers are used: contraction (-fmad) changes nothing. */
#ifndef RNP_KERNELS_GRAD_HUFF_CUH
#define RNP_KERNELS_GRAD_HUFF_CUH

#include "kernels/grad/huff_plan.h"

#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/grad/ops.h"

#define THREADS 256
#define WARPS   (THREADS / 32)
#define FULL    0xffffffffu

/* Memory that a thread block needs besides its slot, for chunks of `chunk` symbols. */
struct space {
	unsigned char *runs, *rest, *packed;
	unsigned char *in; /* the encoder's symbols, if they lie at no multiple of 16 */
	uint32_t *lows;
};

static __host__ __device__ inline uint64_t runs_cap(uint32_t chunk)
{
	return (huff_runs_max(chunk) + 255) / 256 * UINT64_C(256);
}

static __host__ __device__ inline uint64_t space_bytes(uint32_t chunk)
{
	return runs_cap(chunk) * 7 + (chunk + 255) / 256 * UINT64_C(256);
}

static __device__ inline struct space space_of(unsigned char *all, uint32_t chunk)
{
	unsigned char *mine = all + blockIdx.x * space_bytes(chunk);
	struct space s;

	s.lows = (uint32_t *)mine;
	s.runs = mine + 4 * runs_cap(chunk);
	s.rest = s.runs + runs_cap(chunk);
	s.packed = s.rest + runs_cap(chunk);
	s.in = s.packed + runs_cap(chunk);
	return s;
}

/* Returns in *out memory that belongs to the device and grows as needed. Returns 0 or -1. */
int huff_scratch(struct dev *d, unsigned char **out, uint64_t bytes);
/* Returns 0, or -1 if a chunk cannot have so many symbols. */
int huff_check(struct dev *d, uint32_t chunk);
/* Returns the number of thread blocks for some chunks, at most on_each per multiprocessor. */
unsigned huff_blocks(struct dev *d, uint64_t chunks, unsigned on_each);

#endif
