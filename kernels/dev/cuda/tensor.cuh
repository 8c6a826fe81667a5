/* tensor.cuh - tensor cores and asynchronous copies: the PTX instructions of compute capability
 * 8.0 and later. In the emulation they do the same by exchanges within a warp, so that the
 * placement of numbers in registers is tested there too.
 *
 * Fragments are named as in PTX (PTX ISA, mma.m16n8k16): with g = lane / 4 and t = lane % 4 a
 * lane holds of A the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), of B, which is
 * 16 x 8, (2t, g) and (2t + 8, g) downwards, and of C (g, 2t) and (g + 8, 2t). int8 has four
 * numbers where these have two: k is 32. */
#ifndef RNP_KERNELS_DEV_TENSOR_CUH
#define RNP_KERNELS_DEV_TENSOR_CUH

#include "kernels/dev/cuda/cuda.cuh"

/* Whether this compilation has them: for older GPUs the kernels are empty and never launched. */
#if defined(CUDA_EMU) || __CUDA_ARCH__ >= 800
#define CUDA_TENSOR 1
#else
#define CUDA_TENSOR 0
#endif

#if CUDA_TENSOR
/* sum += a b */
__device__ __forceinline__ void tensor_mma_bf16(float (&sum)[4], const unsigned (&a)[4],
	unsigned b0, unsigned b1)
{
#ifdef CUDA_EMU
	emu_mma(sum, a, b0, b1, emu_bf16);
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

__device__ __forceinline__ void tensor_mma_f16(float (&sum)[4], const unsigned (&a)[4],
	unsigned b0, unsigned b1)
{
#ifdef CUDA_EMU
	emu_mma(sum, a, b0, b1, emu_f16);
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Sums wrap: the caller keeps k small enough. */
__device__ __forceinline__ void tensor_mma_i8(int (&sum)[4], const unsigned (&a)[4],
	unsigned b0, unsigned b1)
{
#ifdef CUDA_EMU
	emu_mma_i8(sum, a, b0, b1);
#else
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* sum = first + a b: `first` stays in registers of its own from one product to the next. */
__device__ __forceinline__ void tensor_mma_i8_from(int (&sum)[4], int first,
	const unsigned (&a)[4], unsigned b0, unsigned b1)
{
#ifdef CUDA_EMU
	sum[0] = sum[1] = sum[2] = sum[3] = first;
	emu_mma_i8(sum, a, b0, b1);
#else
	asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
		     : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
		     "r"(first));
#endif
}

/* Loads four 8 x 8 matrices from shared memory: lane l gives the address of row l % 8 of matrix
 * l / 8, a multiple of 16 bytes. Of each matrix it receives the pair (g, 2t), or when TURNED
 * (2t, g) and the one below. */
template <bool TURNED>
__device__ __forceinline__ void tensor_matrices(unsigned (&r)[4], const void *row)
{
#ifdef CUDA_EMU
	emu_matrices(r, (const uint16_t *)row, TURNED);
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

/* --- asynchronous copies, which older GPUs make at once ----------------------------------- */

/* Starts a copy of SIZE bytes (4, 8 or 16) from global to shared memory, both addresses multiples
 * of it. Only the first `bytes` are read, the others become zeros; with 0 nothing is read. */
template <unsigned SIZE = 16>
__device__ __forceinline__ void tensor_copy(void *to, const void *from, unsigned bytes)
{
#ifdef CUDA_EMU
	emu_copy_async(to, from, bytes, SIZE);
#elif !CUDA_TENSOR
	for (unsigned i = 0; i < SIZE; i++)
		((unsigned char *)to)[i] = i < bytes ? ((const unsigned char *)from)[i] :
						       0;
#else
	if (SIZE == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
			     :
			     : "r"((unsigned)__cvta_generic_to_shared(to)),
			     "l"(__cvta_generic_to_global(from)), "r"(bytes)
			     : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
			     :
			     : "r"((unsigned)__cvta_generic_to_shared(to)),
			     "l"(__cvta_generic_to_global(from)), "r"(bytes), "n"(SIZE)
			     : "memory");
#endif
}

/* The same of all 16 bytes, for one instruction. */
__device__ __forceinline__ void tensor_copy_16(void *to, const void *from)
{
#if defined(CUDA_EMU) || !CUDA_TENSOR
	tensor_copy(to, from, 16);
#else
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
		     :
		     : "r"((unsigned)__cvta_generic_to_shared(to)),
		     "l"(__cvta_generic_to_global(from))
		     : "memory");
#endif
}

/* Keeps x in a register, which the compiler would otherwise compute again in every turn of a
 * loop. */
__device__ __forceinline__ void tensor_keep(unsigned &x)
{
#ifdef __CUDA_ARCH__
	asm volatile("" : "+r"(x));
#else
	(void)x;
#endif
}

/* Asks for the line of `from` to be brought into the level-2 cache. */
__device__ __forceinline__ void tensor_ask(const void *from)
{
#ifdef CUDA_EMU
	(void)*(const volatile char *)from; /* that it lies inside an allocation */
#else
	asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)));
#endif
}

/* Makes a group of the copies that this thread started since the last one. */
__device__ __forceinline__ void tensor_commit(void)
{
#ifdef CUDA_EMU
	emu_copy_commit();
#elif CUDA_TENSOR
	asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits until at most N of this thread's groups are under way; a barrier makes what they copied
 * visible to the other threads. */
template <int N> __device__ __forceinline__ void tensor_wait(void)
{
#ifdef CUDA_EMU
	emu_copy_wait(N);
#elif CUDA_TENSOR
	asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#endif
}

#endif
