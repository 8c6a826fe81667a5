/* wgmma.cuh - what compute capability 9.0 alone has (sm_90a): products of a warpgroup (wgmma),
 * copies of boxes by the TMA, and mbarriers. In the emulation each does what the text of the PTX
 * ISA says, as late or as early as that allows (tests/kernels/cuda_emu_wgmma.h).
 *
 * Design. A block has one thread that loads and two warpgroups that multiply. The loader waits
 * until a stage is free, says how many bytes will come (expect_tx), and asks the TMA for boxes of
 * 128 bytes along the leading dimension; the TMA puts the 16-byte chunk c of a row r (both counted
 * from a multiple of 1024 bytes) at c ^ r % 8, fills with zeros what is outside of the matrix, and
 * counts the bytes at the stage's mbarrier. A warpgroup waits for the phase, and multiplies
 * straight from shared memory: a descriptor says where an operand lies, and the same swizzle is
 * undone. D stays in registers, and is nobody's until wgmma_wait; then the stage is given back by
 * another mbarrier.
 *
 * Shared memory of an operand, in stages that begin at multiples of 1024 bytes (Canonical Layouts,
 * PTX ISA, wgmma; 128-byte swizzle):
 *   K-major   rows of 64 numbers of k, 128 bytes apart; eight of them are an atom, and atoms are
 *             `stride` = 1024 bytes apart. The next 16 of k are 32 bytes further.
 *   MN-major  rows of 64 numbers of m or n, one for each k; eight of them are an atom; the next
 *             eight k are `stride` = 1024 bytes further, the next 64 of m or n `leading` bytes. The
 *             next 16 of k are 2048 bytes further.
 *
 * Objects with these are made for sm_90a only (Makefile), beside the others; who launches their
 * kernels looks at cuda_of(d)->wgmma first. */
#ifndef RNP_KERNELS_DEV_WGMMA_CUH
#define RNP_KERNELS_DEV_WGMMA_CUH

#include "kernels/dev/cuda/cuda.cuh"

#ifdef CUDA_EMU
#include "tests/kernels/cuda_emu_wgmma.h"
typedef struct emu_tensor_map wgmma_map;
#else
#include <cuda.h>
typedef CUtensorMap wgmma_map;
#endif

/* Whether this compilation has them. */
#if defined(CUDA_EMU) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CUDA_WGMMA 1
#else
#define CUDA_WGMMA 0
#endif

/* Whether warpgroups may have unequal numbers of registers. CUDA 12.4's ptxas works for more than
 * four minutes on kernels that give them out (kernels/lm/cuda/swiglu_sm90a.cu), for which that of
 * 13.0 takes two seconds, and was not seen to end. The plug-in for older drivers has other kernels
 * in their place. */
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ < 13
#define WGMMA_UNEQUAL 0
#else
#define WGMMA_UNEQUAL 1
#endif

#define WGMMA_ROW   128  /* bytes of a row of a box */
#define WGMMA_ATOM  1024 /* bytes after which the swizzle repeats */
#define WGMMA_WIDE  64   /* bf16 numbers of a row */
#define WGMMA_GROUP 128  /* threads */

#if CUDA_WGMMA
/* --- mbarriers ------------------------------------------------------------------------------- */

__device__ __forceinline__ unsigned wgmma_shared(const void *p)
{
#ifdef CUDA_EMU
	return emu_shared_address(p);
#else
	return (unsigned)__cvta_generic_to_shared(p);
#endif
}

/* By one thread; then wgmma_barriers_ready and a barrier of the block. A phase ends when `count`
 * have arrived and all bytes that were expected have come. */
__device__ __forceinline__ void wgmma_barrier_init(uint64_t *b, unsigned count)
{
#ifdef CUDA_EMU
	emu_mbarrier_init(b, count);
#else
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
		     :
		     : "r"(wgmma_shared(b)), "r"(count)
		     : "memory");
#endif
}

/* Makes what this thread has initialised visible to the TMA. */
__device__ __forceinline__ void wgmma_barriers_ready(void)
{
#ifdef CUDA_EMU
	emu_mbarrier_fence();
#else
	asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
#endif
}

__device__ __forceinline__ void wgmma_arrive(uint64_t *b)
{
#ifdef CUDA_EMU
	emu_mbarrier_arrive(b, 0);
#else
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
		     :
		     : "r"(wgmma_shared(b))
		     : "memory");
#endif
}

/* Arrives, and the phase waits for so many bytes besides. */
__device__ __forceinline__ void wgmma_expect(uint64_t *b, unsigned bytes)
{
#ifdef CUDA_EMU
	emu_mbarrier_arrive(b, bytes);
#else
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
		     :
		     : "r"(wgmma_shared(b)), "r"(bytes)
		     : "memory");
#endif
}

/* Waits until the phase of this parity has ended; the phase before the first counts as ended, and
 * has parity 1. */
__device__ __forceinline__ void wgmma_await(uint64_t *b, unsigned parity)
{
#ifdef CUDA_EMU
	emu_mbarrier_wait(b, parity);
#else
	asm volatile("{\n"
		     ".reg .pred done;\n"
		     "again:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
		     "@done bra over;\n"
		     "bra again;\n"
		     "over:\n"
		     "}"
		     :
		     : "r"(wgmma_shared(b)), "r"(parity)
		     : "memory");
#endif
}

/* --- registers ------------------------------------------------------------------------------- */

/* Gives this warpgroup N registers a thread, of what the block has and others have given back;
 * waits until there are so many. N: a multiple of 8 from 24 to 256. By all four warps; the kernel
 * has __launch_bounds__ with a number of blocks, and each warpgroup one branch from here to its
 * end. */
template <int N> __device__ __forceinline__ void wgmma_registers_more(void)
{
	static_assert(N % 8 == 0 && N >= 24 && N <= 256, "what setmaxnreg takes");
#ifdef CUDA_EMU
	emu_registers(true, N);
#else
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
#endif
}

/* Gives back all but N. */
template <int N> __device__ __forceinline__ void wgmma_registers_less(void)
{
	static_assert(N % 8 == 0 && N >= 24 && N <= 256, "what setmaxnreg takes");
#ifdef CUDA_EMU
	emu_registers(false, N);
#else
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N));
#endif
}

/* --- copies of boxes ------------------------------------------------------------------------- */

/* Starts the copy of the map's box at numbers x along a row and y of the rows to `to`, a multiple
 * of WGMMA_ATOM; its bytes, with zeros for what is outside, are counted at b. */
__device__ __forceinline__ void wgmma_load(void *to, const wgmma_map *map, unsigned x,
	unsigned y, uint64_t *b)
{
#ifdef CUDA_EMU
	emu_tensor_load(to, map, (int)x, (int)y, b);
#else
	asm volatile(
		"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
		"[%0], [%1, {%2, %3}], [%4];"
		:
		: "r"(wgmma_shared(to)), "l"(map), "r"(x), "r"(y), "r"(wgmma_shared(b))
		: "memory");
#endif
}

/* The same of a map of sheets, from sheet z. */
__device__ __forceinline__ void wgmma_load_sheet(void *to, const wgmma_map *map,
	unsigned x, unsigned y, unsigned z, uint64_t *b)
{
#ifdef CUDA_EMU
	emu_tensor_load_sheet(to, map, (int)x, (int)y, (int)z, b);
#else
	asm volatile(
		"cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
		"[%0], [%1, {%2, %3, %4}], [%5];"
		:
		: "r"(wgmma_shared(to)), "l"(map), "r"(x), "r"(y), "r"(z),
		"r"(wgmma_shared(b))
		: "memory");
#endif
}

/* --- products -------------------------------------------------------------------------------- */

/* Describes an operand with the 128-byte swizzle: 14 bits each of the address, the leading and the
 * stride offset, in 16 bytes, from bits 0, 16 and 32 on; base offset 0, as its atoms begin at
 * multiples of 1024; in bits 62 and 63 a 1: the 128-byte swizzle. */
__device__ __forceinline__ uint64_t wgmma_operand(const void *at, unsigned leading,
	unsigned stride)
{
	return (uint64_t)(wgmma_shared(at) >> 4 & 0x3fff) |
		(uint64_t)(leading >> 4 & 0x3fff) << 16 |
		(uint64_t)(stride >> 4 & 0x3fff) << 32 | (uint64_t)1 << 62;
}

/* Registers of D and what was written before are ordered before the products that follow. */
__device__ __forceinline__ void wgmma_fence(void)
{
#ifdef CUDA_EMU
	emu_wgmma_fence();
#else
	asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#endif
}

__device__ __forceinline__ void wgmma_commit(void)
{
#ifdef CUDA_EMU
	emu_wgmma_commit();
#else
	asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
#endif
}

/* Waits until at most N groups of this warpgroup are under way. */
template <int N> __device__ __forceinline__ void wgmma_wait(void)
{
#ifdef CUDA_EMU
	emu_wgmma_wait(N);
#else
	asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
#endif
}

/* Keeps the compiler from moving reads or writes of D across here: it does not know that products
 * under way write to it, so that a read could come before the wait. No instruction. */
template <unsigned N> __device__ __forceinline__ void wgmma_pin(float (&d)[N])
{
#ifdef CUDA_EMU
	(void)d;
#else
	UNROLL
	for (unsigned i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i]) : : "memory");
#endif
}

/* Keeps A of products that were waited for in its registers until here. */
template <unsigned N> __device__ __forceinline__ void wgmma_pin_left(unsigned (&a)[N][4])
{
#ifdef CUDA_EMU
	(void)a;
#else
	UNROLL
	for (unsigned i = 0; i < N; i++)
		asm volatile(""
			     : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]),
			     "+r"(a[i][3]));
#endif
}

/* d (64 x 256 f32, 128 a lane) = a b + (add ? d : 0), of bf16: a is 64 x 16, b 16 x 256. A lane of
 * warp w has in d[4 j + e] row 16 w + lane / 4 + 8 (e / 2), column 8 j + lane % 4 * 2 + e % 2.
 * TURNED: the operand is MN-major. */
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply(float (&d)[128], uint64_t a, uint64_t b,
	bool add)
{
#ifdef CUDA_EMU
	emu_wgmma(d, 256, a, b, add, A_TURNED, B_TURNED);
#else
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64(i) D16(i), D16(i + 16), D16(i + 32), D16(i + 48)
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %130, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31, "
		     "%32, %33, %34, %35, %36, %37, %38, %39, "
		     "%40, %41, %42, %43, %44, %45, %46, %47, "
		     "%48, %49, %50, %51, %52, %53, %54, %55, "
		     "%56, %57, %58, %59, %60, %61, %62, %63, "
		     "%64, %65, %66, %67, %68, %69, %70, %71, "
		     "%72, %73, %74, %75, %76, %77, %78, %79, "
		     "%80, %81, %82, %83, %84, %85, %86, %87, "
		     "%88, %89, %90, %91, %92, %93, %94, %95, "
		     "%96, %97, %98, %99, %100, %101, %102, %103, "
		     "%104, %105, %106, %107, %108, %109, %110, %111, "
		     "%112, %113, %114, %115, %116, %117, %118, %119, "
		     "%120, %121, %122, %123, %124, %125, %126, %127"
		     "}, %128, %129, p, 1, 1, %131, %132;\n"
		     "}"
		     : D64(0), D64(64)
		     : "l"(a), "l"(b), "r"((int)add), "n"((int)A_TURNED),
		     "n"((int)B_TURNED));
#endif
}

/* The same of 128, 64 and 32 columns: 64, 32 and 16 of d a lane. */
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply(float (&d)[64], uint64_t a, uint64_t b,
	bool add)
{
#ifdef CUDA_EMU
	emu_wgmma(d, 128, a, b, add, A_TURNED, B_TURNED);
#else
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %66, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31, "
		     "%32, %33, %34, %35, %36, %37, %38, %39, "
		     "%40, %41, %42, %43, %44, %45, %46, %47, "
		     "%48, %49, %50, %51, %52, %53, %54, %55, "
		     "%56, %57, %58, %59, %60, %61, %62, %63"
		     "}, %64, %65, p, 1, 1, %67, %68;\n"
		     "}"
		     : D64(0)
		     : "l"(a), "l"(b), "r"((int)add), "n"((int)A_TURNED),
		     "n"((int)B_TURNED));
#endif
}

template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply(float (&d)[32], uint64_t a, uint64_t b,
	bool add)
{
#ifdef CUDA_EMU
	emu_wgmma(d, 64, a, b, add, A_TURNED, B_TURNED);
#else
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %34, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31"
		     "}, %32, %33, p, 1, 1, %35, %36;\n"
		     "}"
		     : D16(0), D16(16)
		     : "l"(a), "l"(b), "r"((int)add), "n"((int)A_TURNED),
		     "n"((int)B_TURNED));
#endif
}

template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply(float (&d)[16], uint64_t a, uint64_t b,
	bool add)
{
#ifdef CUDA_EMU
	emu_wgmma(d, 32, a, b, add, A_TURNED, B_TURNED);
#else
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %18, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15"
		     "}, %16, %17, p, 1, 1, %19, %20;\n"
		     "}"
		     : D16(0)
		     : "l"(a), "l"(b), "r"((int)add), "n"((int)A_TURNED),
		     "n"((int)B_TURNED));
#endif
}

/* The same of 128 or 64 columns, 64 or 32 of d a lane, where the rows of A are in registers: each
 * lane has of them what it has in mma.m16n8k16 (tensor.cuh), as warp w has rows 16 w to 16 w + 15.
 * What a product has left in d is, rounded, this operand of another. The registers stay as they are
 * until the product is waited for. */
template <bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply_left(float (&d)[64], unsigned (&a)[4],
	uint64_t b, bool add)
{
#ifdef CUDA_EMU
	emu_wgmma_left(d, 128, a, b, add, B_TURNED);
#else
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %69, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31, "
		     "%32, %33, %34, %35, %36, %37, %38, %39, "
		     "%40, %41, %42, %43, %44, %45, %46, %47, "
		     "%48, %49, %50, %51, %52, %53, %54, %55, "
		     "%56, %57, %58, %59, %60, %61, %62, %63"
		     "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n"
		     "}"
		     : D64(0)
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add),
		     "n"((int)B_TURNED));
#endif
}

template <bool B_TURNED>
__device__ __forceinline__ void wgmma_multiply_left(float (&d)[32], unsigned (&a)[4],
	uint64_t b, bool add)
{
#ifdef CUDA_EMU
	emu_wgmma_left(d, 64, a, b, add, B_TURNED);
#else
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %37, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31"
		     "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n"
		     "}"
		     : D16(0), D16(16)
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add),
		     "n"((int)B_TURNED));
#endif
}
#undef D4
#undef D16
#undef D64
#endif

/* Makes the map of a bf16 matrix of `rows` rows of `columns` numbers, `ld` apart, whose boxes have
 * WGMMA_WIDE numbers of box_rows rows. Returns 0; 1: it is not aligned to 16 bytes, or the driver
 * has no such maps. */
int wgmma_map_of(wgmma_map *map, const void *at, uint64_t rows, uint64_t columns,
	uint64_t ld, unsigned box_rows);

/* The same of `sheets` matrices, `apart` numbers from each other: what is outside of one is zeros,
 * not the next one's. For wgmma_load_sheet. */
int wgmma_map_of_sheets(wgmma_map *map, const void *at, uint64_t sheets, uint64_t apart,
	uint64_t rows, uint64_t columns, uint64_t ld, unsigned box_rows);

#endif
