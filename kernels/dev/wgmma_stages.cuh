/* wgmma_stages.cuh - stages of shared memory that one thread fills by the TMA and warpgroups multiply:
 * two mbarriers each say that a stage is full, and that all have read it. */
#ifndef RNP_KERNELS_DEV_WGMMA_STAGES_CUH
#define RNP_KERNELS_DEV_WGMMA_STAGES_CUH

#include "kernels/dev/wgmma.cuh"

/* Bytes of shared memory for stages, with what the beginning may lack to a multiple of WGMMA_ATOM. */
#define WGMMA_STAGES_BYTES(count, bytes) ((count) * ((bytes) + 16) + WGMMA_ATOM)

#if CUDA_WGMMA
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

	/* By all threads of a block, of which `groups` warpgroups read the stages; ends with a barrier. */
	__device__ __forceinline__ void begin(void *memory, unsigned groups)
	{
		unsigned lacks = (WGMMA_ATOM - wgmma_shared(memory) % WGMMA_ATOM) %
			WGMMA_ATOM;

		at = (unsigned char *)memory + lacks;
		full = (uint64_t *)(void *)(at + COUNT * BYTES);
		empty = full + COUNT;
		slot = phase = 0;
		if (threadIdx.x == 0) {
			for (unsigned i = 0; i < COUNT; i++) {
				wgmma_barrier_init(full + i, 1);
				/* each warp says for itself that its products have read a stage */
				wgmma_barrier_init(empty + i, groups * 4);
			}
			wgmma_barriers_ready();
		}
		__syncthreads();
	}
};
#endif

#endif
