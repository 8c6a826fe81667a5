/* sample_scan_x86.c - eight or sixteen logits, or four or eight shares, at a time. A product and a sum are never one
 * operation (FMA), so that the bits are those of the definition. */
#include "common/lm/infer/sample_scan_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* --- AVX2 ---------------------------------------------------------------------------------------- */

/* The maximum of a NaN and a number is the second operand. */
AVX2 float scan_max_avx2(const float x[SCAN_BLOCK])
{
	__m256 max[2] = { _mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY) };
	__m128 m;

	for (int i = 0; i < SCAN_BLOCK; i += 16) {
		max[0] = _mm256_max_ps(_mm256_loadu_ps(x + i), max[0]);
		max[1] = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), max[1]);
	}
	max[0] = _mm256_max_ps(max[0], max[1]);
	m = _mm_max_ps(_mm256_castps256_ps128(max[0]), _mm256_extractf128_ps(max[0], 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

AVX2 static inline __m256d exponential4(__m256d d)
{
	const __m256d round = _mm256_set1_pd(SCAN_ROUND);
	__m256d sum = _mm256_add_pd(_mm256_mul_pd(d, _mm256_set1_pd(SCAN_LOG2E)), round);
	__m256d r = _mm256_sub_pd(d,
		_mm256_mul_pd(_mm256_sub_pd(sum, round), _mm256_set1_pd(SCAN_LN2)));
	__m256d p = _mm256_set1_pd(scan_taylor[SCAN_TERMS - 1]);

	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = _mm256_add_pd(_mm256_mul_pd(p, r), _mm256_set1_pd(scan_taylor[i]));
	return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p),
		_mm256_slli_epi64(_mm256_castpd_si256(sum), 52)));
}

AVX2 double scan_shares_avx2(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	const __m256d max = _mm256_set1_pd(how->max), min = _mm256_set1_pd(how->min);
	const __m256d temperature = _mm256_set1_pd(how->temperature);
	const bool divides = how->temperature != 1;
	__m256d sum = _mm256_setzero_pd();
	double lane[4];

	for (int i = 0; i < SCAN_BLOCK; i += 4) {
		__m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
		__m256d d = _mm256_sub_pd(v, max), e;

		/* a quotient by 1 has the same bits and takes as long as any */
		if (divides)
			d = _mm256_div_pd(d, temperature);
		e = exponential4(d);
		e = _mm256_and_pd(e, _mm256_cmp_pd(v, min, _CMP_GE_OQ));
		_mm256_storeu_pd(share + i, e);
		sum = _mm256_add_pd(sum, e);
	}
	_mm256_storeu_pd(lane, sum);
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

AVX2 void scan_exclude_avx2(float to[SCAN_BLOCK], const float x[SCAN_BLOCK],
	uint64_t allowed)
{
	const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	const __m256 never = _mm256_set1_ps(-INFINITY);

	for (int i = 0; i < SCAN_BLOCK; i += 8) {
		__m256i eight = _mm256_set1_epi32((int)(allowed >> i & 0xff));
		__m256i is = _mm256_cmpeq_epi32(_mm256_and_si256(eight, bit), bit);

		_mm256_storeu_ps(to + i,
			_mm256_blendv_ps(never, _mm256_loadu_ps(x + i),
				_mm256_castsi256_ps(is)));
	}
}

/* --- AVX-512 ------------------------------------------------------------------------------------- */

AVX512 float scan_max_avx512(const float x[SCAN_BLOCK])
{
	const __m512 least = _mm512_set1_ps(-INFINITY);
	__m512 a = _mm512_max_ps(_mm512_loadu_ps(x), least);
	__m512 b = _mm512_max_ps(_mm512_loadu_ps(x + 16), least);

	a = _mm512_max_ps(_mm512_loadu_ps(x + 32), a);
	b = _mm512_max_ps(_mm512_loadu_ps(x + 48), b);
	return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

AVX512 static inline __m512d exponential8(__m512d d)
{
	const __m512d round = _mm512_set1_pd(SCAN_ROUND);
	__m512d sum = _mm512_add_pd(_mm512_mul_pd(d, _mm512_set1_pd(SCAN_LOG2E)), round);
	__m512d r = _mm512_sub_pd(d,
		_mm512_mul_pd(_mm512_sub_pd(sum, round), _mm512_set1_pd(SCAN_LN2)));
	__m512d p = _mm512_set1_pd(scan_taylor[SCAN_TERMS - 1]);

	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = _mm512_add_pd(_mm512_mul_pd(p, r), _mm512_set1_pd(scan_taylor[i]));
	return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(p),
		_mm512_slli_epi64(_mm512_castpd_si512(sum), 52)));
}

/* Four sums, as with AVX2: of eight shares first the lower half is added to them, then the upper. */
AVX512 double scan_shares_avx512(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	const __m512d max = _mm512_set1_pd(how->max), min = _mm512_set1_pd(how->min);
	const __m512d temperature = _mm512_set1_pd(how->temperature);
	const bool divides = how->temperature != 1;
	__m256d sum = _mm256_setzero_pd();
	double lane[4];

	for (int i = 0; i < SCAN_BLOCK; i += 8) {
		__m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
		__mmask8 counts = _mm512_cmp_pd_mask(v, min, _CMP_GE_OQ);
		__m512d d = _mm512_sub_pd(v, max), e;

		if (divides)
			d = _mm512_div_pd(d, temperature);
		e = _mm512_maskz_mov_pd(counts, exponential8(d));
		_mm512_storeu_pd(share + i, e);
		sum = _mm256_add_pd(sum, _mm512_castpd512_pd256(e));
		sum = _mm256_add_pd(sum, _mm512_extractf64x4_pd(e, 1));
	}
	_mm256_storeu_pd(lane, sum);
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

AVX512 void scan_exclude_avx512(float to[SCAN_BLOCK], const float x[SCAN_BLOCK],
	uint64_t allowed)
{
	const __m512 never = _mm512_set1_ps(-INFINITY);

	for (int i = 0; i < SCAN_BLOCK; i += 16)
		_mm512_storeu_ps(to + i,
			_mm512_mask_mov_ps(never, (__mmask16)(allowed >> i),
				_mm512_loadu_ps(x + i)));
}
#else
/* cpu_chose() never says that these may be called. */
float scan_max_avx2(const float x[SCAN_BLOCK])
{
	return x[0];
}

double scan_shares_avx2(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	(void)x, (void)how;
	return share[0];
}

void scan_exclude_avx2(float to[SCAN_BLOCK], const float x[SCAN_BLOCK], uint64_t allowed)
{
	(void)to, (void)x, (void)allowed;
}

float scan_max_avx512(const float x[SCAN_BLOCK])
{
	return x[0];
}

double scan_shares_avx512(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	(void)x, (void)how;
	return share[0];
}

void scan_exclude_avx512(float to[SCAN_BLOCK], const float x[SCAN_BLOCK],
	uint64_t allowed)
{
	(void)to, (void)x, (void)allowed;
}
#endif
