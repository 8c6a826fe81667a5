/* aggregate_x86.c - four elements of f64 at a time. */
#include "common/lm/rounds/aggregate_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <stdbool.h>

#include "kernels/dev/cpu.h"

#define FAST __attribute__((target("avx2")))

FAST static inline __m256d load(const float *x)
{
	return _mm256_cvtps_pd(_mm_loadu_ps(x));
}

FAST static uint64_t norm_and_dot(const float *x, const double *d, uint64_t n,
	double norm[8], double dot[8])
{
	__m256d n0 = _mm256_loadu_pd(norm), n1 = _mm256_loadu_pd(norm + 4);
	__m256d d0 = _mm256_loadu_pd(dot), d1 = _mm256_loadu_pd(dot + 4);
	uint64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		__m256d x0 = load(x + i), x1 = load(x + i + 4);

		n0 = _mm256_add_pd(n0, _mm256_mul_pd(x0, x0));
		n1 = _mm256_add_pd(n1, _mm256_mul_pd(x1, x1));
		d0 = _mm256_add_pd(d0, _mm256_mul_pd(x0, _mm256_loadu_pd(d + i)));
		d1 = _mm256_add_pd(d1, _mm256_mul_pd(x1, _mm256_loadu_pd(d + i + 4)));
	}
	_mm256_storeu_pd(norm, n0);
	_mm256_storeu_pd(norm + 4, n1);
	_mm256_storeu_pd(dot, d0);
	_mm256_storeu_pd(dot + 4, d1);
	return i;
}

uint64_t aggregate_norm_and_dot_fast(const float *x, const double *d, uint64_t n,
	double norm[8], double dot[8])
{
	return cpu_chose(CPU_AVX2) ? norm_and_dot(x, d, n, norm, dot) : 0;
}

FAST static uint64_t product(const float *x, const float *y, uint64_t n, double sum[8])
{
	__m256d s0 = _mm256_loadu_pd(sum), s1 = _mm256_loadu_pd(sum + 4);
	uint64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		s0 = _mm256_add_pd(s0, _mm256_mul_pd(load(x + i), load(y + i)));
		s1 = _mm256_add_pd(s1, _mm256_mul_pd(load(x + i + 4), load(y + i + 4)));
	}
	_mm256_storeu_pd(sum, s0);
	_mm256_storeu_pd(sum + 4, s1);
	return i;
}

uint64_t aggregate_product_fast(const float *x, const float *y, uint64_t n, double sum[8])
{
	return cpu_chose(CPU_AVX2) ? product(x, y, n, sum) : 0;
}
#else
uint64_t aggregate_norm_and_dot_fast(const float *x, const double *d, uint64_t n,
	double norm[8], double dot[8])
{
	(void)x, (void)d, (void)n, (void)norm, (void)dot;
	return 0;
}

uint64_t aggregate_product_fast(const float *x, const float *y, uint64_t n, double sum[8])
{
	(void)x, (void)y, (void)n, (void)sum;
	return 0;
}
#endif
