/* lanes_x86.h - moves words between rows and the lanes of AVX-512 vectors. Uses the compiler's
 * intrinsics. */
#ifndef RNP_KERNELS_CRYPTO_LANES_X86_H
#define RNP_KERNELS_CRYPTO_LANES_X86_H

#ifdef __x86_64__
#include <immintrin.h>

#include "kernels/crypto/field_ifma.h"

/* Transposes 8 x 8 words in place. */
IFMA_INLINE void lanes_transpose(__m512i m[8])
{
	__m512i pair[8], four[8];

	/* pair[2i + odd]: of rows 2i and 2i + 1 the columns odd, odd + 2, odd + 4, odd + 6 */
#pragma GCC unroll 4
	for (int i = 0; i < 8; i += 2) {
		pair[i] = _mm512_unpacklo_epi64(m[i], m[i + 1]);
		pair[i + 1] = _mm512_unpackhi_epi64(m[i], m[i + 1]);
	}
#pragma GCC unroll 2
	for (int odd = 0; odd < 2; odd++) {
		__m512i *f = four + 4 * odd;

#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			__m512i a = pair[4 * i + odd], b = pair[4 * i + 2 + odd];

			f[2 * i] = _mm512_shuffle_i64x2(a, b, 0x88);
			f[2 * i + 1] = _mm512_shuffle_i64x2(a, b, 0xdd);
		}
		m[odd] = _mm512_shuffle_i64x2(f[0], f[2], 0x88);
		m[odd + 4] = _mm512_shuffle_i64x2(f[0], f[2], 0xdd);
		m[odd + 2] = _mm512_shuffle_i64x2(f[1], f[3], 0x88);
		m[odd + 6] = _mm512_shuffle_i64x2(f[1], f[3], 0xdd);
	}
}

#endif
#endif
