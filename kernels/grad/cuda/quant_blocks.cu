/* quant_blocks.cu - quantisers with a scale a block on a GPU: q8, q4 and e3m0, and error feedback
 * in the same pass. A warp takes whole blocks, 256 elements at a time, and has eight of them a lane
 * in registers from the largest magnitude to the residual: 5 bytes of memory a value, 13 with
 * feedback, where four kernels one after the other move 34. Contraction (-fmad) changes nothing:
 * quant.cuh. */
#include "kernels/grad/cuda/quant.cuh"

#define TAKEN 256u /* elements that a warp takes at a time */
#define HALF  128u

/* --- encoding --------------------------------------------------------------------------------- */

/* How values become symbols: constants where a kernel is made for one method. */
struct way {
	enum quant_method method;
	bool chance;
};

__device__ __forceinline__ uint32_t limit_of(float x)
{
	uint32_t m = quant_magnitude(x);

	return m < 0x7f800000 ? m : 0;
}

__device__ __forceinline__ uint32_t limit_of_four(float4 v)
{
	return max(max(limit_of(v.x), limit_of(v.y)), max(limit_of(v.z), limit_of(v.w)));
}

struct scale {
	uint16_t bits;
	float value, inverse;
};

__device__ __forceinline__ struct scale scale_of(uint32_t limit, struct way way)
{
	float max = half_float_of_bits(limit);
	struct scale s;

	s.bits = way.method == QUANT_E3M0 ?
		quant_scale(max, false) :
		quant_level_scale(max, way.method, way.chance);
	s.value = bf16_to_f32(s.bits);
	s.inverse = quant_inverse(s.value);
	return s;
}

/* word: Philox's, where values are rounded by chance */
__device__ __forceinline__ uint32_t symbol_of(float x, float inverse, uint32_t word,
	struct way way)
{
	float t;

	if (way.method == QUANT_E3M0)
		return quant_e3m0_symbol(x, inverse);
	t = quant_clamp(QUANT_MUL(x, inverse), (float)quant_level_max(way.method));
	if (!quant_finite(x))
		return way.method == QUANT_Q8 ? QUANT_Q8_NAN : QUANT_Q4_NAN;
	return quant_symbol(way.chance ? quant_chance(t, word) : quant_nearest(t),
		way.method);
}

/* Four adjacent values become symbols, the first lowest; index: of the first in the sequence, a
 * multiple of 4. */
__device__ __forceinline__ uint32_t symbols_of(const struct job *j, float4 v,
	float inverse, uint64_t index, struct way way)
{
	uint32_t word[4] = {};

	if (way.chance) {
		struct philox p;

		p.seed = j->q.seed;
		p.stream = QUANT_STREAM;
		p.block = 0;
		philox_block(word, &p, index / 4);
	}
	return symbol_of(v.x, inverse, word[0], way) |
		symbol_of(v.y, inverse, word[1], way) << 8 |
		symbol_of(v.z, inverse, word[2], way) << 16 |
		symbol_of(v.w, inverse, word[3], way) << 24;
}

/* What a warp has of its blocks: two times four values a lane, 128 apart. */
struct halves {
	float4 v[2];
	uint32_t left[2];
};

/* Takes those from `at` on of the n that are there from `from` on. */
template <bool FED>
__device__ __forceinline__ void take(struct halves *h, const struct job *j, uint64_t from,
	uint32_t at, uint32_t n, bool aligned)
{
	UNROLL
	for (uint32_t k = 0; k < 2; k++) {
		h->left[k] = behind(n, at + k * HALF);
		h->v[k] = elements_at<FED>(j, from + at + k * HALF, h->left[k], aligned);
	}
}

/* Stores their symbols, and what of them is left. */
template <bool FED>
__device__ __forceinline__ void put(const struct halves *h, const struct job *j,
	unsigned char *symbols, uint64_t from, uint32_t at, bool aligned,
	const struct scale scale[2], struct way way)
{
	UNROLL
	for (uint32_t k = 0; k < 2; k++) {
		uint64_t i = from + at + k * HALF;
		uint32_t four = symbols_of(j, h->v[k], scale[k].inverse, j->first + i,
			way);

		store_symbols(symbols + at + k * HALF, four, h->left[k]);
		if (FED)
			store_four((float *)(void *)j->elements + i,
				remaining_four(h->v[k],
					values_of(four, scale[k].value, 0, way.method)),
				h->left[k], aligned);
	}
}

__device__ __forceinline__ void put_scale(const struct job *j, uint64_t c, uint32_t block,
	uint16_t bits)
{
	plane_of(j, c, 1)[block] = (unsigned char)(bits >> 8);
	plane_of(j, c, 2)[block] = (unsigned char)bits;
}

/* Blocks of at most 256, several at a time. */
template <int METHOD, bool CHANCE, bool FED>
__global__ void __launch_bounds__(THREADS) encode_blocks(const GRID_CONSTANT struct job j)
{
	const struct way way = { (enum quant_method)METHOD, CHANCE };
	const uint32_t at = threadIdx.x % 32 * 4, block = j.q.block;
	const bool aligned = is_aligned<FED>(&j);

	for (uint64_t from = GRID_FIRST / 32 * TAKEN; from < j.n;
		from += GRID_STRIDE / 32 * TAKEN) {
		uint64_t c = chunk_of(&j, from), left = j.n - from;
		uint32_t place = place_of(&j, from), limit[2];
		struct scale scale[2];
		struct halves h;

		take<FED>(&h, &j, from, at, (uint32_t)(left < TAKEN ? left : TAKEN),
			aligned);
		limit[0] = limit_of_four(h.v[0]);
		limit[1] = limit_of_four(h.v[1]);
		UNROLL_1
		for (uint32_t by = 1; by < 32 && by < block / 4; by *= 2) {
			limit[0] = max(limit[0], __shfl_xor_sync(ALL, limit[0], by));
			limit[1] = max(limit[1], __shfl_xor_sync(ALL, limit[1], by));
		}
		if (block > HALF)
			limit[0] = limit[1] = max(limit[0], limit[1]);
		UNROLL
		for (uint32_t k = 0; k < 2; k++) {
			uint32_t i = at + k * HALF;

			scale[k] = scale_of(limit[k], way);
			/* the lane with a block's first element */
			if (!(i & (block - 1)) && h.left[k])
				put_scale(&j, c, (place + i) >> j.block_log,
					scale[k].bits);
		}
		put<FED>(&h, &j, plane_of(&j, c, 0) + place, from, at, aligned, scale,
			way);
	}
}

/* Larger blocks, a warp each, which reads them again: with feedback a lane reads what it has
 * stored. */
template <bool FED>
__global__ void __launch_bounds__(THREADS) encode_large(const GRID_CONSTANT struct job j)
{
	const struct way way = { j.q.method, j.q.stochastic };
	const uint32_t first = threadIdx.x % 32 * 4, block = j.q.block;
	const bool aligned = is_aligned<FED>(&j);

	for (uint64_t b = GRID_FIRST / 32; b << j.block_log < j.n;
		b += GRID_STRIDE / 32) {
		uint64_t from = b << j.block_log, c = chunk_of(&j, from),
			 left = j.n - from;
		uint32_t place = place_of(&j, from), limit = 0;
		uint32_t n = (uint32_t)(left < block ? left : block);
		struct scale scale[2];
		struct halves h;

		UNROLL_1
		for (uint32_t at = first; at < block; at += TAKEN) {
			take<FED>(&h, &j, from, at, n, aligned);
			limit = max(limit,
				max(limit_of_four(h.v[0]), limit_of_four(h.v[1])));
			UNROLL
			for (uint32_t k = 0; k < 2 && FED; k++)
				store_four((float *)(void *)j.elements + from + at +
						k * HALF,
					h.v[k], h.left[k], aligned);
		}
		for (uint32_t by = 16; by; by /= 2)
			limit = max(limit, __shfl_xor_sync(ALL, limit, by));
		scale[0] = scale[1] = scale_of(limit, way);
		if (!first)
			put_scale(&j, c, place >> j.block_log, scale[0].bits);
		UNROLL_1
		for (uint32_t at = first; at < block; at += TAKEN) {
			take<false>(&h, &j, from, at, n, aligned);
			put<FED>(&h, &j, plane_of(&j, c, 0) + place, from, at, aligned,
				scale, way);
		}
	}
}

/* --- decoding --------------------------------------------------------------------------------- */

/* Four adjacent symbols a thread, which share a scale. */
template <int METHOD, bool SIGMA>
__global__ void __launch_bounds__(THREADS) decode_levels(const GRID_CONSTANT struct job j)
{
	const bool aligned = is_aligned<false>(&j);

	for (uint64_t i = 4 * GRID_FIRST; i < j.n; i += 4 * GRID_STRIDE) {
		uint64_t c = chunk_of(&j, i), left = j.n - i;
		uint32_t at = place_of(&j, i);
		const unsigned char *symbols = plane_of(&j, c, 0) + at;
		float2 pair = make_float2(0, 0);

		if (SIGMA)
			pair = *(const float2 *)(const void *)plane_of(&j, c, 1);
		else
			pair.y = scale_at(plane_of(&j, c, 1), plane_of(&j, c, 2),
				at >> j.block_log);
		/* the plane has as many bytes for the last chunk as for others */
		store_four((float *)(void *)j.elements + i,
			values_of(*(const uint32_t *)(const void *)symbols, pair.y,
				pair.x, (enum quant_method)METHOD),
			left < 4 ? (uint32_t)left : 4, aligned);
	}
}

/* --- launches --------------------------------------------------------------------------------- */

template <int METHOD, bool CHANCE> static void launch(struct dev *d, const struct job *j)
{
	unsigned blocks = cuda_grid(d, (j->n + TAKEN - 1) / TAKEN * 32, THREADS);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j->fresh)
		LAUNCH((encode_blocks<METHOD, CHANCE, true>), blocks, THREADS, stream,
			*j);
	else
		LAUNCH((encode_blocks<METHOD, CHANCE, false>), blocks, THREADS, stream,
			*j);
}

static void launch_large(struct dev *d, const struct job *j)
{
	uint64_t count = (j->n + j->q.block - 1) / j->q.block;
	unsigned blocks = cuda_grid(d, count * 32, THREADS);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j->fresh)
		LAUNCH(encode_large<true>, blocks, THREADS, stream, *j);
	else
		LAUNCH(encode_large<false>, blocks, THREADS, stream, *j);
}

void quant_encode_blocks(struct dev *d, const struct job *j)
{
	if (j->q.block > TAKEN)
		launch_large(d, j);
	else if (j->q.method == QUANT_E3M0)
		launch<QUANT_E3M0, false>(d, j);
	else if (j->q.method == QUANT_Q8 && j->q.stochastic)
		launch<QUANT_Q8, true>(d, j);
	else if (j->q.method == QUANT_Q8)
		launch<QUANT_Q8, false>(d, j);
	else if (j->q.stochastic)
		launch<QUANT_Q4, true>(d, j);
	else
		launch<QUANT_Q4, false>(d, j);
}

void quant_decode_levels(struct dev *d, const struct job *j)
{
	unsigned blocks = cuda_grid(d, (j->n + 3) / 4, THREADS);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j->q.method == QUANT_E3M0)
		LAUNCH((decode_levels<QUANT_E3M0, false>), blocks, THREADS, stream, *j);
	else if (j->q.method == QUANT_Q8 && j->q.sigma)
		LAUNCH((decode_levels<QUANT_Q8, true>), blocks, THREADS, stream, *j);
	else if (j->q.method == QUANT_Q8)
		LAUNCH((decode_levels<QUANT_Q8, false>), blocks, THREADS, stream, *j);
	else if (j->q.sigma)
		LAUNCH((decode_levels<QUANT_Q4, true>), blocks, THREADS, stream, *j);
	else
		LAUNCH((decode_levels<QUANT_Q4, false>), blocks, THREADS, stream, *j);
}
