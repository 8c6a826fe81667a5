/* cuda.cu - the table `lm` of a GPU, and the resources that its operations need besides their
 * arguments. */
#include "kernels/dev/cuda/lt.cuh"
#include "kernels/lm/cuda/cuda.cuh"
#include "kernels/lm/cuda/project_bf16.cuh"

#include <sysexits.h>

/* Of the memory, for attention to long rows (paged_tensor.cu): a part of 64 keys takes 4 (D + 2)
 * bytes a head while it waits to be joined, and for good 256 D bytes a head of keys and layer: 500
 * times as much with 32 layers and a head of keys for four, more with others. So there is room for
 * all that the memory can hold. */
#ifdef CUDA_EMU
#define ROOM_SHARE ((uint64_t)1 << 40)
#else
#define ROOM_SHARE 512
#endif

/* Returns how many floats attention gets of its own; 0: the scratch memory has as many. */
static uint64_t room_floats(struct dev *d)
{
	uint64_t n = d->memory_bytes / ROOM_SHARE / 4;

	return n > LM_SCRATCH_FLOATS ? n : 0;
}

int cuda_lm_prepare(struct dev *d, uint64_t *bytes)
{
	struct cuda *c = cuda_of(d);
	const uint64_t scratch_bytes = (LM_SCRATCH_FLOATS + LM_COUNTERS) * 4;
	uint64_t lt_bytes = 0, room = room_floats(d);

	if (cuda_lt_prepare(d, &lt_bytes) < 0)
		return -1;
	if (bytes)
		*bytes = scratch_bytes + room * 4 + lt_bytes;
	if (c->lm_room)
		return 0;
	if (!c->lm_scratch)
		CUDA_TRY(cudaMalloc((void **)&c->lm_scratch, scratch_bytes));
	CUDA_TRY(cudaMemsetAsync(c->lm_scratch + LM_SCRATCH_FLOATS, 0, LM_COUNTERS * 4,
		c->stream));
	if (cuda_lm_find_wide(d) < 0)
		return -1;
	if (room)
		CUDA_TRY(cudaMalloc((void **)&c->lm_room, room * 4));
	else
		c->lm_room = c->lm_scratch;
	c->lm_room_floats = room ? room : LM_SCRATCH_FLOATS;
	return 0;
}

/* Like CUDA_ENTER, but also requires that prepare has been called. */
#define ENTER_PREPARED(table, op, parameters, arguments)                              \
	static int enter_##table##_##op parameters                                    \
	{                                                                             \
		if (!cuda_of(d)->lm_room)                                             \
			return dev_fail(d, EX_SOFTWARE, "%s: " #op " before prepare", \
				d->name);                                             \
		return cuda_enter(d) < 0 ? -1 : cuda_##table##_##op arguments;        \
	}

LM_OPS_FREE(CUDA_ENTER, lm)
LM_OPS_PREPARED(ENTER_PREPARED, lm)

extern const struct lm_ops lm_cuda_ops = { LM_OPS(CUDA_SLOT, lm) };
