/* huff.c - reference of the entropy coder: tables, and encoding and decoding of chunks. */
#include "kernels/grad/huff.h"

#include <string.h>

#include "kernels/grad/huff_parts.h"

/* --- the parts: plain loops ------------------------------------------------------------------ */

void huff_count_ref(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift)
{
	memset(counts, 0, 256 * sizeof *counts);
	for (uint64_t i = 0; i < n; i++)
		counts[in[i] >> shift]++;
}

void huff_sample_ref(uint32_t counts[256], const unsigned char *in, uint32_t n)
{
	memset(counts, 0, 256 * sizeof *counts);
	for (uint32_t i = 0; i < huff_sample_count(n); i++)
		for (unsigned j = 0; j < 64; j++)
			counts[in[huff_sample_at(i) + j]]++;
}

unsigned huff_any_ref(const unsigned char *in, uint32_t n)
{
	unsigned any = 0;

	for (uint32_t i = 0; i < n; i++)
		any |= in[i];
	return any;
}

uint32_t huff_gaps_ref(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z)
{
	uint32_t count = 0, last = 0;

	*close = 0;
	for (uint32_t i = 0; i < n; i++)
		if (in[i] != z) {
			*close += i == last;
			gaps[count] = i - last;
			others[count++] = in[i];
			last = i + 1;
		}
	return count;
}

void huff_pack_ref(unsigned char *out, const unsigned char *in, uint32_t n,
	const unsigned char place[256], unsigned width)
{
	unsigned each = 8 / width;

	for (uint32_t i = 0; i < n; i += each) {
		unsigned v = 0;

		for (uint32_t j = i; j < i + each && j < n; j++)
			v |= (unsigned)place[in[j]] << (j - i) * width;
		out[i / each] = (unsigned char)v;
	}
}

void huff_put_lows_ref(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width)
{
	for (uint32_t i = 0; i < n; i += 64) {
		uint32_t part = n - i < 64 ? n - i : 64, bytes = (part + 7) / 8;

		memset(out, 0, width * bytes);
		for (unsigned k = 0; k < width; k++, out += bytes)
			for (uint32_t j = 0; j < part; j++)
				out[j / 8] |= (unsigned char)((in[i + j] >> k & 1)
					<< j % 8);
	}
}

void huff_add_lows_ref(unsigned char *symbols, const unsigned char *in, uint32_t n,
	unsigned width)
{
	for (uint32_t i = 0; i < n; i += 64) {
		uint32_t part = n - i < 64 ? n - i : 64, bytes = (part + 7) / 8;

		for (uint32_t j = 0; j < part; j++) {
			unsigned v = symbols[i + j];

			v <<= width;
			for (unsigned k = 0; k < width; k++)
				v |= (unsigned)(in[k * bytes + j / 8] >> j % 8 & 1) << k;
			symbols[i + j] = (unsigned char)v;
		}
		in += width * bytes;
	}
}

void huff_put_streams_ref(unsigned char *out, uint32_t *end, const struct huff_plane *p,
	const unsigned char *in, uint32_t n)
{
	struct huff_bits b = { out, 0, 0, 0 };
	uint16_t entry[HUFF_ALPHABET];

	huff_codes(entry, p->length, HUFF_ALPHABET >> p->split);
	for (unsigned s = 0; s < 1u << p->streams_log; s++) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);

		for (uint32_t i = from; i < from + count; i++) {
			unsigned e = entry[in[i] >> p->split];

			huff_put(&b, e & 4095, e >> 12);
		}
		huff_put(&b, 1, 1);
		if (b.count)
			huff_put(&b, 0, 8 - b.count);
		end[s] = b.bytes;
	}
}

/* Decodes symbols out[0 .. n - 1] of one stream. */
static int get_stream(unsigned char *out, uint32_t n, const uint16_t *table,
	const unsigned char *in, uint64_t bytes)
{
	int64_t at;

	if (!bytes || !in[bytes - 1])
		return -1;
	at = (int64_t)bytes * 8 - 1;
	while (!(in[at / 8] >> at % 8 & 1))
		at--;
	for (uint32_t i = n; i-- > 0;) {
		unsigned window = 0, e;
		int64_t low = at > HUFF_LENGTH_MAX ? at - HUFF_LENGTH_MAX : 0;

		/* the bits below `at`, with zeros beyond the start */
		for (int64_t j = (at - 1) / 8; at && j >= low / 8; j--)
			window = window << 8 | in[j];
		window >>= low % 8;
		window = window << (low + HUFF_LENGTH_MAX - at) & 4095;
		e = table[window];
		out[i] = (unsigned char)e;
		at -= e >> 8;
		if (at < 0)
			return -1;
	}
	return at == 0 ? 0 : -1;
}

int huff_get_streams_ref(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from)
{
	uint16_t *table = (uint16_t *)w->table, entry[HUFF_ALPHABET];

	huff_codes(entry, length, symbols);
	for (unsigned v = 0; v < symbols; v++)
		for (unsigned i = 0; length[v] && i < 4096u >> length[v]; i++)
			table[((entry[v] & 4095u) << (12 - length[v])) + i] =
				(uint16_t)(v | (unsigned)length[v] << 8);
	for (unsigned s = 0; s < 1u << streams_log; s++) {
		uint32_t first, count = huff_stream_symbols(&first, n, streams_log, s);

		if (get_stream(out + first, count, table, in + from[s],
			    from[s + 1] - from[s]) < 0)
			return -1;
	}
	return 0;
}

/* --- simple chunks: RAW, ONE, CODE ----------------------------------------------------------- */

static uint32_t put_raw(unsigned char *out, const unsigned char *in, uint32_t n)
{
	out[0] = HUFF_RAW;
	memcpy(out + 1, in, n);
	return n + 1;
}

/* Counts n symbols, or their high parts if they are split, and plans their coding. */
static void plan(const struct huff_parts *parts, struct huff_plane *p, uint32_t *counts,
	const unsigned char *in, uint32_t n)
{
	struct huff_tree tree;
	unsigned split = 0;

	if (huff_may_split(n, parts->any(in, n))) {
		parts->sample(counts, in, n);
		split = huff_split(counts, huff_sample_count(n) * 64);
	}
	parts->count(counts, in, n, split);
	huff_plan(p, &tree, counts, n, split);
}

/* p: the plan made for these symbols */
static uint32_t put_simple(const struct huff_parts *parts, unsigned char *out,
	const struct huff_plane *p, const unsigned char *in, uint32_t n)
{
	uint32_t at = 2, end[HUFF_STREAMS_MAX];
	unsigned streams = 1u << p->streams_log, wide;

	if (p->bytes > n)
		return put_raw(out, in, n);
	if (p->symbols == 1) {
		out[0] = HUFF_ONE;
		out[1] = in[0];
		return 2;
	}
	out[0] = HUFF_CODE;
	memcpy(out + at, p->header, p->header_bytes);
	at += p->header_bytes;
	if (p->split)
		parts->put_lows(out + at, in, n, p->split);
	at += huff_lows_bytes(n, p->split);
	parts->put_streams(out + at, end, p, in, n);
	at += end[streams - 1];
	at += huff_put_sizes(out + at, end, streams, &wide);
	out[1] = (unsigned char)(p->split | p->streams_log << 4 | wide << 7);
	return at;
}

static int get_plane(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	unsigned char length[HUFF_ALPHABET];
	unsigned split, streams_log, symbols;
	uint32_t took, lows, from[HUFF_STREAMS_MAX + 1];
	int wide;

	if (bytes < 1)
		return -1;
	split = in[0] & 15;
	streams_log = in[0] >> 4 & 7;
	wide = in[0] >> 7;
	if (split > HUFF_SPLIT_MAX || 1u << streams_log > HUFF_STREAMS_MAX)
		return -1;
	in++, bytes--;
	symbols = HUFF_ALPHABET >> split;
	took = huff_get_lengths(length, symbols, in, bytes);
	lows = huff_lows_bytes(n, split);
	if (!took || bytes - took < lows)
		return -1;
	in += took;
	bytes -= took;
	if (huff_get_sizes(from, 1u << streams_log, wide, in + lows, bytes - lows) < 0)
		return -1;
	if (parts->get_streams(w, out, n, streams_log, length, symbols, in + lows, from) <
		0)
		return -1;
	if (split)
		parts->add_lows(out, in, n, split);
	return 0;
}

static int get_simple(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	if (bytes < 2)
		return -1;
	switch (in[0]) {
	case HUFF_RAW:
		if (bytes != (uint64_t)n + 1)
			return -1;
		memcpy(out, in + 1, n);
		return 0;
	case HUFF_ONE:
		if (bytes != 2)
			return -1;
		memset(out, in[1], n);
		return 0;
	case HUFF_CODE:
		return get_plane(parts, w, out, n, in + 1, bytes - 1);
	default:
		return -1;
	}
}

/* --- RUNS ------------------------------------------------------------------------------------- */

struct runs {
	struct huff_layout layout;
	uint32_t tokens, others,
		/* others: symbols that no token names; bytes: upper bound of the chunk's size */
		bytes;
	struct huff_plane run, rest;
};

/* Turns the gaps and other symbols of a chunk into tokens: w->runs, w->lows and w->rest. */
static void layout_runs(struct huff_work *w, struct runs *r, uint32_t others)
{
	unsigned none = (1u << r->layout.direct) - 1, shift = 8 - r->layout.direct;
	uint32_t mask = (1u << r->layout.split) - 1, tokens = 0, rest = 0;

	for (uint32_t i = 0; i < others; i++) {
		uint32_t run = w->gaps[i];
		unsigned place = r->layout.place[w->others[i]];

		for (; run >= r->layout.max; run -= r->layout.max) {
			w->runs[tokens] = HUFF_ESCAPE;
			w->lows[tokens++] = 0;
		}
		w->runs[tokens] = (unsigned char)(place << shift |
			run >> r->layout.split);
		w->lows[tokens++] = run & mask;
		w->rest[rest] = w->others[i];
		rest += place == none;
	}
	r->tokens = tokens;
	r->others = rest;
}

/* Makes tokens and plans the coding of both chunks. */
static void plan_runs(const struct huff_parts *parts, struct huff_work *w, struct runs *r,
	uint32_t others)
{
	layout_runs(w, r, others);
	plan(parts, &r->run, w->counts, w->runs, r->tokens);
	plan(parts, &r->rest, w->counts, w->rest, r->others);
	r->bytes = huff_layout_bytes(r->layout.direct) +
		huff_lows_bytes(r->tokens, r->layout.split) +
		huff_simple_bytes(&r->run, r->tokens) +
		huff_simple_bytes(&r->rest, r->others);
}

/* Tries both ways of making tokens and keeps the smaller, unless it is known which is better. */
static void choose_runs(const struct huff_parts *parts, struct huff_work *w,
	struct runs *r, const unsigned char *in, uint32_t n, const uint32_t *counts,
	unsigned z)
{
	uint32_t close, others = parts->gaps(w->gaps, w->others, &close, in, n, z);
	struct runs plain;
	int named = huff_plan_layout(&r->layout, counts, z, n, 1);

	if (named)
		plan_runs(parts, w, r, others);
	if (named && !huff_is_clustered(n, others, close))
		return;
	huff_plan_layout(&plain.layout, counts, z, n, 0);
	plan_runs(parts, w, &plain, others);
	if (!named || plain.bytes <= r->bytes)
		*r = plain;
	else
		layout_runs(w, r, others);
}

static uint32_t put_runs(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, const struct runs *r)
{
	uint32_t at = huff_layout_bytes(r->layout.direct), size;

	huff_put_layout(out, &r->layout, r->others, r->tokens);
	for (uint32_t i = 0; i < r->tokens; i += 64) {
		uint32_t part = r->tokens - i < 64 ? r->tokens - i : 64;
		uint32_t bytes = (part + 7) / 8;

		memset(out + at, 0, r->layout.split * bytes);
		for (unsigned k = 0; k < r->layout.split; k++, at += bytes)
			for (uint32_t j = 0; j < part; j++)
				out[at + j / 8] |=
					(unsigned char)((w->lows[i + j] >> k & 1)
						<< j % 8);
	}
	size = put_simple(parts, out + at, &r->run, w->runs, r->tokens);
	huff_put24(out + 9, size);
	at += size;
	if (r->others)
		at += put_simple(parts, out + at, &r->rest, w->rest, r->others);
	return at;
}

static int get_runs(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	struct huff_runs r;
	uint32_t other = 0;
	uint64_t at = 0;
	unsigned none;

	if (huff_get_layout(&r, n, in, bytes) < 0 ||
		get_simple(parts, w, w->runs, r.tokens, r.run, r.run_bytes) < 0)
		return -1;
	if (r.rest && get_simple(parts, w, w->rest, r.rest, r.last, r.last_bytes) < 0)
		return -1;
	none = (1u << r.direct) - 1;
	memset(out, in[1], n);
	for (uint32_t t = 0; t < r.tokens; t++) {
		unsigned token = w->runs[t], place = token >> (8 - r.direct);

		at += (token & 255u >> r.direct) << r.split;
		if (r.split)
			at += huff_low(r.low, r.tokens, r.split, t);
		if (token == HUFF_ESCAPE)
			continue;
		if (at >= n || (place == none && other >= r.rest))
			return -1;
		out[at++] = place == none ? w->rest[other++] : r.symbol[place];
	}
	return other == r.rest ? 0 : -1;
}

/* --- PACK ------------------------------------------------------------------------------------- */

static void pack(const struct huff_parts *parts, unsigned char *out,
	const unsigned char *in, uint32_t n, const uint32_t *counts)
{
	unsigned char place[256];
	unsigned symbols = 0;

	for (unsigned i = 0; i < 256; i++) {
		place[i] = (unsigned char)symbols;
		symbols += counts[i] != 0;
	}
	parts->pack(out, in, n, place, huff_pack_width(symbols));
}

static uint32_t put_pack(const struct huff_parts *parts, unsigned char *out,
	const struct huff_plane *p, const unsigned char *packed, uint32_t n,
	const uint32_t *counts)
{
	uint32_t at = 2, width;

	out[0] = HUFF_PACK;
	for (unsigned i = 0; i < 256; i++)
		if (counts[i])
			out[at++] = (unsigned char)i;
	out[1] = (unsigned char)(at - 3);
	width = huff_pack_width(at - 2);
	return at + put_simple(parts, out + at, p, packed, (n * width + 7) / 8);
}

static int get_pack(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	unsigned symbols, width, mask;

	if (bytes < 2 || in[1] >= HUFF_PACK_MAX || bytes < in[1] + 3u)
		return -1;
	symbols = in[1] + 1u;
	width = huff_pack_width(symbols);
	mask = (1u << width) - 1;
	if (get_simple(parts, w, w->packed, (n * width + 7) / 8, in + 2 + symbols,
		    bytes - 2 - symbols) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		unsigned place = w->packed[i * width / 8] >> i * width % 8 & mask;

		if (place >= symbols)
			return -1;
		out[i] = in[2 + place];
	}
	return 0;
}

/* --- a chunk ---------------------------------------------------------------------------------- */

uint32_t huff_encode(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, const unsigned char *in, uint32_t n)
{
	struct huff_plane plane, packed;
	struct runs r = { 0 };
	uint32_t counts[256], best, max = 0;
	enum huff_mode mode = HUFF_CODE;
	unsigned z = 0;

	if (!n)
		return 0;
	plan(parts, &plane, counts, in, n);
	best = huff_simple_bytes(&plane, n);
	for (unsigned i = 0; i < (unsigned)HUFF_ALPHABET >> plane.split; i++) {
		z = counts[i] > max ? i : z;
		max = counts[i] > max ? counts[i] : max;
	}
	if (huff_is_skewed(&plane, counts, n, max)) {
		choose_runs(parts, w, &r, in, n, counts, z);
		if (r.bytes < best) {
			best = r.bytes;
			mode = HUFF_RUNS;
		}
		if (huff_may_pack(plane.symbols, n, max)) {
			uint32_t m = (n * huff_pack_width(plane.symbols) + 7) / 8;

			pack(parts, w->packed, in, n, counts);
			plan(parts, &packed, w->counts, w->packed, m);
			if (2 + plane.symbols + huff_simple_bytes(&packed, m) < best)
				mode = HUFF_PACK;
		}
	}
	if (mode == HUFF_RUNS)
		return put_runs(parts, w, out, &r);
	if (mode == HUFF_PACK)
		return put_pack(parts, out, &packed, w->packed, n, counts);
	return put_simple(parts, out, &plane, in, n);
}

int huff_decode(const struct huff_parts *parts, struct huff_work *w, unsigned char *out,
	uint32_t n, const unsigned char *in, uint64_t bytes)
{
	if (!n)
		return bytes ? -1 : 0;
	if (n > HUFF_CHUNK_MAX || bytes < 2)
		return -1;
	switch (in[0]) {
	case HUFF_RUNS:
		return get_runs(parts, w, out, n, in, bytes);
	case HUFF_PACK:
		return get_pack(parts, w, out, n, in, bytes);
	default:
		return get_simple(parts, w, out, n, in, bytes);
	}
}

/* --- the levels ------------------------------------------------------------------------------- */

static const struct huff_parts parts_ref = {
	.count = huff_count_ref,
	.sample = huff_sample_ref,
	.any = huff_any_ref,
	.gaps = huff_gaps_ref,
	.pack = huff_pack_ref,
	.put_lows = huff_put_lows_ref,
	.add_lows = huff_add_lows_ref,
	.put_streams = huff_put_streams_ref,
	.get_streams = huff_get_streams_ref,
};

static uint32_t encode_ref(struct huff_work *w, unsigned char *out,
	const unsigned char *in, uint32_t n)
{
	return huff_encode(&parts_ref, w, out, in, n);
}

static int decode_ref(struct huff_work *w, unsigned char *out, uint32_t n,
	const unsigned char *in, uint64_t bytes)
{
	return huff_decode(&parts_ref, w, out, n, in, bytes);
}

static void count_ref(uint32_t counts[256], const unsigned char *in, uint64_t n)
{
	huff_count_ref(counts, in, n, 0);
}

const struct huff_kernels huff_kernels_ref = {
	.count = count_ref,
	.encode = encode_ref,
	.decode = decode_ref,
};
