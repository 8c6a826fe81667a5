/* huff_plan.h - the decisions of huff.h that every version shares, one text for CPU and GPU:
 * which symbols are split, run-coded or packed, and which mode is smallest. Integers only, so
 * that all versions decide alike. */
#ifndef RNP_KERNELS_GRAD_HUFF_PLAN_H
#define RNP_KERNELS_GRAD_HUFF_PLAN_H

#include <stdint.h>

#include "kernels/grad/huff_code.h"

#define HUFF_SPLIT_MAX     4    /* low bits that may be stored uncoded */
#define HUFF_SPLIT_SYMBOLS 4096 /* fewer symbols are not split */
#define HUFF_ANY_ENOUGH    64   /* alphabets whose OR is below this are not split */
#define HUFF_ESCAPE        255  /* a run without a symbol after it */
#define HUFF_RUN_SPLIT_MAX 16
#define HUFF_RUNS_HEADER   12 /* mode, z, s and a, L, T, R */
#define HUFF_DIRECT_MAX    3  /* bits of a token for the symbol after its run */
#define HUFF_PACK_MAX      16 /* largest alphabet that is packed */

/* The plan of a plane. */
struct huff_plane {
	unsigned split, streams_log, symbols; /* k, log2 S, number of used symbols */
	unsigned char length[HUFF_ALPHABET];
	unsigned char header[256]; /* the coded lengths */
	uint32_t header_bytes;
	uint64_t bits;  /* of all codes */
	uint32_t bytes; /* upper bound of the size of the chunk including its mode */
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

/* Returns n times the entropy, in 1/65536 bits, of counts whose sum is n. */
HD uint64_t huff_entropy(const uint32_t *counts, unsigned symbols, uint32_t n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < symbols; i++)
		if (counts[i])
			sum += (uint64_t)counts[i] * huff_log2(counts[i]);
	return (uint64_t)n * huff_log2(n) - sum;
}

/* Returns the number of symbols in every stream but the last ones. */
HD uint32_t huff_segment(uint32_t n, unsigned streams_log)
{
	uint32_t each = (n + (1u << streams_log) - 1) >> streams_log;

	return streams_log ? (each + 63) & ~63u : n;
}

/* Returns how many symbols stream s has; *from: the first one. */
HD uint32_t huff_stream_symbols(uint32_t *from, uint32_t n, unsigned streams_log,
	unsigned s)
{
	uint32_t segment = huff_segment(n, streams_log);

	*from = s * segment < n ? s * segment : n;
	return n - *from < segment ? n - *from : segment;
}

/* Upper bound of the tokens of n symbols: less than half are not z, and a token without a
 * symbol stands for 31 z or more. */
HD uint32_t huff_runs_max(uint32_t n)
{
	return n / 2 + n / (2 * (HUFF_ESCAPE >> HUFF_DIRECT_MAX)) + 1;
}

/* Few bits justify few streams: each costs 2 or 3 bytes. */
HD unsigned huff_streams_log(uint64_t bits)
{
	return bits >= 1 << 17  ? 5 :
		bits >= 1 << 16 ? 4 :
		bits >= 1 << 15 ? 3 :
		bits >= 1 << 13 ? 2 :
				  0;
}

/* Returns the bytes of `width` low bits of n symbols. */
HD uint32_t huff_lows_bytes(uint32_t n, unsigned width)
{
	return (n / 64 * 8 + (n % 64 + 7) / 8) * width;
}

/* --- planning ------------------------------------------------------------------------------- */

/* A sample is enough to decide on a split: one of every eight groups of 64 symbols. A hash
 * chooses which one, so that no period in the data escapes it. */
#define HUFF_SAMPLE_GROUPS 8

HD uint32_t huff_sample_at(uint32_t i)
{
	return (i * HUFF_SAMPLE_GROUPS + (i * 0x9e3779b1u >> 29)) * 64;
}

HD uint32_t huff_sample_count(uint32_t n)
{
	return n / (64 * HUFF_SAMPLE_GROUPS);
}

/* Whether a plane may be split: not with small alphabets or few symbols. any: all symbols
 * or-ed. */
HD int huff_may_split(uint32_t n, unsigned any)
{
	return n >= HUFF_SPLIT_SYMBOLS && any >= HUFF_ANY_ENOUGH;
}

/* Whether k low bits of n symbols may be stored uncoded, where the others have this entropy: they
 * cost no more than 1/400 of it and leave something to code. *most is set with k = 0, which comes
 * first. Few samples of many symbols underestimate the entropy; Miller and Madow's correction (used
 * - 1) / (2 ln 2) bits is added. */
HD int huff_split_pays(uint64_t *most, uint64_t entropy, unsigned used, uint32_t n,
	unsigned k)
{
	uint64_t bits = entropy + (uint64_t)(used - 1) * 47274 + ((uint64_t)n * k << 16);

	if (!k)
		*most = bits + bits / 400;
	return used >= 2 && bits <= *most;
}

/* Chooses how many low bits to store uncoded, from the counts of the sample: as many as pay. */
HD unsigned huff_split(const uint32_t *counts, uint32_t n)
{
	uint32_t fold[HUFF_ALPHABET];
	uint64_t most = 0;
	unsigned split = 0;

	for (unsigned k = 0; k <= HUFF_SPLIT_MAX; k++) {
		unsigned symbols = HUFF_ALPHABET >> k, used = 0;

		for (unsigned i = 0; i < symbols; i++) {
			fold[i] = k ? fold[2 * i] + fold[2 * i + 1] : counts[i];
			used += fold[i] != 0;
		}
		if (!huff_split_pays(&most, huff_entropy(fold, symbols, n), used, n, k))
			break;
		split = k;
	}
	return split;
}

/* Plans a plane of n symbols from the counts of their high parts, symbol >> split. With one
 * used symbol, only `symbols` = 1 is set. */
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

/* Whether other modes than CODE are worth trying: one symbol is more than half of all, and the
 * codes are more than 2% above the entropy. */
HD int huff_is_skewed(const struct huff_plane *p, const uint32_t *counts, uint32_t n,
	uint32_t max)
{
	uint64_t entropy;

	if (p->split || p->symbols < 2 || max <= n / 2)
		return 0;
	entropy = huff_entropy(counts, HUFF_ALPHABET, n);
	return p->bits << 16 > entropy + entropy / 50;
}

/* How runs of z are turned into tokens. */
struct huff_layout {
	unsigned z, split, direct; /* s and a of huff.h */
	uint32_t max;              /* number of z that an escape stands for */
	unsigned char symbol[1
		<< HUFF_DIRECT_MAX]; /* the (1 << a) - 1 symbols that tokens name */
	unsigned char place
		[HUFF_ALPHABET]; /* index of each symbol among them; else (1 << a) - 1 */
};

/* Low bits of runs: so many that their mean without them is 4 to 7, which costs a geometric
 * distribution 0.004 bits a run; 2 to 3 (0.015 bits) if runs are few and a longer table costs
 * more, or if tokens name several symbols. */
HD unsigned huff_run_split(uint32_t zeros, uint32_t others, unsigned direct)
{
	uint32_t mean = zeros / others, max = direct > 1 || others < 2048 ? 4 : 8;
	unsigned split = 0;

	while (mean >> split >= max)
		split++;
	return split;
}

/* How many bits of a token name a symbol, if `used` symbols occur. */
HD unsigned huff_direct(unsigned used, int named)
{
	return !named ? 0 : used <= 2 ? 1 : used <= 4 ? 2 : HUFF_DIRECT_MAX;
}

/* Decides how to make tokens, from the counts of n symbols, of which two or more are used and z
 * is the most frequent. named: tokens are to name the frequent symbols; returns false if that
 * is of no use. If a few symbols make up most of what is not z, it is better to name them: for
 * {1, -1, 2, -2} alone, half of them 1, a code of whole bits for each costs a tenth more than
 * their entropy; combined with the run before it, no value is frequent. But if runs are not
 * geometric, as between the layers of a real gradient, finer runs may be better: then an
 * encoder tries both. */
HD int huff_plan_layout(struct huff_layout *layout, const uint32_t *counts, unsigned z,
	uint32_t n, int named)
{
	uint32_t others = n - counts[z], covered = 0;
	unsigned used = 0, places;

	for (unsigned v = 0; v < HUFF_ALPHABET; v++)
		used += counts[v] != 0;
	layout->z = z;
	layout->direct = huff_direct(used, named);
	places = (1u << layout->direct) - 1;
	for (unsigned v = 0; v < HUFF_ALPHABET; v++)
		layout->place[v] = (unsigned char)places;
	for (unsigned j = 0; j < places; j++) {
		unsigned best = z;

		for (unsigned v = 0; v < HUFF_ALPHABET; v++)
			if (v != z && layout->place[v] == places &&
				counts[v] > (best == z ? 0 : counts[best]))
				best = v;
		layout->symbol[j] = (unsigned char)best;
		if (best == z)
			continue;
		layout->place[best] = (unsigned char)j;
		covered += counts[best];
	}
	layout->split = huff_run_split(counts[z], others, layout->direct);
	layout->max = (uint32_t)(HUFF_ESCAPE >> layout->direct) << layout->split;
	return !named || covered >= others / 4;
}

/* Whether symbols other than z are adjacent more often than by chance: `close` of them follow
 * another directly (or are the first symbol). */
HD int huff_is_clustered(uint32_t n, uint32_t others, uint32_t close)
{
	return (uint64_t)close * n > (uint64_t)others * others / 8 * 9 + n;
}

/* Returns the bytes before the low bits of runs. */
HD uint32_t huff_layout_bytes(unsigned direct)
{
	return HUFF_RUNS_HEADER + (1u << direct) - 1;
}

/* Returns the bits of an index into a packed alphabet. */
HD unsigned huff_pack_width(unsigned symbols)
{
	return symbols <= 2 ? 1 : symbols <= 4 ? 2 : 4;
}

/* Whether packing is worth trying if the most frequent symbol occurs `max` times in n: runs
 * are better if it is nearly all of them. */
HD int huff_may_pack(unsigned symbols, uint32_t n, uint32_t max)
{
	return symbols <= HUFF_PACK_MAX && max < n - n / (symbols <= 4 ? 8 : 4);
}

/* Upper bound of a chunk that is RAW, ONE or CODE; 0 for no symbols. */
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

/* Writes the header of RUNS, except for R. */
HD void huff_put_layout(unsigned char *out, const struct huff_layout *layout,
	uint32_t rest, uint32_t tokens)
{
	out[0] = HUFF_RUNS;
	out[1] = (unsigned char)layout->z;
	out[2] = (unsigned char)(layout->split | layout->direct << 5);
	huff_put24(out + 3, rest);
	huff_put24(out + 6, tokens);
	for (unsigned j = 0; j + 1 < 1u << layout->direct; j++)
		out[HUFF_RUNS_HEADER + j] = layout->symbol[j];
}

/* The parts after that header. */
struct huff_runs {
	unsigned split, direct;
	uint32_t rest, tokens;
	const unsigned char *symbol; /* the symbols that tokens name */
	const unsigned char *low, *run,
		*last; /* low bits, and the chunks of tokens and of other symbols */
	uint32_t run_bytes;
	uint64_t last_bytes;
};

/* Locates the parts in a chunk of n symbols in `bytes` bytes. Returns 0 or -1. */
HD int huff_get_layout(struct huff_runs *r, uint32_t n, const unsigned char *in,
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
		r->tokens > huff_runs_max(n))
		return -1;
	head = huff_layout_bytes(r->direct);
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

/* Writes the sizes of the streams. Returns their bytes; *wide: whether they take 2 bytes each. */
HD uint32_t huff_put_sizes(unsigned char *out, const uint32_t *end, unsigned streams,
	unsigned *wide)
{
	uint32_t min = UINT32_MAX, max = 0, at = 0;

	for (unsigned s = 0; s + 1 < streams; s++) {
		uint32_t size = end[s] - (s ? end[s - 1] : 0);

		min = size < min ? size : min;
		max = size > max ? size : max;
	}
	*wide = streams > 1 && max - min > 255;
	if (streams > 1 && !*wide) {
		out[at++] = (unsigned char)min;
		out[at++] = (unsigned char)(min >> 8);
	}
	for (unsigned s = 0; s + 1 < streams; s++) {
		uint32_t size = end[s] - (s ? end[s - 1] : 0);

		out[at++] = (unsigned char)(size - (*wide ? 0 : min));
		if (*wide)
			out[at++] = (unsigned char)(size >> 8);
	}
	return at;
}

/* Computes from[0 .. S] of the streams from the sizes after them. Returns 0 or -1. */
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

/* Returns the low bits of token t. */
HD uint32_t huff_low(const unsigned char *lows, uint32_t tokens, unsigned split,
	uint32_t t)
{
	uint32_t part = tokens - t / 64 * 64, bytes = part < 64 ? (part + 7) / 8 : 8;
	const unsigned char *in = lows + (uint64_t)(t / 64) * 8 * split;
	uint32_t v = 0;

	HD_FEW
	for (unsigned k = 0; k < split; k++)
		v |= (uint32_t)(in[k * bytes + t % 64 / 8] >> t % 8 & 1) << k;
	return v;
}

#endif
