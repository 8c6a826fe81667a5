/* integer_avx2.c - products with quantised weights on AVX2, and the quantisation of activations. */
#ifdef __x86_64__
#include <stddef.h>

#include "kernels/lm/cpu/integer.inc"

/* The largest magnitude of 32 numbers; what is not a number does not count. */
INLINE float largest(const __m256 x[4])
{
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256 max = _mm256_setzero_ps();
	__m128 m;

	UNROLL
	for (int i = 0; i < 4; i++)
		max = _mm256_max_ps(_mm256_and_ps(x[i], magnitude), max);
	m = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE int sum_of(__m256i v)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(v),
		_mm256_extracti128_si256(v, 1));

	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* The codes of 32 numbers. */
INLINE void codes_of(__m256i q[4], const float *from, __m256 inverse)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		__m256 v = _mm256_mul_ps(_mm256_loadu_ps(from + 8 * i), inverse);

		v = _mm256_max_ps(v, _mm256_set1_ps(-127));
		q[i] = _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(127)));
	}
}

INLINE void store_codes(struct lm_block8 *to, const __m256i q[4])
{
	__m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
		_mm256_packs_epi32(q[2], q[3]));

	bytes = _mm256_permutevar8x32_epi32(bytes,
		_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *)(void *)to->q, bytes);
}

INLINE void quantize_block(struct lm_block8 *to, const float *from)
{
	__m256 x[4];
	__m256i q[4];
	float max, inverse;

	UNROLL
	for (int i = 0; i < 4; i++)
		x[i] = _mm256_loadu_ps(from + 8 * i);
	max = largest(x);
	to->scale = max < 0x1p-100f ? 0 : max / 127;
	inverse = to->scale > 0 ? 1 / to->scale : 0;
	codes_of(q, from, _mm256_set1_ps(inverse));
	to->minus[1] = -sum_of(_mm256_add_epi32(q[2], q[3]));
	to->minus[0] = to->minus[1] - sum_of(_mm256_add_epi32(q[0], q[1]));
	to->sum = to->scale * (float)-to->minus[0];
	store_codes(to, q);
}

/* Of four vectors the largest number, or the sum, of each; none is NaN. */
INLINE __m128 largest_4(const __m256 x[4])
{
	__m256 a = _mm256_max_ps(_mm256_unpacklo_ps(x[0], x[1]),
		_mm256_unpackhi_ps(x[0], x[1]));
	__m256 b = _mm256_max_ps(_mm256_unpacklo_ps(x[2], x[3]),
		_mm256_unpackhi_ps(x[2], x[3]));

	a = _mm256_max_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
	return _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

INLINE __m128i sums_4(const __m256i x[4])
{
	__m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]),
		_mm256_hadd_epi32(x[2], x[3]));

	return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

/* Four adjacent blocks: maxima, divisions and sums are made of all four at once. */
INLINE void quantize_4(struct lm_block8 *to, const float *from)
{
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256 max[4];
	__m256i low[4], high[4];
	__m128 most, some, scale, inverse, rest[4];
	__m128i first, second;

	UNROLL
	for (int b = 0; b < 4; b++) {
		max[b] = _mm256_setzero_ps();
		UNROLL
		for (int i = 0; i < 4; i++)
			max[b] = _mm256_max_ps(_mm256_and_ps(_mm256_loadu_ps(from +
								     32 * b + 8 * i),
						       magnitude),
				max[b]);
	}
	most = largest_4(max);
	some = _mm_cmpge_ps(most, _mm_set1_ps(0x1p-100f));
	scale = _mm_and_ps(some, _mm_div_ps(most, _mm_set1_ps(127)));
	inverse = _mm_and_ps(some, _mm_div_ps(_mm_set1_ps(1), scale));
	UNROLL
	for (int b = 0; b < 4; b++) {
		__m256 times = _mm256_set1_ps(inverse[b]);
		__m256i q[4];

		codes_of(q, from + 32 * b, times);
		low[b] = _mm256_add_epi32(q[0], q[1]);
		high[b] = _mm256_add_epi32(q[2], q[3]);
		store_codes(&to[b], q);
	}
	second = _mm_sub_epi32(_mm_setzero_si128(), sums_4(high));
	first = _mm_sub_epi32(second, sums_4(low));
	rest[0] = scale;
	rest[1] = _mm_mul_ps(scale,
		_mm_cvtepi32_ps(_mm_sub_epi32(_mm_setzero_si128(), first)));
	rest[2] = _mm_castsi128_ps(first);
	rest[3] = _mm_castsi128_ps(second);
	_MM_TRANSPOSE4_PS(rest[0], rest[1], rest[2], rest[3]);
	UNROLL
	for (int b = 0; b < 4; b++)
		_mm_storeu_ps(&to[b].scale, rest[b]);
}

TARGET void lm_quantize_avx2(const struct lm_quantize *q, uint64_t from, uint64_t to)
{
	uint64_t blocks = q->k / LM_WEIGHT_BLOCK;

	_Static_assert(offsetof(struct lm_block8, minus) -
				offsetof(struct lm_block8, scale) ==
			8,
		"scale, sum and minus are stored together");
	for (uint64_t n = from, end; n < to; n = end) {
		const float *x = q->x + n / blocks * q->ldx +
			n % blocks * LM_WEIGHT_BLOCK;

		end = (n / blocks + 1) * blocks;
		end = end < to ? end : to;
		for (; n + 4 <= end; n += 4, x += 4 * LM_WEIGHT_BLOCK)
			quantize_4(&q->to[n], x);
		for (; n < end; n++, x += LM_WEIGHT_BLOCK)
			quantize_block(&q->to[n], x);
	}
}
#else
#include "kernels/lm/cpu/x86.h"
#endif
