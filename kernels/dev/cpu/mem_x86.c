/* mem_x86.c - copies and fills memory with AVX2 and AVX-512, with non-temporal stores for large
 * ranges. */
#include "kernels/dev/mem.h"

#ifdef __x86_64__
#include "kernels/dev/cpu/stream_x86.h"

AVX512 void mem_copy_avx512(void *to, const void *from, uint64_t bytes)
{
	uint64_t lead = to_line(to, 64, bytes), body = (bytes - lead) & ~UINT64_C(127);
	char *t = (char *)to + lead;
	const char *f = (const char *)from + lead;

	if (bytes < PAST_CACHES_BYTES) {
		mem_copy_ref(to, from, bytes);
		return;
	}
	mem_copy_ref(to, from, lead);
	for (uint64_t i = 0; i < body; i += 128) {
		__m512i x = _mm512_loadu_si512(f + i), y = _mm512_loadu_si512(f + i + 64);

		_mm512_stream_si512((void *)(t + i), x);
		_mm512_stream_si512((void *)(t + i + 64), y);
	}
	_mm_sfence();
	mem_copy_ref(t + body, f + body, bytes - lead - body);
}

AVX512 void mem_fill_avx512(uint32_t *to, uint32_t word, uint64_t words)
{
	uint64_t lead = to_line(to, 64, words * 4) / 4,
		 body = (words - lead) & ~UINT64_C(31);
	__m512i v = _mm512_set1_epi32((int)word);
	uint32_t *t = to + lead;

	mem_fill_ref(to, word, lead);
	if (words * 4 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 16)
			_mm512_storeu_si512(t + i, v);
	else
		for (uint64_t i = 0; i < body; i += 32) {
			_mm512_stream_si512((void *)(t + i), v);
			_mm512_stream_si512((void *)(t + i + 16), v);
		}
	_mm_sfence();
	mem_fill_ref(t + body, word, words - lead - body);
}

AVX2 void mem_copy_avx2(void *to, const void *from, uint64_t bytes)
{
	uint64_t lead = to_line(to, 32, bytes), body = (bytes - lead) & ~UINT64_C(63);
	char *t = (char *)to + lead;
	const char *f = (const char *)from + lead;

	if (bytes < PAST_CACHES_BYTES) {
		mem_copy_ref(to, from, bytes);
		return;
	}
	mem_copy_ref(to, from, lead);
	for (uint64_t i = 0; i < body; i += 64) {
		__m256i x = _mm256_loadu_si256((const void *)(f + i));
		__m256i y = _mm256_loadu_si256((const void *)(f + i + 32));

		_mm256_stream_si256((void *)(t + i), x);
		_mm256_stream_si256((void *)(t + i + 32), y);
	}
	_mm_sfence();
	mem_copy_ref(t + body, f + body, bytes - lead - body);
}

AVX2 void mem_fill_avx2(uint32_t *to, uint32_t word, uint64_t words)
{
	uint64_t lead = to_line(to, 32, words * 4) / 4,
		 body = (words - lead) & ~UINT64_C(15);
	__m256i v = _mm256_set1_epi32((int)word);
	uint32_t *t = to + lead;

	mem_fill_ref(to, word, lead);
	if (words * 4 < PAST_CACHES_BYTES)
		for (uint64_t i = 0; i < body; i += 8)
			_mm256_storeu_si256((void *)(t + i), v);
	else
		for (uint64_t i = 0; i < body; i += 16) {
			_mm256_stream_si256((void *)(t + i), v);
			_mm256_stream_si256((void *)(t + i + 8), v);
		}
	_mm_sfence();
	mem_fill_ref(t + body, word, words - lead - body);
}
#endif
