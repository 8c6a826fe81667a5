/* blake2b_x86.c - BLAKE2b of several messages at once, one in each lane of a vector. */
#include "kernels/crypto/blake2b.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512dq")))

/* --- four lanes --------------------------------------------------------------------------- */

AVX2 static inline __m256i rotate_avx2(__m256i a, const int n)
{
	const __m256i by_24 = _mm256_setr_epi8(3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15,
		8, 9, 10, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10);
	const __m256i by_16 = _mm256_setr_epi8(2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14,
		15, 8, 9, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9);

	if (n == 32)
		return _mm256_shuffle_epi32(a, 0xb1);
	if (n == 63)
		return _mm256_or_si256(_mm256_srli_epi64(a, 63), _mm256_add_epi64(a, a));
	return _mm256_shuffle_epi8(a, n == 24 ? by_24 : by_16);
}

/* m[w]: word w of four blocks, transposed from their words 4 at a time */
AVX2 static inline void words_avx2(__m256i *m, const unsigned char *const *at,
	uint64_t from)
{
	for (unsigned w = 0; w < 16; w += 4) {
		__m256i a[4], even[2], odd[2];

		for (unsigned i = 0; i < 4; i++)
			a[i] = _mm256_loadu_si256(
				(const __m256i *)(at[i] + from + 8 * w));
		for (unsigned i = 0; i < 2; i++) {
			even[i] = _mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]);
			odd[i] = _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]);
		}
		m[w] = _mm256_permute2x128_si256(even[0], even[1], 0x20);
		m[w + 1] = _mm256_permute2x128_si256(odd[0], odd[1], 0x20);
		m[w + 2] = _mm256_permute2x128_si256(even[0], even[1], 0x31);
		m[w + 3] = _mm256_permute2x128_si256(odd[0], odd[1], 0x31);
	}
}

/* Returns all ones in the lanes of `bits`. */
AVX2 static inline __m256i lanes_avx2(unsigned bits)
{
	return _mm256_setr_epi64x(-(int64_t)(bits & 1), -(int64_t)(bits >> 1 & 1),
		-(int64_t)(bits >> 2 & 1), -(int64_t)(bits >> 3 & 1));
}

#define ADD(a, b)    _mm256_add_epi64(a, b)
#define XOR(a, b)    _mm256_xor_si256(a, b)
#define ROTATE(a, n) rotate_avx2(a, n)
#include "kernels/crypto/blake2b_rounds.inc"

AVX2 static void blocks_avx2(uint64_t h[8][BLAKE2B_LANES],
	const unsigned char *const at[BLAKE2B_LANES], const uint64_t count[BLAKE2B_LANES],
	uint64_t blocks, unsigned active, unsigned last)
{
	const __m256i live = lanes_avx2(active), end = lanes_avx2(last);
	__m256i total = _mm256_loadu_si256((const __m256i *)count), state[8];

	for (unsigned i = 0; i < 8; i++)
		state[i] = _mm256_loadu_si256((const __m256i *)h[i]);
	for (uint64_t b = 0; b < blocks; b++) {
		__m256i v[16], m[16];

		words_avx2(m, at, b * BLAKE2B_BLOCK);
		for (unsigned i = 0; i < 8; i++) {
			v[i] = state[i];
			v[8 + i] = _mm256_set1_epi64x((int64_t)blake2b_start[i]);
		}
		v[12] = XOR(v[12], total);
		v[14] = XOR(v[14], end);
		ROUNDS(ROUND)
		for (unsigned i = 0; i < 8; i++)
			state[i] = XOR(state[i],
				_mm256_and_si256(live, XOR(v[i], v[8 + i])));
		total = ADD(total, _mm256_set1_epi64x(BLAKE2B_BLOCK));
	}
	for (unsigned i = 0; i < 8; i++)
		_mm256_storeu_si256((__m256i *)h[i], state[i]);
}

#undef ADD
#undef XOR
#undef ROTATE
#undef ROUNDS
#undef ROUND
#undef MIX

/* --- eight lanes -------------------------------------------------------------------------- */

/* m[w]: word w of eight blocks, transposed from their words 8 at a time */
AVX512 static inline void words_avx512(__m512i *m, const unsigned char *const *at,
	uint64_t from)
{
	for (unsigned w = 0; w < 16; w += 8) {
		__m512i a[8], pair[8], four[8];

		for (unsigned i = 0; i < 8; i++)
			a[i] = _mm512_loadu_si512(at[i] + from + 8 * w);
		for (unsigned i = 0; i < 8; i += 2) {
			pair[i] = _mm512_unpacklo_epi64(a[i], a[i + 1]);
			pair[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 1]);
		}
		/* pair[2i + odd]: of lanes 2i and 2i + 1 the words odd, odd + 2, odd + 4, odd +
		 * 6 */
		for (unsigned odd = 0; odd < 2; odd++)
			for (unsigned i = 0; i < 2; i++) {
				__m512i low = pair[4 * i + odd],
					high = pair[4 * i + 2 + odd];

				four[4 * odd + 2 * i] = _mm512_shuffle_i64x2(low, high,
					0x88);
				four[4 * odd + 2 * i + 1] = _mm512_shuffle_i64x2(low,
					high, 0xdd);
			}
		for (unsigned odd = 0; odd < 2; odd++) {
			const __m512i *f = four + 4 * odd;

			m[w + odd] = _mm512_shuffle_i64x2(f[0], f[2], 0x88);
			m[w + odd + 4] = _mm512_shuffle_i64x2(f[0], f[2], 0xdd);
			m[w + odd + 2] = _mm512_shuffle_i64x2(f[1], f[3], 0x88);
			m[w + odd + 6] = _mm512_shuffle_i64x2(f[1], f[3], 0xdd);
		}
	}
}

#define ADD(a, b)    _mm512_add_epi64(a, b)
#define XOR(a, b)    _mm512_xor_si512(a, b)
#define ROTATE(a, n) _mm512_ror_epi64(a, n)
#include "kernels/crypto/blake2b_rounds.inc"

AVX512 static void blocks_avx512(uint64_t h[8][BLAKE2B_LANES],
	const unsigned char *const at[BLAKE2B_LANES], const uint64_t count[BLAKE2B_LANES],
	uint64_t blocks, unsigned active, unsigned last)
{
	const __mmask8 live = (__mmask8)active;
	const __m512i end = _mm512_movm_epi64((__mmask8)last);
	__m512i total = _mm512_loadu_si512(count), state[8];

	for (unsigned i = 0; i < 8; i++)
		state[i] = _mm512_loadu_si512(h[i]);
	for (uint64_t b = 0; b < blocks; b++) {
		__m512i v[16], m[16];

		words_avx512(m, at, b * BLAKE2B_BLOCK);
		for (unsigned i = 0; i < 8; i++) {
			v[i] = state[i];
			v[8 + i] = _mm512_set1_epi64((int64_t)blake2b_start[i]);
		}
		v[12] = XOR(v[12], total);
		v[14] = XOR(v[14], end);
		ROUNDS(ROUND)
		for (unsigned i = 0; i < 8; i++)
			state[i] = _mm512_mask_xor_epi64(state[i], live, state[i],
				XOR(v[i], v[8 + i]));
		total = ADD(total, _mm512_set1_epi64(BLAKE2B_BLOCK));
	}
	for (unsigned i = 0; i < 8; i++)
		_mm512_storeu_si512(h[i], state[i]);
}

blake2b_blocks_fn blake2b_x86(enum cpu_level level, unsigned *lanes)
{
	*lanes = level >= CPU_AVX512 ? 8 : 4;
	return level >= CPU_AVX512 ? blocks_avx512 :
		level >= CPU_AVX2  ? blocks_avx2 :
				     NULL;
}
#endif
