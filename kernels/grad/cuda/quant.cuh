/* quant.cuh - what the quantisers of quant.h on a GPU share: quant.cu, quant_blocks.cu (methods
 * with a scale a block), quant_wide.cu (with bits beside their symbols), quant_topk.cu.
 *
 * Products and sums that decide bits are QUANT_MUL and its like, which are never contracted
 * (-fmad); what else is here is integers, divisions and conversions. */
#ifndef RNP_KERNELS_GRAD_QUANT_CUH
#define RNP_KERNELS_GRAD_QUANT_CUH

#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/grad/ops.h"

#define THREADS 256
#define WARPS   (THREADS / 32)
#define ALL     0xffffffffu

/* The values that every kernel needs of a job, computed once on the host. */
struct job {
	struct quant q;
	struct quant_layout l;
	uint64_t first, n, chunks;
	uint32_t chunk;
	unsigned chunk_log, block_log; /* both are powers of two */
	char *elements;
	unsigned char *planes;
	uint32_t *used, *bad;
	const struct quant_step *steps;
	/* error feedback: what is encoded is elements * carry + fresh, and elements becomes what of
	 * that is not sent */
	const float *fresh;
	float carry;
};

/* Returns the chunk of element i, and its place there: divisions of 64 bits would take longer than
 * everything else that most methods do. */
__device__ __forceinline__ uint64_t chunk_of(const struct job *j, uint64_t i)
{
	return i >> j->chunk_log;
}

__device__ __forceinline__ uint32_t place_of(const struct job *j, uint64_t i)
{
	return (uint32_t)i & (j->chunk - 1);
}

/* Returns plane p of chunk c. */
__device__ __forceinline__ unsigned char *plane_of(const struct job *j, uint64_t c, int p)
{
	return quant_plane_at(&j->l, j->planes, j->chunks, c, p);
}

__device__ __forceinline__ uint32_t length_of(const struct job *j, uint64_t c)
{
	uint64_t left = j->n - c * j->chunk;

	return (uint32_t)(left < j->chunk ? left : j->chunk);
}

__device__ __forceinline__ float *floats_of(const struct job *j, uint64_t c)
{
	return (float *)(void *)j->elements + c * j->chunk;
}

__device__ __forceinline__ float scale_at(const unsigned char *upper,
	const unsigned char *lower, uint32_t i)
{
	return bf16_to_f32((uint16_t)(upper[i] << 8 | lower[i]));
}

/* Returns the sum of v over the threads before this one; *total over all. sums: shared, WARPS.
 * All threads must call it. */
__device__ __forceinline__ uint32_t before(uint32_t v, uint32_t *sums, uint32_t *total)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint32_t up_to = v, earlier = 0, all = 0;

	for (unsigned by = 1; by < 32; by *= 2) {
		uint32_t other = __shfl_up_sync(ALL, up_to, by);

		up_to += lane >= by ? other : 0;
	}
	__syncthreads(); /* until the sums of the previous call are read */
	if (lane == 31)
		sums[warp] = up_to;
	__syncthreads();
	for (unsigned w = 0; w < WARPS; w++) {
		earlier += w < warp ? sums[w] : 0;
		all += sums[w];
	}
	*total = all;
	return earlier + up_to - v;
}

/* load_four and its like where not all four exist, or not at a multiple of 16: rare, so not
 * inlined. */
static __device__ __noinline__ float4 load_less(const float *p, uint32_t left)
{
	return make_float4(left > 0 ? p[0] : 0, left > 1 ? p[1] : 0, left > 2 ? p[2] : 0,
		left > 3 ? p[3] : 0);
}

static __device__ __noinline__ void store_less(float *p, float4 v, uint32_t left)
{
	if (left > 0)
		p[0] = v.x;
	if (left > 1)
		p[1] = v.y;
	if (left > 2)
		p[2] = v.z;
	if (left > 3)
		p[3] = v.w;
}

static __device__ __noinline__ void store_few(unsigned char *p, uint32_t four,
	uint32_t left)
{
	UNROLL_1
	for (uint32_t k = 0; k < left && k < 4; k++)
		p[k] = (unsigned char)(four >> 8 * k);
}

/* Four adjacent floats of which `left` exist, zeros after them. aligned: p is a multiple of 16. */
__device__ __forceinline__ float4 load_four(const float *p, uint32_t left, bool aligned)
{
	if (aligned && left >= 4)
		return *(const float4 *)(const void *)p;
	return load_less(p, left);
}

__device__ __forceinline__ void store_four(float *p, float4 v, uint32_t left,
	bool aligned)
{
	if (aligned && left >= 4)
		*(float4 *)(void *)p = v;
	else
		store_less(p, v, left);
}

/* Stores four symbols, the first lowest, of which `left` exist; p is a multiple of 4. */
__device__ __forceinline__ void store_symbols(unsigned char *p, uint32_t four,
	uint32_t left)
{
	if (left >= 4)
		*(uint32_t *)(void *)p = four;
	else
		store_few(p, four, left);
}

/* How many of `left` elements are after the first n. */
__device__ __forceinline__ uint32_t behind(uint32_t left, uint32_t n)
{
	return left > n ? left - n : 0;
}

__device__ __forceinline__ float4 carried_four(float4 e, float4 x, float b)
{
	return make_float4(quant_carried(e.x, x.x, b), quant_carried(e.y, x.y, b),
		quant_carried(e.z, x.z, b), quant_carried(e.w, x.w, b));
}

/* Four elements that are to be encoded, of which `left` exist, from element i on. FED: of the sum
 * with what is fresh. */
template <bool FED>
__device__ __forceinline__ float4 elements_at(const struct job *j, uint64_t i,
	uint32_t left, bool aligned)
{
	float4 e = load_four((const float *)(const void *)j->elements + i, left, aligned);

	if (!FED)
		return e;
	return carried_four(e, load_four(j->fresh + i, left, aligned), j->carry);
}

/* Whether elements, and what is fresh, lie at multiples of 16. */
template <bool FED> __device__ __forceinline__ bool is_aligned(const struct job *j)
{
	return !(((uintptr_t)j->elements | (FED ? (uintptr_t)j->fresh : 0)) & 15);
}

__device__ __forceinline__ float4 remaining_four(float4 e, float4 sent)
{
	return make_float4(quant_remaining(e.x, sent.x), quant_remaining(e.y, sent.y),
		quant_remaining(e.z, sent.z), quant_remaining(e.w, sent.w));
}

__device__ __forceinline__ float value_of(uint32_t symbol, float scale, float shift,
	enum quant_method method)
{
	if (method == QUANT_E3M0)
		return quant_e3m0_value((uint8_t)symbol, scale);
	return quant_value((uint8_t)symbol, method, scale, shift);
}

__device__ __forceinline__ float4 values_of(uint32_t four, float scale, float shift,
	enum quant_method method)
{
	return make_float4(value_of(four & 255, scale, shift, method),
		value_of(four >> 8 & 255, scale, shift, method),
		value_of(four >> 16 & 255, scale, shift, method),
		value_of(four >> 24, scale, shift, method));
}

/* Launch what j says; j->fresh: with error feedback, which ecq has and what has a scale a block. */
void quant_encode_blocks(struct dev *d, const struct job *j);
void quant_decode_levels(struct dev *d, const struct job *j);
void quant_encode_wide(struct dev *d, const struct job *j);
void quant_decode_wide(struct dev *d, const struct job *j);
void quant_encode_topk(struct dev *d, const struct job *j);
void quant_decode_topk(struct dev *d, const struct job *j);

#endif
