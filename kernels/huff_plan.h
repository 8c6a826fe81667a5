/* huff_plan.h - the decisions of huff.h that every version shares, one text for CPU and GPU: code lengths, the
 * coding of the table, and which mode is smallest. Integers only, so that all decide alike. */
#ifndef RNP_KERNELS_HUFF_PLAN_H
#define RNP_KERNELS_HUFF_PLAN_H

#include <stdint.h>

#include "kernels/huff.h"

#define HUFF_SPLIT_MAX     4    /* low bits stored as they are */
#define HUFF_SPLIT_SYMBOLS 4096 /* fewer symbols are not split */
#define HUFF_ALPHABET      256u
#define HUFF_ANY_ENOUGH    64  /* what an alphabet reaches that may be split */
#define HUFF_ESCAPE        255 /* a run without a symbol behind it */
#define HUFF_RUN_SPLIT_MAX 16
#define HUFF_RUNS_HEADER   12 /* mode, z, s and a, L, T, R */
#define HUFF_DIRECT_MAX    3  /* bits of a token for the symbol behind its run */
#define HUFF_PACK_MAX      16 /* symbols of an alphabet that is packed */

/* How a plane is coded. */
struct huff_plane {
	unsigned split, streams_log, symbols; /* k, log2 S, how many are used */
	unsigned char length[HUFF_ALPHABET];
	unsigned char header[256]; /* the coded lengths */
	uint32_t header_bytes;
	uint64_t bits;  /* of all codes */
	uint32_t bytes; /* the chunk with its mode, never less than what comes out */
};

/* log2(x) in 1/65536, 1 <= x < 2^31, within 4/65536: a polynomial in 32-bit integers */
HD uint32_t huff_log2(uint32_t x)
{
	uint32_t e = 31 - (uint32_t)__builtin_clz(x);
	int32_t f = (int32_t)((e < 16 ? x << (16 - e) : x >> (e - 16)) - 65536), p = 1684;

	p = (p * f >> 16) - 6370;
	p = (p * f >> 16) + 12065;
	p = (p * f >> 16) - 18125;
	p = (p * f >> 16) + 29010;
	return (e << 16) + (uint32_t)f +
		(uint32_t)(((int32_t)((uint32_t)f * (65536 - (uint32_t)f) >> 16) * p) >>
			16);
}

/* n times the entropy in 1/65536 bits of what was counted, n its sum */
HD uint64_t huff_entropy(const uint32_t *counts, unsigned symbols, uint32_t n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < symbols; i++)
		if (counts[i])
			sum += (uint64_t)counts[i] * huff_log2(counts[i]);
	return (uint64_t)n * huff_log2(n) - sum;
}

/* Symbols of every stream but the last ones. */
HD uint32_t huff_segment(uint32_t n, unsigned streams_log)
{
	uint32_t each = (n + (1u << streams_log) - 1) >> streams_log;

	return streams_log ? (each + 63) & ~63u : n;
}

/* How many symbols stream s has; *from: the first one. */
HD uint32_t huff_stream_symbols(uint32_t *from, uint32_t n, unsigned streams_log,
	unsigned s)
{
	uint32_t segment = huff_segment(n, streams_log);

	*from = s * segment < n ? s * segment : n;
	return n - *from < segment ? n - *from : segment;
}

/* The tokens of n symbols: less than half are no z, and a token without a symbol takes 31 z or more. */
HD uint32_t huff_runs_most(uint32_t n)
{
	return n / 2 + n / (2 * (HUFF_ESCAPE >> HUFF_DIRECT_MAX)) + 1;
}

/* Few bits bear few streams: each costs 2 or 3 bytes. */
HD unsigned huff_streams_log(uint64_t bits)
{
	return bits >= 1 << 17  ? 5 :
		bits >= 1 << 16 ? 4 :
		bits >= 1 << 15 ? 3 :
		bits >= 1 << 13 ? 2 :
				  0;
}

/* Bytes of `width` low bits of n symbols. */
HD uint32_t huff_lows_bytes(uint32_t n, unsigned width)
{
	return (n / 64 * 8 + (n % 64 + 7) / 8) * width;
}

/* How many bits are 1. */
HD unsigned huff_ones(uint32_t v)
{
	v -= v >> 1 & 0x55555555;
	v = (v & 0x33333333) + (v >> 2 & 0x33333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f;
	return v * 0x01010101u >> 24;
}

/* --- lengths ------------------------------------------------------------------------------- */

/* What the construction needs: about 7 KiB. Both ends of what is merged are guarded. */
struct huff_tree {
	uint32_t key[HUFF_ALPHABET];      /* count - 1 << 8 | symbol, rising */
	uint32_t leaf[HUFF_ALPHABET + 2]; /* [i + 1]: the weight of key i */
	uint32_t pair[HUFF_ALPHABET + 2]; /* [i + 1]: of items 2i and 2i + 1 of a list */
	uint32_t list[2 * HUFF_ALPHABET];
	uint16_t parent[2 * HUFF_ALPHABET];
	uint32_t is_pair[HUFF_LENGTH_MAX][2 * HUFF_ALPHABET / 32];
};

#define HUFF_DIGIT 6 /* three of them are a count - 1 */

/* The used symbols by count, then symbol. Returns how many. */
HD unsigned huff_sort(struct huff_tree *t, const uint32_t *counts, unsigned symbols)
{
	uint32_t *from = t->list, *to = t->key, *at = t->leaf;
	unsigned used = 0;

	for (unsigned i = 0; i < symbols; i++) {
		from[used] = (counts[i] - 1) << 8 | i;
		used += counts[i] != 0;
	}
	for (unsigned shift = 8; shift < 8 + 3 * HUFF_DIGIT; shift += HUFF_DIGIT) {
		uint32_t *swap = from, sum = 0;

		for (unsigned i = 0; i < 1u << HUFF_DIGIT; i++)
			at[i] = 0;
		for (unsigned i = 0; i < used; i++)
			at[from[i] >> shift & ((1u << HUFF_DIGIT) - 1)]++;
		for (unsigned i = 0; i < 1u << HUFF_DIGIT; i++) {
			uint32_t count = at[i];

			at[i] = sum;
			sum += count;
		}
		for (unsigned i = 0; i < used; i++)
			to[at[from[i] >> shift & ((1u << HUFF_DIGIT) - 1)]++] = from[i];
		from = to;
		to = swap;
	}
	t->leaf[0] = 0;
	for (unsigned i = 0; i < used; i++)
		t->leaf[i + 1] = (t->key[i] >> 8) + 1;
	t->leaf[used + 1] = UINT32_MAX;
	return used;
}

/* Huffman's code by two queues, leaves first where equal. Returns the longest length. */
HD unsigned huff_free_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	uint32_t *sum = t->list;
	const uint32_t *weight = t->leaf + 1;
	unsigned leaf = 0, pair = 0, longest = 0;
	unsigned char *depth = (unsigned char *)t->pair; /* of pairs */

	for (unsigned made = 0; made + 1 < used; made++) {
		uint32_t total = 0;

		sum[made] = UINT32_MAX;
		for (int side = 0; side < 2; side++) {
			uint32_t a = weight[leaf], b = sum[pair];
			unsigned is_pair = b < a;

			total += is_pair ? b : a;
			t->parent[is_pair ? used + pair : leaf] = (uint16_t)made;
			pair += is_pair;
			leaf += !is_pair;
		}
		sum[made] = total;
	}
	for (unsigned i = used - 1; i-- > 0;)
		depth[i] = i + 2 == used ?
			0 :
			(unsigned char)(depth[t->parent[used + i]] + 1);
	for (unsigned i = 0; i < used; i++) {
		unsigned d = depth[t->parent[i]] + 1u;

		length[t->key[i] & 255] = (unsigned char)d;
		longest = d > longest ? d : longest;
	}
	return longest;
}

/* Merge leaves and pairs to t->list, leaves first where equal. From both ends: each item waits for the choice before,
 * and so two are made at a time. */
HD void huff_merge(struct huff_tree *t, unsigned used, unsigned pairs, uint32_t *is_pair)
{
	const uint32_t *leaf = t->leaf + 1, *pair = t->pair + 1;
	const uint32_t *last_leaf = t->leaf + used, *last_pair = t->pair + pairs;
	unsigned low = 0, high = used + pairs;
	uint32_t flags = 0;

	t->pair[0] = 0;
	t->pair[pairs + 1] = UINT32_MAX;
#define HUFF_MERGE_UP(i, flags)                       \
	do {                                          \
		uint32_t chosen_ = *pair < *leaf;     \
		t->list[i] = chosen_ ? *pair : *leaf; \
		(flags) |= chosen_ << (i) % 32;       \
		pair += chosen_;                      \
		leaf += !chosen_;                     \
	} while (0)
#define HUFF_MERGE_DOWN(i, flags)                               \
	do {                                                    \
		uint32_t chosen_ = *last_pair >= *last_leaf;    \
		t->list[i] = chosen_ ? *last_pair : *last_leaf; \
		(flags) |= chosen_ << (i) % 32;                 \
		last_pair -= chosen_;                           \
		last_leaf -= !chosen_;                          \
	} while (0)
	while (high % 32) {
		high--;
		HUFF_MERGE_DOWN(high, flags);
	}
	is_pair[high / 32] = flags;
	for (; high - low >= 64; low += 32, high -= 32) {
		uint32_t flags_low = 0, flags_high = 0;

		for (unsigned i = 0; i < 32; i++) {
			HUFF_MERGE_UP(low + i, flags_low);
			HUFF_MERGE_DOWN(high - 1 - i, flags_high);
		}
		is_pair[low / 32] = flags_low;
		is_pair[high / 32 - 1] = flags_high;
	}
	flags = 0;
	for (; low < high; low++) {
		HUFF_MERGE_UP(low, flags);
		is_pair[low / 32] = flags;
	}
#undef HUFF_MERGE_UP
#undef HUFF_MERGE_DOWN
}

/* Package-merge: HUFF_LENGTH_MAX lists of leaves and pairs from the list before. */
HD void huff_limited_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	unsigned pairs = 0, take = 2 * used - 2;

	for (unsigned i = 0; i < used; i++)
		length[t->key[i] & 255] = 0;
	for (unsigned level = 0; level < HUFF_LENGTH_MAX; level++) {
		huff_merge(t, used, pairs, t->is_pair[level]);
		pairs = (used + pairs) / 2;
		for (unsigned i = 0; i < pairs; i++)
			t->pair[i + 1] = t->list[2 * i] + t->list[2 * i + 1];
	}
	for (unsigned level = HUFF_LENGTH_MAX; level-- > 0;) {
		unsigned left = take, leaves;

		pairs = 0;
		for (unsigned i = 0; left; i++) {
			uint32_t flags = t->is_pair[level][i];
			unsigned part = left < 32 ? left : 32;

			if (part < 32)
				flags &= (1u << part) - 1;
			pairs += huff_ones(flags);
			left -= part;
		}
		leaves = take - pairs;
		for (unsigned i = 0; i < leaves; i++)
			length[t->key[i] & 255]++;
		take = 2 * pairs;
	}
}

/* Optimal lengths of at most HUFF_LENGTH_MAX for counts, 2 used symbols or more. */
HD void huff_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	if (huff_free_lengths(t, used, length) > HUFF_LENGTH_MAX)
		huff_limited_lengths(t, used, length);
}

/* --- codes --------------------------------------------------------------------------------- */

/* entry[v] = code | length << 12, 0 for what has none. */
HD void huff_codes(uint16_t *entry, const unsigned char *length, unsigned symbols)
{
	uint32_t next[HUFF_LENGTH_MAX + 2] = { 0 };

	for (unsigned i = 0; i < symbols; i++)
		next[length[i] + 1]++;
	next[1] = 0;
	for (unsigned l = 1; l <= HUFF_LENGTH_MAX; l++)
		next[l + 1] = (next[l] + next[l + 1]) << 1;
	/* next[l]: first code of length l */
	for (unsigned i = 0; i < symbols; i++)
		entry[i] = length[i] ?
			(uint16_t)(next[length[i]]++ | (uint32_t)length[i] << 12) :
			0;
}

/* --- the coded lengths ---------------------------------------------------------------------- */

struct huff_bits {
	unsigned char *at;
	uint32_t bytes;
	uint64_t held;
	unsigned count;
};

HD void huff_put(struct huff_bits *b, uint32_t v, unsigned count)
{
	b->held |= (uint64_t)v << b->count;
	for (b->count += count; b->count >= 8; b->count -= 8) {
		b->at[b->bytes++] = (unsigned char)b->held;
		b->held >>= 8;
	}
}

/* Returns the bytes written at out, at most 256. */
HD uint32_t huff_put_lengths(unsigned char *out, const unsigned char *length,
	unsigned symbols)
{
	struct huff_bits b = { out, 0, 0, 0 };
	unsigned last = 6;

	for (unsigned i = 0; i < symbols;) {
		unsigned l = length[i], run = 1;

		if (!l) {
			unsigned top = 0;

			while (i + run < symbols && !length[i + run])
				run++;
			while (run >> (top + 1))
				top++;
			huff_put(&b, 3, 3); /* 110, least bit first */
			huff_put(&b, 1u << top, top + 1);
			for (unsigned j = top; j-- > 0;)
				huff_put(&b, run >> j & 1, 1);
			i += run;
			continue;
		}
		if (l == last)
			huff_put(&b, 0, 1);
		else if (l == last + 1)
			huff_put(&b, 1, 3);
		else if (l + 1 == last)
			huff_put(&b, 5, 3);
		else
			huff_put(&b, 7 | l << 3, 7);
		last = l;
		i++;
	}
	if (b.count)
		huff_put(&b, 0, 8 - b.count);
	return b.bytes;
}

struct huff_reader {
	const unsigned char *at;
	uint64_t bits, used; /* how many there are, how many are read; beyond are zeros */
};

HD unsigned huff_get(struct huff_reader *r, unsigned count)
{
	unsigned v = 0;

	for (unsigned i = 0; i < count; i++, r->used++)
		if (r->used < r->bits)
			v |= (unsigned)(r->at[r->used / 8] >> r->used % 8 & 1) << i;
	return v;
}

/* Read lengths from `bytes` bytes at in. Returns the bytes they took, or 0: they are none, or no complete code. */
HD uint32_t huff_get_lengths(unsigned char *length, unsigned symbols,
	const unsigned char *in, uint64_t bytes)
{
	struct huff_reader r = { in, bytes * 8, 0 };
	unsigned last = 6;
	uint32_t kraft = 0;

	for (unsigned i = 0; i < symbols;) {
		if (!huff_get(&r, 1)) {
			/* as the last */
		} else if (!huff_get(&r, 1)) {
			last += huff_get(&r, 1) ? -1u : 1u;
		} else if (huff_get(&r, 1)) {
			last = huff_get(&r, 4);
		} else {
			unsigned top = 0, run = 1;

			while (top < 9 && !huff_get(&r, 1))
				top++;
			for (unsigned j = 0; j < top; j++)
				run = run << 1 | huff_get(&r, 1);
			if (run > symbols - i)
				return 0;
			while (run--)
				length[i++] = 0;
			continue;
		}
		if (last < 1 || last > HUFF_LENGTH_MAX)
			return 0;
		length[i++] = (unsigned char)last;
		kraft += 1u << (HUFF_LENGTH_MAX - last);
	}
	if (kraft != 1u << HUFF_LENGTH_MAX || r.used > r.bits)
		return 0;
	return (uint32_t)((r.used + 7) / 8);
}

/* --- planning ------------------------------------------------------------------------------- */

/* To decide on a split a sample is enough: of every eight groups of 64 symbols one. Which one, a hash says, so that
 * no period hides from it. */
#define HUFF_SAMPLE_GROUPS 8

HD uint32_t huff_sample_at(uint32_t i)
{
	return (i * HUFF_SAMPLE_GROUPS + (i * 0x9e3779b1u >> 29)) * 64;
}

HD uint32_t huff_sample_count(uint32_t n)
{
	return n / (64 * HUFF_SAMPLE_GROUPS);
}

/* Whether a plane is split at all: small alphabets and few symbols are not. any: all symbols or-ed. */
HD int huff_may_split(uint32_t n, unsigned any)
{
	return n >= HUFF_SPLIT_SYMBOLS && any >= HUFF_ANY_ENOUGH;
}

/* How many low bits to leave as they are, by the counts of the sample: as many as cost no more than 1/400 of the
 * entropy and leave something to code. What few samples of many symbols miss of the entropy is added as Miller and Madow
 * have it: (used - 1) / (2 ln 2) bits. */
HD unsigned huff_split(const uint32_t *counts, uint32_t n)
{
	uint32_t fold[HUFF_ALPHABET];
	uint64_t entropy = 0;
	unsigned split = 0;

	for (unsigned k = 0; k <= HUFF_SPLIT_MAX; k++) {
		unsigned symbols = HUFF_ALPHABET >> k, used = 0;
		uint64_t bits;

		for (unsigned i = 0; i < symbols; i++) {
			fold[i] = k ? fold[2 * i] + fold[2 * i + 1] : counts[i];
			used += fold[i] != 0;
		}
		if (used < 2)
			break;
		bits = huff_entropy(fold, symbols, n) + (uint64_t)(used - 1) * 47274 +
			((uint64_t)n * k << 16);
		if (!k)
			entropy = bits + bits / 400;
		if (bits > entropy)
			break;
		split = k;
	}
	return split;
}

/* Plan a plane of n symbols whose high parts, symbol >> split, were counted. One used symbol: symbols = 1 only. */
HD void huff_plan(struct huff_plane *p, struct huff_tree *t, const uint32_t *counts,
	uint32_t n, unsigned split)
{
	unsigned symbols = HUFF_ALPHABET >> split;

	p->split = split;
	p->bits = 0;
	p->streams_log = 0;
	p->header_bytes = 0;
	p->bytes = 2;
	for (unsigned i = 0; i < symbols; i++)
		p->length[i] = 0;
	p->symbols = huff_sort(t, counts, symbols);
	if (p->symbols < 2)
		return;
	huff_lengths(t, p->symbols, p->length);
	for (unsigned i = 0; i < symbols; i++)
		p->bits += (uint64_t)counts[i] * p->length[i];
	p->streams_log = huff_streams_log(p->bits);
	p->header_bytes = huff_put_lengths(p->header, p->length, symbols);
	p->bytes = 2 + p->header_bytes + huff_lows_bytes(n, split) +
		(2u << p->streams_log) - 2 + (1u << p->streams_log) +
		(uint32_t)(p->bits / 8);
}

/* Whether other modes than CODE are worth a look: a symbol is above 1/2, and the codes are more than 2% above
 * the entropy. */
HD int huff_is_skewed(const struct huff_plane *p, const uint32_t *counts, uint32_t n,
	uint32_t most)
{
	uint64_t entropy;

	if (p->split || p->symbols < 2 || most <= n / 2)
		return 0;
	entropy = huff_entropy(counts, HUFF_ALPHABET, n);
	return p->bits << 16 > entropy + entropy / 50;
}

/* How runs of z are cut into tokens. */
struct huff_cut {
	unsigned z, split, direct;                  /* s and a of huff.h */
	uint32_t most;                              /* z that an escape stands for */
	unsigned char symbol[1 << HUFF_DIRECT_MAX]; /* (1 << a) - 1 that tokens name */
	unsigned char
		place[HUFF_ALPHABET]; /* of each symbol in them; else (1 << a) - 1 */
};

/* The low bits of runs: so many that their mean without is 4 to 7, which costs a geometric distribution 0.004 bits a
 * run; 2 to 3 (0.015 bits) where runs are few and a longer table costs more, or where tokens name several symbols. */
HD unsigned huff_run_split(uint32_t zeros, uint32_t others, unsigned direct)
{
	uint32_t mean = zeros / others, most = direct > 1 || others < 2048 ? 4 : 8;
	unsigned split = 0;

	while (mean >> split >= most)
		split++;
	return split;
}

/* Decide on it by the counts of n symbols, of which there are two or more and z is the most frequent. named: tokens are to
 * name the symbols that are frequent; returns false where that is of no use. A few symbols that are most of what
 * is not z are better named: of {1, -1, 2, -2} alone, half of them 1, a code of whole bits for each costs a tenth more than
 * their entropy; together with the run before it nothing is frequent. But where runs are not geometric, as
 * between the layers of a real gradient, finer runs may be better: there an encoder tries both. */
HD int huff_plan_cut(struct huff_cut *cut, const uint32_t *counts, unsigned z, uint32_t n,
	int named)
{
	uint32_t others = n - counts[z], covered = 0;
	unsigned used = 0, places;

	for (unsigned v = 0; v < HUFF_ALPHABET; v++)
		used += counts[v] != 0;
	cut->z = z;
	cut->direct = !named ? 0 : used <= 2 ? 1 : used <= 4 ? 2 : HUFF_DIRECT_MAX;
	places = (1u << cut->direct) - 1;
	for (unsigned v = 0; v < HUFF_ALPHABET; v++)
		cut->place[v] = (unsigned char)places;
	for (unsigned j = 0; j < places; j++) {
		unsigned best = z;

		for (unsigned v = 0; v < HUFF_ALPHABET; v++)
			if (v != z && cut->place[v] == places &&
				counts[v] > (best == z ? 0 : counts[best]))
				best = v;
		cut->symbol[j] = (unsigned char)best;
		if (best == z)
			continue;
		cut->place[best] = (unsigned char)j;
		covered += counts[best];
	}
	cut->split = huff_run_split(counts[z], others, cut->direct);
	cut->most = (uint32_t)(HUFF_ESCAPE >> cut->direct) << cut->split;
	return !named || covered >= others / 4;
}

/* Whether what is not z stands together more often than by chance: `close` of the others have another just before
 * them (or are the first symbol). */
HD int huff_is_clustered(uint32_t n, uint32_t others, uint32_t close)
{
	return (uint64_t)close * n > (uint64_t)others * others / 8 * 9 + n;
}

/* Bytes before the low bits of runs. */
HD uint32_t huff_cut_bytes(unsigned direct)
{
	return HUFF_RUNS_HEADER + (1u << direct) - 1;
}

/* Bits of a place in an alphabet that is packed. */
HD unsigned huff_pack_width(unsigned symbols)
{
	return symbols <= 2 ? 1 : symbols <= 4 ? 2 : 4;
}

/* Whether packing is worth a try where the most frequent of the symbols is `most` of n: runs are better where it
 * is nearly all of them. */
HD int huff_may_pack(unsigned symbols, uint32_t n, uint32_t most)
{
	return symbols <= HUFF_PACK_MAX && most < n - n / (symbols <= 4 ? 8 : 4);
}

/* What a chunk that is RAW, ONE or CODE takes at most; none of no symbols. */
HD uint32_t huff_simple_bytes(const struct huff_plane *p, uint32_t n)
{
	return !n ? 0 : p->bytes < n + 1 ? p->bytes : n + 1;
}

/* --- what chunks are made of ------------------------------------------------------------------ */

HD void huff_put24(unsigned char *out, uint32_t v)
{
	out[0] = (unsigned char)v;
	out[1] = (unsigned char)(v >> 8);
	out[2] = (unsigned char)(v >> 16);
}

HD uint32_t huff_get24(const unsigned char *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16;
}

/* The head of RUNS, but for R. */
HD void huff_put_cut(unsigned char *out, const struct huff_cut *cut, uint32_t rest,
	uint32_t tokens)
{
	out[0] = HUFF_RUNS;
	out[1] = (unsigned char)cut->z;
	out[2] = (unsigned char)(cut->split | cut->direct << 5);
	huff_put24(out + 3, rest);
	huff_put24(out + 6, tokens);
	for (unsigned j = 0; j + 1 < 1u << cut->direct; j++)
		out[HUFF_RUNS_HEADER + j] = cut->symbol[j];
}

/* What is behind that head. */
struct huff_runs {
	unsigned split, direct;
	uint32_t rest, tokens;
	const unsigned char *symbol; /* those that tokens name */
	const unsigned char *low, *run,
		*last; /* low bits, the chunks of tokens and of other symbols */
	uint32_t run_bytes;
	uint64_t last_bytes;
};

/* Find it in a chunk of n symbols in `bytes` bytes. Returns 0 or -1. */
HD int huff_get_cut(struct huff_runs *r, uint32_t n, const unsigned char *in,
	uint64_t bytes)
{
	uint32_t head, lows;

	if (bytes < HUFF_RUNS_HEADER)
		return -1;
	r->split = in[2] & 31;
	r->direct = in[2] >> 5;
	r->rest = huff_get24(in + 3);
	r->tokens = huff_get24(in + 6);
	r->run_bytes = huff_get24(in + 9);
	if (r->split > HUFF_RUN_SPLIT_MAX || r->direct > HUFF_DIRECT_MAX ||
		r->rest + r->direct == 0 || r->rest > r->tokens || !r->tokens ||
		r->tokens > huff_runs_most(n))
		return -1;
	head = huff_cut_bytes(r->direct);
	lows = huff_lows_bytes(r->tokens, r->split);
	if (bytes < (uint64_t)head + lows + r->run_bytes)
		return -1;
	r->symbol = in + HUFF_RUNS_HEADER;
	r->low = in + head;
	r->run = r->low + lows;
	r->last = r->run + r->run_bytes;
	r->last_bytes = bytes - head - lows - r->run_bytes;
	return !r->rest == !r->last_bytes ? 0 : -1;
}

/* Sizes of the streams that end there. Returns their bytes; *wide: whether they are 2 bytes each. */
HD uint32_t huff_put_sizes(unsigned char *out, const uint32_t *end, unsigned streams,
	unsigned *wide)
{
	uint32_t least = UINT32_MAX, most = 0, at = 0;

	for (unsigned s = 0; s + 1 < streams; s++) {
		uint32_t size = end[s] - (s ? end[s - 1] : 0);

		least = size < least ? size : least;
		most = size > most ? size : most;
	}
	*wide = streams > 1 && most - least > 255;
	if (streams > 1 && !*wide) {
		out[at++] = (unsigned char)least;
		out[at++] = (unsigned char)(least >> 8);
	}
	for (unsigned s = 0; s + 1 < streams; s++) {
		uint32_t size = end[s] - (s ? end[s - 1] : 0);

		out[at++] = (unsigned char)(size - (*wide ? 0 : least));
		if (*wide)
			out[at++] = (unsigned char)(size >> 8);
	}
	return at;
}

/* from[0 .. S] of streams in the bytes before their sizes. Returns 0 or -1. */
HD int huff_get_sizes(uint32_t *from, unsigned streams, int wide, const unsigned char *in,
	uint64_t bytes)
{
	uint32_t taken = streams == 1 ? 0 : wide ? 2 * (streams - 1) : 2 + streams - 1;
	const unsigned char *sizes;

	if (bytes < taken || bytes > UINT32_MAX)
		return -1;
	bytes -= taken;
	sizes = in + bytes;
	from[0] = 0;
	for (unsigned s = 0; s + 1 < streams; s++) {
		uint32_t size = wide ?
			sizes[2 * s] | (uint32_t)sizes[2 * s + 1] << 8 :
			(sizes[0] | (uint32_t)sizes[1] << 8) + sizes[2 + s];

		if (size > bytes - from[s])
			return -1;
		from[s + 1] = from[s] + size;
	}
	from[streams] = (uint32_t)bytes;
	return 0;
}

/* Token t's low bits. */
HD uint32_t huff_low(const unsigned char *lows, uint32_t tokens, unsigned split,
	uint32_t t)
{
	uint32_t part = tokens - t / 64 * 64, bytes = part < 64 ? (part + 7) / 8 : 8;
	const unsigned char *in = lows + (uint64_t)(t / 64) * 8 * split;
	uint32_t v = 0;

	for (unsigned k = 0; k < split; k++)
		v |= (uint32_t)(in[k * bytes + t % 64 / 8] >> t % 8 & 1) << k;
	return v;
}

#endif
