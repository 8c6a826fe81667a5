/* sha256_chain_x86.c - chains with AVX-512 and the SHA extensions.
 *
 * AVX-512 runs 16 lanes, one in each 32-bit element; the SHA extensions run one, or four
 * interleaved, because a single lane waits for the latency of its rounds. */
#include "kernels/crypto/sha256_chain.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_x86.h"

/* --- SHA extensions ---------------------------------------------------------------------- */

SHANI INLINE struct sha256_halves halves_of(__m128i abcd, __m128i efgh)
{
	__m128i cdab = _mm_shuffle_epi32(abcd, 0xb1);
	__m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);

	return (struct sha256_halves){ _mm_alignr_epi8(cdab, hgfe, 8),
		_mm_blend_epi16(hgfe, cdab, 0xf0) };
}

SHANI INLINE void step_shani(__m128i *abcd, __m128i *efgh, int lanes)
{
	const struct sha256_halves start =
		halves_of(_mm_loadu_si128((const __m128i *)sha256_start),
			_mm_loadu_si128((const __m128i *)(sha256_start + 4)));
	struct sha256_halves s[4];
	__m128i w[4][4];

	for (int l = 0; l < lanes; l++) {
		s[l] = start;
		w[l][0] = abcd[l], w[l][1] = efgh[l];
		w[l][2] = _mm_setr_epi32((int)0x80000000, 0, 0, 0);
		w[l][3] = _mm_setr_epi32(0, 0, 0, 256);
	}
	sha256_rounds_shani(s, w, lanes);
	for (int l = 0; l < lanes; l++) {
		__m128i abef = _mm_add_epi32(s[l].abef, start.abef);
		__m128i cdgh = _mm_add_epi32(s[l].cdgh, start.cdgh);
		__m128i feba = _mm_shuffle_epi32(abef, 0x1b);
		__m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);

		abcd[l] = _mm_blend_epi16(feba, dchg, 0xf0);
		efgh[l] = _mm_alignr_epi8(dchg, feba, 8);
	}
}

SHANI INLINE void run_shani(unsigned char *states, uint64_t steps, int lanes)
{
	const __m128i swap = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14,
		13, 12);
	__m128i abcd[4], efgh[4], *p = (__m128i *)states;

	for (int l = 0; l < lanes; l++) {
		abcd[l] = _mm_shuffle_epi8(_mm_loadu_si128(p + 2 * l), swap);
		efgh[l] = _mm_shuffle_epi8(_mm_loadu_si128(p + 2 * l + 1), swap);
	}
	while (steps--)
		step_shani(abcd, efgh, lanes);
	for (int l = 0; l < lanes; l++) {
		_mm_storeu_si128(p + 2 * l, _mm_shuffle_epi8(abcd[l], swap));
		_mm_storeu_si128(p + 2 * l + 1, _mm_shuffle_epi8(efgh[l], swap));
	}
}

SHANI void sha256_chain_shani(unsigned char *states, uint64_t count, uint64_t steps)
{
	for (; count >= 4; count -= 4, states += 4 * SHA256_BYTES)
		run_shani(states, steps, 4);
	for (; count; count--, states += SHA256_BYTES)
		run_shani(states, steps, 1);
}

/* --- AVX-512 ----------------------------------------------------------------------------- */

AVX512 INLINE void step16(__m512i h[8])
{
	__m512i w[16], s[8];

	for (int i = 0; i < 8; i++) {
		w[i] = h[i];
		w[8 + i] = _mm512_setzero_si512();
		s[i] = _mm512_set1_epi32((int)sha256_start[i]);
	}
	w[8] = _mm512_set1_epi32((int)0x80000000);
	w[15] = _mm512_set1_epi32(256);
	sha256_rounds16(s, w);
	for (int i = 0; i < 8; i++)
		h[i] = ADD(s[i], _mm512_set1_epi32((int)sha256_start[i]));
}

AVX512 static void run16(unsigned char *states, uint64_t n, uint64_t steps)
{
	uint32_t words[8][16] = { 0 };
	__m512i h[8];

	for (uint64_t l = 0; l < n; l++)
		for (int i = 0; i < 8; i++) {
			memcpy(&words[i][l], states + SHA256_BYTES * l + 4 * i, 4);
			words[i][l] = __builtin_bswap32(words[i][l]);
		}
	for (int i = 0; i < 8; i++)
		h[i] = _mm512_loadu_si512(words[i]);
	while (steps--)
		step16(h);
	for (int i = 0; i < 8; i++)
		_mm512_storeu_si512(words[i], h[i]);
	for (uint64_t l = 0; l < n; l++)
		for (int i = 0; i < 8; i++) {
			uint32_t v = __builtin_bswap32(words[i][l]);

			memcpy(states + SHA256_BYTES * l + 4 * i, &v, 4);
		}
}

AVX512 void sha256_chain_avx512(unsigned char *states, uint64_t count, uint64_t steps)
{
	bool sha = cpu_features(CPU_AVX512).sha;

	while (count) {
		uint64_t n = count < 16 ? count : 16;

		if (sha && n < 8)
			sha256_chain_shani(states, n, steps);
		else if (n == 1)
			sha256_chain_ref(states, n, steps);
		else
			run16(states, n, steps);
		count -= n;
		states += SHA256_BYTES * n;
	}
}

sha256_chain_fn sha256_chain_fast(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	if (level == CPU_AVX512)
		return sha256_chain_avx512;
	return cpu_features(level).sha ? sha256_chain_shani : sha256_chain_ref;
}

const char *sha256_chain_name(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	return cpu_features(level).sha ? "sha_ni" : "reference";
}
#endif
