/* transpose_x86.h - transposes square matrices of 32-bit numbers in registers. Private to
 * *_x86.c. */
#ifndef RNP_KERNELS_CRYPTO_TRANSPOSE_X86_H
#define RNP_KERNELS_CRYPTO_TRANSPOSE_X86_H

#include <immintrin.h>

/* 16 x 16, by four stages of unpacks and shuffles */
__attribute__((target("avx512f"), always_inline)) static inline void transpose16(
	__m512i x[16])
{
	__m512i a[16], b[16];

	for (int i = 0; i < 16; i += 2) {
		b[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
		b[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
	}
	/* a[4 q + c]: in 128-bit lane l the elements 4 l + c of the rows 4 q .. 4 q + 3 */
	for (int q = 0; q < 16; q += 4) {
		a[q] = _mm512_unpacklo_epi64(b[q], b[q + 2]);
		a[q + 1] = _mm512_unpackhi_epi64(b[q], b[q + 2]);
		a[q + 2] = _mm512_unpacklo_epi64(b[q + 1], b[q + 3]);
		a[q + 3] = _mm512_unpackhi_epi64(b[q + 1], b[q + 3]);
	}
	for (int c = 0; c < 4; c++) {
		__m512i low01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0x44);
		__m512i high01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0xee);
		__m512i low23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0x44);
		__m512i high23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0xee);

		x[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
		x[4 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
		x[8 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
		x[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
	}
}

/* 8 x 8 */
__attribute__((target("avx2"), always_inline)) static inline void transpose8(__m256i x[8])
{
	__m256i a[8], b[8];

	for (int i = 0; i < 8; i += 2) {
		b[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
		b[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
	}
	for (int q = 0; q < 8; q += 4) {
		a[q] = _mm256_unpacklo_epi64(b[q], b[q + 2]);
		a[q + 1] = _mm256_unpackhi_epi64(b[q], b[q + 2]);
		a[q + 2] = _mm256_unpacklo_epi64(b[q + 1], b[q + 3]);
		a[q + 3] = _mm256_unpackhi_epi64(b[q + 1], b[q + 3]);
	}
	for (int c = 0; c < 4; c++) {
		x[c] = _mm256_permute2x128_si256(a[c], a[4 + c], 0x20);
		x[4 + c] = _mm256_permute2x128_si256(a[c], a[4 + c], 0x31);
	}
}

#endif
