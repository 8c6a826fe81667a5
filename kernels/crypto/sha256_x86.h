/* sha256_x86.h - the rounds of SHA-256 on vectors: 16 messages with AVX-512, a few interleaved
 * with the SHA extensions. Private to *_x86.c. */
#ifndef RNP_KERNELS_CRYPTO_SHA256_X86_H
#define RNP_KERNELS_CRYPTO_SHA256_X86_H

#include <immintrin.h>
#include <string.h>

#include "kernels/crypto/sha256_rows.h"

#define SHANI  __attribute__((target("sha,sse4.1,avx2")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))
#define INLINE static inline __attribute__((always_inline))

#define XOR3(a, b, c)     _mm512_ternarylogic_epi32(a, b, c, 0x96)
#define CHOICE(e, f, g)   _mm512_ternarylogic_epi32(e, f, g, 0xca)
#define MAJORITY(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xe8)
#define ADD(a, b)         _mm512_add_epi32(a, b)
#define ROTATE(x, n)      _mm512_ror_epi32(x, n)

/* Round t with its word, 16 lanes: the variables' names rotate instead of their values. */
AVX512 INLINE void sha256_round16(__m512i s[8], int t, __m512i w)
{
	__m512i a = s[-t & 7], b = s[(1 - t) & 7], c = s[(2 - t) & 7], e = s[(4 - t) & 7];
	__m512i f = s[(5 - t) & 7], g = s[(6 - t) & 7], one, two;

	one = ADD(s[(7 - t) & 7], ADD(w, _mm512_set1_epi32((int)sha256_constants[t])));
	one = ADD(one, CHOICE(e, f, g));
	one = ADD(one, XOR3(ROTATE(e, 6), ROTATE(e, 11), ROTATE(e, 25)));
	two = XOR3(ROTATE(a, 2), ROTATE(a, 13), ROTATE(a, 22));
	two = ADD(two, MAJORITY(a, b, c));
	s[(3 - t) & 7] = ADD(s[(3 - t) & 7], one);
	s[(7 - t) & 7] = ADD(one, two);
}

/* Does all rounds of a block whose words are w[0..15], which are overwritten; the caller adds s
 * to the former state. */
AVX512 INLINE void sha256_rounds16(__m512i s[8], __m512i w[16])
{
#pragma GCC unroll 64
	for (int t = 0; t < 64; t++) {
		if (t >= 16) {
			__m512i w15 = w[(t + 1) & 15], w2 = w[(t + 14) & 15];
			__m512i s0 = XOR3(ROTATE(w15, 7), ROTATE(w15, 18),
				_mm512_srli_epi32(w15, 3));
			__m512i s1 = XOR3(ROTATE(w2, 17), ROTATE(w2, 19),
				_mm512_srli_epi32(w2, 10));

			w[t & 15] = ADD(ADD(w[t & 15], s0), ADD(w[(t + 9) & 15], s1));
		}
		sha256_round16(s, t, w[t & 15]);
	}
}

/* Loads a state in the order that the instructions use. */
struct sha256_halves {
	__m128i abef, cdgh;
};

/* The same for n messages (a constant, at most 4) with the words of message l in w[l]: a single
 * message would wait for the latency of its rounds. */
SHANI INLINE void sha256_rounds_shani(struct sha256_halves *s, __m128i w[][4], int n)
{
#pragma GCC unroll 16
	for (int q = 0; q < 16; q++) {
		__m128i k = _mm_loadu_si128((const __m128i *)(sha256_constants + 4 * q));

		for (int l = 0; l < n; l++) {
			__m128i x = _mm_add_epi32(w[l][q & 3], k), t;

			s[l].cdgh = _mm_sha256rnds2_epu32(s[l].cdgh, s[l].abef, x);
			s[l].abef = _mm_sha256rnds2_epu32(s[l].abef, s[l].cdgh,
				_mm_shuffle_epi32(x, 0x0e));
			if (q >= 12)
				continue;
			/* words 4 q + 16 .. 4 q + 19 replace 4 q .. */
			t = _mm_alignr_epi8(w[l][(q + 3) & 3], w[l][(q + 2) & 3], 4);
			x = _mm_sha256msg1_epu32(w[l][q & 3], w[l][(q + 1) & 3]);
			w[l][q & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(x, t),
				w[l][(q + 3) & 3]);
		}
	}
}

SHANI INLINE struct sha256_halves sha256_start_shani(void)
{
	const uint32_t *h = sha256_start;

	return (struct sha256_halves){ _mm_setr_epi32((int)h[5], (int)h[4], (int)h[1],
					       (int)h[0]),
		_mm_setr_epi32((int)h[7], (int)h[6], (int)h[3], (int)h[2]) };
}

/* Hashes a block of 64 bytes of each of n messages, a constant, at most 2. */
SHANI INLINE void sha256_compress_shani(struct sha256_halves *s,
	const unsigned char *const *from, int n)
{
	const __m128i swap = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14,
		13, 12);
	__m128i w[2][4];
	struct sha256_halves old[2];

	for (int r = 0; r < n; r++) {
		old[r] = s[r];
		for (int q = 0; q < 4; q++)
			w[r][q] = _mm_shuffle_epi8(_mm_loadu_si128(
							   (const __m128i *)(from[r] +
								   16 * q)),
				swap);
	}
	sha256_rounds_shani(s, w, n);
	for (int r = 0; r < n; r++) {
		s[r].abef = _mm_add_epi32(s[r].abef, old[r].abef);
		s[r].cdgh = _mm_add_epi32(s[r].cdgh, old[r].cdgh);
	}
}

SHANI INLINE void sha256_digest_shani(unsigned char *out, const struct sha256_halves *s)
{
	uint32_t abef[4], cdgh[4], words[8];

	_mm_storeu_si128((__m128i *)abef, s->abef);
	_mm_storeu_si128((__m128i *)cdgh, s->cdgh);
	words[0] = abef[3], words[1] = abef[2], words[4] = abef[1], words[5] = abef[0];
	words[2] = cdgh[3], words[3] = cdgh[2], words[6] = cdgh[1], words[7] = cdgh[0];
	for (int k = 0; k < 8; k++) {
		words[k] = __builtin_bswap32(words[k]);
		memcpy(out + 4 * k, &words[k], 4);
	}
}

#endif
