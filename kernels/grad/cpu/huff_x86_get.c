/* huff_x86_get.c - decodes low bits and streams. */
#include "kernels/grad/cpu/huff_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

BMI2 void huff_add_lows_bmi2(unsigned char *symbols, const unsigned char *in, uint32_t n,
	unsigned width)
{
	/* Expands a mask: byte j of 32 is bit j % 8 of byte j / 8 of the mask. */
	const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,
		1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
	const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
	uint32_t i = 0;

	for (; i + 64 <= n; i += 64, in += 8 * width)
		for (unsigned half = 0; half < 2; half++) {
			__m256i *at = (__m256i *)(symbols + i + 32 * half);
			__m256i v = _mm256_loadu_si256(at);

			for (unsigned k = 0; k < width; k++)
				v = _mm256_add_epi8(v, v);
			for (unsigned k = 0; k < width; k++) {
				uint64_t mask = load64(in + 8 * k) >> 32 * half;
				__m256i m = _mm256_shuffle_epi8(_mm256_set1_epi32(
									(int32_t)mask),
					spread);

				m = _mm256_cmpeq_epi8(_mm256_and_si256(m, bit), bit);
				v = _mm256_or_si256(v,
					_mm256_and_si256(m,
						_mm256_set1_epi8((char)(1 << k))));
			}
			_mm256_storeu_si256(at, v);
		}
	huff_add_lows_ref(symbols + i, in, n - i, width);
}

AVX512 void huff_add_lows_avx512(unsigned char *symbols, const unsigned char *in,
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

/* --- streams ---------------------------------------------------------------------------------- */

/* The result of a look-up of 12 bits, from the lowest byte: the length in bits, the number of
 * symbols, and the symbols, the first one in the highest byte. Streams give symbols last to
 * first, so storing the whole word below the last symbol puts them in place, and the next ones
 * overwrite the rest of it. */
#define TABLE_BITS    12
#define ENTRY_MAX     6
#define ENTRY_BITS(e) ((e)&63)

static inline uint64_t entry_before(unsigned symbol, unsigned length, uint64_t then)
{
	return (then >> 8 & 0xffffffffffff0000) | (uint64_t)symbol << 56 |
		((then & 0xffff) + 256 + length);
}

/* Symbols ordered by code, and where each length begins. */
struct order {
	unsigned char symbol[HUFF_ALPHABET];
	unsigned first[HUFF_LENGTH_MAX + 2]; /* [l]: first symbol with length l or more */
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

/* INLINE functions are vectorised for the level of their caller. */
#define INLINE static inline __attribute__((always_inline))

INLINE void prepend(uint64_t *restrict to, const uint64_t *restrict from, uint32_t count,
	unsigned symbol, unsigned length)
{
	const uint64_t keep = 0xffffffffffff0000,
		       head = (uint64_t)symbol << 56 | (256 + length);

	/* writes up to 7 entries more, which are padding or overwritten later */
	for (uint32_t i = 0; i < count; i += 8) {
		uint64_t e[8];

#pragma omp simd
		for (unsigned j = 0; j < 8; j++)
			e[j] = ((from[i + j] >> 8 & keep) | head) + (from[i + j] & ~keep);
		memcpy(to + i, e, sizeof e);
	}
}

/* Builds the table of all windows of `bits` bits from the tables of fewer bits: a symbol, then
 * the symbols of the remaining window. Windows that no whole code fits into are empty. most:
 * upper bound for the bits of the remaining window. */
INLINE void fill_table(uint64_t *table, uint64_t *const *tables, unsigned bits,
	const struct order *o, unsigned max)
{
	uint64_t *to = table;

	for (unsigned l = 1; l <= bits; l++)
		for (unsigned i = o->first[l]; i < o->first[l + 1]; i++) {
			unsigned rest = bits - l;

			if (rest <= max) {
				prepend(to, tables[rest], 1u << rest, o->symbol[i], l);
				to += 1u << rest;
				continue;
			}
			for (uint32_t j = 0; j < 1u << max; j++) {
				uint64_t e = entry_before(o->symbol[i], l,
					tables[max][j]);

				for (uint32_t k = 0; k < 1u << (rest - max); k++)
					*to++ = e;
			}
		}
	for (; to < table + (1u << bits); to++)
		*to = 0;
}

/* With codes of one bit the remaining window is limited to 5 bits, so that no entry has more
 * than ENTRY_MAX symbols. Returns the largest number of symbols in an entry. */
INLINE unsigned make_table(uint64_t *table, const unsigned char *length, unsigned symbols)
{
	uint64_t space[(1 << TABLE_BITS) + 8], *tables[TABLE_BITS + 1];
	struct order o;
	unsigned max, min;
	uint32_t wanted = 1u << TABLE_BITS;

	order_by_code(&o, length, symbols);
	max = o.first[2] ? ENTRY_MAX - 1 : TABLE_BITS;
	for (unsigned bits = TABLE_BITS; bits > 0;
		bits--) /* marks the sizes that are needed */
		for (unsigned l = 1; wanted >> bits & 1 && l <= bits; l++)
			if (o.first[l + 1] > o.first[l])
				wanted |= 1u << (bits - l < max ? bits - l : max);
	for (unsigned bits = 0; bits < TABLE_BITS; bits++) {
		tables[bits] = space + (1u << bits);
		if (wanted >> bits & 1)
			fill_table(tables[bits], tables, bits, &o, max);
	}
	fill_table(table, tables, TABLE_BITS, &o, max);
	for (min = 1; !o.first[min + 1]; min++)
		;
	return min == 1 ? ENTRY_MAX : TABLE_BITS / min;
}

struct stream {
	/* the next 64 bits, top ones first, some of which are already used */
	const unsigned char *at;
	unsigned char *out; /* one past the next symbol */
	uint64_t bits;      /* left-aligned, then a 1 and zeros */
	const unsigned char *start;
	unsigned char *out_start;
};

/* Returns the number of unused bits, from the start of the stream. */
static inline int64_t bits_left(const struct stream *s)
{
	return (s->at + 8 - s->start) * 8 - __builtin_ctzll(s->bits);
}

/* Loads the next bits of a stream of 8 bytes or more, left-aligned: 57 or more, or all that
 * remain, then zeros. */
static inline uint64_t window_at(const unsigned char *start, int64_t left)
{
	int64_t low = left - 57;

	if (left >= 64)
		return load64(start + low / 8) << (7 - low % 8);
	return left > 0 ? load64(start) << (64 - left) : 0;
}

/* Decodes the last symbols of a stream. Those that a word store would reach beyond are
 * collected in `tail` first. Returns 0 or -1. */
BMI2 static int finish(const struct stream *s, const uint64_t *table,
	const unsigned char *length)
{
	int64_t left = bits_left(s), count = s->out - s->out_start, last;
	unsigned char tail
		[16]; /* the word ending at symbol i of the last ones is stored at i */

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

/* One look-up: extract the window, load the entry, store the symbols. */
#define LOOK_UP(s)                                                  \
	do {                                                        \
		uint64_t e_ = table[(s).bits >> (64 - TABLE_BITS)]; \
		(s).bits <<= ENTRY_BITS(e_);                        \
		store64((s).out - 8, e_);                           \
		(s).out -= (unsigned char)(e_ >> 8);                \
	} while (0)

/* A core's prefetcher does not recognise so many short streams, each read from end to start,
 * and prefetching a whole chunk at once exceeds the loads it can have outstanding. A stream
 * decodes to about twice its bytes. The prefetched address may lie before the whole chunk. */
#define AHEAD              384
#define PREFETCH_OUT(p, n) __builtin_prefetch((const void *)((uintptr_t)(p) - (n)), 1)
#define PREFETCH_IN(p, n)  __builtin_prefetch((const void *)((uintptr_t)(p) - (n)))

#define LOOK_UPS 4 /* at most 48 bits, of the 56 that are available */

/* Returns how many rounds of LOOK_UPS a stream surely has bits and output space for; a round
 * gives at most `step` symbols. */
static inline uint32_t rounds_of(const struct stream *s, uint32_t step)
{
	uint32_t by_bits = (uint32_t)(s->at - s->start) / 7;
	uint32_t room = (uint32_t)(s->out - s->out_start);
	uint32_t by_space = room < 8 ? 0 : (room - 8) / step;

	return by_bits < by_space ? by_bits : by_space;
}

/* Decodes streams in parallel until one of them may run short of bits or output space. */
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
					PREFETCH_OUT(s[i].out, AHEAD);                   \
					PREFETCH_IN(s[i].at, AHEAD / 2);                 \
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

/* Decodes all streams: when one ends, the next takes its place, because streams of real data
 * differ in length and a single one waits for each look-up. Returns 0 or -1. */
static int get_all(struct stream *s, unsigned count, const uint64_t *table,
	const unsigned char *length, unsigned max)
{
	uint32_t step = LOOK_UPS * max;

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

#define FEW 192 /* fewer symbols do not pay for building the table of windows */

INLINE int get_streams(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from)
{
	struct stream s[HUFF_STREAMS_MAX];
	unsigned streams = 1u << streams_log;

	if (n < FEW)
		return huff_get_streams_ref(w, out, n, streams_log, length, symbols, in,
			from);
	for (unsigned i = 0; i < streams; i++) {
		uint32_t first, count = huff_stream_symbols(&first, n, streams_log, i);
		const unsigned char *end = in + from[i + 1];

		/* a stream shorter than 8 bytes: the reference decodes it */
		if (from[i + 1] - from[i] < 8)
			return huff_get_streams_ref(w, out, n, streams_log, length,
				symbols, in, from);
		if (!end[-1])
			return -1;
		for (unsigned ahead = 0; ahead < AHEAD; ahead += 64) {
			PREFETCH_OUT(out + first + count, ahead + 1);
			PREFETCH_IN(end, ahead / 2 + 1);
		}
		s[i] = (struct stream){ .at = end - 8,
			.out = out + first + count,
			.bits = (load64(end - 8) | 1)
				<< (__builtin_clz(end[-1]) - 24 + 1),
			.start = in + from[i],
			.out_start = out + first };
	}
	return get_all(s, streams, w->table, length,
		make_table(w->table, length, symbols));
}

BMI2 int huff_get_streams_bmi2(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from)
{
	return get_streams(w, out, n, streams_log, length, symbols, in, from);
}

AVX512 int huff_get_streams_avx512(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from)
{
	return get_streams(w, out, n, streams_log, length, symbols, in, from);
}
#endif
