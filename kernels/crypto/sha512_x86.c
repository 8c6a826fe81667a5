/* sha512_x86.c - SHA-512 (FIPS 180-4) of eight messages of 128 bytes, one in each lane of a
 * vector. */
#include "kernels/crypto/ed25519.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>

#include "kernels/crypto/field_ifma.h"
#include "kernels/crypto/lanes_x86.h"

#define ROUNDS 80

/* clang-format off */
/* The first 64 bits of the fractions of the cube roots of the first 80 primes. */
static const uint64_t k[ROUNDS] = {
	0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
	0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
	0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
	0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
	0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
	0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
	0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
	0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
	0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
	0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
	0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
	0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
	0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
	0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
	0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
	0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
	0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
	0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
	0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
	0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};
static const uint64_t start[8] = {
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};
/* clang-format on */

/* Bits of a ternary operation's table: a ? b : c, the majority, and a ^ b ^ c. */
enum { CHOOSE = 0xca, MAJORITY = 0xe8, PARITY = 0x96 };

#define ADD(a, b)         _mm512_add_epi64(a, b)
#define ROTATE(a, n)      _mm512_ror_epi64(a, n)
#define THREE(a, b, c)    _mm512_ternarylogic_epi64(a, b, c, PARITY)
#define SIGMA(a, l, m, n) THREE(ROTATE(a, l), ROTATE(a, m), ROTATE(a, n))
#define SMALL(a, l, m, n) THREE(ROTATE(a, l), ROTATE(a, m), _mm512_srli_epi64(a, n))

/* One round; kw is the round's constant plus its word of the message. */
IFMA_INLINE void one_round(__m512i s[8], __m512i kw)
{
	__m512i t = ADD(ADD(s[7], kw),
		ADD(SIGMA(s[4], 14, 18, 41),
			_mm512_ternarylogic_epi64(s[4], s[5], s[6], CHOOSE)));
	__m512i u = ADD(SIGMA(s[0], 28, 34, 39),
		_mm512_ternarylogic_epi64(s[0], s[1], s[2], MAJORITY));

	s[7] = s[6];
	s[6] = s[5];
	s[5] = s[4];
	s[4] = ADD(s[3], t);
	s[3] = s[2];
	s[2] = s[1];
	s[1] = s[0];
	s[0] = ADD(t, u);
}

/* What the rounds of the second block add: its padding is the same for every message. */
static uint64_t padding[ROUNDS];

static uint64_t rotate(uint64_t a, int n)
{
	return a >> n | a << (64 - n);
}

static void find_padding(void)
{
	uint64_t w[ROUNDS] = { [0] = UINT64_C(1) << 63, [15] = 128 * 8 };

	for (int i = 16; i < ROUNDS; i++)
		w[i] = w[i - 16] + w[i - 7] +
			(rotate(w[i - 15], 1) ^ rotate(w[i - 15], 8) ^ w[i - 15] >> 7) +
			(rotate(w[i - 2], 19) ^ rotate(w[i - 2], 61) ^ w[i - 2] >> 6);
	for (int i = 0; i < ROUNDS; i++)
		padding[i] = w[i] + k[i];
}

/* The bytes of each word in the opposite order. */
IFMA_INLINE __m512i swap_bytes(__m512i a)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));

	return _mm512_shuffle_epi8(a, order);
}

IFMA void sha512_eight(unsigned char out[8][64], const unsigned char in[8][128])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	__m512i w[16], s[8], before[8];

	pthread_once(&once, find_padding);
	for (int half = 0; half < 2; half++) {
		for (int i = 0; i < 8; i++)
			w[8 * half + i] = swap_bytes(
				_mm512_loadu_si512(in[i] + (size_t)64 * (size_t)half));
		lanes_transpose(w + 8 * half);
	}
	for (int i = 0; i < 8; i++)
		before[i] = s[i] = _mm512_set1_epi64((int64_t)start[i]);
	for (int at = 0; at < ROUNDS; at += 16) {
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			one_round(s, ADD(w[i], _mm512_set1_epi64((int64_t)k[at + i])));
			w[i] = ADD(ADD(w[i], w[(i + 9) & 15]),
				ADD(SMALL(w[(i + 1) & 15], 1, 8, 7),
					SMALL(w[(i + 14) & 15], 19, 61, 6)));
		}
	}
	for (int i = 0; i < 8; i++)
		before[i] = s[i] = ADD(before[i], s[i]);
	for (int at = 0; at < ROUNDS; at += 8) {
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			one_round(s, _mm512_set1_epi64((int64_t)padding[at + i]));
	}
	for (int i = 0; i < 8; i++)
		s[i] = swap_bytes(ADD(before[i], s[i]));
	lanes_transpose(s);
	for (int i = 0; i < 8; i++)
		_mm512_storeu_si512(out[i], s[i]);
}
#endif
