/* The table of lm_ops.h on a GPU, and what its operations need besides their arguments. */
#include "kernels/lm/cuda.cuh"

#include <sysexits.h>

static int cuda_prepare(struct dev *d, uint64_t *bytes)
{
	struct cuda *c = cuda_of(d);
	uint64_t lt_bytes = 0;

	CUDA_TRY(cudaSetDevice(c->number));
	if (cuda_lt_prepare(d, &lt_bytes) < 0)
		return -1;
	if (bytes)
		*bytes = LM_SCRATCH_FLOATS * sizeof *c->lm_scratch + lt_bytes;
	if (!c->lm_scratch)
		CUDA_TRY(cudaMalloc((void **)&c->lm_scratch,
			LM_SCRATCH_FLOATS * sizeof *c->lm_scratch));
	return 0;
}

/* The calling thread may be another than the one before, or have used another GPU. */
#define OPERATION(op)                                                                 \
	static int enter_##op(struct dev *d, const struct lm_##op *x)                 \
	{                                                                             \
		CUDA_TRY(cudaSetDevice(cuda_of(d)->number));                          \
		if (!cuda_of(d)->lm_scratch)                                          \
			return dev_fail(d, EX_SOFTWARE, "%s: " #op " before prepare", \
				d->name);                                             \
		return cuda_lm_##op(d, x);                                            \
	}

OPERATION(gemm)
OPERATION(embed)
OPERATION(embed_back)
OPERATION(norm)
OPERATION(norm_back)
OPERATION(rotate)
OPERATION(swiglu)
OPERATION(swiglu_back)
OPERATION(bias_back)
OPERATION(narrow)
OPERATION(attend)
OPERATION(attend_back)
OPERATION(head)
OPERATION(squares)
OPERATION(clip)
OPERATION(adamw)

/* needs nothing prepared */
static int enter_project(struct dev *d, const struct lm_project *p)
{
	CUDA_TRY(cudaSetDevice(cuda_of(d)->number));
	return cuda_lm_project(d, p);
}

static struct lm_ops make_ops(void)
{
	struct lm_ops ops = {};

	ops.prepare = cuda_prepare;
	ops.gemm = enter_gemm;
	ops.embed = enter_embed;
	ops.embed_back = enter_embed_back;
	ops.norm = enter_norm;
	ops.norm_back = enter_norm_back;
	ops.rotate = enter_rotate;
	ops.swiglu = enter_swiglu;
	ops.swiglu_back = enter_swiglu_back;
	ops.bias_back = enter_bias_back;
	ops.narrow = enter_narrow;
	ops.attend = enter_attend;
	ops.attend_back = enter_attend_back;
	ops.head_scratch = cuda_lm_head_scratch;
	ops.head = enter_head;
	ops.squares = enter_squares;
	ops.clip = enter_clip;
	ops.adamw = enter_adamw;
	ops.project = enter_project;
	return ops;
}

extern const struct lm_ops lm_cuda_ops = make_ops();
