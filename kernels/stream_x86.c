#include "kernels/stream.h"

#include "kernels/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK 512 /* doubles: a page, so that threads do not share lines */

/* Calls body for blocks [from, to) of whole blocks; the rest is done plainly by the caller. */
#define BLOCKS(n) ((n) / BLOCK)

__attribute__((target("avx2"))) static void copy_avx2(double *a, const double *b,
	size_t n)
{
#pragma omp parallel
	{
#pragma omp for schedule(static) nowait
		for (size_t block = 0; block < BLOCKS(n); block++) {
			size_t at = block * BLOCK;

			for (size_t i = at; i < at + BLOCK; i += 4)
				_mm256_stream_pd(a + i, _mm256_load_pd(b + i));
		}
		_mm_sfence(); /* orders this thread's own stores only */
	}
	for (size_t i = BLOCKS(n) * BLOCK; i < n; i++)
		a[i] = b[i];
}

__attribute__((target("avx2"))) static void triad_avx2(double *a, const double *b,
	const double *c, double s, size_t n)
{
#pragma omp parallel
	{
#pragma omp for schedule(static) nowait
		for (size_t block = 0; block < BLOCKS(n); block++) {
			size_t at = block * BLOCK;
			__m256d factor = _mm256_set1_pd(s);

			for (size_t i = at; i < at + BLOCK; i += 4)
				_mm256_stream_pd(a + i,
					_mm256_add_pd(_mm256_load_pd(b + i),
						_mm256_mul_pd(factor,
							_mm256_load_pd(c + i))));
		}
		_mm_sfence(); /* orders this thread's own stores only */
	}
	for (size_t i = BLOCKS(n) * BLOCK; i < n; i++)
		a[i] = b[i] + s * c[i];
}

__attribute__((target("avx512f"))) static void copy_avx512(double *a, const double *b,
	size_t n)
{
#pragma omp parallel
	{
#pragma omp for schedule(static) nowait
		for (size_t block = 0; block < BLOCKS(n); block++) {
			size_t at = block * BLOCK;

			for (size_t i = at; i < at + BLOCK; i += 8)
				_mm512_stream_pd(a + i, _mm512_load_pd(b + i));
		}
		_mm_sfence(); /* orders this thread's own stores only */
	}
	for (size_t i = BLOCKS(n) * BLOCK; i < n; i++)
		a[i] = b[i];
}

__attribute__((target("avx512f"))) static void triad_avx512(double *a, const double *b,
	const double *c, double s, size_t n)
{
#pragma omp parallel
	{
#pragma omp for schedule(static) nowait
		for (size_t block = 0; block < BLOCKS(n); block++) {
			size_t at = block * BLOCK;
			__m512d factor = _mm512_set1_pd(s);

			for (size_t i = at; i < at + BLOCK; i += 8)
				_mm512_stream_pd(a + i,
					_mm512_add_pd(_mm512_load_pd(b + i),
						_mm512_mul_pd(factor,
							_mm512_load_pd(c + i))));
		}
		_mm_sfence(); /* orders this thread's own stores only */
	}
	for (size_t i = BLOCKS(n) * BLOCK; i < n; i++)
		a[i] = b[i] + s * c[i];
}

static const struct stream avx2 = { "avx2", copy_avx2, triad_avx2 };
static const struct stream avx512 = { "avx512", copy_avx512, triad_avx512 };

const struct stream *stream_fast(void)
{
	enum cpu_level level;

	cpu_level_chosen(&level);
	switch (level) {
	case CPU_AVX512:
		return &avx512;
	case CPU_AVX2:
		return &avx2;
	default:
		return &stream_reference;
	}
}

#else

const struct stream *stream_fast(void)
{
	return &stream_reference;
}

#endif
