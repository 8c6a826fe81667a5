/* sha256_rows_x86.c - SHA-256 of many rows. AVX2 and AVX-512 hash 8 and 16 rows at a time, one
 * row in each lane; the SHA extensions two rows at a time, because a single one waits for the
 * latency of its rounds. AVX-512 is the fastest. */
#include "kernels/crypto/sha256_rows.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_x86.h"
#include "kernels/crypto/transpose_x86.h"

#define AVX2 __attribute__((target("avx2")))

#define LANES_MAX 16

/* Copies the bytes of a part of the message that are inside a block. The block begins at byte `at`
 * of the message, the part at byte `start`. */
static void put_part(unsigned char buffer[64], uint64_t at, uint64_t start,
	const void *part, uint64_t part_bytes)
{
	uint64_t from = start < at ? at - start : 0, to = at + 64 - start;

	if (start >= at + 64 || from >= part_bytes)
		return;
	if (to > part_bytes)
		to = part_bytes;
	memcpy(buffer + (start + from - at), (const unsigned char *)part + from,
		to - from);
}

/* Returns the 64 bytes of a block: in place in the row, or assembled in `buffer`. Part by part:
 * byte by byte, it took as long as hashing a short row. */
static const unsigned char *block_of(const struct sha256_rows *in, uint64_t i,
	uint64_t block, unsigned char buffer[64])
{
	static const unsigned char one = 0x80;
	const unsigned char *p = sha256_rows_inside(in, i, block);
	uint64_t at = block * 64, head = in->prefix_bytes + in->index_bytes;
	uint64_t bytes = sha256_rows_message_bytes(in);
	uint64_t index = in->first + i, bits = __builtin_bswap64(bytes * 8);

	if (p)
		return p;
	memset(buffer, 0, 64);
	put_part(buffer, at, 0, in->prefix, in->prefix_bytes);
	put_part(buffer, at, in->prefix_bytes, &index, in->index_bytes);
	if (in->row_bytes)
		put_part(buffer, at, head,
			(const unsigned char *)in->rows + i * in->stride_bytes,
			in->row_bytes);
	put_part(buffer, at, bytes, &one, 1);
	put_part(buffer, at, sha256_rows_blocks(in) * 64 - 8, &bits, sizeof bits);
	return buffer;
}

/* --- AVX-512: 16 lanes ------------------------------------------------------------------- */

/* Puts word t of the 16 lanes into w[t], from 64 bytes of each lane. */
AVX512 static void load16(__m512i w[16], const unsigned char *const from[16])
{
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));

	for (int i = 0; i < 16; i++)
		w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(from[i]), swap);
	transpose16(w);
}

AVX512 static void compress16(__m512i state[8], const unsigned char *const from[16])
{
	__m512i w[16], s[8];

	load16(w, from);
	memcpy(s, state, sizeof s);
	sha256_rounds16(s, w);
	for (int k = 0; k < 8; k++)
		state[k] = ADD(state[k], s[k]);
}

/* Hashes rows i .. i + n - 1 with n <= 16; lanes beyond n repeat the last row. */
AVX512 static void rows16(unsigned char *out, const struct sha256_rows *in, uint64_t i,
	uint64_t n)
{
	unsigned char buffer[LANES_MAX][64];
	const unsigned char *from[LANES_MAX];
	uint64_t blocks = sha256_rows_blocks(in);
	uint32_t words[8][16];
	__m512i state[8];

	for (int k = 0; k < 8; k++)
		state[k] = _mm512_set1_epi32((int)sha256_start[k]);
	for (uint64_t b = 0; b < blocks; b++) {
		for (uint64_t l = 0; l < 16; l++)
			from[l] = l < n ? block_of(in, i + l, b, buffer[l]) : from[n - 1];
		compress16(state, from);
	}
	for (int k = 0; k < 8; k++)
		_mm512_storeu_si512(words[k], state[k]);
	for (uint64_t l = 0; l < n; l++)
		for (int k = 0; k < 8; k++) {
			uint32_t v = __builtin_bswap32(words[k][l]);

			memcpy(out + SHA256_BYTES * (i + l) + 4 * k, &v, 4);
		}
}

void sha256_rows_avx512(unsigned char *out, const struct sha256_rows *in)
{
	bool sha = cpu_features(CPU_AVX2).sha;

	for (uint64_t i = 0; i < in->count; i += 16) {
		uint64_t n = in->count - i < 16 ? in->count - i : 16;

		if (sha && n < 6) {
			struct sha256_rows rest = *in;

			rest.rows = (const char *)in->rows + i * in->stride_bytes;
			rest.first += i;
			rest.count = n;
			sha256_rows_shani(out + SHA256_BYTES * i, &rest);
		} else {
			rows16(out, in, i, n);
		}
	}
}

/* --- AVX2: 8 lanes ----------------------------------------------------------------------- */

typedef uint32_t v8 __attribute__((vector_size(32)));

#define ROTATE8(x, n) ((x) >> (n) | (x) << (32 - (n)))

AVX2 static void load8(v8 w[16], const unsigned char *const from[8], int half)
{
	const __m256i swap = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
	__m256i x[8];

	for (int i = 0; i < 8; i++)
		x[i] = _mm256_shuffle_epi8(_mm256_loadu_si256((
						   const __m256i *)(from[i] + 32 * half)),
			swap);
	transpose8(x);
	for (int i = 0; i < 8; i++)
		w[8 * half + i] = (v8)x[i];
}

AVX2 static void compress8(v8 state[8], const unsigned char *const from[8])
{
	v8 w[16], s[8];

	load8(w, from, 0);
	load8(w, from, 1);
	memcpy(s, state, sizeof s);
#pragma GCC unroll 8
	for (int t = 0; t < 64; t++) {
		v8 a = s[0], b = s[1], c = s[2], e = s[4], f = s[5], g = s[6], one, two;

		if (t >= 16) {
			v8 w15 = w[(t + 1) & 15], w2 = w[(t + 14) & 15];

			w[t & 15] += (ROTATE8(w15, 7) ^ ROTATE8(w15, 18) ^ w15 >> 3) +
				w[(t + 9) & 15] +
				(ROTATE8(w2, 17) ^ ROTATE8(w2, 19) ^ w2 >> 10);
		}
		one = s[7] + (ROTATE8(e, 6) ^ ROTATE8(e, 11) ^ ROTATE8(e, 25)) +
			(g ^ (e & (f ^ g))) + sha256_constants[t] + w[t & 15];
		two = (ROTATE8(a, 2) ^ ROTATE8(a, 13) ^ ROTATE8(a, 22)) +
			((a & b) | (c & (a | b)));
		s[7] = g, s[6] = f, s[5] = e, s[4] = s[3] + one;
		s[3] = c, s[2] = b, s[1] = a, s[0] = one + two;
	}
	for (int k = 0; k < 8; k++)
		state[k] += s[k];
}

AVX2 void sha256_rows_avx2(unsigned char *out, const struct sha256_rows *in)
{
	unsigned char buffer[8][64];
	const unsigned char *from[8];
	uint64_t blocks = sha256_rows_blocks(in);

	for (uint64_t i = 0; i < in->count; i += 8) {
		uint64_t n = in->count - i < 8 ? in->count - i : 8;
		v8 state[8];

		for (int k = 0; k < 8; k++)
			state[k] = (v8)_mm256_set1_epi32((int)sha256_start[k]);
		for (uint64_t b = 0; b < blocks; b++) {
			for (uint64_t l = 0; l < 8; l++)
				from[l] = l < n ? block_of(in, i + l, b, buffer[l]) :
						  from[n - 1];
			compress8(state, from);
		}
		for (uint64_t l = 0; l < n; l++)
			for (int k = 0; k < 8; k++) {
				uint32_t v = __builtin_bswap32(state[k][l]);

				memcpy(out + SHA256_BYTES * (i + l) + 4 * k, &v, 4);
			}
	}
}

/* --- SHA extensions: 2 rows -------------------------------------------------------------- */

/* Hashes n rows, a constant; the compiler unrolls. */
SHANI INLINE void rows_shani(unsigned char *out, const struct sha256_rows *in, uint64_t i,
	int n)
{
	uint64_t blocks = sha256_rows_blocks(in);
	unsigned char buffer[2][64];
	const unsigned char *from[2];
	struct sha256_halves s[2];

	for (int r = 0; r < n; r++)
		s[r] = sha256_start_shani();
	for (uint64_t b = 0; b < blocks; b++) {
		for (int r = 0; r < n; r++)
			from[r] = block_of(in, i + (uint64_t)r, b, buffer[r]);
		sha256_compress_shani(s, from, n);
	}
	for (int r = 0; r < n; r++)
		sha256_digest_shani(out + SHA256_BYTES * (i + (uint64_t)r), &s[r]);
}

SHANI void sha256_rows_shani(unsigned char *out, const struct sha256_rows *in)
{
	uint64_t i = 0;

	for (; i + 2 <= in->count; i += 2)
		rows_shani(out, in, i, 2);
	if (i < in->count)
		rows_shani(out, in, i, 1);
}
#endif
