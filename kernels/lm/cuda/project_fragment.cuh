/* project_fragment.cuh - how tensor cores take quantised weights: a warp brings eight blocks of
 * some outputs at a time to a ring of its own in shared memory, as they lie in the file, and its
 * lanes read codes from there into the registers where an instruction wants them. Nothing is
 * decoded twice, and no warp waits for another. */
#ifndef RNP_KERNELS_LM_PROJECT_FRAGMENT_CUH
#define RNP_KERNELS_LM_PROJECT_FRAGMENT_CUH

#include "kernels/lm/cuda/project_quantized.cuh"

#define EIGHT 8 /* blocks of 32 of a step along k */

/* Eight blocks of an output in a ring. Codes have their offset taken and are shifted left by SHIFT,
 * which costs nothing where they are unpacked; their sums start at MAGIC, 1.5 2^(23 - SHIFT) as
 * bits: as an f32 the result is the sum more than that, exactly. */
template <int TYPE> struct eight_blocks {
	typedef block_bytes<TYPE> size;
	enum {
		BYTES = size::BLOCK * (size::SUPER ? 1 : EIGHT),
		/* rows that all begin at multiples of 16, and steps that do if their row does */
		ALIGNED = BYTES % 16 == 0 && size::SUPER,
		STEADY = BYTES % 16 == 0,
		/* 16 bytes each, and odd, so that eight outputs are read from different banks */
		CHUNKS = ((ALIGNED ? BYTES : BYTES + 14 + 15) / 16) | 1,
		PLANES = 1 + size::HAS_MIN + 2 * size::PARTS, /* of tables of scales */
		SHIFT = TYPE == LM_WEIGHT_Q4_0 ? 4 :
			TYPE == LM_WEIGHT_Q5_0 ? 3 :
			TYPE == LM_WEIGHT_Q6_K ? 2 :
						 0,
		MAGIC = 0x4b400000 - (SHIFT << 23)
	};
};

/* Brings the blocks of OUTPUTS outputs from j0 on to a stage of a ring; what does not exist is made
 * of the last output. Weights begin at a multiple of 16. */
template <int TYPE, int OUTPUTS> struct weight_reader {
	typedef eight_blocks<TYPE> eight;
	enum {
		CHUNKS = eight::CHUNKS,
		ALL = OUTPUTS * CHUNKS, /* of a stage */
		ROUNDS = (ALL + 31) / 32
	};
	const unsigned char *from[ROUNDS], *end;
	unsigned wanted; /* bit i: chunk i of this lane holds something */
	bool inside;     /* no step reads beyond the end of the file */

	__device__ __forceinline__ void aim(const struct lm_project &p, uint64_t j0,
		unsigned steps)
	{
		uint64_t bytes = lm_weight_row_bytes((enum lm_weight)TYPE, p.k);
		uint64_t last = j0 + OUTPUTS < p.n ? j0 + OUTPUTS - 1 : p.n - 1;
		const unsigned char *base = (const unsigned char *)p.w;

		end = base + p.n * bytes;
		inside = last * bytes + (uint64_t)steps * eight::BYTES + 32 <=
			p.n * bytes;
		wanted = 0;
		UNROLL
		for (unsigned i = 0; i < ROUNDS; i++) {
			unsigned at = threadIdx.x % 32 + 32 * i, c = at % CHUNKS * 16;
			uint64_t j = j0 + at / CHUNKS;
			const unsigned char *row = base + (j < p.n ? j : p.n - 1) * bytes;
			unsigned head = (unsigned)((uintptr_t)row & 15);

			/* where a step may begin anywhere, each finds out itself */
			from[i] = eight::STEADY ? row - head + c : row;
			if (at < ALL && (!eight::STEADY || c < head + eight::BYTES))
				wanted |= 1u << i;
		}
	}

	/* Whether chunk i of this lane holds anything of a step, and where it is. */
	__device__ __forceinline__ bool chunk(const unsigned char **p, unsigned i,
		unsigned step) const
	{
		unsigned c = (threadIdx.x % 32 + 32 * i) % CHUNKS * 16, head;

		*p = from[i] + (uint64_t)step * eight::BYTES;
		if (eight::STEADY)
			return wanted >> i & 1;
		head = (unsigned)((uintptr_t)*p & 15);
		*p += c - (int64_t)head;
		return (wanted >> i & 1) && c < head + eight::BYTES;
	}

	/* INSIDE: as `inside` says. */
	template <bool INSIDE>
	__device__ __forceinline__ void fetch(uint4 *stage, unsigned step) const
	{
		uint4 *to = stage + threadIdx.x % 32;

		UNROLL
		for (unsigned i = 0; i < ROUNDS; i++) {
			const unsigned char *p;

			if (!chunk(&p, i, step))
				continue;
			if (INSIDE)
				tensor_copy_16(to + 32 * i, p);
			else if (p < end)
				tensor_copy(to + 32 * i, p,
					end - p < 16 ? (unsigned)(end - p) : 16);
		}
	}
};

/* What is left of a multiple of 16 where the bytes of an output begin, and those of one of its
 * steps. */
template <int TYPE>
__device__ __forceinline__ unsigned head_of(const struct lm_project &p, uint64_t j)
{
	if (eight_blocks<TYPE>::ALIGNED)
		return 0;
	return (unsigned)((j < p.n ? j : p.n - 1) *
		       lm_weight_row_bytes((enum lm_weight)TYPE, p.k)) &
		15;
}

template <int TYPE>
__device__ __forceinline__ unsigned head_at(unsigned head, unsigned step)
{
	typedef eight_blocks<TYPE> eight;

	return eight::STEADY ? head : (head + step * eight::BYTES) & 15;
}

/* Four bytes at a multiple of four, or of two where blocks of the type may begin there. */
template <int TYPE> __device__ __forceinline__ unsigned word_at(const unsigned char *p)
{
	const uint16_t *half = (const uint16_t *)(const void *)p;

	if (block_bytes<TYPE>::BLOCK % 4 == 0)
		return *(const unsigned *)(const void *)p;
	return half[0] | (unsigned)half[1] << 16;
}

/* A lane's codes of block i of eight that begin at `row`: 4 t to 4 t + 3 of the block, and 16
 * more. */
template <int TYPE>
__device__ __forceinline__ void read_fragment(unsigned (&b)[2], const unsigned char *row,
	unsigned i, unsigned t)
{
	typedef block_bytes<TYPE> size;
	enum { FIELDS = size::HAS_MIN ? 4 : 2 }; /* bytes of the scales before codes */
	const unsigned char *p = row + (size::SUPER ? 0 : i * size::BLOCK + FIELDS);
	const unsigned high = 0x80808080u;
	unsigned w, f;

	switch (TYPE) {
	case LM_WEIGHT_Q8_0:
		b[0] = word_at<TYPE>(p + 4 * t);
		b[1] = word_at<TYPE>(p + 4 * t + 16);
		break;
	case LM_WEIGHT_Q4_0:
		w = word_at<TYPE>(p + 4 * t);
		b[0] = (w << 4 & 0xf0f0f0f0u) ^ high;
		b[1] = (w & 0xf0f0f0f0u) ^ high;
		break;
	case LM_WEIGHT_Q4_1:
		w = word_at<TYPE>(p + 4 * t);
		b[0] = w & 0x0f0f0f0fu;
		b[1] = w >> 4 & 0x0f0f0f0fu;
		break;
	case LM_WEIGHT_Q5_0:
		f = word_at<TYPE>(p) >> 4 * t;
		w = word_at<TYPE>(p + 4 + 4 * t);
		/* four bits, each to the highest of a byte */
		b[0] = ((w << 3 & 0x78787878u) | ((f & 15) * 0x10204080u & high)) ^ high;
		b[1] = ((w >> 1 & 0x78787878u) | ((f >> 16 & 15) * 0x10204080u & high)) ^
			high;
		break;
	case LM_WEIGHT_Q5_1:
		f = word_at<TYPE>(p) >> 4 * t;
		w = word_at<TYPE>(p + 4 + 4 * t);
		b[0] = (w & 0x0f0f0f0fu) | ((f & 15) * 0x02040810u & 0x10101010u);
		b[1] = (w >> 4 & 0x0f0f0f0fu) |
			((f >> 16 & 15) * 0x02040810u & 0x10101010u);
		break;
	default:
		UNROLL
		for (unsigned h = 0; h < 2; h++) {
			unsigned at = 16 * h + 4 * t;

			if (TYPE == LM_WEIGHT_Q6_K) {
				w = word_at<TYPE>(p + at + i / 4 * 64 + i % 2 * 32);
				f = word_at<TYPE>(p + at + 128 + i / 4 * 32);
				w = (i % 4 < 2 ? w << 2 : w >> 2) & 0x3c3c3c3cu;
				b[h] = (w | (f << (6 - i % 4 * 2) & 0xc0c0c0c0u)) ^ high;
			} else {
				w = word_at<TYPE>(p + at +
					(TYPE == LM_WEIGHT_Q5_K ? 48 : 16) + i / 2 * 32);
				b[h] = w >> i % 2 * 4 & 0x0f0f0f0fu;
				if (TYPE == LM_WEIGHT_Q5_K)
					b[h] |= (word_at<TYPE>(p + at + 16) >> i &
							0x01010101u)
						<< 4;
			}
		}
	}
}

__device__ __forceinline__ float half_of(const unsigned char *p)
{
	return cuda_f16(*(const uint16_t *)(const void *)p);
}

/* Writes the scales of block i of eight of an output where what multiplies reads them, `apart`
 * floats between planes: the scale, then the minimum, or the scales of two halves. Of a block
 * behind the end they are 0, and nothing is what it adds. */
template <int TYPE>
__device__ __forceinline__ void write_scales(float *to, unsigned apart,
	const unsigned char *row, unsigned i, bool there)
{
	typedef block_bytes<TYPE> size;
	const unsigned char *p = row + (size::SUPER ? 0 : i * size::BLOCK);
	float scale, min = 0;

	if (TYPE == LM_WEIGHT_Q6_K) {
		const signed char *part = (const signed char *)p + 192 + 2 * i;

		scale = half_of(p + 208);
		to[apart] = part[0];
		to[2 * apart] = part[1];
	} else if (size::SUPER) {
		unsigned s, m;

		lm_weight_6_bits(p + 4, i, &s, &m);
		/* rounded here, whatever is added to them */
		scale = __fmul_rn(half_of(p), (float)s);
		min = -__fmul_rn(half_of(p + 2), (float)m);
	} else {
		scale = half_of(p);
		if (size::HAS_MIN)
			min = half_of(p + 2);
	}
	to[0] = there ? scale : 0;
	if (size::HAS_MIN)
		to[apart] = there ? min : 0;
}

/* The scales of two adjacent outputs in a block. */
template <int TYPE> struct two_scales {
	float2 plane[eight_blocks<TYPE>::PLANES];

	__device__ __forceinline__ two_scales(const float *from, unsigned apart)
	{
		UNROLL
		for (unsigned n = 0; n < eight_blocks<TYPE>::PLANES; n++)
			plane[n] = *(const float2 *)(const void *)(from + n * apart);
	}

	/* of the first or second of two blocks that lie side by side */
	__device__ __forceinline__ two_scales(
		const float4 (&from)[eight_blocks<TYPE>::PLANES], bool second)
	{
		UNROLL
		for (unsigned n = 0; n < eight_blocks<TYPE>::PLANES; n++)
			plane[n] = second ? make_float2(from[n].z, from[n].w) :
					    make_float2(from[n].x, from[n].y);
	}

	__device__ __forceinline__ float at(unsigned n, unsigned which) const
	{
		return which ? plane[n].y : plane[n].x;
	}
};

#if CUDA_TENSOR
/* The sums of a block of 16 rows and eight outputs, as bits that begin at MAGIC. */
template <int TYPE> struct block_sums {
	typedef block_bytes<TYPE> size;
	int whole[4], upper[4]; /* upper: of the second half, where it has a scale of its own */

	__device__ __forceinline__ block_sums(const unsigned (&a)[4],
		const unsigned (&b)[2])
	{
		if (size::PARTS) {
			tensor_mma_i8_from(whole, eight_blocks<TYPE>::MAGIC, a, b[0], 0);
			tensor_mma_i8_from(upper, eight_blocks<TYPE>::MAGIC, a, 0, b[1]);
		} else {
			tensor_mma_i8_from(whole, eight_blocks<TYPE>::MAGIC, a, b[0],
				b[1]);
		}
	}

	/* sum and what the block adds to element e; x: scale and sum of the row's activations */
	__device__ __forceinline__ float added(float sum, unsigned e,
		const two_scales<TYPE> &w, const float2 &x) const
	{
		float from = half_float_of_bits(eight_blocks<TYPE>::MAGIC);
		float exact = half_float_of_bits((uint32_t)whole[e]) - from;

		/* whole numbers below 2^24 */
		if (size::PARTS)
			exact = fmaf(w.at(2 * size::PARTS, e % 2),
				half_float_of_bits((uint32_t)upper[e]) - from,
				w.at(size::PARTS, e % 2) * exact);
		sum = fmaf(w.at(0, e % 2) * x.x, exact, sum);
		if (size::HAS_MIN)
			sum = fmaf(w.at(size::HAS_MIN, e % 2), x.y, sum);
		return sum;
	}
};
#endif

#endif
