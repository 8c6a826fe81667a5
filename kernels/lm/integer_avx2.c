/* integer_avx2.c - products with quantised weights on AVX2, and the quantisation of activations. */
#ifdef __x86_64__
#include "kernels/lm/integer.inc"

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

INLINE void quantize_block(struct lm_block8 *to, const float *from)
{
	__m256 x[4];
	__m256i q[4], bytes;
	float max, inverse;

	UNROLL
	for (int i = 0; i < 4; i++)
		x[i] = _mm256_loadu_ps(from + 8 * i);
	max = largest(x);
	to->scale = max < 0x1p-100f ? 0 : max / 127;
	inverse = to->scale > 0 ? 1 / to->scale : 0;
	UNROLL
	for (int i = 0; i < 4; i++) {
		__m256 v = _mm256_max_ps(_mm256_mul_ps(x[i], _mm256_set1_ps(inverse)),
			_mm256_set1_ps(-127));

		q[i] = _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(127)));
	}
	to->minus[1] = -sum_of(_mm256_add_epi32(q[2], q[3]));
	to->minus[0] = to->minus[1] - sum_of(_mm256_add_epi32(q[0], q[1]));
	to->sum = to->scale * (float)-to->minus[0];
	bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
		_mm256_packs_epi32(q[2], q[3]));
	bytes = _mm256_permutevar8x32_epi32(bytes,
		_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm256_storeu_si256((__m256i *)(void *)to->q, bytes);
}

TARGET void lm_quantize_avx2(const struct lm_quantize *q, uint64_t from, uint64_t to)
{
	uint64_t blocks = q->k / LM_WEIGHT_BLOCK;

	for (uint64_t n = from; n < to; n++)
		quantize_block(&q->to[n],
			q->x + n / blocks * q->ldx + n % blocks * LM_WEIGHT_BLOCK);
}
#else
#include "kernels/lm/x86.h"
#endif
