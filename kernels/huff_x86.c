#include "kernels/huff_parts.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define BMI2 __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define AVX512 \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt")))
#define VBMI            \
	__attribute__(( \
		target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi,bmi2,lzcnt")))

#define PLANES                 \
	__attribute__((target( \
		"avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq,bmi,bmi2,lzcnt")))

static inline uint64_t load64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline void store64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

/* --- count ----------------------------------------------------------------------------------- */

/* A core stores one word a cycle, so that counting in tables takes a cycle a symbol; eight tables, because a count that
 * was just stored is not at once there to be read. */
BMI2 static void count_tables(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	uint32_t table[8][256];
	uint64_t i = 0;

	memset(table, 0, sizeof table);
	for (; i + 8 <= n; i += 8) {
		uint64_t a = load64(in + i);

		table[0][a & 255]++;
		table[1][a >> 8 & 255]++;
		table[2][a >> 16 & 255]++;
		table[3][a >> 24 & 255]++;
		table[4][a >> 32 & 255]++;
		table[5][a >> 40 & 255]++;
		table[6][a >> 48 & 255]++;
		table[7][a >> 56]++;
	}
	for (; i < n; i++)
		table[0][in[i]]++;
	memset(counts, 0, 256 * sizeof *counts);
	for (unsigned v = 0; v < 256; v++)
		for (unsigned t = 0; t < 8; t++)
			counts[v >> shift] += table[t][v];
}

BMI2 static void sample_tables(uint32_t counts[256], const unsigned char *in, uint32_t n)
{
	uint32_t table[4][256];

	memset(table, 0, sizeof table);
	for (uint32_t i = 0; i < huff_sample_count(n); i++) {
		const unsigned char *at = in + huff_sample_at(i);

		for (unsigned j = 0; j < 64; j += 8) {
			uint64_t a = load64(at + j);

			table[0][a & 255]++;
			table[1][a >> 8 & 255]++;
			table[2][a >> 16 & 255]++;
			table[3][a >> 24 & 255]++;
			table[0][a >> 32 & 255]++;
			table[1][a >> 40 & 255]++;
			table[2][a >> 48 & 255]++;
			table[3][a >> 56]++;
		}
	}
	for (unsigned v = 0; v < 256; v++)
		counts[v] = table[0][v] + table[1][v] + table[2][v] + table[3][v];
}

/* All or-ed; enough of them as soon as that is `enough` or more. */
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

AVX512 static unsigned any_avx512(const unsigned char *in, uint32_t n)
{
	return any_below(in, n, HUFF_ANY_ENOUGH);
}

/* Counts by bit planes: of 512 symbols the bits of one place are a vector, those that have a value are the and of
 * vectors or their complements, and their number is counted at once: for 32 values 60 ands and 64 to count, a fifth of a
 * cycle a symbol. The values of the low half of the bits and those of the high half are made first. The planes of
 * PLANE_SYMBOLS are written before any is read: a load of 64 bytes waits for eight stores of 8. */
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

/* n: a multiple of PLANE_SYMBOLS */
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

/* Levels of gradients crowd: only those of a window of 2^width are counted by planes; the others are put side by side
 * and counted in tables. n: a multiple of PLANE_SYMBOLS. */
PLANES static inline __attribute__((always_inline)) void
count_window(uint32_t counts[256], const unsigned char *in, uint64_t n, unsigned shift,
	unsigned base, const unsigned width)
{
	const unsigned low_width = width / 2, high_width = width - low_width;
	const __m512i keep = _mm512_set1_epi8((char)(255 >> shift));
	const __m512i bases = _mm512_set1_epi8((char)base);
	_Alignas(64) uint64_t plane[7][PLANE_SYMBOLS / 64]; /* the last: who is inside */
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

#define GLANCE       512 /* symbols that tell where a window is best */
#define GLANCE_GROUP 8   /* values that are one there */

/* The window of `size` values with the most of what was glanced at. Returns how many of GLANCE. */
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

/* A symbol costs a fifth of a cycle in a window of 64, a tenth in one of 32, and one and a quarter where it is outside
 * or where there is none. */
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
		count_tables(counts, in, n, shift);
	else if (outside_32 < outside_64 + GLANCE / 12)
		count_window(counts, in, n, shift, base_32, 5);
	else
		count_window(counts, in, n, shift, base_64, 6);
}

PLANES static void count_vbmi(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	uint64_t whole = n / PLANE_SYMBOLS * PLANE_SYMBOLS;
	unsigned any;

	if (!whole || n > HUFF_CHUNK_MAX) {
		count_tables(counts, in, n, shift);
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

/* Put side by side, the sample is counted as all are. */
PLANES static void sample_vbmi(uint32_t counts[256], const unsigned char *in, uint32_t n)
{
	unsigned char sample[HUFF_CHUNK_MAX / HUFF_SAMPLE_GROUPS];

	for (uint32_t i = 0; i < huff_sample_count(n); i++)
		_mm512_storeu_si512(sample + 64 * i,
			_mm512_loadu_si512(in + huff_sample_at(i)));
	count_vbmi(counts, sample, 64 * huff_sample_count(n), 0);
}

/* --- runs ------------------------------------------------------------------------------------ */

/* Place by place of what is not z: `there` has a bit for each of up to 64 symbols from `at` on. */
BMI2 static inline uint32_t put_gaps(uint32_t *gaps, uint32_t count, uint64_t there,
	uint32_t at, uint32_t *last)
{
	for (; there; there &= there - 1) {
		uint32_t place = at + (uint32_t)__builtin_ctzll(there);

		gaps[count++] = place - *last;
		*last = place + 1;
	}
	return count;
}

/* How many of them follow another one or, at 0, nothing; *carry: whether the one before the first does. */
BMI2 static inline uint32_t count_close(uint64_t there, uint64_t *carry, unsigned width)
{
	uint32_t close = (uint32_t)__builtin_popcountll(there & (there << 1 | *carry));

	*carry = there >> (width - 1) & 1;
	return close;
}

BMI2 static uint32_t gaps_avx2(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z)
{
	const __m256i zero = _mm256_set1_epi8((char)z);
	uint32_t count = 0, last = 0, i = 0;
	uint64_t carry = 1;

	*close = 0;
	for (; i + 32 <= n; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(in + i));
		uint32_t there = ~(uint32_t)_mm256_movemask_epi8(
			_mm256_cmpeq_epi8(v, zero));

		for (uint32_t left = there, at = count; left; left &= left - 1)
			others[at++] = in[i + (uint32_t)__builtin_ctz(left)];
		*close += count_close(there, &carry, 32);
		count = put_gaps(gaps, count, there, i, &last);
	}
	for (; i < n; i++)
		if (in[i] != z) {
			*close += i == last;
			others[count] = in[i];
			gaps[count++] = i - last;
			last = i + 1;
		}
	return count;
}

PLANES static uint32_t gaps_avx512(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z)
{
	const __m512i zero = _mm512_set1_epi8((char)z);
	uint32_t count = 0, last = 0;
	uint64_t carry = 1;

	*close = 0;
	for (uint32_t i = 0; i < n; i += 64) {
		uint64_t inside = n - i < 64 ? (UINT64_C(1) << (n - i)) - 1 :
					       ~UINT64_C(0);
		__m512i v = _mm512_maskz_loadu_epi8(inside, in + i);
		uint64_t there = _mm512_mask_cmpneq_epi8_mask(inside, v, zero);

		_mm512_storeu_si512(others + count, _mm512_maskz_compress_epi8(there, v));
		*close += count_close(there, &carry, 64);
		count = put_gaps(gaps, count, there, i, &last);
	}
	return count;
}

/* --- packing ---------------------------------------------------------------------------------- */

VBMI static void pack_vbmi(unsigned char *out, const unsigned char *in, uint32_t n,
	const unsigned char place[256], unsigned width)
{
	__m512i table[4];
	uint32_t i = 0;

	for (unsigned k = 0; k < 4; k++)
		table[k] = _mm512_loadu_si512(place + 64 * k);
	for (; i + 64 <= n; i += 64, out += 8 * width) {
		__m512i v = _mm512_loadu_si512(in + i);

		v = _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(table[0], v, table[1]),
			_mm512_movepi8_mask(v),
			_mm512_permutex2var_epi8(table[2], v, table[3]));
		if (width == 1) {
			store64(out, _mm512_test_epi8_mask(v, v));
			continue;
		}
		if (width == 4) {
			v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x1001));
			_mm256_storeu_si256((__m256i *)out, _mm512_cvtepi16_epi8(v));
			continue;
		}
		v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x0401));
		v = _mm512_madd_epi16(v, _mm512_set1_epi32(0x00100001));
		_mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(v));
	}
	huff_pack_ref(out, in + i, n - i, place, width);
}

/* --- low bits -------------------------------------------------------------------------------- */

AVX512 static void put_lows_avx512(unsigned char *out, const unsigned char *in,
	uint32_t n, unsigned width)
{
	uint32_t i = 0;

	for (; i + 64 <= n; i += 64) {
		__m512i v = _mm512_loadu_si512(in + i);

		for (unsigned k = 0; k < width; k++, out += 8)
			store64(out,
				_mm512_test_epi8_mask(v,
					_mm512_set1_epi8((char)(1 << k))));
	}
	huff_put_lows_ref(out, in + i, n - i, width);
}

AVX512 static void add_lows_avx512(unsigned char *symbols, const unsigned char *in,
	uint32_t n, unsigned width)
{
	uint32_t i = 0;

	for (; i + 64 <= n; i += 64) {
		__m512i v = _mm512_loadu_si512(symbols + i);

		for (unsigned k = 0; k < width; k++)
			v = _mm512_add_epi8(v, v);
		for (unsigned k = 0; k < width; k++, in += 8)
			v = _mm512_mask_add_epi8(v, load64(in), v,
				_mm512_set1_epi8((char)(1 << k)));
		_mm512_storeu_si512(symbols + i, v);
	}
	huff_add_lows_ref(symbols + i, in, n - i, width);
}

/* --- encoder ---------------------------------------------------------------------------------- */

/* Bits on their way to memory; less than 8 are held between calls. */
struct writer {
	unsigned char *at;
	uint64_t held;
	uint64_t count;
};

/* count <= 56 */
static inline __attribute__((always_inline)) void put_bits(struct writer *w, uint64_t v,
	uint64_t count)
{
	uint64_t total = w->count + count;

	v = v << w->count | w->held;
	store64(w->at, v);
	w->at += total >> 3;
	w->held = v >> (total & 56);
	w->count = total & 7;
}

static inline unsigned char *end_stream(struct writer *w)
{
	put_bits(w, 1, 1);
	if (w->count)
		w->at++;
	return w->at;
}

BMI2 static void put_streams_bmi2(unsigned char *out, uint32_t *end,
	const struct huff_plane *p, const unsigned char *in, uint32_t n)
{
	uint16_t entry[HUFF_ALPHABET];
	unsigned char *at = out;

	huff_codes(entry, p->length, HUFF_ALPHABET >> p->split);
	for (unsigned s = 0; s < 1u << p->streams_log; s++) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);
		struct writer w = { at, 0, 0 };
		uint32_t i = 0;

		for (; i + 4 <= count; i += 4) {
			uint64_t v = 0;
			unsigned bits = 0;

			for (unsigned j = 0; j < 4; j++) {
				unsigned e = entry[in[from + i + j] >> p->split];

				v |= (uint64_t)(e & 4095) << bits;
				bits += e >> 12;
			}
			put_bits(&w, v, bits);
		}
		for (; i < count; i++) {
			unsigned e = entry[in[from + i] >> p->split];

			put_bits(&w, e & 4095, e >> 12);
		}
		at = end_stream(&w);
		end[s] = (uint32_t)(at - out);
	}
}

/* Code tables as bytes: the low byte of entries and the high one. */
struct byte_tables {
	__m512i low[4], high[4];
};

VBMI static inline __attribute__((always_inline)) __m512i look_up(const __m512i *table,
	__m512i v, int quarters)
{
	if (quarters == 1)
		return _mm512_permutexvar_epi8(v, table[0]);
	__m512i a = _mm512_permutex2var_epi8(table[0], v, table[1]);

	if (quarters == 2)
		return a;
	return _mm512_mask_mov_epi8(a, _mm512_movepi8_mask(v),
		_mm512_permutex2var_epi8(table[2], v, table[3]));
}

/* 64 symbols to 16 lanes of 4 codes, at most 48 bits each: x[j] symbols 8j .. 8j + 3, y[j] 8j + 4 .. 8j + 7. */
struct lanes {
	__m512i x, y, x_bits, y_bits;
};

#define UPPER(v) _mm512_maskz_shuffle_epi32(0x5555, v, _MM_PERM_DDBB)

VBMI static inline __attribute__((always_inline)) struct lanes merge(__m512i low,
	__m512i high)
{
	const __m512i first = _mm512_set1_epi32(0xffff), code = _mm512_set1_epi16(0xfff);
	const __m512i half = _mm512_set1_epi64(0xffffffff);
	/* entries of the even and of the odd symbols; shifts by whole bytes are another port's than those by bits */
	__m512i even = _mm512_mask_mov_epi8(low, 0xaaaaaaaaaaaaaaaa,
		_mm512_bslli_epi128(high, 1));
	__m512i odd = _mm512_mask_mov_epi8(high, 0x5555555555555555,
		_mm512_bsrli_epi128(low, 1));
	__m512i even_bits = _mm512_srli_epi16(even, 12),
		odd_bits = _mm512_srli_epi16(odd, 12);
	__m512i a, b, c, d, ab, cd, ab_bits, cd_bits, a_bits, c_bits;
	struct lanes l;

	even = _mm512_and_si512(even, code);
	odd = _mm512_and_si512(odd, code);
	a = _mm512_and_si512(even, first);
	b = _mm512_and_si512(odd, first);
	c = _mm512_srli_epi32(even, 16);
	d = _mm512_srli_epi32(odd, 16);
	a_bits = _mm512_and_si512(even_bits, first);
	c_bits = _mm512_srli_epi32(even_bits, 16);
	ab = _mm512_or_si512(a, _mm512_sllv_epi32(b, a_bits));
	cd = _mm512_or_si512(c, _mm512_sllv_epi32(d, c_bits));
	even_bits = _mm512_add_epi16(even_bits, odd_bits);
	ab_bits = _mm512_and_si512(even_bits, first);
	cd_bits = _mm512_srli_epi32(even_bits, 16);
	a_bits = _mm512_and_si512(ab_bits, half);
	c_bits = UPPER(ab_bits);
	l.x = _mm512_or_si512(_mm512_and_si512(ab, half),
		_mm512_sllv_epi64(_mm512_and_si512(cd, half), a_bits));
	l.y = _mm512_or_si512(UPPER(ab), _mm512_sllv_epi64(UPPER(cd), c_bits));
	ab_bits = _mm512_add_epi32(ab_bits, cd_bits);
	l.x_bits = _mm512_and_si512(ab_bits, half);
	l.y_bits = UPPER(ab_bits);
	return l;
}

/* Left alone, the compiler takes lanes out of registers, by two instructions each on the ports that vectors need. */
#define THROUGH_MEMORY(array) __asm__("" : "+m"(array))

VBMI static inline __attribute__((always_inline)) void put_lanes(struct writer *w,
	struct lanes l)
{
	_Alignas(64) uint64_t v[16], bits[16];
	__m512i both = _mm512_add_epi64(l.x_bits, l.y_bits);

	if (_mm512_cmpgt_epu64_mask(both, _mm512_set1_epi64(56)) == 0) {
		_mm512_store_si512(v,
			_mm512_or_si512(l.x, _mm512_sllv_epi64(l.y, l.x_bits)));
		_mm512_store_si512(bits, both);
		THROUGH_MEMORY(v);
		THROUGH_MEMORY(bits);
#pragma GCC unroll 8
		for (unsigned j = 0; j < 8; j++)
			put_bits(w, v[j], bits[j]);
		return;
	}
	_mm512_store_si512(v, l.x);
	_mm512_store_si512(v + 8, l.y);
	_mm512_store_si512(bits, l.x_bits);
	_mm512_store_si512(bits + 8, l.y_bits);
	THROUGH_MEMORY(v);
	THROUGH_MEMORY(bits);
#pragma GCC unroll 8
	for (unsigned j = 0; j < 8; j++) {
		put_bits(w, v[j], bits[j]);
		put_bits(w, v[8 + j], bits[8 + j]);
	}
}

VBMI static inline __attribute__((always_inline)) void put_stream_vbmi(struct writer *out,
	const struct byte_tables *t, const unsigned char *in, uint32_t n, unsigned split,
	int quarters)
{
	const __m512i keep = _mm512_set1_epi8((char)(255 >> split));
	/* byte j of each 64 bits: those from bit 8j + split on */
	const __m512i from = _mm512_add_epi8(_mm512_set1_epi64(0x3830282018100800),
		_mm512_set1_epi8((char)split));
	struct writer w = *out;
	uint32_t i = 0;

	for (; i + 64 <= n; i += 64) {
		__m512i v = _mm512_and_si512(keep,
			_mm512_multishift_epi64_epi8(from, _mm512_loadu_si512(in + i)));

		put_lanes(&w,
			merge(look_up(t->low, v, quarters),
				look_up(t->high, v, quarters)));
	}
	if (i < n) {
		__mmask64 there = (UINT64_C(1) << (n - i)) - 1;
		__m512i v = _mm512_and_si512(keep,
			_mm512_multishift_epi64_epi8(from,
				_mm512_maskz_loadu_epi8(there, in + i)));

		put_lanes(&w,
			merge(_mm512_maskz_mov_epi8(there, look_up(t->low, v, quarters)),
				_mm512_maskz_mov_epi8(there,
					look_up(t->high, v, quarters))));
	}
	*out = w;
}

VBMI static void put_streams_vbmi(unsigned char *out, uint32_t *end,
	const struct huff_plane *p, const unsigned char *in, uint32_t n)
{
	uint16_t entry[HUFF_ALPHABET] = { 0 };
	struct byte_tables t;
	unsigned char *at = out, low[256], high[256];
	unsigned last = 0;

	huff_codes(entry, p->length, HUFF_ALPHABET >> p->split);
	for (unsigned i = 0; i < HUFF_ALPHABET; i++) {
		low[i] = (unsigned char)entry[i];
		high[i] = (unsigned char)(entry[i] >> 8);
		last = entry[i] ? i : last;
	}
	for (unsigned i = 0; i < 4; i++) {
		t.low[i] = _mm512_loadu_si512(low + 64 * i);
		t.high[i] = _mm512_loadu_si512(high + 64 * i);
	}
	for (unsigned s = 0; s < 1u << p->streams_log; s++) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);
		struct writer w = { at, 0, 0 };

		if (last < 64)
			put_stream_vbmi(&w, &t, in + from, count, p->split, 1);
		else if (last < 128)
			put_stream_vbmi(&w, &t, in + from, count, p->split, 2);
		else
			put_stream_vbmi(&w, &t, in + from, count, p->split, 4);
		at = end_stream(&w);
		end[s] = (uint32_t)(at - out);
	}
}

/* --- decoder ---------------------------------------------------------------------------------- */

/* What a look-up of 12 bits gives, from the lowest byte: their length in bits, how many symbols, and these, the first
 * one in the highest byte: streams give symbols last to first, so that a store of the whole word below the
 * last symbol puts them in place, and the rest of it is overwritten by the next ones. */
#define TABLE_BITS    12
#define ENTRY_MOST    6
#define ENTRY_BITS(e) ((e)&63)

static inline uint64_t entry_before(unsigned symbol, unsigned length, uint64_t then)
{
	return (then >> 8 & 0xffffffffffff0000) | (uint64_t)symbol << 56 |
		((then & 0xffff) + 256 + length);
}

/* Symbols by code, and where each length begins. */
struct order {
	unsigned char symbol[HUFF_ALPHABET];
	unsigned first[HUFF_LENGTH_MAX + 2]; /* [l]: of length l or more */
};

static void order_by_code(struct order *o, const unsigned char *length, unsigned symbols)
{
	unsigned at[HUFF_LENGTH_MAX + 2] = { 0 };

	for (unsigned v = 0; v < symbols; v++)
		at[length[v]]++;
	o->first[0] = o->first[1] = 0;
	for (unsigned l = 1; l <= HUFF_LENGTH_MAX; l++)
		o->first[l + 1] = o->first[l] + at[l];
	for (unsigned l = 1; l <= HUFF_LENGTH_MAX; l++)
		at[l] = o->first[l];
	for (unsigned v = 0; v < symbols; v++)
		if (length[v])
			o->symbol[at[length[v]]++] = (unsigned char)v;
}

AVX512 static inline void prepend(uint64_t *to, const uint64_t *from, uint32_t count,
	unsigned symbol, unsigned length)
{
	const __m512i keep = _mm512_set1_epi64((int64_t)0xffffffffffff0000);
	const __m512i head = _mm512_set1_epi64(
		(int64_t)((uint64_t)symbol << 56 | (256 + length)));

	/* writes up to 7 entries more, which are made later or are padding */
	for (uint32_t i = 0; i < count; i += 8) {
		__m512i e = _mm512_loadu_si512(from + i);
		__m512i symbols = _mm512_and_si512(_mm512_srli_epi64(e, 8), keep);

		_mm512_storeu_si512(to + i,
			_mm512_add_epi64(_mm512_or_si512(symbols, head),
				_mm512_andnot_si512(keep, e)));
	}
}

/* The table of all windows of `bits` bits, from those of fewer: a symbol, then what the rest of the window gives.
 * Windows that no whole code fits into are empty. most: bits of the rest at most. */
AVX512 static void fill_table(uint64_t *table, uint64_t *const *tables, unsigned bits,
	const struct order *o, unsigned most)
{
	uint64_t *to = table;

	for (unsigned l = 1; l <= bits; l++)
		for (unsigned i = o->first[l]; i < o->first[l + 1]; i++) {
			unsigned rest = bits - l;

			if (rest <= most) {
				prepend(to, tables[rest], 1u << rest, o->symbol[i], l);
				to += 1u << rest;
				continue;
			}
			for (uint32_t j = 0; j < 1u << most; j++) {
				uint64_t e = entry_before(o->symbol[i], l,
					tables[most][j]);

				for (uint32_t k = 0; k < 1u << (rest - most); k++)
					*to++ = e;
			}
		}
	for (; to < table + (1u << bits); to++)
		*to = 0;
}

/* With codes of one bit the rest is cut to 5 bits, so that no entry has more than ENTRY_MOST symbols. Returns how many
 * one has at most. */
AVX512 static unsigned make_table(uint64_t *table, const unsigned char *length,
	unsigned symbols)
{
	uint64_t space[(1 << TABLE_BITS) + 8], *tables[TABLE_BITS + 1];
	struct order o;
	unsigned most, least;
	uint32_t wanted = 1u << TABLE_BITS;

	order_by_code(&o, length, symbols);
	most = o.first[2] ? ENTRY_MOST - 1 : TABLE_BITS;
	for (unsigned bits = TABLE_BITS; bits > 0; bits--) /* which are needed at all */
		for (unsigned l = 1; wanted >> bits & 1 && l <= bits; l++)
			if (o.first[l + 1] > o.first[l])
				wanted |= 1u << (bits - l < most ? bits - l : most);
	for (unsigned bits = 0; bits < TABLE_BITS; bits++) {
		tables[bits] = space + (1u << bits);
		if (wanted >> bits & 1)
			fill_table(tables[bits], tables, bits, &o, most);
	}
	fill_table(table, tables, TABLE_BITS, &o, most);
	for (least = 1; !o.first[least + 1]; least++)
		;
	return least == 1 ? ENTRY_MOST : TABLE_BITS / least;
}

struct stream {
	const unsigned char
		*at; /* the next 64 bits, the top ones first, of which some are used up */
	unsigned char *out; /* behind the next symbol */
	uint64_t bits;      /* left-aligned, then a 1 and zeros */
	const unsigned char *start;
	unsigned char *out_start;
};

/* Bits not yet used, from the start of the stream. */
static inline int64_t bits_left(const struct stream *s)
{
	return (s->at + 8 - s->start) * 8 - __builtin_ctzll(s->bits);
}

/* The next bits of a stream of 8 bytes or more, left-aligned: 57 or more, or all that are left; then zeros. */
static inline uint64_t window_at(const unsigned char *start, int64_t left)
{
	int64_t low = left - 57;

	if (left >= 64)
		return load64(start + low / 8) << (7 - low % 8);
	return left > 0 ? load64(start) << (64 - left) : 0;
}

/* The last symbols of a stream; those that a word would reach beyond are put together elsewhere. Returns 0 or -1. */
BMI2 static int finish(const struct stream *s, const uint64_t *table,
	const unsigned char *length)
{
	int64_t left = bits_left(s), count = s->out - s->out_start, last;
	unsigned char tail[16]; /* the word below symbol i of the last is at i */

	while (count >= 8) {
		uint64_t e = table[window_at(s->start, left) >> (64 - TABLE_BITS)];
		int whole = left >= TABLE_BITS;

		store64(s->out_start + count - 8, e);
		count -= whole ? (int64_t)(e >> 8 & 255) : 1;
		left -= whole ? (int64_t)ENTRY_BITS(e) : length[e >> 56];
		if (left < 0)
			return -1;
	}
	for (last = count; count > 0;) {
		uint64_t e = table[window_at(s->start, left) >> (64 - TABLE_BITS)];

		store64(tail + count, e);
		if ((int64_t)(e >> 8 & 255) <= count && (int64_t)ENTRY_BITS(e) <= left) {
			count -= e >> 8 & 255;
			left -= (int64_t)ENTRY_BITS(e);
			continue;
		}
		count--;
		left -= length[e >> 56];
		if (left < 0)
			return -1;
	}
	for (int64_t i = 0; i < last; i++)
		s->out_start[i] = tail[8 + i];
	return left == 0 ? 0 : -1;
}

/* One look-up: window, entry, symbols out. */
#define LOOK_UP(s)                                                  \
	do {                                                        \
		uint64_t e_ = table[(s).bits >> (64 - TABLE_BITS)]; \
		(s).bits <<= ENTRY_BITS(e_);                        \
		store64((s).out - 8, e_);                           \
		(s).out -= (unsigned char)(e_ >> 8);                \
	} while (0)

#define LOOK_UPS 4 /* at most 48 bits, of the 56 that there are */

/* How many rounds of LOOK_UPS a stream surely has bits and room for; `step` symbols a round at most. */
static inline uint32_t rounds_of(const struct stream *s, uint32_t step)
{
	uint32_t by_bits = (uint32_t)(s->at - s->start) / 7;
	uint32_t room = (uint32_t)(s->out - s->out_start);
	uint32_t by_room = room < 8 ? 0 : (room - 8) / step;

	return by_bits < by_room ? by_bits : by_room;
}

/* Streams side by side, until one of them may be short of bits or room. */
#define BESIDE(streams)                                                                  \
	BMI2 static void beside_##streams(struct stream *given, const uint64_t *table,   \
		uint32_t step)                                                           \
	{                                                                                \
		struct stream s[streams];                                                \
                                                                                         \
		memcpy(s, given, sizeof s);                                              \
		for (;;) {                                                               \
			uint32_t rounds = UINT32_MAX;                                    \
                                                                                         \
			for (int i = 0; i < streams; i++) {                              \
				uint32_t r = rounds_of(&s[i], step);                     \
                                                                                         \
				rounds = r < rounds ? r : rounds;                        \
			}                                                                \
			if (rounds < 1)                                                  \
				break;                                                   \
			for (; rounds; rounds--)                                         \
				_Pragma("GCC unroll 8") for (int i = 0; i < streams;     \
							     i++)                        \
				{                                                        \
					uint64_t used;                                   \
                                                                                         \
					LOOK_UP(s[i]);                                   \
					LOOK_UP(s[i]);                                   \
					LOOK_UP(s[i]);                                   \
					LOOK_UP(s[i]);                                   \
					used = (uint64_t)__builtin_ctzll(s[i].bits);     \
					s[i].at -= used >> 3;                            \
					s[i].bits = (load64(s[i].at) | 1) << (used & 7); \
				}                                                        \
		}                                                                        \
		memcpy(given, s, sizeof s);                                              \
	}
BESIDE(1)
BESIDE(2)
BESIDE(4)
BESIDE(8)

/* All streams: when one ends, the next takes its place, because those of real data differ and one alone waits for each
 * look-up. Returns 0 or -1. */
static int get_all(struct stream *s, unsigned count, const uint64_t *table,
	const unsigned char *length, unsigned most)
{
	uint32_t step = LOOK_UPS * most;

	while (count) {
		unsigned width = count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1;

		if (width == 8)
			beside_8(s, table, step);
		else if (width == 4)
			beside_4(s, table, step);
		else if (width == 2)
			beside_2(s, table, step);
		else
			beside_1(s, table, step);
		for (unsigned i = width; i-- > 0;) {
			if (rounds_of(&s[i], step))
				continue;
			if (finish(&s[i], table, length) < 0)
				return -1;
			s[i] = s[--count];
		}
	}
	return 0;
}

AVX512 static int get_streams_bmi2(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from)
{
	struct stream s[HUFF_STREAMS_MAX];
	unsigned streams = 1u << streams_log;

	if (n < 1024)
		return huff_get_streams_ref(w, out, n, streams_log, length, symbols, in,
			from);
	for (unsigned i = 0; i < streams; i++) {
		uint32_t first, count = huff_stream_symbols(&first, n, streams_log, i);
		const unsigned char *end = in + from[i + 1];

		/* too short to be read by 8 bytes: this is not for us */
		if (from[i + 1] - from[i] < 8)
			return huff_get_streams_ref(w, out, n, streams_log, length,
				symbols, in, from);
		if (!end[-1])
			return -1;
		s[i] = (struct stream){ .at = end - 8,
			.out = out + first + count,
			.bits = (load64(end - 8) | 1)
				<< (__builtin_clz(end[-1]) - 24 + 1),
			.start = in + from[i],
			.out_start = out + first };
	}
	/* so many short streams, each from its end to its start, are not what a core's own prefetcher sees: without
	 * this, data that is not in the cache takes half as long again */
	for (uint32_t i = 0; i < from[streams]; i += 64)
		__builtin_prefetch(in + i);
	for (uint32_t i = 0; i < n; i += 64)
		__builtin_prefetch(out + i, 1);
	return get_all(s, streams, w->table, length,
		make_table(w->table, length, symbols));
}

/* --- the levels ------------------------------------------------------------------------------- */

static void count_bytes(uint32_t counts[256], const unsigned char *in, uint64_t n)
{
	count_tables(counts, in, n, 0);
}

#define LEVEL(name, ...)                                                              \
	static const struct huff_parts parts_##name = { __VA_ARGS__ };                \
	static uint32_t encode_##name(struct huff_work *w, unsigned char *out,        \
		const unsigned char *in, uint32_t n)                                  \
	{                                                                             \
		return huff_encode(&parts_##name, w, out, in, n);                     \
	}                                                                             \
	static int decode_##name(struct huff_work *w, unsigned char *out, uint32_t n, \
		const unsigned char *in, uint64_t bytes)                              \
	{                                                                             \
		return huff_decode(&parts_##name, w, out, n, in, bytes);              \
	}                                                                             \
	static const struct huff_kernels kernels_##name = {                           \
		.count = count_bytes,                                                 \
		.encode = encode_##name,                                              \
		.decode = decode_##name,                                              \
	}

LEVEL(bmi2, .count = count_tables, .sample = sample_tables, .any = huff_any_ref,
	.gaps = gaps_avx2, .pack = huff_pack_ref, .put_lows = huff_put_lows_ref,
	.add_lows = huff_add_lows_ref, .put_streams = put_streams_bmi2,
	.get_streams = huff_get_streams_ref);
LEVEL(avx512, .count = count_tables, .sample = sample_tables, .any = any_avx512,
	.gaps = gaps_avx2, .pack = huff_pack_ref, .put_lows = put_lows_avx512,
	.add_lows = add_lows_avx512, .put_streams = put_streams_bmi2,
	.get_streams = get_streams_bmi2);
LEVEL(vbmi, .count = count_vbmi, .sample = sample_vbmi, .any = any_avx512,
	.gaps = gaps_avx512, .pack = pack_vbmi, .put_lows = put_lows_avx512,
	.add_lows = add_lows_avx512, .put_streams = put_streams_vbmi,
	.get_streams = get_streams_bmi2);

const struct huff_kernels *huff_kernels_x86(enum cpu_level level)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("bmi2"))
		return NULL;
	if (level >= CPU_AVX512)
		return __builtin_cpu_supports("avx512vbmi") &&
				__builtin_cpu_supports("avx512vbmi2") &&
				__builtin_cpu_supports("avx512vpopcntdq") ?
			&kernels_vbmi :
			&kernels_avx512;
	return &kernels_bmi2;
}
#endif
