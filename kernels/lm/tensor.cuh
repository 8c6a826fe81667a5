/* tensor.cuh - bf16 on tensor cores: the PTX instructions of compute capability 8.0 and later,
 * for the CUDA files of kernels/lm. In the emulation they do the same by exchanges within a
 * warp, so that the placement of numbers in registers is tested there too.
 *
 * Fragments are named as in PTX (PTX ISA, mma.m16n8k16): with g = lane / 4 and t = lane % 4 a
 * lane holds of A the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), of B, which is
 * 16 x 8, (2t, g) and (2t + 8, g) downwards, and of C (g, 2t) and (g + 8, 2t). */
#ifndef RNP_KERNELS_LM_TENSOR_CUH
#define RNP_KERNELS_LM_TENSOR_CUH

#include "kernels/lm/cuda.cuh"

/* Whether this compilation has them: for older GPUs the kernels are empty and never launched. */
#if defined(CUDA_EMU) || __CUDA_ARCH__ >= 800
#define LM_TENSOR 1
#else
#define LM_TENSOR 0
#endif

#if LM_TENSOR
/* sum += a b */
__device__ __forceinline__ void lm_mma(float (&sum)[4], const unsigned (&a)[4],
	unsigned b0, unsigned b1)
{
#ifdef CUDA_EMU
	emu_mma_bf16(sum, a, b0, b1);
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Loads four 8 x 8 matrices from shared memory: lane l gives the address of row l % 8 of matrix
 * l / 8, a multiple of 16 bytes. Of each matrix it receives the pair (g, 2t), or when TURNED
 * (2t, g) and the one below. */
template <bool TURNED>
__device__ __forceinline__ void lm_matrices(unsigned (&r)[4], const uint16_t *row)
{
#ifdef CUDA_EMU
	emu_matrices(r, row, TURNED);
#else
	unsigned at = (unsigned)__cvta_generic_to_shared(row);

	if (TURNED)
		asm volatile(
			"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
			: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
			: "r"(at)
			: "memory");
	else
		asm volatile(
			"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
			: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
			: "r"(at)
			: "memory");
#endif
}
#endif

#endif
