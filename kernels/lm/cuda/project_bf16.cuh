/* project_bf16.cuh - what linear layers with bf16 weights share: how activations become bf16. */
#ifndef RNP_KERNELS_LM_PROJECT_BF16_CUH
#define RNP_KERNELS_LM_PROJECT_BF16_CUH

#include "kernels/dev/cuda/tensor.cuh"
#include "kernels/lm/cuda/cuda.cuh"

/* Less along k is not worth tensor cores. */
#define BF16_K_MIN 32
#define BF16_K_END ((uint64_t)1 << 31) /* offsets along k have 32 bits */

#ifdef CUDA_EMU
#define UNROLL_STEPS
#else
#define UNROLL_STEPS _Pragma("unroll 2")
#endif

__device__ __forceinline__ float4 bf16_load_four(const float *p)
{
	return __ldg((const float4 *)(const void *)p);
}

__device__ __forceinline__ uint2 bf16_four(const float4 &v)
{
	return make_uint2(cuda_two_bf16(v.x, v.y), cuda_two_bf16(v.z, v.w));
}

/* v rms w, rounded after each product, as lm_norm's kernel stores it. */
__device__ __forceinline__ float bf16_normed_one(float v, float rms, float w)
{
#ifdef __CUDA_ARCH__
	return __fmul_rn(__fmul_rn(v, rms), w);
#else
	return v * rms * w;
#endif
}

__device__ __forceinline__ float4 bf16_normed(const float4 &v, float rms, const float4 &w)
{
	return make_float4(bf16_normed_one(v.x, rms, w.x), bf16_normed_one(v.y, rms, w.y),
		bf16_normed_one(v.z, rms, w.z), bf16_normed_one(v.w, rms, w.w));
}

/* Of rows > 16, by tiles of mma.sync. All return 0; 1 if the shape is not supported, and nothing
 * was started; -1 on error. */
int cuda_lm_project_bf16_tiles(struct dev *d, const struct lm_project *p);
/* The same of any rows by wgmma; and of layers of one norm, or of x as it is where there is none,
 * in tiles of that shape; WIDE_SHAPES: of the best. Where cuda_lm_wide says so. */
#define WIDE_SHAPES 5
int cuda_lm_project_wide(struct dev *d, const struct lm_project *p);
int cuda_lm_project_wide_group(struct dev *d, const struct lm_project_group *g,
	unsigned shape);
/* Finds out, with the scratch memory, which rows wgmma may make: those from nine on where it has
 * the bits of mma.sync, all where its sums are others, none where it does not work. Returns 0 or
 * -1. */
int cuda_lm_find_wide(struct dev *d);
/* Of any rows. */
int cuda_lm_project_bf16_few(struct dev *d, const struct lm_project *p);

/* Whether so many rows are made by wgmma. */
static inline bool cuda_lm_wide(struct dev *d, uint64_t rows)
{
	return cuda_of(d)->lm_wide_from && rows >= cuda_of(d)->lm_wide_from;
}

#endif
