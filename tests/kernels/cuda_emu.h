/* cuda_emu.h - emulates CUDA on the CPU, for tests: a .cu file compiled as C++ by g++ with
 * -DCUDA_EMU runs its grids here, under the sanitizers;
 * long because it is one runtime that each emulated source includes.
 *
 * A thread is a fiber. Three blocks run at once, taken from the grid in shuffled order.
 * CUDA_EMU_SEED determines which fiber runs next at every barrier, warp operation and atomic:
 * drawn at random, or, by the seed's remainder by 4, always the first that can run (1), the
 * last (2), or the one that ran last (3). Shared memory is a separate heap area for each array,
 * initially filled with noise. build/kcheck-race runs the same with cuda_race.c, which detects
 * every access that no barrier orders. Anything that hangs on a chip or is undefined there
 * (threads waiting in different places, a warp operation without a thread of its mask) ends the
 * test with a message. Of tensor cores, mma.m16n8k16 of bf16 and f16, mma.m16n8k32 of int8 and
 * ldmatrix are emulated, and cp.async; wgmma, the TMA and mbarriers in cuda_emu_wgmma.h. Not
 * emulated: the other tensor core operations, textures, dynamic parallelism, memory order weaker
 * than the host's. */
#ifndef RNP_TESTS_KERNELS_CUDA_EMU_H
#define RNP_TESTS_KERNELS_CUDA_EMU_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include "kernels/dev/half.h"

extern "C" {
#endif

struct emu_index {
	unsigned x, y, z;
};

struct emu_thread {
	struct emu_index thread, block;
	unsigned lane;
};

extern struct emu_index emu_grid_dim, emu_block_dim; /* of the running grid */
extern struct emu_thread *emu_self;                  /* the running fiber */

typedef void (*emu_body_fn)(void *arguments);
void emu_run(struct emu_index grid, struct emu_index block, emu_body_fn body,
	void *arguments);

void emu_block_barrier(void);
/* Waits until all threads of mask meet; the result has every lane's value. It does not order
 * memory: neither do votes and shuffles. */
const uint64_t *emu_warp_exchange(unsigned mask, uint64_t value);
/* Waits until all threads of mask meet, and makes each one's earlier writes visible to the
 * others: __syncwarp. */
void emu_warp_barrier(unsigned mask);
/* The device's memory (cuda_emu_memory.c), of `all` bytes. emu_take returns whether it fits, with
 * noise in
 * *out; emu_give, whether p was taken; emu_is_device, whether these bytes lie in what was taken. */
bool emu_take(void **out, size_t bytes, size_t all);
bool emu_give(void *p);
size_t emu_used(void);
bool emu_is_device(const void *p, size_t bytes);

/* Returns the block's array that is declared at this place in the source. */
void *emu_shared(const void *place, size_t bytes);
void emu_yield(void); /* may let other fibers run first */

/* Asynchronous copies of the running fiber are done when they are started, or as late as a wait
 * allows: each fiber does one or the other, as the seed decides. emu_copy_later returns whether
 * it took the copy; emu_copy_next gives the oldest of those that must be done for at most
 * `groups` groups to be left, or returns false. */
/* An asynchronous copy, and the group of its thread that it belongs to. */
struct emu_late_copy {
	void *to;
	const void *from;
	unsigned bytes,
		size; /* the first bytes are copied, the others up to size become zeros */
	unsigned group;
};
bool emu_copy_later(const struct emu_late_copy *c);
void emu_copy_commit(void);
bool emu_copy_next(struct emu_late_copy *c, unsigned groups);

/* For cuda_race.c. emu_whereabouts: the running fiber's block (a number that is unique among
 * all grids), its thread in it, and the time of its last barrier. emu_ordered: whether an
 * access that another fiber made at that time is ordered before what the running one does now.
 * emu_own_stack: whether memory is in its own stack. The others are called around atomics, and
 * when memory is new. */
void emu_whereabouts(uint32_t *block, uint16_t *thread, uint32_t *time);
bool emu_ordered(uint32_t block, uint16_t thread, uint32_t time);
bool emu_own_stack(const void *p);
void emu_atomic_begin(void);
void emu_atomic_end(void);
void emu_race_forget(const void *p, size_t bytes);

/* A stream runs operations at once; while it is being captured, it appends them to its own list
 * instead, which becomes a graph. */
struct emu_node {
	struct emu_node *next;
	void (*run)(void *what);
	/* the arguments of run follow */
};

struct emu_stream {
	bool capturing, broken; /* broken: asked to capture what cannot be captured */
	struct emu_node *first, **end;
	struct emu_stream *next; /* of those that the same thread captures */
};

struct emu_graph {
	struct emu_node *first;
};

/* Begins a capture by this thread, and ends it; returns false where it is another thread's. */
void emu_capture(struct emu_stream *s);
bool emu_captured(struct emu_stream *s);
/* Of calls that a thread that captures must not make, as cudaStreamCaptureModeThreadLocal says:
 * memory, the host's too, and waiting. They fail, do nothing, and invalidate all its captures.
 * Returns whether there are any. */
bool emu_forbidden(void);

/* Returns whether the stream (NULL: none) is being captured and recorded the operation, with a
 * copy of the bytes at `what` for run. */
bool emu_kept(struct emu_stream *s, void (*run)(void *what), const void *what,
	size_t bytes);
void emu_nodes_free(struct emu_node *first);
void emu_nodes_run(struct emu_node *first);

#ifdef __cplusplus
}

/* --- the language -------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __constant__    static const
#define __launch_bounds__(...)

#define threadIdx (emu_self->thread)
#define blockIdx  (emu_self->block)
#define blockDim  emu_block_dim
#define gridDim   emu_grid_dim
#define warpSize  32

struct dim3 : emu_index {
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : emu_index{ x_, y_, z_ }
	{
	}
};

template <class F> struct emu_grid {
	dim3 grid, block;
	F body;
};

template <class F> static inline void emu_start(void *what)
{
	emu_grid<F> *g = static_cast<emu_grid<F> *>(what);

	emu_run(
		g->grid, g->block, [](void *f) { (*static_cast<F *>(f))(); }, &g->body);
}

template <class F>
static inline void emu_launch(dim3 grid, dim3 block, struct emu_stream *stream, F body)
{
	emu_grid<F> g = { grid, block, body };

	static_assert(__is_trivially_copyable(F), "arguments of a kernel are bytes");
	if (!emu_kept(stream, emu_start<F>, &g, sizeof g))
		emu_start<F>(&g);
}

/* Arguments are evaluated once, before the grid starts, as on a chip. */
template <class... P> struct emu_call {
	template <class... A>
	static void start(dim3 grid, dim3 block, struct emu_stream *stream,
		void (*kernel)(P...), A... arguments)
	{
		emu_launch(grid, block, stream, [=]() { kernel(arguments...); });
	}
};
template <class... P> static inline emu_call<P...> emu_signature(void (*)(P...));

#define LAUNCH(kernel, grid, block, stream, ...)                                  \
	decltype(emu_signature(kernel))::start((grid), (block), (stream), kernel, \
		__VA_ARGS__)
#define SHARED(type, name, count)                  \
	static const char name##_place_ = 0;       \
	auto &name = *static_cast<type(*)[count]>( \
		emu_shared(&name##_place_, sizeof(type) * (count)))

/* Shared memory whose size the launch states: more than 48 KiB must have been asked for. */
#define EMU_LARGE_KERNELS 16
static struct {
	void (*kernel)(void);
	size_t bytes;
} emu_large[EMU_LARGE_KERNELS];

/* Where what was asked for a kernel is kept. */
static inline size_t *emu_large_of(void (*kernel)(void))
{
	for (int i = 0; i < EMU_LARGE_KERNELS; i++) {
		if (!emu_large[i].kernel) {
			emu_large[i].kernel = kernel;
			emu_large[i].bytes = 48 << 10;
		}
		if (emu_large[i].kernel == kernel)
			return &emu_large[i].bytes;
	}
	abort();
}
#define LAUNCH_LARGE(kernel, grid, block, bytes, stream, ...)                            \
	((size_t)(bytes) <= *emu_large_of((void (*)(void))(kernel)) ? (void)0 : abort(), \
		LAUNCH(kernel, grid, block, stream, __VA_ARGS__))
#define LARGE_SHARED(type, name, count)            \
	static const char name##_place_ = 0;       \
	auto &name = *static_cast<type(*)[count]>( \
		emu_shared(&name##_place_, sizeof(type) * (count)))

struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
struct alignas(8) uint2 {
	unsigned x, y;
};
struct alignas(8) float2 {
	float x, y;
};
static inline float2 make_float2(float x, float y)
{
	return float2{ x, y };
}
struct alignas(16) float4 {
	float x, y, z, w;
};
struct alignas(8) int2 {
	int x, y;
};
static inline int2 make_int2(int x, int y)
{
	return int2{ x, y };
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
	return uint4{ x, y, z, w };
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
	return uint2{ x, y };
}
static inline float4 make_float4(float x, float y, float z, float w)
{
	return float4{ x, y, z, w };
}

/* --- barriers, warps, atomics --------------------------------------------------------------- */

static inline void __syncthreads()
{
	emu_block_barrier();
}

static inline void __threadfence()
{
}

static inline void __threadfence_block()
{
}

static inline void __syncwarp(unsigned mask = 0xffffffff)
{
	emu_warp_barrier(mask);
}

template <class T> static inline uint64_t emu_bits(T v)
{
	uint64_t bits = 0;

	static_assert(sizeof v <= 8, "a warp exchanges up to 8 bytes");
	memcpy(&bits, &v, sizeof v);
	return bits;
}

template <class T> static inline T emu_lane(unsigned mask, T v, unsigned lane, int width)
{
	unsigned first = emu_self->lane & ~(unsigned)(width - 1);
	const uint64_t *all = emu_warp_exchange(mask, emu_bits(v));
	T out;

	memcpy(&out, &all[first + lane], sizeof out);
	return out;
}

template <class T>
static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32)
{
	return emu_lane(mask, v, (unsigned)(lane & (width - 1)), width);
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32)
{
	return emu_lane(mask, v, (emu_self->lane ^ (unsigned)by) & (unsigned)(width - 1),
		width);
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32)
{
	unsigned at = emu_self->lane & (unsigned)(width - 1);

	return emu_lane(mask, v, at + by < (unsigned)width ? at + by : at, width);
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
	unsigned at = emu_self->lane & (unsigned)(width - 1);

	return emu_lane(mask, v, at >= by ? at - by : at, width);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
	const uint64_t *all = emu_warp_exchange(mask, predicate != 0);
	unsigned ballot = 0;

	for (unsigned k = 0; k < 32; k++)
		if (mask >> k & 1 && all[k])
			ballot |= 1u << k;
	return ballot;
}

static inline int __any_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, predicate) == mask;
}

#define EMU_ATOMIC(name, expression)                        \
	template <class T> static inline T name(T *at, T v) \
	{                                                   \
		T old;                                      \
		emu_yield();                                \
		emu_atomic_begin();                         \
		old = *at;                                  \
		*at = expression;                           \
		emu_atomic_end();                           \
		return old;                                 \
	}
EMU_ATOMIC(atomicAdd, (T)(old + v))
EMU_ATOMIC(atomicMax, old > v ? old : v)
EMU_ATOMIC(atomicMin, old < v ? old : v)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicAnd, old &v)
EMU_ATOMIC(atomicXor, old ^ v)
EMU_ATOMIC(atomicExch, v)
#undef EMU_ATOMIC

template <class T> static inline T atomicCAS(T *at, T expected, T v)
{
	T old;

	emu_yield();
	emu_atomic_begin();
	old = *at;
	if (old == expected)
		*at = v;
	emu_atomic_end();
	return old;
}

/* --- tensor cores ---------------------------------------------------------------------------- */

static inline float emu_bf16(unsigned bits)
{
	return bf16_to_f32((uint16_t)bits);
}

static inline float emu_f16(unsigned bits)
{
	return f16_to_f32((uint16_t)bits);
}

/* What the lanes of a warp hold of A and B: word w of lane l, A's four and B's two. */
struct emu_fragments {
	unsigned a[4][32], b[2][32];
};

static inline void emu_meet(struct emu_fragments *f, const unsigned (&a)[4], unsigned b0,
	unsigned b1)
{
	const uint64_t *all = emu_warp_exchange(0xffffffff, (uint64_t)a[1] << 32 | a[0]);

	for (int l = 0; l < 32; l++)
		f->a[0][l] = (unsigned)all[l], f->a[1][l] = (unsigned)(all[l] >> 32);
	all = emu_warp_exchange(0xffffffff, (uint64_t)a[3] << 32 | a[2]);
	for (int l = 0; l < 32; l++)
		f->a[2][l] = (unsigned)all[l], f->a[3][l] = (unsigned)(all[l] >> 32);
	all = emu_warp_exchange(0xffffffff, (uint64_t)b1 << 32 | b0);
	for (int l = 0; l < 32; l++)
		f->b[0][l] = (unsigned)all[l], f->b[1][l] = (unsigned)(all[l] >> 32);
}

/* mma.m16n8k16, f32 += product of two 16-bit numbers: all lanes exchange their registers, and each
 * adds up its four elements. As a GPU's that has wgmma (Xie et al. 2025, arXiv 2511.10909) the sum
 * of all 16 terms is rounded once, so that their order does not matter. */
static inline void emu_mma(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
	unsigned b1, float (*number)(unsigned bits))
{
	struct emu_fragments f;
	unsigned g = emu_self->lane / 4, t = emu_self->lane % 4;

	emu_meet(&f, a, b0, b1);
	for (unsigned e = 0; e < 4; e++) {
		double all = sum[e];

		for (unsigned k = 0; k < 16; k++) {
			/* the lanes that have row g or g + 8 of A and column 2 t or 2 t + 1 of
			 * B at k */
			unsigned with_a = g * 4 + k % 8 / 2;
			unsigned with_b = (t * 2 + e % 2) * 4 + k % 8 / 2;
			unsigned shift = 16 * (k % 2);

			all += (double)number(f.a[e / 2 + k / 8 * 2][with_a] >> shift) *
				number(f.b[k / 8][with_b] >> shift);
		}
		sum[e] = (float)all;
	}
}

/* mma.m16n8k32, int32 += int8 int8. */
static inline void emu_mma_i8(int (&sum)[4], const unsigned (&a)[4], unsigned b0,
	unsigned b1)
{
	struct emu_fragments f;
	unsigned g = emu_self->lane / 4, t = emu_self->lane % 4;

	emu_meet(&f, a, b0, b1);
	for (unsigned e = 0; e < 4; e++)
		for (unsigned k = 0; k < 32; k++) {
			unsigned with_a = g * 4 + k % 16 / 4;
			unsigned with_b = (t * 2 + e % 2) * 4 + k % 16 / 4;
			unsigned shift = 8 * (k % 4);

			sum[e] += (int8_t)(f.a[e / 2 + k / 16 * 2][with_a] >> shift) *
				(int8_t)(f.b[k / 16][with_b] >> shift);
		}
}

static inline void emu_copy_now(const struct emu_late_copy *c)
{
	for (unsigned i = 0; i < c->size; i++)
		((unsigned char *)c->to)[i] = i < c->bytes ?
			((const unsigned char *)c->from)[i] :
			0;
}

/* cp.async: 4, 8 or 16 bytes, of which `bytes` are read and the others become zeros. */
static inline void emu_copy_async(void *to, const void *from, unsigned bytes,
	unsigned size)
{
	struct emu_late_copy c = { to, from, bytes, size, 0 };

	if (((uintptr_t)to | (bytes ? (uintptr_t)from : 0)) % size || bytes > size)
		abort(); /* on a chip too */
	if (!emu_copy_later(&c))
		emu_copy_now(&c);
}

/* Waits until at most `groups` of this thread's groups are left. */
static inline void emu_copy_wait(unsigned groups)
{
	struct emu_late_copy c;

	while (emu_copy_next(&c, groups))
		emu_copy_now(&c);
}

/* ldmatrix.x4.b16: lane l gives the address of row l % 8 of matrix l / 8. */
static inline void emu_matrices(unsigned (&r)[4], const uint16_t *row, bool turned)
{
	uint64_t rows[32];
	unsigned g = emu_self->lane / 4, t = emu_self->lane % 4;

	if ((uintptr_t)row % 16)
		abort(); /* on a chip too */
	memcpy(rows, emu_warp_exchange(0xffffffff, (uint64_t)(uintptr_t)row),
		sizeof rows);
	for (unsigned m = 0; m < 4; m++) {
		const uint64_t *at = rows + 8 * m;
		const uint16_t *first = (const uint16_t *)at[turned ? 2 * t : g];
		const uint16_t *second = (const uint16_t *)at[turned ? 2 * t + 1 : g];

		r[m] = turned ? first[g] | (unsigned)second[g] << 16 :
				first[2 * t] | (unsigned)second[2 * t + 1] << 16;
	}
}

/* --- arithmetic ----------------------------------------------------------------------------- */

template <class T> static inline T __ldg(const T *p)
{
	return *p;
}
/* past the level-1 cache, of which there is none */
template <class T> static inline T __ldcg(const T *p)
{
	return *p;
}
static inline double __dadd_rn(double a, double b)
{
	return a + b;
}
static inline double __dmul_rn(double a, double b)
{
	return a * b;
}
static inline float __fadd_rn(float a, float b)
{
	return a + b;
}
static inline float __fmul_rn(float a, float b)
{
	return a * b;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
	return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
	return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
	uint64_t bytes = (uint64_t)b << 32 | a;
	unsigned out = 0;

	for (int k = 0; k < 4; k++)
		out |= (unsigned)(bytes >> 8 * (selector >> 4 * k & 7) & 255) << 8 * k;
	return out;
}
static inline int __dp4a(int a, int b, int sum)
{
	unsigned total = (unsigned)sum;

	for (int k = 0; k < 32; k += 8)
		total += (unsigned)((int8_t)(a >> k) * (int8_t)(b >> k));
	return (int)total;
}
static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}
static inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}
static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}
template <class T> static inline T min(T a, T b)
{
	return a < b ? a : b;
}
template <class T> static inline T max(T a, T b)
{
	return a > b ? a : b;
}

/* --- the runtime: a device with two multiprocessors, whose memory is malloc's ------------------
 *
 * What can be wrong with a GPU, by environment: CUDA_EMU_DEVICES (0: none; 1 without it),
 * CUDA_EMU_DRIVER=0 (there is none), CUDA_EMU_MEMORY (bytes that all allocations together may
 * have), CUDA_EMU_LOST (after so many calls that wait for the GPU it falls off the bus and stays
 * away), CUDA_EMU_ERROR (the number of the error with which the driver refuses to begin),
 * CUDA_EMU_CAPTURE (what of a capture fails: begin, end, instantiate, launch), CUDA_EMU_OLD (the
 * chip is older than the build), CUDA_EMU_SHARED (bytes of shared memory that a kernel may be
 * allowed at most), CUDA_EMU_WGMMA (how wgmma adds: cuda_emu_wgmma.c), CUDA_EMU_MAP_MOST (columns
 * that the driver makes a tensor map of). */

#include <stdlib.h>
#include <time.h>

enum cudaError_t {
	cudaSuccess,
	cudaErrorMemoryAllocation,
	cudaErrorNoDevice,
	cudaErrorInsufficientDriver,
	cudaErrorInvalidDevice,
	cudaErrorInvalidValue,
	cudaErrorDevicesUnavailable,
	cudaErrorECCUncorrectable,
	cudaErrorHardwareStackError,
	cudaErrorUnknown,
	cudaErrorInitializationError,
	cudaErrorSystemDriverMismatch,
	cudaErrorNotPermitted,
	cudaErrorPeerAccessAlreadyEnabled,
	cudaErrorStreamCaptureUnsupported,
	cudaErrorStreamCaptureInvalidated,
	cudaErrorStreamCaptureWrongThread,
	cudaErrorIllegalState,
	cudaErrorNoKernelImageForDevice,
	cudaErrorUnsupportedPtxVersion,
	cudaErrorInvalidDeviceFunction,
	/* as in driver_types.h, for CUDA_EMU_ERROR */
	cudaErrorStubLibrary = 34,
	cudaErrorCallRequiresNewerDriver = 36,
	cudaErrorDeviceNotLicensed = 102,
	cudaErrorNvlinkUncorrectable = 220,
	cudaErrorJitCompilerNotFound = 221,
	cudaErrorJitCompilationDisabled = 223,
	cudaErrorContained = 226,
	cudaErrorSystemNotReady = 802,
	cudaErrorCompatNotSupportedOnDevice = 804,
	cudaErrorMpsConnectionFailed = 805,
	cudaErrorMpsRpcFailure = 806,
	cudaErrorMpsServerNotReady = 807,
	cudaErrorMpsMaxClientsReached = 808,
	cudaErrorMpsMaxConnectionsReached = 809,
	cudaErrorMpsClientTerminated = 810
};
struct cudaFuncAttributes {
	int numRegs;
};
enum cudaMemcpyKind {
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice
};
enum cudaDeviceAttr {
	cudaDevAttrMultiProcessorCount,
	cudaDevAttrComputeCapabilityMajor,
	cudaDevAttrComputeCapabilityMinor,
	cudaDevAttrMaxSharedMemoryPerBlockOptin
};
enum { cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0, cudaEventDisableTiming = 2 };
typedef struct emu_stream *cudaStream_t;
typedef struct emu_event {
	struct timespec at;
} * cudaEvent_t;
struct cudaDeviceProp {
	char name[256];
	struct {
		char bytes[16];
	} uuid;
	size_t totalGlobalMem;
};

#define EMU_MEMORY_BYTES ((size_t)1 << 30)

static inline unsigned long long emu_scene(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static inline size_t emu_memory()
{
	return (size_t)emu_scene("CUDA_EMU_MEMORY", EMU_MEMORY_BYTES);
}

/* Returns the status of a call that waits for the GPU. */
static inline cudaError_t emu_alive()
{
	static unsigned long long calls;
	unsigned long long last = emu_scene("CUDA_EMU_LOST", 0);

	return last && ++calls > last ? cudaErrorUnknown : cudaSuccess;
}

static inline cudaError_t cudaGetDeviceCount(int *n)
{
	*n = (int)emu_scene("CUDA_EMU_DEVICES", 1);
	if (!emu_scene("CUDA_EMU_DRIVER", 1))
		return cudaErrorInsufficientDriver;
	if (emu_scene("CUDA_EMU_ERROR", 0))
		return (cudaError_t)emu_scene("CUDA_EMU_ERROR", 0);
	return *n ? cudaSuccess : cudaErrorNoDevice;
}
static inline cudaError_t cudaSetDevice(int)
{
	return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int n)
{
	*p = cudaDeviceProp{};
	strcpy(p->name, "emulation");
	memset(p->uuid.bytes, 0xe - n, sizeof p->uuid.bytes);
	p->totalGlobalMem = emu_memory();
	return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr which, int)
{
	*v = which == cudaDevAttrMultiProcessorCount             ? 2 :
		which == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 99 << 10 :
								   0;
	return cudaSuccess;
}
/* An operation that cannot be captured invalidates its stream's capture. */
static inline bool emu_spoils(struct emu_stream *s)
{
	if (s && s->capturing)
		s->broken = true;
	return s && s->capturing;
}
static inline cudaError_t cudaMalloc(void **p, size_t bytes)
{
	if (emu_forbidden())
		return cudaErrorStreamCaptureUnsupported;
	return emu_take(p, bytes, emu_memory()) ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *p)
{
	if (emu_forbidden())
		return cudaErrorStreamCaptureUnsupported;
	return !p || emu_give(p) ? cudaSuccess : cudaErrorInvalidValue;
}
static inline cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
	if (emu_forbidden())
		return cudaErrorStreamCaptureUnsupported;
	return posix_memalign(p, 4096, bytes) ? cudaErrorMemoryAllocation : cudaSuccess;
}
static inline cudaError_t cudaFreeHost(void *p)
{
	if (emu_forbidden())
		return cudaErrorStreamCaptureUnsupported;
	free(p);
	return cudaSuccess;
}
static inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
	*all = emu_memory();
	*free_bytes = *all - emu_used();
	return cudaSuccess;
}
struct emu_copy {
	void *to;
	const void *from;
	size_t n;
};
static inline void emu_copy_now(void *what)
{
	struct emu_copy *c = (struct emu_copy *)what;

	memcpy(c->to, c->from, c->n);
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
	cudaMemcpyKind kind, cudaStream_t s = 0)
{
	struct emu_copy c = { to, from, n };

	if (n &&
		((kind != cudaMemcpyDeviceToHost && !emu_is_device(to, n)) ||
			(kind != cudaMemcpyHostToDevice && !emu_is_device(from, n))))
		return cudaErrorInvalidValue;
	if (!emu_kept(s, emu_copy_now, &c, sizeof c))
		emu_copy_now(&c);
	return cudaSuccess;
}
static inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
	*can = 1;
	return cudaSuccess;
}
static inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
	return cudaSuccess;
}
static inline cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int,
	size_t n, cudaStream_t s = 0)
{
	return cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, s);
}
struct emu_set {
	void *to;
	int v;
	size_t n;
};
static inline void emu_set_now(void *what)
{
	struct emu_set *s = (struct emu_set *)what;

	memset(s->to, s->v, s->n);
}
static inline cudaError_t cudaMemsetAsync(void *to, int v, size_t n, cudaStream_t s = 0)
{
	struct emu_set set = { to, v, n };

	if (n && !emu_is_device(to, n))
		return cudaErrorInvalidValue;
	if (!emu_kept(s, emu_set_now, &set, sizeof set))
		emu_set_now(&set);
	return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
	*s = (cudaStream_t)calloc(1, sizeof **s);
	return *s ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	return emu_spoils(s) || emu_forbidden() ? cudaErrorStreamCaptureUnsupported :
						  emu_alive();
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	if (s && s->capturing && emu_captured(s))
		emu_nodes_free(s->first);
	free(s);
	return cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t *e)
{
	*e = (cudaEvent_t)malloc(sizeof **e);
	return *e ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
	return cudaEventCreate(e);
}
/* all earlier work is done */
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
	return e && !emu_spoils(s) ? cudaSuccess : cudaErrorUnknown;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	free(e);
	return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	/* on a chip the event would become part of the graph and be useless outside it */
	if (emu_spoils(s))
		return cudaErrorStreamCaptureUnsupported;
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t)
{
	return emu_forbidden() ? cudaErrorStreamCaptureUnsupported : emu_alive();
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from,
	cudaEvent_t to)
{
	*ms = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f +
		(float)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
	return cudaSuccess;
}
typedef struct emu_graph *cudaGraph_t, *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

static inline bool emu_capture_fails(const char *where)
{
	const char *what = getenv("CUDA_EMU_CAPTURE");

	return what && strcmp(what, where) == 0;
}
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
	if (!s || s->capturing || emu_capture_fails("begin"))
		return cudaErrorStreamCaptureUnsupported;
	s->capturing = true;
	s->broken = false;
	s->first = NULL;
	s->end = &s->first;
	emu_capture(s);
	return cudaSuccess;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
	*graph = NULL;
	if (!s->capturing)
		return cudaErrorIllegalState;
	if (!emu_captured(s))
		return cudaErrorStreamCaptureWrongThread;
	s->capturing = false;
	if (s->broken || emu_capture_fails("end")) {
		emu_nodes_free(s->first);
		return cudaErrorStreamCaptureInvalidated;
	}
	*graph = (cudaGraph_t)calloc(1, sizeof **graph);
	(*graph)->first = s->first;
	return cudaSuccess;
}
static inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *nodes, size_t *n)
{
	*n = 0;
	for (struct emu_node *at = nodes ? NULL : graph->first; at; at = at->next)
		++*n;
	return cudaSuccess;
}
/* Moves the graph's nodes to the executable graph: our code never instantiates a graph
 * twice. */
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
	unsigned long long)
{
	*exec = NULL;
	if (emu_capture_fails("instantiate"))
		return cudaErrorMemoryAllocation;
	*exec = (cudaGraphExec_t)calloc(1, sizeof **exec);
	(*exec)->first = graph->first;
	graph->first = NULL;
	return cudaSuccess;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	emu_nodes_free(graph->first);
	free(graph);
	return cudaSuccess;
}
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	return cudaGraphDestroy(exec);
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
	if (emu_spoils(s) || emu_capture_fails("launch"))
		return cudaErrorUnknown;
	emu_nodes_run(exec->first);
	return cudaSuccess;
}
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
	a->numRegs = 0;
	return emu_scene("CUDA_EMU_OLD", 0) ? cudaErrorNoKernelImageForDevice :
					      cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class F>
static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute, int bytes)
{
	/* an SM has 228 KiB, of which a block may have 227 */
	if (bytes > (int)emu_scene("CUDA_EMU_SHARED", 227 << 10))
		return cudaErrorInvalidValue;
	/* one number for all threads and captures: who lowers it takes it from a launch that needs
	 * more */
	if ((size_t)bytes < *emu_large_of((void (*)(void))kernel) &&
		*emu_large_of((void (*)(void))kernel) != 48 << 10) {
		fprintf(stderr, "emulation: a kernel's shared memory is lowered\n");
		abort();
	}
	*emu_large_of((void (*)(void))kernel) = (size_t)bytes;
	return cudaSuccess;
}
static inline cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}
static inline const char *cudaGetErrorString(cudaError_t e)
{
	switch (e) {
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorSystemNotReady:
		return "system not yet initialized";
	case cudaErrorMpsServerNotReady:
		return "MPS server is not ready to accept new MPS client requests";
	default:
		return "unknown error";
	}
}
static inline const char *cudaGetErrorName(cudaError_t e)
{
	switch (e) {
	case cudaErrorMemoryAllocation:
		return "cudaErrorMemoryAllocation";
	case cudaErrorInvalidValue:
		return "cudaErrorInvalidValue";
	case cudaErrorNoDevice:
		return "cudaErrorNoDevice";
	case cudaErrorInsufficientDriver:
		return "cudaErrorInsufficientDriver";
	case cudaErrorSystemNotReady:
		return "cudaErrorSystemNotReady";
	case cudaErrorMpsServerNotReady:
		return "cudaErrorMpsServerNotReady";
	default:
		return "cudaErrorUnknown";
	}
}
#endif

#endif
