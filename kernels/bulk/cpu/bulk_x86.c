/* bulk_x86.c - the triad with AVX2 and AVX-512, with non-temporal stores for large ranges. */
#include "kernels/bulk/bulk.h"

#ifdef __x86_64__
#include "kernels/dev/cpu/stream_x86.h"

AVX512 void bulk_triad_avx512(double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	uint64_t lead = to_line(a, 64, n * 8) / 8, body = (n - lead) & ~UINT64_C(15);
	__m512d v = _mm512_set1_pd(s);
	double *x = a + lead;

	bulk_triad_ref(a, b, c, s, lead);
	b += lead;
	c += lead;
	if (n * 8 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 8)
			_mm512_storeu_pd(x + i,
				_mm512_add_pd(_mm512_loadu_pd(b + i),
					_mm512_mul_pd(v, _mm512_loadu_pd(c + i))));
	else
		for (uint64_t i = 0; i < body; i += 16) {
			_mm512_stream_pd(x + i,
				_mm512_add_pd(_mm512_loadu_pd(b + i),
					_mm512_mul_pd(v, _mm512_loadu_pd(c + i))));
			_mm512_stream_pd(x + i + 8,
				_mm512_add_pd(_mm512_loadu_pd(b + i + 8),
					_mm512_mul_pd(v, _mm512_loadu_pd(c + i + 8))));
		}
	_mm_sfence();
	bulk_triad_ref(x + body, b + body, c + body, s, n - lead - body);
}

AVX2 void bulk_triad_avx2(double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	uint64_t lead = to_line(a, 32, n * 8) / 8, body = (n - lead) & ~UINT64_C(7);
	__m256d v = _mm256_set1_pd(s);
	double *x = a + lead;

	bulk_triad_ref(a, b, c, s, lead);
	b += lead;
	c += lead;
	if (n * 8 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 4)
			_mm256_storeu_pd(x + i,
				_mm256_add_pd(_mm256_loadu_pd(b + i),
					_mm256_mul_pd(v, _mm256_loadu_pd(c + i))));
	else
		for (uint64_t i = 0; i < body; i += 8) {
			_mm256_stream_pd(x + i,
				_mm256_add_pd(_mm256_loadu_pd(b + i),
					_mm256_mul_pd(v, _mm256_loadu_pd(c + i))));
			_mm256_stream_pd(x + i + 4,
				_mm256_add_pd(_mm256_loadu_pd(b + i + 4),
					_mm256_mul_pd(v, _mm256_loadu_pd(c + i + 4))));
		}
	_mm_sfence();
	bulk_triad_ref(x + body, b + body, c + body, s, n - lead - body);
}
#endif
