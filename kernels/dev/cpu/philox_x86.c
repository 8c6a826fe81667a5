/* philox_x86.c - Philox with one block in each 32-bit lane: 8 blocks (AVX2) or 16 (AVX-512) at
 * a time. The 4 x 4 words of each 128-bit lane are transposed by unpacking. Blocks are assigned
 * to lanes so that the results are in order: word j of 128-bit lane l has block lanes * j + l. */
#include "kernels/dev/philox.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))

#define AVX2_BYTES   (8 * PHILOX_BLOCK_BYTES)
#define AVX512_BYTES (16 * PHILOX_BLOCK_BYTES)

/* high and low half of 8 products of 32 x 32 bits */
AVX2 static inline void multiply8(__m256i a, __m256i m, __m256i *high, __m256i *low)
{
	__m256i even = _mm256_mul_epu32(a, m);
	__m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);

	*low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
	*high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

AVX2 static void blocks8(unsigned char *to, const struct philox *p, uint64_t block)
{
	const __m256i m0 = _mm256_set1_epi32((int)PHILOX_M0);
	const __m256i m1 = _mm256_set1_epi32((int)PHILOX_M1);
	const __m256i sign = _mm256_set1_epi32(INT32_MIN);
	__m256i step = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
	__m256i c0 = _mm256_add_epi32(_mm256_set1_epi32((int)block), step);
	__m256i carry = _mm256_cmpgt_epi32(_mm256_xor_si256(step, sign),
		_mm256_xor_si256(c0, sign));
	__m256i c1 = _mm256_sub_epi32(_mm256_set1_epi32((int)(block >> 32)), carry);
	__m256i c2 = _mm256_set1_epi32((int)p->stream);
	__m256i c3 = _mm256_set1_epi32((int)(p->stream >> 32));
	uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
	__m256i ah, al, bh, bl, t0, t1, t2, t3;

	for (int i = 0; i < PHILOX_ROUNDS; i++) {
		multiply8(c0, m0, &ah, &al);
		multiply8(c2, m1, &bh, &bl);
		c0 = _mm256_xor_si256(_mm256_xor_si256(bh, c1),
			_mm256_set1_epi32((int)k0));
		c2 = _mm256_xor_si256(_mm256_xor_si256(ah, c3),
			_mm256_set1_epi32((int)k1));
		c1 = bl;
		c3 = al;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	t0 = _mm256_unpacklo_epi32(c0, c1);
	t1 = _mm256_unpackhi_epi32(c0, c1);
	t2 = _mm256_unpacklo_epi32(c2, c3);
	t3 = _mm256_unpackhi_epi32(c2, c3);
	_mm256_storeu_si256((__m256i *)(to + 0), _mm256_unpacklo_epi64(t0, t2));
	_mm256_storeu_si256((__m256i *)(to + 32), _mm256_unpackhi_epi64(t0, t2));
	_mm256_storeu_si256((__m256i *)(to + 64), _mm256_unpacklo_epi64(t1, t3));
	_mm256_storeu_si256((__m256i *)(to + 96), _mm256_unpackhi_epi64(t1, t3));
}

AVX2 void philox_fill_avx2(void *out, uint64_t bytes, const struct philox *p)
{
	struct philox rest = *p;
	unsigned char *to = out;

	for (; bytes >= AVX2_BYTES; bytes -= AVX2_BYTES) {
		blocks8(to, p, rest.block);
		to += AVX2_BYTES;
		rest.block += 8;
	}
	philox_fill_ref(to, bytes, &rest);
}

AVX512 static inline void multiply16(__m512i a, __m512i m, __m512i *high, __m512i *low)
{
	__m512i even = _mm512_mul_epu32(a, m);
	__m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), m);

	*low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
	*high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

AVX512 static void blocks16(unsigned char *to, const struct philox *p, uint64_t block)
{
	const __m512i m0 = _mm512_set1_epi32((int)PHILOX_M0);
	const __m512i m1 = _mm512_set1_epi32((int)PHILOX_M1);
	__m512i step = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11,
		15);
	__m512i c0 = _mm512_add_epi32(_mm512_set1_epi32((int)block), step);
	__m512i c1 = _mm512_set1_epi32((int)(block >> 32));
	__m512i c2 = _mm512_set1_epi32((int)p->stream);
	__m512i c3 = _mm512_set1_epi32((int)(p->stream >> 32));
	uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
	__m512i ah, al, bh, bl, t0, t1, t2, t3;

	c1 = _mm512_mask_add_epi32(c1, _mm512_cmplt_epu32_mask(c0, step), c1,
		_mm512_set1_epi32(1));
	for (int i = 0; i < PHILOX_ROUNDS; i++) {
		multiply16(c0, m0, &ah, &al);
		multiply16(c2, m1, &bh, &bl);
		c0 = _mm512_ternarylogic_epi32(bh, c1, _mm512_set1_epi32((int)k0), 0x96);
		c2 = _mm512_ternarylogic_epi32(ah, c3, _mm512_set1_epi32((int)k1), 0x96);
		c1 = bl;
		c3 = al;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	t0 = _mm512_unpacklo_epi32(c0, c1);
	t1 = _mm512_unpackhi_epi32(c0, c1);
	t2 = _mm512_unpacklo_epi32(c2, c3);
	t3 = _mm512_unpackhi_epi32(c2, c3);
	_mm512_storeu_si512(to + 0, _mm512_unpacklo_epi64(t0, t2));
	_mm512_storeu_si512(to + 64, _mm512_unpackhi_epi64(t0, t2));
	_mm512_storeu_si512(to + 128, _mm512_unpacklo_epi64(t1, t3));
	_mm512_storeu_si512(to + 192, _mm512_unpackhi_epi64(t1, t3));
}

AVX512 void philox_fill_avx512(void *out, uint64_t bytes, const struct philox *p)
{
	struct philox rest = *p;
	unsigned char *to = out;

	for (; bytes >= AVX512_BYTES; bytes -= AVX512_BYTES) {
		blocks16(to, p, rest.block);
		to += AVX512_BYTES;
		rest.block += 16;
	}
	philox_fill_avx2(to, bytes, &rest);
}
#endif
