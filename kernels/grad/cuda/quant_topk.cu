/* quant_topk.cu - the quantiser topk on a GPU: a thread block a block, whose elements are in shared
 * memory. Contraction (-fmad) changes nothing: quant.cuh. */
#include "kernels/grad/cuda/quant.cuh"

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

/* --- launches --------------------------------------------------------------------------------- */

static unsigned grid_of(struct dev *d, const struct job *j)
{
	return cuda_grid(d, (j->n + j->q.block - 1) / j->q.block, 1);
}

void quant_encode_topk(struct dev *d, const struct job *j)
{
	LAUNCH(encode_topk, grid_of(d, j), THREADS, cuda_of(d)->stream, *j);
}

void quant_decode_topk(struct dev *d, const struct job *j)
{
	LAUNCH(decode_topk, grid_of(d, j), THREADS, cuda_of(d)->stream, *j);
}
