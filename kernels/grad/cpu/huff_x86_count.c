/* huff_x86_count.c - counts symbols. */
#include "kernels/grad/cpu/huff_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

/* A core stores one word a cycle, so counting in tables takes a cycle a symbol. There are eight
 * tables, because a count just stored cannot be loaded again at once. */
#define TABLES 8

static inline __attribute__((always_inline)) void count_word(uint32_t table[TABLES][256],
	uint64_t a)
{
#pragma GCC unroll 8
	for (unsigned t = 0; t < TABLES; t++)
		table[t][a >> 8 * t & 255]++;
}

BMI2 static inline void sum_tables(uint32_t counts[256], uint32_t table[TABLES][256])
{
#pragma omp simd
	for (unsigned v = 0; v < 256; v++)
		counts[v] = table[0][v] + table[1][v] + table[2][v] + table[3][v] +
			table[4][v] + table[5][v] + table[6][v] + table[7][v];
}

BMI2 void huff_count_bmi2(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	uint32_t table[TABLES][256];
	uint64_t i = 0;

	memset(table, 0, sizeof table);
	for (; i + 8 <= n; i += 8)
		count_word(table, load64(in + i));
	for (; i < n; i++)
		table[0][in[i]]++;
	sum_tables(counts, table);
	if (!shift)
		return;
	for (unsigned v = 0; v < 256; v++) {
		uint32_t count = counts[v];

		counts[v] = 0;
		counts[v >> shift] += count;
	}
}

BMI2 void huff_sample_bmi2(uint32_t counts[256], const unsigned char *in, uint32_t n)
{
	uint32_t table[TABLES][256];

	memset(table, 0, sizeof table);
	for (uint32_t i = 0; i < huff_sample_count(n); i++)
		for (unsigned j = 0; j < 64; j += 8)
			count_word(table, load64(in + huff_sample_at(i) + j));
	sum_tables(counts, table);
}

/* Returns the OR of all, or of those so far as soon as it is `enough` or more. */
AVX512 static inline unsigned any_below(const unsigned char *in, uint32_t n,
	unsigned enough)
{
	const uint32_t block = 4096;
	unsigned all = 0;
	uint32_t i = 0;

	for (; all < enough && i + block <= n; i += block) {
		__m512i any[4] = { 0 };

		for (uint32_t j = 0; j < block; j += 256)
#pragma GCC unroll 4
			for (int k = 0; k < 4; k++)
				any[k] = _mm512_or_si512(any[k],
					_mm512_loadu_si512(in + i + j + 64 * k));
		any[0] = _mm512_or_si512(_mm512_or_si512(any[0], any[1]),
			_mm512_or_si512(any[2], any[3]));
		for (uint64_t word = (uint64_t)_mm512_reduce_or_epi64(any[0]); word;
			word >>= 8)
			all |= word & 255;
	}
	for (; all < enough && i < n; i++)
		all |= in[i];
	return all;
}

AVX512 unsigned huff_any_avx512(const unsigned char *in, uint32_t n)
{
	return any_below(in, n, HUFF_ANY_ENOUGH);
}

/* Counts with bit planes: the bits of one position of 512 symbols form a vector; the symbols
 * with a value are the AND of such vectors or their complements, and their number is counted at
 * once: for 32 values 60 ANDs and 64 counts, a fifth of a cycle a symbol. The values of the low
 * and of the high half of the bits are combined first. The planes of PLANE_SYMBOLS are written
 * before any is read: a load of 64 bytes waits for eight stores of 8. */
#define PLANE_SYMBOLS 4096

PLANES static inline __attribute__((always_inline)) __m512i one_of(unsigned v,
	const __m512i *plane, unsigned width, __m512i all)
{
#pragma GCC unroll 8
	for (unsigned k = 0; k < width; k++)
		all = v >> k & 1 ? _mm512_and_si512(all, plane[k]) :
				   _mm512_andnot_si512(plane[k], all);
	return all;
}

/* n must be a multiple of PLANE_SYMBOLS. */
PLANES static inline __attribute__((always_inline)) void count_planes(uint32_t *counts,
	const unsigned char *in, uint64_t n, unsigned shift, const unsigned width)
{
	const unsigned low_width = width / 2, high_width = width - low_width;
	_Alignas(64) uint64_t plane[6][PLANE_SYMBOLS / 64];
	__m512i sums[64];

	for (unsigned v = 0; v < 1u << width; v++)
		sums[v] = _mm512_setzero_si512();
	for (uint64_t i = 0; i < n; i += PLANE_SYMBOLS) {
		for (unsigned g = 0; g < PLANE_SYMBOLS / 64; g++) {
			__m512i v = _mm512_loadu_si512(in + i + 64 * g);

#pragma GCC unroll 8
			for (unsigned k = 0; k < width; k++)
				plane[k][g] = _mm512_test_epi8_mask(v,
					_mm512_set1_epi8((char)(1 << (k + shift))));
		}
		for (unsigned g = 0; g < PLANE_SYMBOLS / 64; g += 8) {
			__m512i p[6], low[8], high[8];

#pragma GCC unroll 8
			for (unsigned k = 0; k < width; k++)
				p[k] = _mm512_load_si512(plane[k] + g);
#pragma GCC unroll 8
			for (unsigned v = 0; v < 1u << low_width; v++)
				low[v] = one_of(v, p, low_width, _mm512_set1_epi8(-1));
#pragma GCC unroll 8
			for (unsigned v = 0; v < 1u << high_width; v++)
				high[v] = one_of(v, p + low_width, high_width,
					_mm512_set1_epi8(-1));
#pragma GCC unroll 64
			for (unsigned v = 0; v < 1u << width; v++)
				sums[v] = _mm512_add_epi64(sums[v],
					_mm512_popcnt_epi64(_mm512_and_si512(
						low[v & ((1u << low_width) - 1)],
						high[v >> low_width])));
		}
	}
	for (unsigned v = 0; v < 1u << width; v++)
		counts[v] = (uint32_t)_mm512_reduce_add_epi64(sums[v]);
}

/* Levels of gradients cluster: only those in a window of 2^width are counted by planes; the
 * others are gathered and counted in tables. n must be a multiple of PLANE_SYMBOLS. */
PLANES static inline __attribute__((always_inline)) void
count_window(uint32_t counts[256], const unsigned char *in, uint64_t n, unsigned shift,
	unsigned base, const unsigned width)
{
	const unsigned low_width = width / 2, high_width = width - low_width;
	const __m512i keep = _mm512_set1_epi8((char)(255 >> shift));
	const __m512i bases = _mm512_set1_epi8((char)base);
	/* the last plane: which symbols are inside the window */
	_Alignas(64) uint64_t plane[7][PLANE_SYMBOLS / 64];
	unsigned char outside[PLANE_SYMBOLS + 64];
	uint32_t table[4][256];
	__m512i sums[64];

	memset(table, 0, sizeof table);
	for (unsigned v = 0; v < 1u << width; v++)
		sums[v] = _mm512_setzero_si512();
	for (uint64_t i = 0; i < n; i += PLANE_SYMBOLS) {
		unsigned filled = 0;

		for (unsigned g = 0; g < PLANE_SYMBOLS / 64; g++) {
			__m512i v = _mm512_and_si512(keep,
				_mm512_srli_epi16(_mm512_loadu_si512(in + i + 64 * g),
					shift));
			__m512i d = _mm512_sub_epi8(v, bases);
			uint64_t inside = _mm512_cmplt_epu8_mask(d,
				_mm512_set1_epi8((char)(1 << width)));

			_mm512_storeu_si512(outside + filled,
				_mm512_maskz_compress_epi8(~inside, v));
			filled += 64 - (unsigned)__builtin_popcountll(inside);
			plane[6][g] = inside;
#pragma GCC unroll 8
			for (unsigned k = 0; k < width; k++)
				plane[k][g] = _mm512_test_epi8_mask(d,
					_mm512_set1_epi8((char)(1 << k)));
		}
		for (unsigned g = 0; g < PLANE_SYMBOLS / 64; g += 8) {
			__m512i p[6], low[8], high[8];

#pragma GCC unroll 8
			for (unsigned k = 0; k < width; k++)
				p[k] = _mm512_load_si512(plane[k] + g);
#pragma GCC unroll 8
			for (unsigned v = 0; v < 1u << low_width; v++)
				low[v] = one_of(v, p, low_width,
					_mm512_load_si512(plane[6] + g));
#pragma GCC unroll 8
			for (unsigned v = 0; v < 1u << high_width; v++)
				high[v] = one_of(v, p + low_width, high_width,
					_mm512_set1_epi8(-1));
#pragma GCC unroll 64
			for (unsigned v = 0; v < 1u << width; v++)
				sums[v] = _mm512_add_epi64(sums[v],
					_mm512_popcnt_epi64(_mm512_and_si512(
						low[v & ((1u << low_width) - 1)],
						high[v >> low_width])));
		}
		for (unsigned j = 0; j < filled; j++)
			table[j % 4][outside[j]]++;
	}
	for (unsigned v = 0; v < 256; v++)
		counts[v] = table[0][v] + table[1][v] + table[2][v] + table[3][v];
	for (unsigned v = 0; v < 1u << width; v++)
		counts[base + v] += (uint32_t)_mm512_reduce_add_epi64(sums[v]);
}

#define GLANCE       512 /* symbols that are inspected to choose the window */
#define GLANCE_GROUP 8   /* values that are treated as one there */

/* Chooses the window of `size` values that contains the most of the inspected symbols. Returns
 * how many of GLANCE. */
static unsigned best_window(unsigned *base, const unsigned *groups, unsigned count,
	unsigned size)
{
	unsigned inside = 0, best;

	size /= GLANCE_GROUP;
	for (unsigned g = 0; g < size; g++)
		inside += groups[g];
	best = inside;
	*base = 0;
	for (unsigned g = size; g < count; g++) {
		inside += groups[g] - groups[g - size];
		*base = inside > best ? (g - size + 1) * GLANCE_GROUP : *base;
		best = inside > best ? inside : best;
	}
	return best;
}

/* A symbol costs a fifth of a cycle in a window of 64, a tenth in one of 32, and one and a
 * quarter outside it or without a window. */
PLANES static void count_wide(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	enum { GROUPS = 256 / GLANCE_GROUP };
	unsigned table[4][GROUPS] = { 0 }, groups[GROUPS], base_32, base_64;
	unsigned outside_32, outside_64;

	for (unsigned g = 0; g < GLANCE / 64; g++) {
		const unsigned char *at = in + n / (GLANCE / 64) * g;

		for (unsigned i = 0; i < 64; i++)
			table[i % 4][at[i] / GLANCE_GROUP >> shift]++;
	}
	for (unsigned g = 0; g < GROUPS; g++)
		groups[g] = table[0][g] + table[1][g] + table[2][g] + table[3][g];
	outside_32 = GLANCE - best_window(&base_32, groups, GROUPS >> shift, 32);
	outside_64 = GLANCE - best_window(&base_64, groups, GROUPS >> shift, 64);
	if (outside_64 > GLANCE / 2)
		huff_count_bmi2(counts, in, n, shift);
	else if (outside_32 < outside_64 + GLANCE / 12)
		count_window(counts, in, n, shift, base_32, 5);
	else
		count_window(counts, in, n, shift, base_64, 6);
}

PLANES void huff_count_vbmi(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	uint64_t whole = n / PLANE_SYMBOLS * PLANE_SYMBOLS;
	unsigned any;

	if (!whole || n > HUFF_CHUNK_MAX) {
		huff_count_bmi2(counts, in, n, shift);
		return;
	}
	any = any_below(in, (uint32_t)n, 64u << shift) >> shift;
	memset(counts, 0, 256 * sizeof *counts);
	if (any < 4)
		count_planes(counts, in, whole, shift, 2);
	else if (any < 16)
		count_planes(counts, in, whole, shift, 4);
	else if (any < 32)
		count_planes(counts, in, whole, shift, 5);
	else if (any < 64)
		count_planes(counts, in, whole, shift, 6);
	else
		count_wide(counts, in, whole, shift);
	for (; whole < n; whole++)
		counts[in[whole] >> shift]++;
}

/* Gathers the sample, which is then counted in the usual way. */
PLANES void huff_sample_vbmi(uint32_t counts[256], const unsigned char *in, uint32_t n)
{
	unsigned char sample[HUFF_CHUNK_MAX / HUFF_SAMPLE_GROUPS];

	for (uint32_t i = 0; i < huff_sample_count(n); i++)
		_mm512_storeu_si512(sample + 64 * i,
			_mm512_loadu_si512(in + huff_sample_at(i)));
	huff_count_vbmi(counts, sample, 64 * huff_sample_count(n), 0);
}
#endif
