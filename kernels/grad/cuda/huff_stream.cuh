/* huff_stream.cuh - how a warp writes a stream of huff.h: 16 symbols a lane at a time, put together
 * in shared memory. For huff_put.cu alone. */
#ifndef RNP_KERNELS_GRAD_HUFF_STREAM_CUH
#define RNP_KERNELS_GRAD_HUFF_STREAM_CUH

#include "kernels/grad/cuda/huff_plan.cuh"

/* The codes of four symbols, of which the first `count` are coded, each with its length; none are
 * looked up that are not. */
__device__ __forceinline__ void look_up(uint32_t c[4], const struct encoder *e,
	uint32_t w, uint32_t count, unsigned split)
{
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		c[i] = i < count ? e->entry[(w >> 8 * i & 255) >> split] : 0;
}

__device__ __forceinline__ uint32_t bits_of(const struct encoder *e, uint32_t w,
	uint32_t count, unsigned split)
{
	uint32_t c[4];

	/* all four symbols shifted at once */
	look_up(c, e, w >> split & 0x01010101u * (255 >> split), count, 0);
	return (c[0] >> 12) + (c[1] >> 12) + (c[2] >> 12) + (c[3] >> 12);
}

/* Which pairs the four symbols of w are, by their bits from PAIR_SPLIT on: the first in the lower
 * half. */
__device__ __forceinline__ uint32_t pairs_of(uint32_t w)
{
	return (w >> 3 & 0x001f001f) | (w >> 6 & 0x03e003e0);
}

/* How many of `left` symbols are after the first n. */
__device__ __forceinline__ uint32_t behind(uint32_t left, uint32_t n)
{
	return left > n ? left - n : 0;
}

template <bool PAIRED>
__device__ __forceinline__ uint32_t bits_of_four(const struct encoder *e, uint32_t w,
	unsigned split)
{
	uint32_t at = pairs_of(w);

	if (!PAIRED)
		return bits_of(e, w, 4, split);
	return (e->pair[at & 0xffff] >> 24) + (e->pair[at >> 16] >> 24);
}

/* A warp's sum over a stream. PAIRED: by the table of pairs. */
template <bool PAIRED>
__device__ __noinline__ uint32_t stream_bits(const struct encoder *e,
	const unsigned char *in, uint32_t count, unsigned split)
{
	uint32_t bits = 0;

	uint32_t i = threadIdx.x % 32 * EACH;

	UNROLL_1
	for (; i + EACH <= count; i += 32 * EACH) {
		uint4 v = load_each(in + i);

		bits += bits_of_four<PAIRED>(e, v.x, split);
		bits += bits_of_four<PAIRED>(e, v.y, split);
		bits += bits_of_four<PAIRED>(e, v.z, split);
		bits += bits_of_four<PAIRED>(e, v.w, split);
	}
	if (i < count) {
		uint32_t left = count - i;
		uint4 v = load_some(in + i, left);

		bits += bits_of(e, v.x, left, split);
		bits += bits_of(e, v.y, behind(left, 4), split);
		bits += bits_of(e, v.z, behind(left, 8), split);
		bits += bits_of(e, v.w, behind(left, 12), split);
	}
	for (int by = 16; by; by /= 2)
		bits += __shfl_xor_sync(FULL, bits, by);
	return bits;
}

/* The codes of four symbols: at most 48 bits. */
struct quad {
	uint32_t low, high, bits;
};

__device__ __forceinline__ struct quad quad_of(const struct encoder *e, uint32_t w,
	uint32_t count, unsigned split)
{
	uint32_t c[4], first, last, bits;
	struct quad q;

	look_up(c, e, w, count, split);
	first = (c[0] & 4095) | (c[1] & 4095) << (c[0] >> 12);
	last = (c[2] & 4095) | (c[3] & 4095) << (c[2] >> 12);
	bits = (c[0] >> 12) + (c[1] >> 12);
	q.low = first | last << bits;
	q.high = bits ? last >> (32 - bits) : 0;
	q.bits = bits + (c[2] >> 12) + (c[3] >> 12);
	return q;
}

/* The same of four that there are, by the table of pairs. */
__device__ __forceinline__ struct quad quad_of_pairs(const struct encoder *e, uint32_t w)
{
	uint32_t at = pairs_of(w);
	uint32_t first = e->pair[at & 0xffff], last = e->pair[at >> 16];
	uint32_t bits = first >> 24;
	struct quad q;

	q.bits = bits + (last >> 24);
	first &= 0xffffff;
	last &= 0xffffff;
	q.low = first | last << bits;
	q.high = __funnelshift_l(last, 0, bits);
	return q;
}

template <bool PAIRED>
__device__ __forceinline__ struct quad quad_of_some(const struct encoder *e, uint32_t w,
	uint32_t count, unsigned split)
{
	return PAIRED ? quad_of_pairs(e, w) : quad_of(e, w, count, split);
}

/* Adds bits to a warp's words, which start as zeros. */
__device__ __forceinline__ void stage_quad(uint32_t *stage, uint32_t at,
	const struct quad *q)
{
	unsigned shift = at % 32;
	uint32_t *word = stage + at / 32;

	if (!q->bits)
		return;
	atomicOr(word, q->low << shift);
	if (shift + q->bits > 32)
		atomicOr(word + 1, __funnelshift_l(q->low, q->high, shift));
	if (shift + q->bits > 64)
		atomicOr(word + 2, q->high >> (32 - shift));
}

/* Makes the codes of up to 32 x 16 symbols, of which lanes have `left` each, and stores the whole
 * words. Returns the bit behind them. WHOLE: every lane has 16, PAIRED: and their codes are looked
 * up by two. */
template <bool WHOLE, bool PAIRED>
__device__ __forceinline__ uint32_t put_some(const struct encoder *e, uint32_t *stage,
	uint32_t *slot, uint32_t start, uint32_t at, const unsigned char *in,
	uint32_t left, unsigned split)
{
	unsigned lane = threadIdx.x % 32;
	uint4 v = WHOLE ? load_each(in) : load_some(in, left);
	struct quad q0 = quad_of_some<PAIRED>(e, v.x, WHOLE ? 4 : left, split);
	struct quad q1 = quad_of_some<PAIRED>(e, v.y, WHOLE ? 4 : behind(left, 4), split);
	struct quad q2 = quad_of_some<PAIRED>(e, v.z, WHOLE ? 4 : behind(left, 8), split);
	struct quad q3 = quad_of_some<PAIRED>(e, v.w, WHOLE ? 4 : behind(left, 12),
		split);
	uint32_t bits = q0.bits + q1.bits + q2.bits + q3.bits, before = bits, whole, *to;

	UNROLL
	for (unsigned by = 1; by < 32; by *= 2) {
		uint32_t other = __shfl_up_sync(FULL, before, by);

		before += lane >= by ? other : 0;
	}
	whole = (at % 32 + __shfl_sync(FULL, before, 31)) / 32;
	before += at % 32 - bits;
	stage_quad(stage, before, &q0);
	stage_quad(stage, before + q0.bits, &q1);
	stage_quad(stage, before + q0.bits + q1.bits, &q2);
	stage_quad(stage, before + bits - q3.bits, &q3);
	bits = __shfl_sync(FULL, before + bits, 31); /* the last lane's end */
	__syncwarp();
	to = slot + at / 32;
	if (lane == 0 && whole) {
		if (at / 32 == start)
			atomicOr(to, stage[0]);
		else
			*to = stage[0];
		stage[0] = 0;
	}
	UNROLL_1
	for (uint32_t w = lane ? lane : 32; w < whole; w += 32) {
		to[w] = stage[w];
		stage[w] = 0;
	}
	__syncwarp();
	if (lane == 0 && whole) {
		stage[0] = stage[whole];
		stage[whole] = 0;
	}
	__syncwarp();
	return at / 32 * 32 + bits;
}

/* Writes a stream at bit `at` of the slot with a warp, which makes up to 32 x 16 codes at a time in
 * shared memory and stores whole words. Those at the ends of a stream, which others share, are
 * zeros and get their bits by atomics. PAIRED: as above. */
template <bool PAIRED>
__device__ __noinline__ void put_stream(const struct encoder *e, uint32_t *stage,
	uint32_t *slot, uint32_t at, const unsigned char *in, uint32_t count,
	unsigned split)
{
	unsigned lane = threadIdx.x % 32;
	uint32_t start = at / 32, i = 0, mine;

	for (uint32_t w = lane; w < STAGE_WORDS; w += 32)
		stage[w] = 0;
	__syncwarp();
	UNROLL_1
	for (; i + 32 * EACH <= count; i += 32 * EACH)
		at = put_some<true, PAIRED>(e, stage, slot, start, at,
			in + i + lane * EACH, EACH, split);
	mine = i + lane * EACH;
	if (i < count)
		at = put_some<false, false>(e, stage, slot, start, at, in + mine,
			mine < count ? count - mine : 0, split);
	if (lane == 0)
		atomicOr(slot + at / 32, stage[0] | 1u << at % 32);
}

#endif
