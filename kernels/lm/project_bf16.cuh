/* project_bf16.cuh - what linear layers with bf16 weights share: how activations become bf16. */
#ifndef RNP_KERNELS_LM_PROJECT_BF16_CUH
#define RNP_KERNELS_LM_PROJECT_BF16_CUH

#include "kernels/dev/tensor.cuh"
#include "kernels/lm/cuda.cuh"

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

/* Of rows > 16, by tiles of mma.sync. All return 0; 1 if the shape is not supported, and nothing was
 * started; -1 on error. */
int cuda_lm_project_bf16_tiles(struct dev *d, const struct lm_project *p);
/* The same of any rows, and of layers of one norm, by wgmma; where cuda_of(d)->lm_wide. */
int cuda_lm_project_wide(struct dev *d, const struct lm_project *p);
int cuda_lm_project_wide_group(struct dev *d, const struct lm_project_group *g);
/* Finds out, with the scratch memory, whether wgmma has the bits of mma.sync, of which rows may then be made
 * by either: sets lm_wide. Returns 0 or -1. */
int cuda_lm_find_wide(struct dev *d);
/* Of any rows. */
int cuda_lm_project_bf16_few(struct dev *d, const struct lm_project *p);

#endif
