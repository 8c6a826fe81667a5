/* cuda.cuh - what the language model's CUDA files share: packs of eight numbers, warp
 * reductions in a fixed order, and the entry points.
 *
 * The order of a sum depends only on the sizes of an operation, never on the grid, so that
 * every GPU adds in the same order. Nothing here waits or allocates, so that all of it can be
 * captured into a graph. */
#ifndef RNP_KERNELS_LM_CUDA_CUH
#define RNP_KERNELS_LM_CUDA_CUH

#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/dev/half.h"
#include "kernels/lm/ops.h"

#define LM_THREADS 256
#define LM_WARPS   (LM_THREADS / 32)
#define LM_ALL     0xffffffffu

/* The allocations of prepare: memory for partial sums, and for products before they are
 * converted to another type. */
#ifdef CUDA_EMU
#define LM_SCRATCH_FLOATS ((uint64_t)4 << 20) /* what is large is made in parts there */
#define LM_COUNTERS       256
#else
#define LM_SCRATCH_FLOATS ((uint64_t)16 << 20)
/* behind them: how many blocks have done their part of what the last one puts together, and resets
 * to 0 */
#define LM_COUNTERS 4096
#endif

/* --- numbers ------------------------------------------------------------------------------- */

__device__ __forceinline__ float lm_f32(float x)
{
	return x;
}

__device__ __forceinline__ float lm_f32(uint16_t x)
{
	return bf16_to_f32(x);
}

__device__ __forceinline__ void lm_round(float *to, float x)
{
	*to = x;
}

__device__ __forceinline__ void lm_round(uint16_t *to, float x)
{
	*to = (uint16_t)cuda_two_bf16(x, 0);
}

/* 2^x by the GPU's own instruction: relative error 2^-22, 0 below 2^-126. */
__device__ __forceinline__ float lm_exp2(float x)
{
#ifdef __CUDA_ARCH__
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
#else
	return exp2f(x);
#endif
}

/* x / y with two units in the last place, for |y| from 2^-126 to 2^126. */
__device__ __forceinline__ float lm_divide(float x, float y)
{
#ifdef __CUDA_ARCH__
	return __fdividef(x, y);
#else
	return x / y;
#endif
}

/* 1 / x by the GPU's own instruction: an error of one unit in the last place, 0 above 2^126. */
__device__ __forceinline__ float lm_reciprocal(float x)
{
#ifdef __CUDA_ARCH__
	float y;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
#else
	return 1 / x;
#endif
}

/* log2(e) in two parts: a bf16 times the first is exact, and the second times it small */
#define LM_LOG2E_HIGH 0x1.7154p+0f
#define LM_LOG2E_REST (1.4426950408889634 - 0x1.7154p+0)
#define LM_LN2        0.6931471805599453

/* 1 / (1 + exp(-g)) of a bf16 with a relative error of 8 u, 0 below 2^-126. */
__device__ __forceinline__ float lm_sigmoid(float g)
{
	float e = lm_exp2(-LM_LOG2E_HIGH * g);

	e += e * (float)(-LM_LOG2E_REST * LM_LN2) * g;
	return lm_reciprocal(1 + e);
}

/* Eight adjacent numbers. If `wide` (addresses are multiples of 16 bytes and counts of 8) they
 * are loaded and stored 16 bytes at a time; else one by one, and only the first n. */
#define LM_PACK 8

__device__ __forceinline__ void lm_load(float *v, const float *p, unsigned n, bool wide)
{
	if (wide) {
		float4 a = *(const float4 *)(const void *)p;
		float4 b = *(const float4 *)(const void *)(p + 4);

		v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
		v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
		return;
	}
	UNROLL
	for (unsigned i = 0; i < LM_PACK; i++)
		v[i] = i < n ? p[i] : 0;
}

__device__ __forceinline__ void lm_load(float *v, const uint16_t *p, unsigned n,
	bool wide)
{
	if (wide) {
		uint4 a = *(const uint4 *)(const void *)p;
		unsigned w[4] = { a.x, a.y, a.z, a.w };

		UNROLL
		for (int i = 0; i < 4; i++) {
			v[2 * i] = bf16_to_f32((uint16_t)w[i]);
			v[2 * i + 1] = bf16_to_f32((uint16_t)(w[i] >> 16));
		}
		return;
	}
	UNROLL
	for (unsigned i = 0; i < LM_PACK; i++)
		v[i] = i < n ? bf16_to_f32(p[i]) : 0;
}

__device__ __forceinline__ void lm_store(float *p, const float *v, unsigned n, bool wide)
{
	if (wide) {
		*(float4 *)(void *)p = make_float4(v[0], v[1], v[2], v[3]);
		*(float4 *)(void *)(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
		return;
	}
	UNROLL
	for (unsigned i = 0; i < LM_PACK; i++)
		if (i < n)
			p[i] = v[i];
}

__device__ __forceinline__ void lm_store(uint16_t *p, const float *v, unsigned n,
	bool wide)
{
	if (wide) {
		*(uint4 *)(void *)p = make_uint4(cuda_two_bf16(v[0], v[1]),
			cuda_two_bf16(v[2], v[3]), cuda_two_bf16(v[4], v[5]),
			cuda_two_bf16(v[6], v[7]));
		return;
	}
	UNROLL
	for (unsigned i = 0; i < LM_PACK; i++)
		if (i < n)
			lm_round(&p[i], v[i]);
}

/* Rotates eight pairs by their cosines and sines in t: (a[k], b[k]), or when interleaved adjacent
 * ones, of which a has the first four. */
__device__ __forceinline__ void lm_rotate_pairs(float (&a)[LM_PACK], float (&b)[LM_PACK],
	const float (&t)[2 * LM_PACK], bool interleaved, bool inverse)
{
	UNROLL
	for (int k = 0; k < LM_PACK; k++) {
		float c = t[2 * k], s = inverse ? -t[2 * k + 1] : t[2 * k + 1];
		float *p = interleaved ? (k < 4 ? a + 2 * k : b + 2 * k - 8) : a + k;
		float *q = interleaved ? p + 1 : b + k;
		float x = *p, y = *q;

		*p = x * c - y * s;
		*q = x * s + y * c;
	}
}

/* Returns how many numbers of the pack that starts at `at` are below `end`. */
__device__ __forceinline__ unsigned lm_count(uint64_t at, uint64_t end)
{
	return end - at < LM_PACK ? (unsigned)(end - at) : LM_PACK;
}

/* Rotates eight pairs of a head: from i on in both halves of it, or 16 adjacent numbers when
 * interleaved. */
template <class T>
__device__ __forceinline__ void lm_rotate_pack(const struct lm_rotate &r, uint64_t row,
	uint64_t head, uint64_t i, bool wide)
{
	uint64_t half = r.head_dim / 2;
	T *x = (T *)r.x + row * r.ld + head * lm_rotate_stride(&r);
	const float *table = r.table + lm_rotate_position(&r, row) * r.head_dim + 2 * i;
	/* where the two groups of numbers lie, and how many of them exist */
	T *at = x + (r.interleaved ? 2 * i : i);
	T *bt = r.interleaved ? at + LM_PACK : at + half;
	unsigned count = lm_count(i, half), na = count, nb = count;
	float a[LM_PACK], b[LM_PACK], t[2 * LM_PACK];

	if (r.interleaved) {
		na = 2 * count < LM_PACK ? 2 * count : LM_PACK;
		nb = 2 * count - na;
	}
	lm_load(a, at, na, wide);
	lm_load(b, bt, nb, wide);
	lm_load(t, table, 2 * count < LM_PACK ? 2 * count : LM_PACK, wide);
	lm_load(t + LM_PACK, table + LM_PACK,
		2 * count > LM_PACK ? 2 * count - LM_PACK : 0, wide);
	lm_rotate_pairs(a, b, t, r.interleaved, r.inverse);
	lm_store(at, a, na, wide);
	lm_store(bt, b, nb, wide);
}

/* Whether packs of rows of `width` numbers can be wide. NULL counts as aligned. */
static inline bool lm_wide(uint64_t width, const void *a, const void *b, const void *c,
	const void *d)
{
	return width % LM_PACK == 0 &&
		(((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & 15) == 0;
}

static inline uint64_t lm_packs(uint64_t n)
{
	return (n + LM_PACK - 1) / LM_PACK;
}

static inline bool lm_rotate_wide(const struct lm_rotate *r)
{
	return lm_wide(r->head_dim / 2, r->x, r->table, NULL, NULL) &&
		r->ld % LM_PACK == 0 && lm_rotate_stride(r) % LM_PACK == 0;
}

/* The numbers of a pair of bf16. */
__device__ __forceinline__ float lm_high(unsigned two)
{
	return bf16_to_f32((uint16_t)(two >> 16));
}

__device__ __forceinline__ float lm_low(unsigned two)
{
	return bf16_to_f32((uint16_t)two);
}

/* --- sums ---------------------------------------------------------------------------------- */

/* Reduces over all lanes, or over groups of `width` adjacent ones; every lane gets the result. */
template <class V> __device__ __forceinline__ V lm_warp_sum(V v, int width = 32)
{
	for (int by = width / 2; by; by /= 2)
		v += __shfl_xor_sync(LM_ALL, v, by);
	return v;
}

__device__ __forceinline__ float lm_warp_max(float v, int width = 32)
{
	for (int by = width / 2; by; by /= 2) {
		float other = __shfl_xor_sync(LM_ALL, v, by);

		v = other > v ? other : v;
	}
	return v;
}

/* 1 / the root of the mean of a row's squares, by a warp. */
__device__ __forceinline__ float lm_row_rms(const float *x, uint64_t dim, float eps,
	bool wide)
{
	float v[LM_PACK], squares = 0;

	UNROLL_4 /* loads of four are on their way at once */
	for (uint64_t i = threadIdx.x % 32 * LM_PACK; i < dim; i += 32 * LM_PACK) {
		lm_load(v, x + i, lm_count(i, dim), wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			squares += v[k] * v[k];
	}
	return 1 / sqrtf(lm_warp_sum(squares) / (float)dim + eps);
}

/* silu(g) u, or gelu(g) u. */
__device__ __forceinline__ float lm_gated(float g, float u, bool gelu)
{
	float z = gelu ? LM_GELU_1 * (g + LM_GELU_3 * g * g * g) : g;

	return u * (g / (1 + expf(-z)));
}

/* Stores an output of a linear layer: y = (sum + bias) + from. */
__device__ __forceinline__ void lm_project_store(const struct lm_project &p, uint64_t r,
	uint64_t j, float y)
{
	uint64_t at = r * p.ldy + j;

	if (p.bias)
		y += p.bias[j];
	if (p.from)
		y += p.from[at];
	p.y[at] = y;
}

/* --- on the host --------------------------------------------------------------------------- */

/* Checks the error state after a launch. */
static inline int lm_started(struct dev *d)
{
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* Selects kernel<float> or kernel<uint16_t> by the operation's dtype. */
#define LM_LAUNCH(dtype, kernel, grid, block, stream, ...)                          \
	do {                                                                        \
		if ((dtype) == LM_DTYPE_F32)                                        \
			LAUNCH(kernel<float>, grid, block, stream, __VA_ARGS__);    \
		else                                                                \
			LAUNCH(kernel<uint16_t>, grid, block, stream, __VA_ARGS__); \
	} while (0)

/* The operations of ops.h. */
LM_OPS(CUDA_DECLARE, lm)

/* On tensor cores. Return 0; 1 if the GPU or the shape is not supported, and nothing was
 * started; -1 on error. */
int cuda_lm_attend_tensor(struct dev *d, const struct lm_attend *a);
int cuda_lm_attend_back_tensor(struct dev *d, const struct lm_attend_back *a);
/* The same of enough queries, on GPUs with wgmma. */
int cuda_lm_attend_wide(struct dev *d, const struct lm_attend *a);
/* One half each of cuda_lm_attend_back_tensor: dq with d, of each query of each head, and dk and
 * dv. */
int cuda_lm_attend_back_wide_queries(struct dev *d, const struct lm_attend_back *a,
	float *sums);
int cuda_lm_attend_back_wide_keys(struct dev *d, const struct lm_attend_back *a,
	float *sums);
int cuda_lm_swiglu_back_product(struct dev *d, const struct lm_swiglu_back *s);
/* The same for SwiGLU, on GPUs with wgmma. */
int cuda_lm_swiglu_product(struct dev *d, const struct lm_swiglu *s);

/* bf16 weights; w, x and their rows lie at multiples of 16 bytes. Returns as these. */
int cuda_lm_project_bf16(struct dev *d, const struct lm_project *p);
/* Of a few rows: one kernel makes all. */
int cuda_lm_project_bf16_group(struct dev *d, const struct lm_project_group *g);

/* For heads of 64, 128 and 256 columns, of which the first takes caches of f16 and q8_0 on tensor
 * cores. Return as these. */
int cuda_lm_paged_tensor(struct dev *d, const struct lm_paged_attend *a);
int cuda_lm_paged_split(struct dev *d, const struct lm_paged_attend *a);

/* Without tensor cores, for every GPU. */
int cuda_lm_gemm_plain(struct dev *d, const struct lm_gemm *g);

#endif
