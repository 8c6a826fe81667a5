/* cuda.cuh - what the kernels of the plug-in share. They use LAUNCH and SHARED instead of
 * CUDA's own syntax, so that the same text runs on a GPU and in the emulation of
 * tests/kernels/cuda_emu.h. */
#ifndef RNP_KERNELS_DEV_CUDA_CUH
#define RNP_KERNELS_DEV_CUDA_CUH

#include "kernels/dev/dev.h"
#include "kernels/dev/half.h"
#include "kernels/dev/ops.h"

#ifdef CUDA_EMU
#include "tests/kernels/cuda_emu.h"
#define UNROLL
#define UNROLL_4
#define UNROLL_8
#define UNROLL_16
#define UNROLL_1
#define GRID_CONSTANT
#define CUDA_ORDERED(at, bytes) emu_race_forget(at, bytes)
#else
#include <cuda_runtime.h>
/* kernel<<<grid, block, 0, stream>>>(arguments); a template's name must contain no comma */
#define LAUNCH(kernel, grid, block, stream, ...) \
	kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
/* an array shared by the threads of a block, contents undefined; count is a constant */
#define SHARED(type, name, count) __shared__ type name[count]
/* The same with `bytes` of memory for LARGE_SHARED, of which a kernel has one; aligned to 16 bytes.
 * cudaFuncSetAttribute allows more than 48 KiB. */
#define LAUNCH_LARGE(kernel, grid, block, bytes, stream, ...) \
	kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#define LARGE_SHARED(type, name, count) extern __shared__ type name[]
/* before a loop: unroll it completely, by four, eight or sixteen, or not at all */
#define UNROLL                          _Pragma("unroll")
#define UNROLL_16                       _Pragma("unroll 16")
#define UNROLL_4                        _Pragma("unroll 4")
#define UNROLL_8                        _Pragma("unroll 8")
#define UNROLL_1                        _Pragma("unroll 1")
/* of a parameter that is const: it has an address, so that an index into it makes no copy. GPUs
 * before sm_70, for which CUDA 12 compiles, do not have it. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define GRID_CONSTANT
#else
#define GRID_CONSTANT __grid_constant__
#endif
/* for the emulation: what other blocks wrote there is ordered before what follows, by fences and
 * atomics, which it knows nothing of */
#define CUDA_ORDERED(at, bytes) (void)0
#endif

/* For functions that return int and have a `struct dev *d`. */
#define CUDA_TRY(call)                                           \
	do {                                                     \
		cudaError_t cuda_error_ = (call);                \
		if (cuda_error_ != cudaSuccess)                  \
			return cuda_fail(d, cuda_error_, #call); \
	} while (0)

/* Leaves the error of a call in the device; call: its text, up to "(". Returns -1. */
int cuda_fail(struct dev *d, cudaError_t e, const char *call);

/* Returns the exit code of sysexits.h for an error: what a person can do about it decides. */
int cuda_exit_code(cudaError_t e);

struct cuda {
	int number, sm_count, major; /* major: of the compute capability */
	int shared_bytes;            /* of a block at most, where a launch asks for it */
	bool wgmma;                  /* which is 9.0: it has what wgmma.cuh needs */
	int peer;                    /* 1 + the GPU that from_peer used last */
	cudaStream_t stream;
	cudaEvent_t from, to;
	void *lt; /* cuBLASLt's state, created by the first product that needs it */
	/* the library was looked for, with or without success; it is not looked for again */
	bool lt_tried;
	void *scratch; /* scratch memory of huff, which grows as needed */
	uint64_t scratch_bytes;
	float *lm_scratch; /* of the language model's operations, once prepared */
	/* where attention leaves parts of rows: scratch memory, or more of its own */
	float *lm_room;
	uint64_t lm_room_floats;
	/* rows from which wgmma makes layers with bf16 weights, as lm's prepare found; 0: it makes
	 * none */
	unsigned lm_wide_from;
};

static inline struct cuda *cuda_of(struct dev *d)
{
	return (struct cuda *)d->state;
}

/* Whether the GPU has the bf16 tensor cores that kernels/dev/cuda/tensor.cuh uses. */
static inline bool cuda_tensor(struct dev *d)
{
#ifdef CUDA_EMU
	(void)d;
	return emu_scene("CUDA_EMU_TENSOR", 1);
#else
	return cuda_of(d)->major >= 8;
#endif
}

/* Returns the number of blocks of `threads` for n items with grid-stride loops: enough to fill
 * the GPU, no more. */
static inline unsigned cuda_grid(struct dev *d, uint64_t n, unsigned threads)
{
	uint64_t wanted = (n + threads - 1) / threads;
	uint64_t max = (uint64_t)cuda_of(d)->sm_count * 32;

	return (unsigned)(wanted < max ? (wanted ? wanted : 1) : max);
}

/* Converts two numbers to bf16, the first into the low half: one instruction from sm_80 on,
 * where half.h takes eight and a branch for each. Rounding is the same; a NaN becomes the GPU's
 * own. */
__device__ __forceinline__ unsigned cuda_two_bf16(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	unsigned both;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	return both;
#else
	return (unsigned)bf16_from_f32(low) | (unsigned)bf16_from_f32(high) << 16;
#endif
}

/* The same to f16. */
__device__ __forceinline__ unsigned cuda_two_f16(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	unsigned both;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	return both;
#else
	return (unsigned)f16_from_f32(low) | (unsigned)f16_from_f32(high) << 16;
#endif
}

/* f16 as f32: one instruction, where half.h takes a dozen. A NaN becomes the GPU's own. */
__device__ __forceinline__ float cuda_f16(unsigned bits)
{
#ifdef __CUDA_ARCH__
	float f;

	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)bits));
	return f;
#else
	return f16_to_f32((uint16_t)bits);
#endif
}

/* this thread's first item and the stride, in grid-stride loops */
#define GRID_FIRST  ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_STRIDE ((uint64_t)gridDim.x * blockDim.x)

/* Makes the device's GPU current in the calling thread, which may be another thread than
 * before, or have used another GPU. Returns 0 or -1. */
int cuda_enter(struct dev *d);

/* Loads a kernel of this build for the present GPU and driver, without launching it. */
cudaError_t cuda_try_kernel(void);

/* Whether the driver makes the maps that copies of wgmma.cuh need. */
bool cuda_wgmma_maps(void);

/* Each launches its kernels on the device's stream. Returns 0 or -1. */
int cuda_copy(struct dev *d, void *to, const void *from, uint64_t bytes);
int cuda_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words);
int cuda_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p);

/* A folder defines cuda_TABLE_NAME for each operation of its list, called with the GPU current;
 * CUDA_TABLE defines the wrappers that make it current, and the table. */
#define CUDA_DECLARE(table, name, parameters, arguments) \
	int cuda_##table##_##name parameters;
#define CUDA_ENTER(table, name, parameters, arguments)  \
	static int enter_##table##_##name parameters    \
	{                                               \
		if (cuda_enter(d) < 0)                  \
			return -1;                      \
		return cuda_##table##_##name arguments; \
	}
#define CUDA_SLOT(table, name, parameters, arguments) enter_##table##_##name,
#define CUDA_TABLE(table, LIST)   \
	LIST(CUDA_DECLARE, table) \
	LIST(CUDA_ENTER, table)   \
	extern const struct table##_ops table##_cuda_ops = { LIST(CUDA_SLOT, table) }

#define CUDA_DECLARE_TABLE(table, list) extern const struct table##_ops table##_cuda_ops;
DEV_TABLES(CUDA_DECLARE_TABLE)
#undef CUDA_DECLARE_TABLE

#endif
