/* int8_x86.c - what the matmul test does to int8 matrices between products, for AVX2 and
 * AVX-512. */
#include "kernels/poc/int8.h"

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) void int8_mix_avx512(int8_t *out,
	const struct int8_mix *m)
{
	const __m512i by = _mm512_set1_epi32((int)INT8_MULTIPLIER);

	for (uint64_t i = 0; i < m->rows; i++) {
		const int32_t *c = m->c + i * m->n;
		__m512i row = _mm512_set1_epi32((int)m->row_salt[i]);
		uint64_t j = 0;

		for (; j + 16 <= m->n; j += 16) {
			__m512i v = _mm512_ternarylogic_epi32(_mm512_loadu_si512(c + j),
				row, _mm512_loadu_si512(m->column_salt + j), 0x96);

			v = _mm512_srli_epi32(_mm512_mullo_epi32(v, by), 24);
			_mm_storeu_si128((__m128i *)(out + i * m->n + j),
				_mm512_cvtepi32_epi8(v));
		}
		for (; j < m->n; j++)
			out[i * m->n + j] = int8_mixed(c[j], m->row_salt[i],
				m->column_salt[j]);
	}
}
#endif
