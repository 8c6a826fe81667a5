/* memfill_x86.c - the fill for AVX2 and AVX-512. Rows of the 16 x 16 matrix are vectors, so V
 * is ChaCha on whole vectors, and T transposes them; AVX2 does the same on two halves. Lanes of
 * memory are filled four at a time, so that the reads of finished slices, which miss every
 * cache, overlap; those of the next block are prefetched. X is built in the memory of the
 * block. */
#include "kernels/poc/memfill.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <stddef.h>

#include "kernels/dev/cpu.h"
#include "kernels/crypto/transpose_x86.h"

#define INLINE static inline __attribute__((always_inline))
#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))

#define TOGETHER 4

static const uint32_t zeros[MEMFILL_WORDS];

/* The four steps of ChaCha's quarter round for rows a b c d of x. */
#define QUARTER(ADD, XOR, ROL, x, a, b, c, d)                                        \
	do {                                                                         \
		(x)[a] = ADD((x)[a], (x)[b]), (x)[d] = ROL(XOR((x)[d], (x)[a]), 16); \
		(x)[c] = ADD((x)[c], (x)[d]), (x)[b] = ROL(XOR((x)[b], (x)[c]), 12); \
		(x)[a] = ADD((x)[a], (x)[b]), (x)[d] = ROL(XOR((x)[d], (x)[a]), 8);  \
		(x)[c] = ADD((x)[c], (x)[d]), (x)[b] = ROL(XOR((x)[b], (x)[c]), 7);  \
	} while (0)

#define ONE_DOUBLE_ROUND(ADD, XOR, ROL, x)                 \
	do {                                               \
		QUARTER(ADD, XOR, ROL, (x), 0, 4, 8, 12);  \
		QUARTER(ADD, XOR, ROL, (x), 1, 5, 9, 13);  \
		QUARTER(ADD, XOR, ROL, (x), 2, 6, 10, 14); \
		QUARTER(ADD, XOR, ROL, (x), 3, 7, 11, 15); \
		QUARTER(ADD, XOR, ROL, (x), 0, 5, 10, 15); \
		QUARTER(ADD, XOR, ROL, (x), 1, 6, 11, 12); \
		QUARTER(ADD, XOR, ROL, (x), 2, 7, 8, 13);  \
		QUARTER(ADD, XOR, ROL, (x), 3, 4, 9, 14);  \
	} while (0)

#define TWO_DOUBLE_ROUNDS(ADD, XOR, ROL, x)           \
	do {                                          \
		ONE_DOUBLE_ROUND(ADD, XOR, ROL, (x)); \
		ONE_DOUBLE_ROUND(ADD, XOR, ROL, (x)); \
	} while (0)

/* --- AVX-512 ----------------------------------------------------------------------------- */

AVX512 INLINE void block512(uint32_t *out, const uint32_t *prev,
	const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4])
{
	__m512i x[16], s = _mm512_zextsi128_si512(_mm_loadu_si128((const __m128i *)salt));

	for (int i = 0; i < 16; i++) {
		x[i] = _mm512_loadu_si512(prev + 16 * i);
		for (int j = 0; j < MEMFILL_REFS; j++)
			x[i] = _mm512_xor_si512(x[i],
				_mm512_loadu_si512(ref[j] + 16 * i));
		if (i == 0)
			x[0] = _mm512_xor_si512(x[0], s);
		_mm512_storeu_si512(out + 16 * i, x[i]);
	}
	TWO_DOUBLE_ROUNDS(_mm512_add_epi32, _mm512_xor_si512, _mm512_rol_epi32, x);
	transpose16(x);
	TWO_DOUBLE_ROUNDS(_mm512_add_epi32, _mm512_xor_si512, _mm512_rol_epi32, x);
	for (int i = 0; i < 16; i++)
		_mm512_storeu_si512(out + 16 * i,
			_mm512_xor_si512(x[i], _mm512_loadu_si512(out + 16 * i)));
}

/* --- AVX2 -------------------------------------------------------------------------------- */

#define ROL256(v, n) \
	_mm256_or_si256(_mm256_slli_epi32(v, n), _mm256_srli_epi32(v, 32 - (n)))

AVX2 static void block256(uint32_t *out, const uint32_t *prev,
	const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4])
{
	__m256i half[2][16], t[8],
		s = _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)salt));

#define AT(p, i, h) _mm256_loadu_si256((const __m256i *)((p) + 16 * (i) + 8 * (h)))
	for (int h = 0; h < 2; h++) {
		for (int i = 0; i < 16; i++) {
			__m256i v = AT(prev, i, h);

			for (int j = 0; j < MEMFILL_REFS; j++)
				v = _mm256_xor_si256(v, AT(ref[j], i, h));
			if (h == 0 && i == 0)
				v = _mm256_xor_si256(v, s);
			_mm256_storeu_si256((__m256i *)(out + 16 * i + 8 * h), v);
			half[h][i] = v;
		}
		TWO_DOUBLE_ROUNDS(_mm256_add_epi32, _mm256_xor_si256, ROL256, half[h]);
	}
	/* four squares of 8 x 8; those off the diagonal are exchanged */
	for (int i = 0; i < 8; i++)
		t[i] = half[1][i], half[1][i] = half[0][8 + i], half[0][8 + i] = t[i];
	for (int h = 0; h < 2; h++) {
		transpose8(half[h]);
		transpose8(half[h] + 8);
	}
	for (int h = 0; h < 2; h++) {
		TWO_DOUBLE_ROUNDS(_mm256_add_epi32, _mm256_xor_si256, ROL256, half[h]);
		for (int i = 0; i < 16; i++) {
			__m256i v = _mm256_xor_si256(half[h][i], AT(out, i, h));

			_mm256_storeu_si256((__m256i *)(out + 16 * i + 8 * h), v);
		}
	}
#undef AT
}

/* --- lanes ------------------------------------------------------------------------------- */

struct next {
	const uint32_t *prev, *ref[MEMFILL_REFS];
	uint32_t *out;
	uint32_t salt[4];
};

/* Computes the addresses of block i of a lane and of its parents, and prefetches the parents. */
INLINE void find(struct next *to, const struct memfill *m, uint64_t lane, uint64_t i)
{
	uint64_t slice = m->step % MEMFILL_SLICES;
	struct memfill_ref from;

	to->out = m->blocks + MEMFILL_WORDS * memfill_index(m, lane, slice, i);
	memfill_salt(to->salt, m, lane, i);
	for (int j = 0; j < MEMFILL_REFS; j++) {
		to->ref[j] = zeros;
		if (!memfill_ref_of(&from, m, to->salt, j))
			continue;
		to->ref[j] = m->blocks +
			MEMFILL_WORDS * memfill_index(m, from.lane, from.slice, from.i);
		for (int k = 0; k < MEMFILL_WORDS; k += 16)
			_mm_prefetch((const char *)(to->ref[j] + k), _MM_HINT_T0);
	}
}

INLINE const uint32_t *before(const struct memfill *m, uint64_t lane)
{
	uint64_t slice = m->step % MEMFILL_SLICES;

	if (!m->step)
		return zeros;
	return m->blocks +
		MEMFILL_WORDS *
		memfill_index(m, lane, (slice + 3) % MEMFILL_SLICES, m->per_slice - 1);
}

#define DEFINE_LANES(NAME, ISA, BLOCK)                                              \
	ISA void NAME(const struct memfill *m, uint64_t from, uint64_t to)          \
	{                                                                           \
		struct next now[TOGETHER], then[TOGETHER];                          \
		for (uint64_t lane = from; lane < to; lane += TOGETHER) {           \
			uint64_t n = to - lane < TOGETHER ? to - lane : TOGETHER;   \
			for (uint64_t l = 0; l < n; l++) {                          \
				find(&now[l], m, lane + l, 0);                      \
				now[l].prev = before(m, lane + l);                  \
			}                                                           \
			for (uint64_t i = 0; i < m->per_slice; i++)                 \
				for (uint64_t l = 0; l < n; l++) {                  \
					if (i + 1 < m->per_slice)                   \
						find(&then[l], m, lane + l, i + 1); \
					BLOCK(now[l].out, now[l].prev, now[l].ref,  \
						now[l].salt);                       \
					then[l].prev = now[l].out;                  \
					now[l] = then[l];                           \
				}                                                   \
		}                                                                   \
	}

DEFINE_LANES(memfill_avx512, AVX512, block512)
DEFINE_LANES(memfill_avx2, AVX2, block256)

memfill_fn memfill_fast(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	if (level == CPU_AVX512)
		return memfill_avx512;
	return level == CPU_AVX2 ? memfill_avx2 : memfill_ref;
}

#define DEFINE_BLOCK(NAME, ISA, BLOCK)                                           \
	ISA static void NAME(uint32_t out[MEMFILL_WORDS], const uint32_t *prev,  \
		const uint32_t *const ref[MEMFILL_REFS], const uint32_t salt[4]) \
	{                                                                        \
		const uint32_t *there[MEMFILL_REFS];                             \
		for (int j = 0; j < MEMFILL_REFS; j++)                           \
			there[j] = ref[j] ? ref[j] : zeros;                      \
		BLOCK(out, prev ? prev : zeros, there, salt);                    \
	}

DEFINE_BLOCK(one_block512, AVX512, block512)
DEFINE_BLOCK(one_block256, AVX2, block256)

memfill_block_fn memfill_block_fast(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	if (level == CPU_AVX512)
		return one_block512;
	return level == CPU_AVX2 ? one_block256 : memfill_block;
}
#endif
