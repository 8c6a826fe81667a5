/* sample_scan_x86.c - eight or sixteen logits, or four or eight shares, at a time. Where a product
 * and a sum are one operation (FMA), they are in the definition, too, so that the bits are the
 * same. */
#include "common/lm/infer/sample_scan_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>

#define AVX2   __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* --- AVX2 --------------------------------------------------------------------------------- */

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

AVX2 static inline __m256d power4(__m256d d, __m256d scale)
{
	const __m256d round = _mm256_set1_pd(SCAN_ROUND);
	__m256d sum = _mm256_fmadd_pd(d, scale, round);
	__m256d f = _mm256_fmadd_pd(d, scale, _mm256_sub_pd(round, sum));
	__m256d p = _mm256_set1_pd(scan_powers[SCAN_TERMS - 1]);

#pragma GCC unroll 16
	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = _mm256_fmadd_pd(p, f, _mm256_set1_pd(scan_powers[i]));
	return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p),
		_mm256_slli_epi64(_mm256_castpd_si256(sum), 52)));
}

AVX2 double scan_shares_avx2(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	const __m256d max = _mm256_set1_pd(how->max), min = _mm256_set1_pd(how->min);
	const __m256d scale = _mm256_set1_pd(how->scale);
	__m256d sum[2] = { _mm256_setzero_pd(), _mm256_setzero_pd() };
	double lane[4];

	for (int i = 0; i < SCAN_BLOCK; i += 4) {
		__m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
		__m256d e = power4(_mm256_sub_pd(v, max), scale);

		e = _mm256_and_pd(e, _mm256_cmp_pd(v, min, _CMP_GE_OQ));
		_mm256_storeu_pd(share + i, e);
		sum[i / 4 % 2] = _mm256_add_pd(sum[i / 4 % 2], e);
	}
	_mm256_storeu_pd(lane, _mm256_add_pd(sum[0], sum[1]));
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

AVX2 uint64_t scan_at_least_avx2(const float x[SCAN_BLOCK], float min)
{
	const __m256 least = _mm256_set1_ps(min);
	uint64_t bits = 0;

	for (int i = 0; i < SCAN_BLOCK; i += 8) {
		__m256 is = _mm256_cmp_ps(_mm256_loadu_ps(x + i), least, _CMP_GE_OQ);

		bits |= (uint64_t)(uint32_t)_mm256_movemask_ps(is) << i;
	}
	return bits;
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

/* --- AVX-512 ------------------------------------------------------------------------------ */

AVX512 float scan_max_avx512(const float x[SCAN_BLOCK])
{
	const __m512 least = _mm512_set1_ps(-INFINITY);
	__m512 a = _mm512_max_ps(_mm512_loadu_ps(x), least);
	__m512 b = _mm512_max_ps(_mm512_loadu_ps(x + 16), least);

	a = _mm512_max_ps(_mm512_loadu_ps(x + 32), a);
	b = _mm512_max_ps(_mm512_loadu_ps(x + 48), b);
	return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

AVX512 static inline __m512d power8(__m512d d, __m512d scale, __mmask8 counts)
{
	const __m512d round = _mm512_set1_pd(SCAN_ROUND);
	__m512d sum = _mm512_fmadd_pd(d, scale, round);
	__m512d f = _mm512_fmadd_pd(d, scale, _mm512_sub_pd(round, sum));
	__m512d p = _mm512_set1_pd(scan_powers[SCAN_TERMS - 1]);

#pragma GCC unroll 16
	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = _mm512_fmadd_pd(p, f, _mm512_set1_pd(scan_powers[i]));
	return _mm512_castsi512_pd(_mm512_maskz_add_epi64(counts, _mm512_castpd_si512(p),
		_mm512_slli_epi64(_mm512_castpd_si512(sum), 52)));
}

AVX512 double scan_shares_avx512(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	const __m512d max = _mm512_set1_pd(how->max), scale = _mm512_set1_pd(how->scale);
	const __m512 min = _mm512_set1_ps(how->min);
	__m512d sum = _mm512_setzero_pd();
	double lane[4];

	for (int i = 0; i < SCAN_BLOCK; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__mmask16 counts = _mm512_cmp_ps_mask(v, min, _CMP_GE_OQ);
		__m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
		__m512d b = _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8));

		a = power8(_mm512_sub_pd(a, max), scale, (__mmask8)counts);
		b = power8(_mm512_sub_pd(b, max), scale, (__mmask8)(counts >> 8));
		_mm512_storeu_pd(share + i, a);
		_mm512_storeu_pd(share + i + 8, b);
		sum = _mm512_add_pd(_mm512_add_pd(sum, a), b);
	}
	_mm256_storeu_pd(lane,
		_mm256_add_pd(_mm512_castpd512_pd256(sum),
			_mm512_extractf64x4_pd(sum, 1)));
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Compressed in registers and stored whole: what lies behind is written over by the next. */
AVX512 uint32_t scan_keep_avx512(float *to, uint32_t *ids, const float x[SCAN_BLOCK],
	uint32_t first, float min)
{
	const __m512 least = _mm512_set1_ps(min);
	__m512i id = _mm512_add_epi32(_mm512_set1_epi32((int)first),
		_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
	uint32_t n = 0;

	for (int i = 0; i < SCAN_BLOCK; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__mmask16 is = _mm512_cmp_ps_mask(v, least, _CMP_GE_OQ);

		_mm512_storeu_ps(to + n, _mm512_maskz_compress_ps(is, v));
		_mm512_storeu_si512(ids + n, _mm512_maskz_compress_epi32(is, id));
		n += (uint32_t)__builtin_popcount(is);
		id = _mm512_add_epi32(id, _mm512_set1_epi32(16));
	}
	return n;
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

uint64_t scan_at_least_avx2(const float x[SCAN_BLOCK], float min)
{
	return x[0] >= min;
}

uint32_t scan_keep_avx512(float *to, uint32_t *ids, const float x[SCAN_BLOCK],
	uint32_t first, float min)
{
	(void)to, (void)ids, (void)x, (void)first, (void)min;
	return 0;
}
#endif
