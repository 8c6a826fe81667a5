/* project_quantized.cuh - how the GPU's products with quantised weights read a block of 32: from
 * shared memory, where the bytes of the file lie as they are, into eight words of four codes. */
#ifndef RNP_KERNELS_LM_PROJECT_QUANTIZED_CUH
#define RNP_KERNELS_LM_PROJECT_QUANTIZED_CUH

#include "kernels/dev/cuda/tensor.cuh"
#include "kernels/lm/cuda/cuda.cuh"

/* Bytes of the blocks `from` .. `to` - 1 of a row: of whole super blocks where the type has
 * them. */
template <int TYPE> struct block_bytes {
	enum {
		SUPER = TYPE >= LM_WEIGHT_Q4_K,
		BLOCK = TYPE == LM_WEIGHT_Q8_0 ? 34 :
			TYPE == LM_WEIGHT_Q4_0 ? 18 :
			TYPE == LM_WEIGHT_Q4_1 ? 20 :
			TYPE == LM_WEIGHT_Q5_0 ? 22 :
			TYPE == LM_WEIGHT_Q5_1 ? 24 :
			TYPE == LM_WEIGHT_Q4_K ? 144 :
			TYPE == LM_WEIGHT_Q5_K ? 176 :
						 210,
		HAS_MIN = TYPE == LM_WEIGHT_Q4_1 || TYPE == LM_WEIGHT_Q5_1 ||
			TYPE == LM_WEIGHT_Q4_K || TYPE == LM_WEIGHT_Q5_K,
		PARTS = TYPE == LM_WEIGHT_Q6_K /* two scales in a block */
	};
};

/* A block as products take it: weight i is scale part[i / 16] code i + min, code i the signed byte
 * i % 4 of word i / 4. */
struct codes {
	unsigned word[8];
	float scale, min;
	int part[2];
};

/* Copies `bytes` bytes from `from` on to shared memory, 16 at a time from the last multiple of 16
 * before it; `to` has room for that many, and up to 30 more. No byte of the file beyond `end` is
 * read. lanes: how many threads share the work, this one being number `lane`. aligned: the file's
 * first byte is at a multiple of 16, so that what lies before `from` may be read. */
__device__ __forceinline__ void stage_bytes(uint4 *to, const unsigned char *from,
	unsigned bytes, const unsigned char *end, unsigned lane, unsigned lanes,
	bool aligned)
{
	unsigned head = (unsigned)((uintptr_t)from & 15);

	if (aligned) {
		const unsigned char *at = from - head;

		for (unsigned i = lane; i * 16 < head + bytes; i += lanes) {
			uint64_t left = (uint64_t)(end - at) - i * 16;

			tensor_copy(to + i, at + i * 16, left < 16 ? (unsigned)left : 16);
		}
	} else {
		for (unsigned i = lane; i < bytes; i += lanes)
			((unsigned char *)(void *)to)[head + i] = from[i];
	}
}

/* N words of four bytes from byte `at` on, which may be odd. Reads up to four bytes more. */
template <int N>
__device__ __forceinline__ void words_at(unsigned (&out)[N], const uint4 *raw,
	unsigned at)
{
	const unsigned *w = (const unsigned *)(const void *)raw + at / 4;
	unsigned shift = at % 4 * 8, low = w[0];

	UNROLL
	for (int i = 0; i < N; i++) {
		unsigned high = w[i + 1];

		out[i] = __funnelshift_r(low, high, shift);
		low = high;
	}
}

__device__ __forceinline__ float half_at(const uint4 *raw, unsigned at)
{
	const unsigned char *p = (const unsigned char *)(const void *)raw + at;

	return cuda_f16(p[0] | p[1] << 8);
}

/* The four low bits of `bits`, one in bit 0 of each byte. */
__device__ __forceinline__ unsigned spread(unsigned bits)
{
	return (bits & 15) * 0x00204081u & 0x01010101u;
}

/* Takes `offset` from each byte; codes and differences are small. */
__device__ __forceinline__ unsigned less(unsigned codes, unsigned offset)
{
	/* without a borrow between bytes: their high bits are set, then turned */
	return ((codes | 0x80808080u) - offset * 0x01010101u) ^ 0x80808080u;
}

/* Nibbles of a block of 32 as ggml stores them, with fifth bits if there are. */
template <bool FIFTH>
__device__ __forceinline__ void nibbles(struct codes *c, const uint4 *raw, unsigned at,
	unsigned fifth)
{
	unsigned packed[4];

	words_at<4>(packed, raw, at);
	UNROLL
	for (int i = 0; i < 4; i++) {
		c->word[i] = packed[i] & 0x0f0f0f0fu;
		c->word[i + 4] = packed[i] >> 4 & 0x0f0f0f0fu;
		if (FIFTH) {
			c->word[i] |= spread(fifth >> 4 * i) << 4;
			c->word[i + 4] |= spread(fifth >> (16 + 4 * i)) << 4;
		}
	}
}

/* Reads block s of the super block at byte `at`. */
template <int TYPE>
__device__ __forceinline__ void super_codes(struct codes *c, const uint4 *raw,
	unsigned at, unsigned s)
{
	unsigned low[8], high[8];

	if (TYPE == LM_WEIGHT_Q6_K) {
		const signed char *p = (const signed char *)(const void *)raw + at + 192;

		words_at<8>(low, raw, at + s / 4 * 64 + s % 2 * 32);
		words_at<8>(high, raw, at + 128 + s / 4 * 32);
		UNROLL
		for (int i = 0; i < 8; i++)
			c->word[i] = less((low[i] >> s % 4 / 2 * 4 & 0x0f0f0f0fu) |
					(high[i] >> s % 4 * 2 & 0x03030303u) << 4,
				32);
		c->part[0] = p[2 * s];
		c->part[1] = p[2 * s + 1];
		c->scale = half_at(raw, at + 208);
	} else {
		unsigned scale, min;

		words_at<8>(low, raw,
			at + (TYPE == LM_WEIGHT_Q5_K ? 48 : 16) + s / 2 * 32);
		if (TYPE == LM_WEIGHT_Q5_K)
			words_at<8>(high, raw, at + 16);
		UNROLL
		for (int i = 0; i < 8; i++) {
			c->word[i] = low[i] >> s % 2 * 4 & 0x0f0f0f0fu;
			if (TYPE == LM_WEIGHT_Q5_K)
				c->word[i] |= (high[i] >> s & 0x01010101u) << 4;
		}
		lm_weight_6_bits((const unsigned char *)(const void *)raw + at + 4, s,
			&scale, &min);
		/* rounded here, whatever is added to them */
		c->scale = __fmul_rn(half_at(raw, at), (float)scale);
		c->min = -__fmul_rn(half_at(raw, at + 2), (float)min);
	}
}

/* Reads a block whose bytes start at byte `at` of raw; of a type with super blocks, block s of the
 * one there. The same numbers as lm_weight_read_32, offsets taken. */
template <int TYPE>
__device__ __forceinline__ void read_codes(struct codes *c, const uint4 *raw, unsigned at,
	unsigned s)
{
	unsigned fifth[1];

	c->min = 0;
	c->part[0] = c->part[1] = 1;
	if (block_bytes<TYPE>::SUPER) {
		super_codes<TYPE>(c, raw, at, s);
		return;
	}
	c->scale = half_at(raw, at);
	if (block_bytes<TYPE>::HAS_MIN)
		c->min = half_at(raw, at + 2);
	if (TYPE == LM_WEIGHT_Q8_0)
		words_at<8>(c->word, raw, at + 2);
	else if (TYPE == LM_WEIGHT_Q4_0 || TYPE == LM_WEIGHT_Q4_1)
		nibbles<false>(c, raw, at + (block_bytes<TYPE>::HAS_MIN ? 4 : 2), 0);
	else {
		words_at<1>(fifth, raw, at + (block_bytes<TYPE>::HAS_MIN ? 4 : 2));
		nibbles<true>(c, raw, at + (block_bytes<TYPE>::HAS_MIN ? 8 : 6),
			fifth[0]);
	}
	UNROLL
	for (int i = 0; i < 8; i++) {
		if (TYPE == LM_WEIGHT_Q4_0)
			c->word[i] = less(c->word[i], 8);
		if (TYPE == LM_WEIGHT_Q5_0)
			c->word[i] = less(c->word[i], 16);
	}
}

/* Four of the numbers of a block of activations, quantised by eight adjacent lanes. */
struct quantized_four {
	unsigned word; /* of four codes */
	float scale, sum;
	int minus[2];

	__device__ __forceinline__ quantized_four(const float (&x)[4])
	{
		float max = 0, inverse;

		word = 0;
		minus[0] = 0;
		UNROLL
		for (int i = 0; i < 4; i++)
			max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
		max = lm_warp_max(max, 8);
		scale = max < 0x1p-100f ? 0 : max / 127;
		inverse = scale > 0 ? 1 / scale : 0;
		UNROLL
		for (int i = 0; i < 4; i++) {
			int v = (int)rintf(fminf(fmaxf(x[i] * inverse, -127), 127));

			word |= ((unsigned)v & 255) << 8 * i;
			minus[0] -= v;
		}
		minus[1] = threadIdx.x % 8 < 4 ? 0 : minus[0];
		minus[0] = lm_warp_sum(minus[0], 8);
		minus[1] = lm_warp_sum(minus[1], 8);
		sum = scale * (float)-minus[0];
	}
};

/* Start kernels for a product with quantised weights: for every GPU; for up to eight rows; for
 * many, on tensor cores; and for layers of one norm. Return 0; 1: not supported, nothing was
 * started; -1: an error. */
int cuda_lm_project_quantized(struct dev *d, const struct lm_project *p);
int cuda_lm_project_few(struct dev *d, const struct lm_project *p);
int cuda_lm_project_tensor(struct dev *d, const struct lm_project *p);
int cuda_lm_project_few_group(struct dev *d, const struct lm_project_group *g);

#endif
