/* quant.cu - the quantisers on a GPU. Elements are independent where a method allows it
 * (grid-stride loops); a block with a scale is processed by a warp; a method with a bit stream
 * beside its symbols uses a thread block per chunk, tile by tile; topk uses a thread block per
 * block. Products and sums that decide bits are QUANT_MUL and its like, which are never contracted
 * (-fmad); what else is here is integers, divisions and conversions. (long because all methods
 * share a job and its planes) */
#include "kernels/dev/cuda.cuh"
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
};

/* Returns the chunk of element i, and its place there: divisions of 64 bits would take longer than
 * everything else that most methods do. */
__device__ static uint64_t chunk_of(const struct job *j, uint64_t i)
{
	return i >> j->chunk_log;
}

__device__ static uint32_t place_of(const struct job *j, uint64_t i)
{
	return (uint32_t)i & (j->chunk - 1);
}

/* Returns plane p of chunk c. */
__device__ static unsigned char *plane_of(const struct job *j, uint64_t c, int p)
{
	return quant_plane_at(&j->l, j->planes, j->chunks, c, p);
}

__device__ static uint32_t length_of(const struct job *j, uint64_t c)
{
	uint64_t left = j->n - c * j->chunk;

	return (uint32_t)(left < j->chunk ? left : j->chunk);
}

__device__ static float *floats_of(const struct job *j, uint64_t c)
{
	return (float *)(void *)j->elements + c * j->chunk;
}

__device__ static float scale_at(const unsigned char *upper, const unsigned char *lower,
	uint32_t i)
{
	return bf16_to_f32((uint16_t)(upper[i] << 8 | lower[i]));
}

/* --- each element alone --------------------------------------------------------------------- */

__device__ static void put_16(const struct job *j, uint64_t c, uint32_t at, uint16_t h)
{
	plane_of(j, c, 0)[at] = (unsigned char)(h >> 8);
	plane_of(j, c, 1)[at] = (unsigned char)h;
}

__device__ static void put_lossless(const struct job *j, uint64_t c, uint32_t at,
	uint64_t i)
{
	uint16_t upper;

	if (j->q.bf16) {
		upper = ((const uint16_t *)(const void *)j->elements)[i];
	} else {
		uint32_t bits = ((const uint32_t *)(const void *)j->elements)[i];

		upper = (uint16_t)(bits >> 16);
		((uint16_t *)(void *)plane_of(j, c, 2))[at] = (uint16_t)bits;
	}
	plane_of(j, c, 0)[at] = (unsigned char)(upper >> 7);
	plane_of(j, c, 1)[at] = (unsigned char)((upper >> 8 & 0x80) | (upper & 0x7f));
}

__global__ void encode_each(struct job j)
{
	for (uint64_t i = GRID_FIRST; i < j.n; i += GRID_STRIDE) {
		uint64_t c = chunk_of(&j, i);
		uint32_t at = place_of(&j, i);
		const float *x = (const float *)(const void *)j.elements;

		switch (j.q.method) {
		case QUANT_NONE:
			if (j.q.bf16)
				((uint16_t *)(void *)plane_of(&j, c, 0))[at] = ((
					const uint16_t *)(const void *)j.elements)[i];
			else
				((float *)(void *)plane_of(&j, c, 0))[at] = x[i];
			break;
		case QUANT_LOSSLESS:
			put_lossless(&j, c, at, i);
			break;
		case QUANT_F16:
			put_16(&j, c, at, f16_from_f32(x[i]));
			break;
		case QUANT_BF16:
			put_16(&j, c, at, bf16_from_f32(x[i]));
			break;
		case QUANT_FP8E4:
			plane_of(&j, c, 0)[at] = f8_from_f32(x[i]);
			break;
		default:
			plane_of(&j, c, 0)[at] = quant_fp8e5_from_f32(x[i]);
		}
	}
}

__device__ static uint16_t get_16(const struct job *j, uint64_t c, uint32_t at)
{
	return (uint16_t)(plane_of(j, c, 0)[at] << 8 | plane_of(j, c, 1)[at]);
}

__device__ static void get_lossless(const struct job *j, uint64_t c, uint32_t at,
	uint64_t i)
{
	uint32_t rest = plane_of(j, c, 1)[at];
	uint32_t upper = (rest & 0x80) << 8 | (uint32_t)plane_of(j, c, 0)[at] << 7 |
		(rest & 0x7f);

	if (j->q.bf16)
		((uint16_t *)(void *)j->elements)[i] = (uint16_t)upper;
	else
		((uint32_t *)(void *)j->elements)[i] = upper << 16 |
			((const uint16_t *)(const void *)plane_of(j, c, 2))[at];
}

__device__ static float value_at(const struct job *j, uint64_t c, uint32_t at)
{
	unsigned char symbol = plane_of(j, c, 0)[at];
	float pair[2];

	switch (j->q.method) {
	case QUANT_F16:
		return f16_to_f32(get_16(j, c, at));
	case QUANT_BF16:
		return bf16_to_f32(get_16(j, c, at));
	case QUANT_FP8E4:
		return f8_to_f32(symbol);
	case QUANT_FP8E5:
		return quant_fp8e5_to_f32(symbol);
	default:
		break;
	}
	if (j->q.sigma) {
		memcpy(pair, plane_of(j, c, 1), sizeof pair);
		return quant_value(symbol, j->q.method, pair[1], pair[0]);
	}
	pair[0] = scale_at(plane_of(j, c, 1), plane_of(j, c, 2), at >> j->block_log);
	if (j->q.method == QUANT_E3M0)
		return quant_e3m0_value(symbol, pair[0]);
	return quant_value(symbol, j->q.method, pair[0], 0);
}

__global__ void decode_each(struct job j)
{
	for (uint64_t i = GRID_FIRST; i < j.n; i += GRID_STRIDE) {
		uint64_t c = chunk_of(&j, i);
		uint32_t at = place_of(&j, i);

		if (j.q.method == QUANT_LOSSLESS)
			get_lossless(&j, c, at, i);
		else if (j.q.method != QUANT_NONE)
			((float *)(void *)j.elements)[i] = value_at(&j, c, at);
		else if (j.q.bf16)
			((uint16_t *)(void *)j.elements)[i] = ((
				const uint16_t *)(const void *)plane_of(&j, c, 0))[at];
		else
			((uint32_t *)(void *)j.elements)[i] = ((
				const uint32_t *)(const void *)plane_of(&j, c, 0))[at];
	}
}

/* --- blocks with a scale: a warp each ------------------------------------------------------------ */

__device__ static uint8_t level_symbol(const struct quant *q, float x, float inverse,
	float shift, uint64_t index)
{
	float t = quant_clamp(QUANT_MUL(QUANT_ADD(x, -shift), inverse),
		(float)quant_level_max(q->method));

	if (!quant_finite(x))
		return q->method == QUANT_Q8 ? QUANT_Q8_NAN : QUANT_Q4_NAN;
	return quant_symbol(q->stochastic ? quant_chance(t, quant_word(q->seed, index)) :
					    quant_nearest(t),
		q->method);
}

__global__ void encode_blocks(struct job j)
{
	uint64_t blocks = (j.n + j.q.block - 1) / j.q.block;
	unsigned lane = threadIdx.x % 32;

	for (uint64_t b = GRID_FIRST / 32; b < blocks; b += GRID_STRIDE / 32) {
		uint64_t from = b << j.block_log, c = chunk_of(&j, from);
		uint32_t at = place_of(&j, from), in_chunk = at >> j.block_log;
		uint64_t left = j.n - from;
		uint32_t n = (uint32_t)(left < j.q.block ? left : j.q.block), limit = 0;
		const float *x = (const float *)(const void *)j.elements + from;
		unsigned char *symbols = plane_of(&j, c, 0) + at;
		uint16_t scale;
		float inverse;

		for (uint32_t i = lane; i < n; i += 32)
			if (quant_finite(x[i]))
				limit = max(limit, quant_magnitude(x[i]));
		for (int by = 16; by; by /= 2)
			limit = max(limit, __shfl_xor_sync(ALL, limit, by));
		if (j.q.method == QUANT_E3M0)
			scale = quant_scale(half_float_of_bits(limit), false);
		else
			scale = quant_level_scale(half_float_of_bits(limit), j.q.method,
				j.q.stochastic);
		inverse = quant_inverse(bf16_to_f32(scale));
		for (uint32_t i = lane; i < n; i += 32)
			symbols[i] = j.q.method == QUANT_E3M0 ?
				quant_e3m0_symbol(x[i], inverse) :
				level_symbol(&j.q, x[i], inverse, 0, j.first + from + i);
		if (lane == 0) {
			plane_of(&j, c, 1)[in_chunk] = (unsigned char)(scale >> 8);
			plane_of(&j, c, 2)[in_chunk] = (unsigned char)scale;
		}
	}
}

/* --- sums: 16 threads a run -------------------------------------------------------------------------- */

/* Returns the sums of a run of n elements, valid in the first of the 16 threads. */
__device__ static struct quant_sums run_sums(const float *x, uint32_t n)
{
	unsigned lane = threadIdx.x % QUANT_LANES;
	unsigned mask = 0xffffu << (threadIdx.x % 32 / QUANT_LANES * QUANT_LANES);
	struct quant_sums s = {};

	for (uint32_t i = lane; i < n; i += QUANT_LANES) {
		double v = quant_finite(x[i]) ? (double)x[i] : 0;

		s.sum = QUANT_DADD(s.sum, v);
		s.squares = QUANT_DADD(s.squares, QUANT_DMUL(v, v));
		s.count += quant_finite(x[i]);
	}
	for (unsigned half = QUANT_LANES / 2; half; half /= 2) {
		s.sum = QUANT_DADD(s.sum,
			__shfl_down_sync(mask, s.sum, half, QUANT_LANES));
		s.squares = QUANT_DADD(s.squares,
			__shfl_down_sync(mask, s.squares, half, QUANT_LANES));
		s.count += __shfl_down_sync(mask, s.count, half, QUANT_LANES);
	}
	return s;
}

/* Four adjacent values become four symbols. */
__device__ static uint32_t four_symbols(const struct job *j, float4 x, float inverse,
	float shift, uint64_t index)
{
	return level_symbol(&j->q, x.x, inverse, shift, index) |
		(uint32_t)level_symbol(&j->q, x.y, inverse, shift, index + 1) << 8 |
		(uint32_t)level_symbol(&j->q, x.z, inverse, shift, index + 2) << 16 |
		(uint32_t)level_symbol(&j->q, x.w, inverse, shift, index + 3) << 24;
}

/* One thread block per chunk. CHANCE: values are rounded at random. */
template <bool CHANCE> __global__ void encode_sigma(struct job j)
{
	SHARED(struct quant_sums, runs, QUANT_CHUNK / QUANT_RUN);
	SHARED(float, pair, 2);

	for (uint64_t c = blockIdx.x; c < j.chunks; c += gridDim.x) {
		const float *x = floats_of(&j, c);
		uint32_t n = length_of(&j, c);
		uint32_t count = (n + QUANT_RUN - 1) / QUANT_RUN;

		__syncthreads(); /* until the previous chunk is done */
		for (uint32_t r = threadIdx.x / QUANT_LANES; r < count;
			r += THREADS / QUANT_LANES) {
			uint32_t left = n - r * QUANT_RUN;
			struct quant_sums s = run_sums(x + (size_t)r * QUANT_RUN,
				left < QUANT_RUN ? left : QUANT_RUN);

			if (threadIdx.x % QUANT_LANES == 0)
				runs[r] = s;
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			struct quant_sums all = {};

			for (uint32_t r = 0; r < count; r++) {
				all.sum = QUANT_DADD(all.sum, runs[r].sum);
				all.squares = QUANT_DADD(all.squares, runs[r].squares);
				all.count += runs[r].count;
			}
			pair[1] = quant_sigma_step(&all, quant_level_max(j.q.method),
				&pair[0]);
			memcpy(plane_of(&j, c, 1), &pair[0], 4);
			memcpy(plane_of(&j, c, 1) + 4, &pair[1], 4);
		}
		__syncthreads();
		unsigned char *symbols = plane_of(&j, c, 0);
		float inverse = quant_inverse(pair[1]), shift = pair[0];
		uint64_t first = j.first + c * j.chunk;
		uint32_t fours = (((uintptr_t)x & 15) | ((uintptr_t)symbols & 3)) ? 0 :
										    n / 4;

		j.q.stochastic = CHANCE;
		for (uint32_t i = threadIdx.x; i < fours; i += THREADS)
			((uint32_t *)(void *)symbols)[i] = four_symbols(&j,
				((const float4 *)(const void *)x)[i], inverse, shift,
				first + 4 * i);
		for (uint32_t i = 4 * fours + threadIdx.x; i < n; i += THREADS)
			symbols[i] = level_symbol(&j.q, x[i], inverse, shift, first + i);
	}
}

/* qsgd's norms, 16 threads per block. */
__global__ void encode_norms(struct job j)
{
	uint64_t blocks = (j.n + j.q.block - 1) / j.q.block;

	for (uint64_t b = GRID_FIRST / QUANT_LANES; b < blocks;
		b += GRID_STRIDE / QUANT_LANES) {
		uint64_t from = b * j.q.block, left = j.n - from;
		uint32_t n = (uint32_t)(left < j.q.block ? left : j.q.block);
		const float *x = (const float *)(const void *)j.elements + from;
		double squares = 0;

		for (uint32_t at = 0; at < n; at += QUANT_RUN) {
			uint32_t run = n - at < QUANT_RUN ? n - at : QUANT_RUN;

			squares = QUANT_DADD(squares, run_sums(x + at, run).squares);
		}
		if (threadIdx.x % QUANT_LANES == 0) {
			uint16_t scale = quant_scale((float)sqrt(squares), true);
			uint64_t c = chunk_of(&j, from);
			uint32_t at = place_of(&j, from) >> j.block_log;

			plane_of(&j, c, 2)[at] = (unsigned char)(scale >> 8);
			plane_of(&j, c, 3)[at] = (unsigned char)scale;
		}
	}
}

/* --- symbols with bits beside them: a thread block a chunk, a tile of 256 at a time -------------------------- */

/* Returns the sum of v over the threads before this one; *total over all. sums: shared, WARPS.
 * All threads must call it. */
__device__ static uint32_t before(uint32_t v, uint32_t *sums, uint32_t *total)
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

__device__ static void put_bits(uint32_t *words, uint32_t bit, uint32_t v, int n)
{
	uint64_t moved = (uint64_t)v << bit % 32;

	if (!n)
		return;
	atomicOr(&words[bit / 32], (uint32_t)moved);
	if (bit % 32 + n > 32)
		atomicOr(&words[bit / 32 + 1], (uint32_t)(moved >> 32));
}

/* Returns the symbol of element i of chunk c. */
__device__ static uint8_t wide_symbol(const struct job *j, uint64_t c, uint32_t i,
	uint32_t *m)
{
	float x = floats_of(j, c)[i], norm;

	if (j->q.method == QUANT_ECQ)
		return quant_ecq_symbol(x, &j->steps[c], m);
	norm = scale_at(plane_of(j, c, 2), plane_of(j, c, 3), i >> j->block_log);
	return quant_qsgd_symbol(x, norm > 0 ? (float)j->q.levels / norm : 0,
		(float)j->q.levels, quant_word(j->q.seed, j->first + c * j->chunk + i),
		m);
}

__global__ void encode_wide(struct job j)
{
	SHARED(uint32_t, sums, WARPS);

	for (uint64_t c = blockIdx.x; c < j.chunks; c += gridDim.x) {
		uint32_t *words = (uint32_t *)(void *)plane_of(&j, c, 1);
		uint32_t n = length_of(&j, c), bit = 0;

		for (uint32_t at = 0; at < n; at += THREADS) {
			uint32_t i = at + threadIdx.x, m = 0, total, mine, first;
			uint8_t symbol = i < n ? wide_symbol(&j, c, i, &m) : 0;
			int bits = quant_wide_bits(symbol);

			if (i < n)
				plane_of(&j, c, 0)[i] = symbol;
			mine = bit + before((uint32_t)bits, sums, &total);
			if (!total)
				continue;
			/* words that this tile is the first to write: at most one per thread */
			first = (bit + 31) / 32;
			if (first + threadIdx.x < (bit + total + 31) / 32)
				words[first + threadIdx.x] = 0;
			__syncthreads();
			put_bits(words, mine, quant_wide_beside(symbol, m), bits);
			bit += total;
		}
		if (threadIdx.x == 0)
			j.used[c] = (bit + 7) / 8;
	}
}

/* Reads n bits from `bit` on, which lie within the plane. */
__device__ static uint32_t get_bits(const unsigned char *bytes, uint32_t bit, int n)
{
	uint64_t v = 0;

	for (uint32_t k = bit / 8; k * 8 < bit + (uint32_t)n; k++)
		v |= (uint64_t)bytes[k] << (k - bit / 8) * 8;
	return (uint32_t)(v >> bit % 8 & ((UINT64_C(1) << n) - 1));
}

__global__ void decode_wide(struct job j)
{
	SHARED(uint32_t, sums, WARPS);

	for (uint64_t c = blockIdx.x; c < j.chunks; c += gridDim.x) {
		const unsigned char *beside = plane_of(&j, c, 1);
		uint32_t n = length_of(&j, c), bit = 0, end = j.used[c];
		bool bad = end > j.l.plane[1].bytes;

		for (uint32_t at = 0; at < n; at += THREADS) {
			uint32_t i = at + threadIdx.x, total, mine, v;
			uint8_t symbol = i < n ? plane_of(&j, c, 0)[i] : 0;
			int bits = quant_wide_bits(symbol);
			float *y = &floats_of(&j, c)[i];

			mine = bit + before((uint32_t)bits, sums, &total);
			bit += total;
			if (i >= n)
				continue;
			bad = bad || mine + (uint32_t)bits > end * 8;
			v = bits && !bad ? get_bits(beside, mine, bits) : 0;
			if (j.q.method == QUANT_ECQ)
				*y = quant_ecq_value(symbol, v, &j.steps[c]);
			else
				*y = quant_qsgd_value(symbol, v,
					scale_at(plane_of(&j, c, 2), plane_of(&j, c, 3),
						i >> j.block_log) /
						(float)j.q.levels);
		}
		bad = bad || (bit + 7) / 8 != end ||
			(bit % 8 && beside[end - 1] >> bit % 8);
		if (bad)
			atomicOr(j.bad, 1u);
	}
}

/* --- topk: a thread block a block ------------------------------------------------------------------------- */

#define TOPK_MAX 4096

/* Returns the sum of all threads' counts in the block. All threads must call it. */
__device__ static uint32_t count_all(uint32_t v, uint32_t *sums)
{
	uint32_t total;

	before(v, sums, &total);
	return total;
}

/* Writes the kept elements in order: positions and bits. */
__device__ static void select(uint32_t *place, uint32_t *bits, const uint32_t *x,
	uint32_t n, uint32_t k, uint32_t *sums)
{
	uint32_t threshold = 0, equal, found = 0;

	for (uint32_t bit = 1u << 30; bit; bit >>= 1) {
		uint32_t count = 0;

		for (uint32_t i = threadIdx.x; i < n; i += THREADS)
			count += (x[i] & 0x7fffffff) >= (threshold | bit);
		if (count_all(count, sums) >= k)
			threshold |= bit;
	}
	equal = 0;
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		equal += (x[i] & 0x7fffffff) > threshold;
	equal = k - count_all(equal, sums);
	for (uint32_t at = 0; at < n; at += THREADS) {
		uint32_t i = at + threadIdx.x, m = i < n ? x[i] & 0x7fffffff : 0;
		uint32_t same = i < n && m == threshold, total, kept, to;

		to = before(same, sums, &total);
		kept = i < n && (m > threshold || (same && to < equal));
		equal -= total < equal ? total : equal;
		to = found + before(kept, sums, &total);
		if (kept) {
			place[to] = i;
			bits[to] = x[i];
		}
		found += total;
	}
	__syncthreads();
}

/* quant_sum_64() by a warp: lane i has numbers i and i + 32. Every lane gets the sum. */
__device__ static double sum_64(double low, double high)
{
	double v = QUANT_DADD(low, high);

	for (int half = QUANT_TOPK_SHARE / 4; half; half /= 2)
		v = QUANT_DADD(v, __shfl_xor_sync(ALL, v, half));
	return v;
}

/* quant_two_means() by a warp, without memory for the 64 numbers of a thread. */
__device__ static void two_means(uint16_t means[2], uint64_t *large, const float *kept,
	uint32_t k)
{
	uint32_t lane = threadIdx.x % 32;
	bool has[2] = { lane < k, lane + 32 < k };
	float x[2] = { has[0] ? kept[lane] : 0, has[1] ? kept[lane + 32] : 0 };
	float mean = (float)(sum_64((double)x[0], (double)x[1]) / k);
	uint32_t low = __ballot_sync(ALL, has[0] && x[0] >= mean);
	uint32_t high = __ballot_sync(ALL, has[1] && x[1] >= mean);

	*large = (uint64_t)high << 32 | low;
	for (uint32_t side = 0; side < 2; side++) {
		bool here[2] = { has[0] && (low >> lane & 1) == side,
			has[1] && (high >> lane & 1) == side };
		double sum = sum_64(here[0] ? (double)x[0] : 0,
			here[1] ? (double)x[1] : 0);
		uint32_t count = (uint32_t)__popc(__ballot_sync(ALL, here[0])) +
			(uint32_t)__popc(__ballot_sync(ALL, here[1]));

		means[side] = count ? quant_scale((float)(sum / count), false) : 0;
	}
}

__global__ void encode_topk(struct job j)
{
	SHARED(uint32_t, x, TOPK_MAX);
	SHARED(uint32_t, sums, WARPS);
	SHARED(uint32_t, place, QUANT_TOPK_SHARE);
	SHARED(uint32_t, bits, QUANT_TOPK_SHARE);
	SHARED(float, kept, QUANT_TOPK_SHARE);
	SHARED(uint64_t, large, 1);
	uint64_t blocks = (j.n + j.q.block - 1) / j.q.block;
	unsigned t = threadIdx.x;

	for (uint64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
		uint64_t from = b << j.block_log, c = chunk_of(&j, from),
			 left = j.n - from;
		uint32_t n = (uint32_t)(left < j.q.block ? left : j.q.block);
		uint32_t k = (n + QUANT_TOPK_SHARE - 1) / QUANT_TOPK_SHARE;
		uint32_t in_chunk = place_of(&j, from);
		uint32_t at = in_chunk / QUANT_TOPK_SHARE, g = in_chunk >> j.block_log;

		__syncthreads(); /* until the previous block is done */
		for (uint32_t i = t; i < n; i += THREADS)
			x[i] = ((const uint32_t *)(const void *)j.elements)[from + i];
		__syncthreads();
		select(&place[0], &bits[0], &x[0], n, k, &sums[0]);
		if (t < k)
			kept[t] = half_float_of_bits(bits[t] & 0x7fffffff);
		__syncthreads();
		if (t < 32) {
			uint16_t means[2] = { 0x7fc0, 0x7fc0 };
			uint64_t these = 0;
			bool finite = (t >= k || quant_finite(kept[t])) &&
				(t + 32 >= k || quant_finite(kept[t + 32]));

			if (__all_sync(ALL, finite))
				two_means(means, &these, &kept[0], k);
			if (t == 0)
				large[0] = these;
			if (t < 2) {
				uint16_t mean = t ? means[1] : means[0];

				plane_of(&j, c,
					3)[2 * g + t] = (unsigned char)(mean >> 8);
				plane_of(&j, c, 4)[2 * g + t] = (unsigned char)mean;
			}
		}
		__syncthreads();
		/* Writes a byte of four values and two of gaps; at is a multiple of 4. */
		if (t < k && t % 4 == 0) {
			unsigned values = 0, gaps[4] = {};

			for (uint32_t i = t; i < t + 4 && i < k; i++) {
				gaps[i - t] = place[i] - (i ? place[i - 1] + 1 : 0);
				values |= (bits[i] >> 31 |
						  (unsigned)(large[0] >> i & 1) << 1)
					<< (i - t) * 2;
				plane_of(&j, c,
					0)[at + i] = (unsigned char)(gaps[i - t] >> 4);
			}
			plane_of(&j, c, 2)[(at + t) / 4] = (unsigned char)values;
			plane_of(&j, c,
				1)[(at + t) / 2] = (unsigned char)((gaps[0] & 15) |
				(gaps[1] & 15) << 4);
			if (t + 2 < k)
				plane_of(&j, c, 1)[(at + t) / 2 + 1] =
					(unsigned char)((gaps[2] & 15) |
						(gaps[3] & 15) << 4);
		}
	}
}

__global__ void decode_topk(struct job j)
{
	SHARED(uint32_t, place, QUANT_TOPK_SHARE);
	uint64_t blocks = (j.n + j.q.block - 1) / j.q.block;
	unsigned t = threadIdx.x;

	for (uint64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
		uint64_t from = b << j.block_log, c = chunk_of(&j, from),
			 left = j.n - from;
		uint32_t n = (uint32_t)(left < j.q.block ? left : j.q.block);
		uint32_t k = (n + QUANT_TOPK_SHARE - 1) / QUANT_TOPK_SHARE;
		uint32_t in_chunk = place_of(&j, from);
		uint32_t at = in_chunk / QUANT_TOPK_SHARE, g = in_chunk >> j.block_log;
		float *y = (float *)(void *)j.elements + from;

		__syncthreads(); /* until the previous block is done */
		if (t < k) {
			uint32_t i = at + t;

			place[t] = (uint32_t)plane_of(&j, c, 0)[i] << 4 |
				(plane_of(&j, c, 1)[i / 2] >> i % 2 * 4 & 15);
		}
		for (uint32_t i = t; i < n; i += THREADS)
			y[i] = 0;
		__syncthreads();
		if (t == 0)
			for (uint32_t i = 1; i < k; i++)
				place[i] += place[i - 1] + 1;
		__syncthreads();
		if (t < k && place[t] >= n)
			atomicOr(j.bad, 1u);
		if (t < k && place[t] < n) {
			unsigned value = plane_of(&j, c, 2)[(at + t) / 4] >> t % 4 * 2;
			float v = scale_at(plane_of(&j, c, 3), plane_of(&j, c, 4),
				2 * g + (value >> 1 & 1));

			y[place[t]] = quant_signed(v, value & 1);
		}
	}
}

/* --- statistics ------------------------------------------------------------------------------ */

/* One thread block for 65536 elements; chunk is a multiple of that, or all. */
__global__ void spread_kernel(uint32_t *bins, const float *x, uint64_t n, uint64_t chunk)
{
	SHARED(uint32_t, mine, QUANT_BINS);
	uint64_t stretches = (n + QUANT_CHUNK - 1) / QUANT_CHUNK;

	for (uint64_t s = blockIdx.x; s < stretches; s += gridDim.x) {
		uint64_t from = s * QUANT_CHUNK, to = from + QUANT_CHUNK;

		for (uint32_t i = threadIdx.x; i < QUANT_BINS; i += THREADS)
			mine[i] = 0;
		__syncthreads();
		for (uint64_t i = from + threadIdx.x; i < to && i < n; i += THREADS)
			if (quant_finite(x[i]))
				atomicAdd(&mine[quant_bin(quant_magnitude(x[i]))], 1u);
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < QUANT_BINS; i += THREADS)
			if (mine[i])
				atomicAdd(&bins[from / chunk * QUANT_BINS + i], mine[i]);
		__syncthreads();
	}
}

/* --- the table ------------------------------------------------------------------------------------------ */

static struct job make_job(const struct quant_job *q)
{
	struct job j = {};
	uint32_t full = quant_chunk(q->q.method);

	j.q = q->q;
	quant_layout(&j.l, &q->q, full);
	j.first = q->first, j.n = q->n, j.chunk = full;
	j.chunk_log = (unsigned)__builtin_ctz(full);
	j.block_log = q->q.block ? (unsigned)__builtin_ctz(q->q.block) : 0;
	j.chunks = quant_chunks(q->q.method, q->n);
	j.elements = (char *)q->elements, j.planes = q->planes;
	j.used = q->used, j.bad = q->bad, j.steps = q->steps;
	return j;
}

static int started(struct dev *d)
{
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* Returns the number of thread blocks for n items that take a whole block each. */
static unsigned grid_of(struct dev *d, uint64_t n)
{
	return cuda_grid(d, n, 1);
}

int cuda_quant_encode(struct dev *d, const struct quant_job *q)
{
	struct job j = make_job(q);
	cudaStream_t stream = cuda_of(d)->stream;
	uint64_t blocks = j.q.block ? (j.n + j.q.block - 1) / j.q.block : 0;

	switch (j.q.method) {
	case QUANT_QSGD:
		LAUNCH(encode_norms, cuda_grid(d, blocks * QUANT_LANES, THREADS), THREADS,
			stream, j);
		LAUNCH(encode_wide, grid_of(d, j.chunks), THREADS, stream, j);
		return started(d);
	case QUANT_ECQ:
		LAUNCH(encode_wide, grid_of(d, j.chunks), THREADS, stream, j);
		return started(d);
	case QUANT_TOPK:
		LAUNCH(encode_topk, grid_of(d, blocks), THREADS, stream, j);
		break;
	case QUANT_Q8:
	case QUANT_Q4:
	case QUANT_E3M0:
		if (j.q.sigma)
			LAUNCH((j.q.stochastic ? encode_sigma<true> :
						 encode_sigma<false>),
				grid_of(d, j.chunks), THREADS, stream, j);
		else
			LAUNCH(encode_blocks, cuda_grid(d, blocks * 32, THREADS), THREADS,
				stream, j);
		break;
	default:
		LAUNCH(encode_each, cuda_grid(d, j.n, THREADS), THREADS, stream, j);
	}
	CUDA_TRY(cudaMemsetAsync(j.used, 0, j.chunks * sizeof *j.used, stream));
	return started(d);
}

int cuda_quant_decode(struct dev *d, const struct quant_job *q)
{
	struct job j = make_job(q);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j.q.method == QUANT_ECQ || j.q.method == QUANT_QSGD)
		LAUNCH(decode_wide, grid_of(d, j.chunks), THREADS, stream, j);
	else if (j.q.method == QUANT_TOPK)
		LAUNCH(decode_topk, grid_of(d, (j.n + j.q.block - 1) / j.q.block),
			THREADS, stream, j);
	else
		LAUNCH(decode_each, cuda_grid(d, j.n, THREADS), THREADS, stream, j);
	return started(d);
}

int cuda_quant_spread(struct dev *d, uint32_t *bins, const float *x, uint64_t n,
	uint64_t chunk)
{
	LAUNCH(spread_kernel, grid_of(d, (n + QUANT_CHUNK - 1) / QUANT_CHUNK), THREADS,
		cuda_of(d)->stream, bins, x, n,
		chunk < n ? chunk :
			n ? n :
			    1);
	return started(d);
}

/* An operation on each of n elements i: defines its kernel and the function that launches it.
 * `given`: the names of its arguments. */
#define ARGUMENTS(...) __VA_ARGS__
#define EACH(name, given, statement, ...)                                \
	__global__ void name##_kernel(__VA_ARGS__, uint64_t n)           \
	{                                                                \
		for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)   \
			statement;                                       \
	}                                                                \
	int cuda_quant_##name(struct dev *d, __VA_ARGS__, uint64_t n)    \
	{                                                                \
		LAUNCH(name##_kernel, cuda_grid(d, n, THREADS), THREADS, \
			cuda_of(d)->stream, given, n);                   \
		return started(d);                                       \
	}

EACH(carry, ARGUMENTS(e, x, b), e[i] = quant_carried(e[i], x[i], b), float *e,
	const float *x, float b)
EACH(remain, ARGUMENTS(e, sent), e[i] = quant_remaining(e[i], sent[i]), float *e,
	const float *sent)
EACH(widen, ARGUMENTS(out, bf16), out[i] = bf16_to_f32(bf16[i]), float *out,
	const uint16_t *bf16)
EACH(narrow, ARGUMENTS(bf16, in), bf16[i] = bf16_from_f32(in[i]), uint16_t *bf16,
	const float *in)
