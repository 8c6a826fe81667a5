/* sample_scan_x86.c - eight logits, or four shares, at a time. A product and a sum are never one
 * operation (FMA), so that the bits are those of the definition. */
#include "common/lm/infer/sample_scan_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>

#include "kernels/dev/cpu.h"

#define FAST __attribute__((target("avx2")))

bool scan_is_fast(void)
{
	return cpu_chose_avx2();
}

/* The maximum of a NaN and a number is the second operand. */
FAST float scan_max_fast(const float x[SCAN_BLOCK])
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

FAST static inline __m256d exponential(__m256d d)
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

FAST double scan_shares_fast(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	const __m256d max = _mm256_set1_pd(how->max), min = _mm256_set1_pd(how->min);
	const __m256d temperature = _mm256_set1_pd(how->temperature);
	__m256d sum = _mm256_setzero_pd();
	double lane[4];

	for (int i = 0; i < SCAN_BLOCK; i += 4) {
		__m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
		__m256d e = exponential(
			_mm256_div_pd(_mm256_sub_pd(v, max), temperature));

		e = _mm256_and_pd(e, _mm256_cmp_pd(v, min, _CMP_GE_OQ));
		_mm256_storeu_pd(share + i, e);
		sum = _mm256_add_pd(sum, e);
	}
	_mm256_storeu_pd(lane, sum);
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}
#else
bool scan_is_fast(void)
{
	return false;
}

float scan_max_fast(const float x[SCAN_BLOCK])
{
	return x[0];
}

double scan_shares_fast(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how)
{
	(void)x, (void)how;
	return share[0];
}
#endif
