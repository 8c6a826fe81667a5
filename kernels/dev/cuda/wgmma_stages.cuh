/* wgmma_stages.cuh - stages of shared memory that one thread fills by the TMA and warpgroups
 * multiply: two mbarriers each say that a stage is full, and that all have read it. */
#ifndef RNP_KERNELS_DEV_WGMMA_STAGES_CUH
#define RNP_KERNELS_DEV_WGMMA_STAGES_CUH

#include "kernels/dev/cuda/wgmma.cuh"

/* Bytes of shared memory for stages, with what the beginning may lack to a multiple of
 * WGMMA_ATOM. */
#define WGMMA_STAGES_BYTES(count, bytes) ((count) * ((bytes) + 16) + WGMMA_ATOM)

#if CUDA_WGMMA
/* The first multiple of WGMMA_ATOM in shared memory from here on. */
__device__ __forceinline__ unsigned char *wgmma_aligned(void *memory)
{
	unsigned lacks = (WGMMA_ATOM - wgmma_shared(memory) % WGMMA_ATOM) % WGMMA_ATOM;

	return (unsigned char *)memory + lacks;
}

/* The stages of a block, and where in them a thread is. */
template <unsigned COUNT, unsigned BYTES> struct wgmma_stages {
	unsigned char *at;
	uint64_t *full, *empty;
	unsigned slot, phase;

	/* Returns the slot, and goes on to the next. */
	__device__ __forceinline__ unsigned next(void)
	{
		unsigned was = slot;

		slot = slot + 1 == COUNT ? 0 : slot + 1;
		phase ^= slot == 0;
		return was;
	}

	/* Has the stages lie at `memory`, a multiple of WGMMA_ATOM, and the two mbarriers of each
	 * elsewhere. By all threads of a block, of which `groups` warpgroups read the stages;
	 * wgmma_barriers_ready and a barrier follow. */
	__device__ __forceinline__ void place(void *memory, uint64_t *barriers,
		unsigned groups)
	{
		at = (unsigned char *)memory;
		full = barriers;
		empty = full + COUNT;
		slot = phase = 0;
		for (unsigned i = 0; i < COUNT && threadIdx.x == 0; i++) {
			wgmma_barrier_init(full + i, 1);
			/* each warp says for itself that its products have read a stage */
			wgmma_barrier_init(empty + i, groups * 4);
		}
	}

	/* The same at the first multiple of WGMMA_ATOM, with mbarriers behind the stages; ends with
	 * a barrier. */
	__device__ __forceinline__ void begin(void *memory, unsigned groups)
	{
		unsigned char *first = wgmma_aligned(memory);

		place(first, (uint64_t *)(void *)(first + COUNT * BYTES), groups);
		if (threadIdx.x == 0)
			wgmma_barriers_ready();
		__syncthreads();
	}
};
#endif

#endif
