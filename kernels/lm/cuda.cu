/* cuda.cu - the table `lm` of a GPU, and the resources that its operations need besides their
 * arguments. */
#include "kernels/dev/lt.cuh"
#include "kernels/lm/cuda.cuh"
#include "kernels/lm/project_bf16.cuh"

#include <sysexits.h>

int cuda_lm_prepare(struct dev *d, uint64_t *bytes)
{
	struct cuda *c = cuda_of(d);
	const uint64_t scratch_bytes = (LM_SCRATCH_FLOATS + LM_COUNTERS) * 4;
	uint64_t lt_bytes = 0;

	if (cuda_lt_prepare(d, &lt_bytes) < 0)
		return -1;
	if (bytes)
		*bytes = scratch_bytes + lt_bytes;
	if (c->lm_scratch)
		return 0;
	CUDA_TRY(cudaMalloc((void **)&c->lm_scratch, scratch_bytes));
	CUDA_TRY(cudaMemsetAsync(c->lm_scratch + LM_SCRATCH_FLOATS, 0, LM_COUNTERS * 4,
		c->stream));
	return cuda_lm_find_wide(d);
}

/* Like CUDA_ENTER, but also requires that prepare has been called. */
#define ENTER_PREPARED(table, op, parameters, arguments)                              \
	static int enter_##table##_##op parameters                                    \
	{                                                                             \
		if (!cuda_of(d)->lm_scratch)                                          \
			return dev_fail(d, EX_SOFTWARE, "%s: " #op " before prepare", \
				d->name);                                             \
		return cuda_enter(d) < 0 ? -1 : cuda_##table##_##op arguments;        \
	}

LM_OPS_FREE(CUDA_ENTER, lm)
LM_OPS_PREPARED(ENTER_PREPARED, lm)

extern const struct lm_ops lm_cuda_ops = { LM_OPS(CUDA_SLOT, lm) };
