/* Ordinary stores first read the line that they will overwrite: for ranges beyond the caches the
 * non-temporal ones save a third of the traffic of triad and copy. Below that size they would throw out of the cache
 * what the next reader wants. */
#include "kernels/bulk/bulk.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

#define PAST_CACHES_BYTES (UINT64_C(1) << 20) /* a range of one thread: its part of L2 */

/* how many bytes to the next multiple of `line`, at most n */
static uint64_t to_line(const void *p, uint64_t line, uint64_t n)
{
	uint64_t lead = -(uintptr_t)p & (line - 1);

	return lead < n ? lead : n;
}

AVX512 void bulk_copy_avx512(void *to, const void *from, uint64_t bytes)
{
	uint64_t lead = to_line(to, 64, bytes), body = (bytes - lead) & ~UINT64_C(127);
	char *t = (char *)to + lead;
	const char *f = (const char *)from + lead;

	if (bytes < PAST_CACHES_BYTES) {
		bulk_copy_ref(to, from, bytes);
		return;
	}
	bulk_copy_ref(to, from, lead);
	for (uint64_t i = 0; i < body; i += 128) {
		__m512i x = _mm512_loadu_si512(f + i), y = _mm512_loadu_si512(f + i + 64);

		_mm512_stream_si512((void *)(t + i), x);
		_mm512_stream_si512((void *)(t + i + 64), y);
	}
	_mm_sfence();
	bulk_copy_ref(t + body, f + body, bytes - lead - body);
}

AVX512 void bulk_fill_avx512(uint32_t *to, uint32_t word, uint64_t words)
{
	uint64_t lead = to_line(to, 64, words * 4) / 4,
		 body = (words - lead) & ~UINT64_C(31);
	__m512i v = _mm512_set1_epi32((int)word);
	uint32_t *t = to + lead;

	bulk_fill_ref(to, word, lead);
	if (words * 4 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 16)
			_mm512_storeu_si512(t + i, v);
	else
		for (uint64_t i = 0; i < body; i += 32) {
			_mm512_stream_si512((void *)(t + i), v);
			_mm512_stream_si512((void *)(t + i + 16), v);
		}
	_mm_sfence();
	bulk_fill_ref(t + body, word, words - lead - body);
}

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

AVX2 void bulk_copy_avx2(void *to, const void *from, uint64_t bytes)
{
	uint64_t lead = to_line(to, 32, bytes), body = (bytes - lead) & ~UINT64_C(63);
	char *t = (char *)to + lead;
	const char *f = (const char *)from + lead;

	if (bytes < PAST_CACHES_BYTES) {
		bulk_copy_ref(to, from, bytes);
		return;
	}
	bulk_copy_ref(to, from, lead);
	for (uint64_t i = 0; i < body; i += 64) {
		__m256i x = _mm256_loadu_si256((const void *)(f + i));
		__m256i y = _mm256_loadu_si256((const void *)(f + i + 32));

		_mm256_stream_si256((void *)(t + i), x);
		_mm256_stream_si256((void *)(t + i + 32), y);
	}
	_mm_sfence();
	bulk_copy_ref(t + body, f + body, bytes - lead - body);
}

AVX2 void bulk_fill_avx2(uint32_t *to, uint32_t word, uint64_t words)
{
	uint64_t lead = to_line(to, 32, words * 4) / 4,
		 body = (words - lead) & ~UINT64_C(15);
	__m256i v = _mm256_set1_epi32((int)word);
	uint32_t *t = to + lead;

	bulk_fill_ref(to, word, lead);
	if (words * 4 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 8)
			_mm256_storeu_si256((void *)(t + i), v);
	else
		for (uint64_t i = 0; i < body; i += 16) {
			_mm256_stream_si256((void *)(t + i), v);
			_mm256_stream_si256((void *)(t + i + 8), v);
		}
	_mm_sfence();
	bulk_fill_ref(t + body, word, words - lead - body);
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
