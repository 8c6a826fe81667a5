/* The language model's operations on a GPU: those that are not written yet say so. */
#include "kernels/cuda.cuh"

#include <sysexits.h>

#define NOT_YET(op)                                                      \
	static int no_##op(struct dev *d, const struct lm_##op *)        \
	{                                                                \
		return dev_fail(d, EX_UNAVAILABLE,                       \
			"%s: no CUDA kernel for a language model's " #op \
			" in this version",                              \
			d->name);                                        \
	}

static int no_prepare(struct dev *d, uint64_t *)
{
	return dev_fail(d, EX_UNAVAILABLE,
		"%s: no CUDA kernels for language models in this version", d->name);
}

static int no_head_scratch(struct dev *d, const struct lm_head *, uint64_t *)
{
	return no_prepare(d, NULL);
}

NOT_YET(gemm)
NOT_YET(embed)
NOT_YET(embed_back)
NOT_YET(norm)
NOT_YET(norm_back)
NOT_YET(rotate)
NOT_YET(swiglu)
NOT_YET(swiglu_back)
NOT_YET(bias_back)
NOT_YET(narrow)
NOT_YET(attend)
NOT_YET(attend_back)
NOT_YET(head)
NOT_YET(squares)
NOT_YET(clip)
NOT_YET(adamw)

static struct lm_ops make_ops(void)
{
	struct lm_ops ops = {};

	ops.prepare = no_prepare;
	ops.gemm = no_gemm;
	ops.embed = no_embed;
	ops.embed_back = no_embed_back;
	ops.norm = no_norm;
	ops.norm_back = no_norm_back;
	ops.rotate = no_rotate;
	ops.swiglu = no_swiglu;
	ops.swiglu_back = no_swiglu_back;
	ops.bias_back = no_bias_back;
	ops.narrow = no_narrow;
	ops.attend = no_attend;
	ops.attend_back = no_attend_back;
	ops.head_scratch = no_head_scratch;
	ops.head = no_head;
	ops.squares = no_squares;
	ops.clip = no_clip;
	ops.adamw = no_adamw;
	ops.project = cuda_lm_project;
	return ops;
}

extern const struct lm_ops lm_cuda_ops = make_ops();
