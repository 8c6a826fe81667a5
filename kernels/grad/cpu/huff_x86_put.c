/* huff_x86_put.c - encodes runs, packed symbols, low bits, and streams. */
#include "kernels/grad/cpu/huff_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

/* --- runs ------------------------------------------------------------------------------------ */

/* Records the symbols other than z: `there` has a bit for each of up to 64 symbols from `at`
 * on. */
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

/* Returns how many of them follow another one directly or are at position 0; *carry: whether
 * the symbol before the first is one. */
BMI2 static inline uint32_t count_close(uint64_t there, uint64_t *carry, unsigned width)
{
	uint32_t close = (uint32_t)__builtin_popcountll(there & (there << 1 | *carry));

	*carry = there >> (width - 1) & 1;
	return close;
}

BMI2 uint32_t huff_gaps_bmi2(uint32_t *gaps, unsigned char *others, uint32_t *close,
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

PLANES uint32_t huff_gaps_vbmi(uint32_t *gaps, unsigned char *others, uint32_t *close,
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

VBMI void huff_pack_vbmi(unsigned char *out, const unsigned char *in, uint32_t n,
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

BMI2 void huff_put_lows_bmi2(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width)
{
	uint32_t i = 0;

	for (; i + 64 <= n; i += 64) {
		__m256i low = _mm256_loadu_si256((const __m256i *)(in + i));
		__m256i high = _mm256_loadu_si256((const __m256i *)(in + i + 32));

		for (unsigned k = 0; k < width; k++, out += 8) {
			/* to the top of each byte */
			__m128i up = _mm_cvtsi32_si128((int)(7 - k));
			uint32_t a = (uint32_t)_mm256_movemask_epi8(
				_mm256_sll_epi16(low, up));
			uint32_t b = (uint32_t)_mm256_movemask_epi8(
				_mm256_sll_epi16(high, up));

			store64(out, a | (uint64_t)b << 32);
		}
	}
	huff_put_lows_ref(out, in + i, n - i, width);
}

AVX512 void huff_put_lows_avx512(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width)
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

/* --- streams ---------------------------------------------------------------------------------- */

/* Bits waiting to be stored; fewer than 8 remain between calls. */
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

BMI2 void huff_put_streams_bmi2(unsigned char *out, uint32_t *end,
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

/* Code tables as bytes: the low bytes of the entries and the high ones. */
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

/* Encodes 64 symbols into 16 lanes of 4 codes, at most 48 bits each: x[j] holds symbols 8j ..
 * 8j + 3, y[j] 8j + 4 .. 8j + 7. */
struct lanes {
	__m512i x, y, x_bits, y_bits;
};

#define UPPER(v) _mm512_maskz_shuffle_epi32(0x5555, v, _MM_PERM_DDBB)

VBMI static inline __attribute__((always_inline)) struct lanes merge(__m512i low,
	__m512i high)
{
	const __m512i first = _mm512_set1_epi32(0xffff), code = _mm512_set1_epi16(0xfff);
	const __m512i half = _mm512_set1_epi64(0xffffffff);
	/* entries of the even and of the odd symbols; byte shifts use another port than bit
	 * shifts */
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

/* Otherwise the compiler extracts lanes from registers, with two instructions each on the ports
 * that vectors need. */
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

VBMI void huff_put_streams_vbmi(unsigned char *out, uint32_t *end,
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
#endif
