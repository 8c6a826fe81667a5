#include "kernels/poc/hashchain.h"

#include "kernels/dev/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* The state as the instructions want it: words ABEF and CDGH, high to low. */
struct halves {
	__m128i abef, cdgh;
};

#define TARGET __attribute__((target("sha,sse4.1,ssse3")))

TARGET static inline struct halves pack(__m128i abcd, __m128i efgh)
{
	__m128i cdab = _mm_shuffle_epi32(abcd, 0xb1),
		hgfe = _mm_shuffle_epi32(efgh, 0x1b);

	return (struct halves){ _mm_alignr_epi8(cdab, hgfe, 8),
		_mm_blend_epi16(hgfe, cdab, 0xf0) };
}

TARGET static inline void unpack(struct halves s, __m128i *abcd, __m128i *efgh)
{
	__m128i feba = _mm_shuffle_epi32(s.abef, 0x1b),
		dchg = _mm_shuffle_epi32(s.cdgh, 0xb1);

	*abcd = _mm_blend_epi16(feba, dchg, 0xf0);
	*efgh = _mm_alignr_epi8(dchg, feba, 8);
}

/* four rounds with message words w + constants */
TARGET static inline void rounds(struct halves *s, __m128i w, int at)
{
	__m128i wk = _mm_add_epi32(w,
		_mm_load_si128((const __m128i *)(hashchain_k + at)));

	s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, wk);
	s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

/* the next four message words from the last sixteen */
TARGET static inline __m128i schedule(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
	__m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1),
		_mm_alignr_epi8(w3, w2, 4));

	return _mm_sha256msg2_epu32(sum, w3);
}

TARGET static void run(unsigned char state[32], uint64_t steps)
{
	const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1,
		2, 3);
	const struct halves start = pack(_mm_loadu_si128(
						 (const __m128i *)hashchain_start),
		_mm_loadu_si128((const __m128i *)(hashchain_start + 4)));
	__m128i a = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)state), swap);
	__m128i b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(state + 16)),
		swap);

	while (steps--) {
		__m128i w0 = a, w1 = b, w2 = _mm_set_epi32(0, 0, 0, (int)0x80000000),
			w3 = _mm_set_epi32(256, 0, 0, 0);
		struct halves s = start;

		rounds(&s, w0, 0);
		rounds(&s, w1, 4);
		rounds(&s, w2, 8);
		rounds(&s, w3, 12);
		for (int at = 16; at < 64; at += 16) {
			w0 = schedule(w0, w1, w2, w3);
			rounds(&s, w0, at);
			w1 = schedule(w1, w2, w3, w0);
			rounds(&s, w1, at + 4);
			w2 = schedule(w2, w3, w0, w1);
			rounds(&s, w2, at + 8);
			w3 = schedule(w3, w0, w1, w2);
			rounds(&s, w3, at + 12);
		}
		s.abef = _mm_add_epi32(s.abef, start.abef);
		s.cdgh = _mm_add_epi32(s.cdgh, start.cdgh);
		unpack(s, &a, &b);
	}
	_mm_storeu_si128((__m128i *)state, _mm_shuffle_epi8(a, swap));
	_mm_storeu_si128((__m128i *)(state + 16), _mm_shuffle_epi8(b, swap));
}

static const struct hashchain sha_ni = { "sha_ni", run };

const struct hashchain *hashchain_fast(void)
{
	enum cpu_level level;

	cpu_level_chosen(&level);
	return cpu_features(level).sha ? &sha_ni : &hashchain_reference;
}

#else

const struct hashchain *hashchain_fast(void)
{
	return &hashchain_reference;
}

#endif
