/* huff_put.cu - the encoder of huff.h on a GPU. */
#include "kernels/grad/huff.cuh"

/* --- an encoder: shared by a block ------------------------------------------------------------ */

#define EACH        16 /* symbols that a thread takes at a time */
#define STAGE_WORDS (32 * EACH * HUFF_LENGTH_MAX / 32 + 4)

struct encoder {
	uint32_t counts[256], chunk_counts[256];
	uint32_t sums[WARPS], tops[WARPS];
	uint32_t end[HUFF_STREAMS_MAX];
	uint32_t used, bits, any;
	unsigned long long entropy;
	unsigned split;
	uint16_t entry[HUFF_ALPHABET];
	uint32_t of_length[WARPS][HUFF_LENGTH_MAX + 1];
	union {
		struct huff_tree tree;
		uint32_t stage[WARPS]
			      [STAGE_WORDS]; /* words of a stream that a warp makes */
	};
	struct huff_plane plane
		[4]; /* of the chunk, of its runs, of its other symbols, of its packed form */
	struct huff_layout layout;
	struct space space; /* registers are few */
	int layout_is_useful;
	uint32_t others, tokens, close, max, at, top;
	unsigned z, mode;
};

/* 16 symbols from memory of any alignment. */
__device__ __forceinline__ uint4 load_each(const unsigned char *p)
{
	uint32_t w[4];

	if (((uintptr_t)p & 15) == 0)
		return *(const uint4 *)p;
	UNROLL
	for (int i = 0; i < 4; i++)
		w[i] = p[4 * i] | (uint32_t)p[4 * i + 1] << 8 |
			(uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24;
	return make_uint4(w[0], w[1], w[2], w[3]);
}

/* The first `count` of up to 16 symbols, zeros behind them; reads nothing else. */
__device__ __forceinline__ uint4 load_some(const unsigned char *p, uint32_t count)
{
	uint4 v = make_uint4(0, 0, 0, 0);

	if (count >= EACH)
		return load_each(p);
	UNROLL_1
	for (uint32_t i = 0; i < count; i++) {
		uint32_t byte = (uint32_t)p[i] << i % 4 * 8;

		v.x |= i / 4 == 0 ? byte : 0;
		v.y |= i / 4 == 1 ? byte : 0;
		v.z |= i / 4 == 2 ? byte : 0;
		v.w |= i / 4 == 3 ? byte : 0;
	}
	return v;
}

__device__ __forceinline__ void count_word(struct encoder *e, uint32_t w)
{
	UNROLL
	for (int i = 0; i < 4; i++)
		atomicAdd(&e->counts[w >> 8 * i & 255], 1u);
}

__device__ void zero_counts(struct encoder *e)
{
	__syncthreads();
	for (unsigned v = threadIdx.x; v < 256; v += THREADS)
		e->counts[v] = 0;
	__syncthreads();
}

/* Counts all n symbols. */
__device__ __noinline__ void count_block(struct encoder *e, const unsigned char *in,
	uint32_t n)
{
	zero_counts(e);
	UNROLL_1
	for (uint32_t i = threadIdx.x * EACH; i < n / EACH * EACH; i += THREADS * EACH) {
		uint4 v = load_each(in + i);

		count_word(e, v.x);
		count_word(e, v.y);
		count_word(e, v.z);
		count_word(e, v.w);
	}
	if (threadIdx.x < n % EACH)
		atomicAdd(&e->counts[in[n / EACH * EACH + threadIdx.x]], 1u);
	__syncthreads();
}

/* Counts the symbols of the sample. */
__device__ __noinline__ void sample_block(struct encoder *e, const unsigned char *in,
	uint32_t n)
{
	zero_counts(e);
	for (uint32_t i = threadIdx.x * EACH; i < huff_sample_count(n) * 64;
		i += THREADS * EACH) {
		uint4 v = load_each(in + huff_sample_at(i / 64) + i % 64);

		count_word(e, v.x);
		count_word(e, v.y);
		count_word(e, v.z);
		count_word(e, v.w);
	}
	__syncthreads();
}

/* As huff_entropy, of e->counts. */
__device__ uint64_t entropy_block(struct encoder *e, unsigned symbols, uint32_t n)
{
	uint32_t c = threadIdx.x < symbols ? e->counts[threadIdx.x] : 0;

	__syncthreads();
	if (threadIdx.x == 0)
		e->entropy = 0;
	__syncthreads();
	if (c)
		atomicAdd(&e->entropy, (unsigned long long)c * huff_log2(c));
	__syncthreads();
	return (uint64_t)n * huff_log2(n) - e->entropy;
}

/* Adds neighbours: e->counts of symbol >> split from those of symbol >> (split - 1), of which
 * there are `symbols` twice. */
__device__ void fold_block(struct encoder *e, unsigned symbols)
{
	uint32_t sum = 0;

	__syncthreads();
	if (threadIdx.x < symbols)
		sum = e->counts[2 * threadIdx.x] + e->counts[2 * threadIdx.x + 1];
	__syncthreads();
	if (threadIdx.x < symbols)
		e->counts[threadIdx.x] = sum;
	__syncthreads();
}

/* How many of the first `symbols` symbols are used. */
__device__ uint32_t used_block(struct encoder *e, unsigned symbols)
{
	__syncthreads();
	if (threadIdx.x == 0)
		e->used = 0;
	__syncthreads();
	if (threadIdx.x < symbols && e->counts[threadIdx.x])
		atomicAdd(&e->used, 1u);
	__syncthreads();
	return e->used;
}

/* As huff_split, of n symbols in e->counts, which are folded. */
__device__ __noinline__ unsigned split_block(struct encoder *e, uint32_t n)
{
	uint64_t entropy = 0;
	unsigned split = 0;

	UNROLL_1
	for (unsigned k = 0; k <= HUFF_SPLIT_MAX; k++) {
		unsigned symbols = HUFF_ALPHABET >> k, used;
		uint64_t bits;

		if (k)
			fold_block(e, symbols);
		used = used_block(e, symbols);
		if (used < 2)
			break;
		bits = entropy_block(e, symbols, n) + (uint64_t)(used - 1) * 47274 +
			((uint64_t)n * k << 16);
		if (!k)
			entropy = bits + bits / 400;
		if (bits > entropy)
			break;
		split = k;
	}
	return split;
}

/* As huff_sort, each thread for a symbol: its place is how many keys are below its own. */
__device__ __noinline__ unsigned sort_block(struct encoder *e, unsigned symbols)
{
	struct huff_tree *t = &e->tree;
	unsigned used = used_block(e, symbols), v = threadIdx.x;
	uint32_t count = v < symbols ? e->counts[v] : 0;
	uint32_t key = (count - 1) << 8 | v, place = 0;

	t->list[v] = count ? key : UINT32_MAX;
	__syncthreads();
	if (count)
		for (unsigned i = 0; i < symbols; i++)
			place += t->list[i] < key;
	__syncthreads();
	if (count) {
		t->key[place] = key;
		t->leaf[place + 1] = count;
	}
	if (v == 0) {
		t->leaf[0] = 0;
		t->leaf[used + 1] = UINT32_MAX;
	}
	__syncthreads();
	return used;
}

__device__ __noinline__ void lengths_serial(struct encoder *e, struct huff_plane *p)
{
	huff_lengths(&e->tree, p->symbols, p->length);
}

__device__ __noinline__ void header_serial(struct huff_plane *p, unsigned symbols)
{
	p->header_bytes = huff_put_lengths(p->header, p->length, symbols);
}

/* As huff_plan, of e->counts. */
__device__ __noinline__ void plan_counts_block(struct encoder *e, struct huff_plane *p,
	uint32_t n, unsigned split)
{
	unsigned symbols = HUFF_ALPHABET >> split, v = threadIdx.x;
	unsigned used = sort_block(e, symbols);

	if (v < symbols)
		p->length[v] = 0;
	if (v == 0) {
		p->split = split;
		p->bits = 0;
		p->streams_log = 0;
		p->header_bytes = 0;
		p->bytes = 2;
		p->symbols = used;
		e->bits = 0;
	}
	__syncthreads();
	if (used < 2)
		return;
	if (v == 0)
		lengths_serial(e, p);
	__syncthreads();
	/* at most 2^18 symbols of 12 bits */
	if (v < symbols && e->counts[v])
		atomicAdd(&e->bits, e->counts[v] * p->length[v]);
	__syncthreads();
	if (v == 0) {
		p->bits = e->bits;
		p->streams_log = huff_streams_log(p->bits);
		header_serial(p, symbols);
		p->bytes = 2 + p->header_bytes + huff_lows_bytes(n, split) +
			(2u << p->streams_log) - 2 + (1u << p->streams_log) +
			(uint32_t)(p->bits / 8);
	}
	__syncthreads();
}

/* Plans a plane; e->counts holds afterwards the counts of symbol >> p->split. */
__device__ __noinline__ void plan_block(struct encoder *e, struct huff_plane *p,
	const unsigned char *in, uint32_t n)
{
	unsigned split = 0;

	count_block(e, in, n);
	if (threadIdx.x == 0)
		e->any = 0;
	__syncthreads();
	if (e->counts[threadIdx.x])
		atomicOr(&e->any, threadIdx.x);
	__syncthreads();
	if (huff_may_split(n, e->any)) {
		uint32_t mine = e->counts[threadIdx.x];

		sample_block(e, in, n);
		split = split_block(e, huff_sample_count(n) * 64);
		__syncthreads();
		e->counts[threadIdx.x] = mine;
		for (unsigned k = 1; k <= split; k++)
			fold_block(e, HUFF_ALPHABET >> k);
		__syncthreads();
	}
	plan_counts_block(e, p, n, split);
}

/* As huff_codes: codes of a length ascend with the symbol, so that a symbol's code is the first of
 * its length and how many symbols before it have that length. */
__device__ __noinline__ void codes_block(struct encoder *e, const struct huff_plane *p)
{
	unsigned v = threadIdx.x, lane = v % 32, warp = v / 32;
	unsigned length = v < HUFF_ALPHABET >> p->split ? p->length[v] : 0;
	uint32_t before = 0, first = 0;

	__syncthreads();
	UNROLL_1
	for (unsigned l = 1; l <= HUFF_LENGTH_MAX; l++) {
		unsigned same = __ballot_sync(FULL, length == l);

		if (length == l)
			before = (uint32_t)__popc(same & ((1u << lane) - 1));
		if (lane == 0)
			e->of_length[warp][l] = (uint32_t)__popc(same);
	}
	__syncthreads();
	UNROLL_1
	for (unsigned l = 1; l <= length; l++) {
		uint32_t all = 0;

		first <<= 1;
		for (unsigned w = 0; w < WARPS; w++) {
			all += e->of_length[w][l];
			if (l == length && w < warp)
				before += e->of_length[w][l];
		}
		if (l < length)
			first += all;
	}
	e->entry[v] = length ? (uint16_t)((first + before) | length << 12) : 0;
	__syncthreads();
}

/* Writes the low bits of n wide values. */
__device__ __noinline__ void put_wide_lows_block(unsigned char *out, const uint32_t *wide,
	uint32_t n, unsigned width)
{
	for (uint32_t i = threadIdx.x; i < (n + 63) / 64 * 8 * width; i += THREADS) {
		uint32_t group = i / (8 * width), part = n - group * 64;
		uint32_t bytes = part < 64 ? (part + 7) / 8 : 8;
		uint32_t k = i % (8 * width) / 8, byte = i % 8, v = 0;

		if (byte >= bytes)
			continue;
		for (uint32_t j = 0; j < 8 && byte * 8 + j < part; j++)
			v |= (wide[group * 64 + byte * 8 + j] >> k & 1) << j;
		out[group * 8 * width + k * bytes + byte] = (unsigned char)v;
	}
}

/* Bit k of four symbols, the first lowest. */
__device__ __forceinline__ uint32_t four_bits(uint32_t w, unsigned k)
{
	return (w >> k & 0x01010101) * 0x01020408u >> 24;
}

/* Writes the low bits of n symbols, 16 a thread. */
__device__ __noinline__ void put_lows_block(unsigned char *out, const unsigned char *in,
	uint32_t n, unsigned width)
{
	UNROLL_1
	for (uint32_t i = threadIdx.x * EACH; width && i < n; i += THREADS * EACH) {
		uint32_t group = i / 64, part = n - group * 64, count = n - i;
		uint32_t bytes = part < 64 ? (part + 7) / 8 : 8, byte = i % 64 / 8;
		uint4 v = load_some(in + i, count);
		unsigned char *to = out + group * 8 * width + byte;

		UNROLL_1
		for (unsigned k = 0; k < width; k++) {
			to[k * bytes] = (unsigned char)(four_bits(v.x, k) |
				four_bits(v.y, k) << 4);
			if (count > 8)
				to[k * bytes + 1] = (unsigned char)(four_bits(v.z, k) |
					four_bits(v.w, k) << 4);
		}
	}
}

/* --- streams -------------------------------------------------------------------------------- */

/* The codes of four symbols, of which the first `count` are coded, each with its length; none are
 * looked up that are not. */
__device__ __forceinline__ void look_up(uint32_t c[4], const struct encoder *e,
	uint32_t w, uint32_t count, unsigned split)
{
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		c[i] = i < count ? e->entry[(w >> 8 * i & 255) >> split] : 0;
}

__device__ __forceinline__ uint32_t bits_of(const struct encoder *e, uint32_t w,
	uint32_t count, unsigned split)
{
	uint32_t c[4];

	look_up(c, e, w, count, split);
	return (c[0] >> 12) + (c[1] >> 12) + (c[2] >> 12) + (c[3] >> 12);
}

/* How many of `left` symbols are behind the first n. */
__device__ __forceinline__ uint32_t behind(uint32_t left, uint32_t n)
{
	return left > n ? left - n : 0;
}

/* A warp's sum over a stream. */
__device__ __noinline__ uint32_t stream_bits(const struct encoder *e,
	const unsigned char *in, uint32_t count, unsigned split)
{
	uint32_t bits = 0;

	UNROLL_1
	for (uint32_t i = threadIdx.x % 32 * EACH; i < count; i += 32 * EACH) {
		uint32_t left = count - i;
		uint4 v = load_some(in + i, left);

		if (left >= EACH) {
			bits += bits_of(e, v.x, 4, split) + bits_of(e, v.y, 4, split);
			bits += bits_of(e, v.z, 4, split) + bits_of(e, v.w, 4, split);
			continue;
		}
		bits += bits_of(e, v.x, left, split);
		bits += bits_of(e, v.y, behind(left, 4), split);
		bits += bits_of(e, v.z, behind(left, 8), split);
		bits += bits_of(e, v.w, behind(left, 12), split);
	}
	for (int by = 16; by; by /= 2)
		bits += __shfl_xor_sync(FULL, bits, by);
	return bits;
}

/* The codes of four symbols: at most 48 bits. */
struct quad {
	uint32_t low, high, bits;
};

__device__ __forceinline__ struct quad quad_of(const struct encoder *e, uint32_t w,
	uint32_t count, unsigned split)
{
	uint32_t c[4], first, last, bits;
	struct quad q;

	look_up(c, e, w, count, split);
	first = (c[0] & 4095) | (c[1] & 4095) << (c[0] >> 12);
	last = (c[2] & 4095) | (c[3] & 4095) << (c[2] >> 12);
	bits = (c[0] >> 12) + (c[1] >> 12);
	q.low = first | last << bits;
	q.high = bits ? last >> (32 - bits) : 0;
	q.bits = bits + (c[2] >> 12) + (c[3] >> 12);
	return q;
}

/* Adds bits to a warp's words, which start as zeros. */
__device__ __forceinline__ void stage_quad(uint32_t *stage, uint32_t at,
	const struct quad *q)
{
	unsigned shift = at % 32;
	uint32_t *word = stage + at / 32;

	if (!q->bits)
		return;
	atomicOr(word, q->low << shift);
	if (shift + q->bits > 32)
		atomicOr(word + 1, __funnelshift_l(q->low, q->high, shift));
	if (shift + q->bits > 64)
		atomicOr(word + 2, q->high >> (32 - shift));
}

/* Writes a stream at bit `at` of the slot with a warp, which makes up to 32 x 16 codes at a time in
 * shared memory and stores whole words. Those at the ends of a stream, which others share, are
 * zeros and get their bits by atomics. */
__device__ __noinline__ void put_stream(const struct encoder *e, uint32_t *stage,
	uint32_t *slot, uint32_t at, const unsigned char *in, uint32_t count,
	unsigned split)
{
	unsigned lane = threadIdx.x % 32;
	uint32_t start = at / 32;

	for (uint32_t w = lane; w < STAGE_WORDS; w += 32)
		stage[w] = 0;
	__syncwarp();
	UNROLL_1
	for (uint32_t i = 0; i < count; i += 32 * EACH) {
		uint32_t mine = i + lane * EACH, left = mine < count ? count - mine : 0;
		uint4 v = load_some(in + mine, left);
		struct quad q0, q1, q2, q3;
		uint32_t bits, before, whole;

		if (i + 32 * EACH <= count) {
			q0 = quad_of(e, v.x, 4, split);
			q1 = quad_of(e, v.y, 4, split);
			q2 = quad_of(e, v.z, 4, split);
			q3 = quad_of(e, v.w, 4, split);
		} else {
			q0 = quad_of(e, v.x, left, split);
			q1 = quad_of(e, v.y, behind(left, 4), split);
			q2 = quad_of(e, v.z, behind(left, 8), split);
			q3 = quad_of(e, v.w, behind(left, 12), split);
		}
		bits = before = q0.bits + q1.bits + q2.bits + q3.bits;

		UNROLL
		for (unsigned by = 1; by < 32; by *= 2) {
			uint32_t other = __shfl_up_sync(FULL, before, by);

			before += lane >= by ? other : 0;
		}
		whole = (at % 32 + __shfl_sync(FULL, before, 31)) / 32;
		before += at % 32 - bits;
		stage_quad(stage, before, &q0);
		stage_quad(stage, before + q0.bits, &q1);
		stage_quad(stage, before + q0.bits + q1.bits, &q2);
		stage_quad(stage, before + bits - q3.bits, &q3);
		bits = __shfl_sync(FULL, before + bits, 31); /* the last lane's end */
		__syncwarp();
		for (uint32_t w = lane; w < whole; w += 32) {
			uint32_t *to = slot + at / 32 + w;

			if (at / 32 + w == start)
				atomicOr(to, stage[w]);
			else
				*to = stage[w];
			stage[w] = 0;
		}
		__syncwarp();
		if (lane == 0 && whole) {
			stage[0] = stage[whole];
			stage[whole] = 0;
		}
		__syncwarp();
		at = at / 32 * 32 + bits;
	}
	if (lane == 0)
		atomicOr(slot + at / 32, stage[0] | 1u << at % 32);
}

/* Writes the planned plane at slot[e->at] and moves e->at behind it. */
__device__ __noinline__ void put_simple_block(struct encoder *e, unsigned char *slot,
	const struct huff_plane *p, const unsigned char *in, uint32_t n)
{
	uint32_t at = e->at;
	unsigned warp = threadIdx.x / 32, streams = 1u << p->streams_log, wide;

	__syncthreads();
	if (p->bytes > n) {
		for (uint32_t i = threadIdx.x; i < n; i += THREADS)
			slot[at + 1 + i] = in[i];
		if (threadIdx.x == 0) {
			slot[at] = HUFF_RAW;
			e->at = at + n + 1;
		}
		__syncthreads();
		return;
	}
	if (p->symbols == 1) {
		if (threadIdx.x == 0) {
			slot[at] = HUFF_ONE;
			slot[at + 1] = in[0];
			e->at = at + 2;
		}
		__syncthreads();
		return;
	}
	codes_block(e, p);
	if (threadIdx.x == 0)
		slot[at] = HUFF_CODE;
	for (uint32_t i = threadIdx.x; i < p->header_bytes; i += THREADS)
		slot[at + 2 + i] = p->header[i];
	put_lows_block(slot + at + 2 + p->header_bytes, in, n, p->split);
	__syncthreads();
	at += 2 + p->header_bytes + huff_lows_bytes(n, p->split);
	for (unsigned s = warp; s < streams; s += WARPS) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);
		uint32_t bits = stream_bits(e, in + from, count, p->split);

		if (threadIdx.x % 32 == 0)
			e->end[s] = (bits + 8) / 8;
	}
	__syncthreads();
	if (threadIdx.x == 0)
		for (unsigned s = 1; s < streams; s++)
			e->end[s] += e->end[s - 1];
	__syncthreads();
	/* words that two streams share, or a stream and what is beside all of them, start as
	 * zeros: those of the last byte before each border and of the first behind it */
	for (unsigned b = 0; threadIdx.x < 8 && b <= streams; b++) {
		uint32_t border = at + (b ? e->end[b - 1] : 0);
		uint32_t i = ((border - 1) & ~3u) + threadIdx.x;

		if (i >= at && i < (border & ~3u) + 4)
			slot[i] = 0;
		__syncwarp(0xff); /* two borders may share a word */
	}
	__syncthreads();
	for (unsigned s = warp; s < streams; s += WARPS) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);

		put_stream(e, e->stage[warp], (uint32_t *)(void *)slot,
			8 * (at + (s ? e->end[s - 1] : 0)), in + from, count, p->split);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		uint32_t start = e->at;

		at += e->end[streams - 1];
		at += huff_put_sizes(slot + at, e->end, streams, &wide);
		slot[start + 1] = (unsigned char)(p->split | p->streams_log << 4 |
			wide << 7);
		e->at = at;
	}
	__syncthreads();
}

/* --- RUNS and PACK ---------------------------------------------------------------------------- */

/* Returns the sum (or maximum) of v over the threads before this one; *all: over all. */
__device__ __noinline__ uint32_t scan_block(uint32_t *sums, uint32_t v, bool maximum,
	uint32_t *all)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint32_t mine = v, before;

	for (unsigned by = 1; by < 32; by *= 2) {
		uint32_t other = __shfl_up_sync(FULL, mine, by);

		if (lane >= by)
			mine = maximum ? max(mine, other) : mine + other;
	}
	if (lane == 31)
		sums[warp] = mine;
	before = __shfl_up_sync(FULL, mine, 1);
	if (lane == 0)
		before = 0;
	__syncthreads();
	*all = 0;
	for (unsigned w = 0; w < WARPS; w++) {
		if (w == warp)
			before = maximum ? max(before, *all) : before + *all;
		*all = maximum ? max(*all, sums[w]) : *all + sums[w];
	}
	__syncthreads();
	return before;
}

/* Makes tokens, and the list of symbols that they do not name, as e->cut says. */
__device__ __noinline__ void layout_runs(struct encoder *e, const struct space *s,
	const unsigned char *in, uint32_t n)
{
	const struct huff_layout *layout = &e->layout;
	uint32_t others = 0, tokens = 0, last = 0;

	if (threadIdx.x == 0)
		e->close = 0;
	__syncthreads();
	for (uint32_t i = 0; i < n; i += THREADS) {
		uint32_t at = i + threadIdx.x, all, prev, run, rank, token, place = 0;
		bool is_other = at < n && in[at] != e->z, is_rest;

		if (is_other)
			place = layout->place[in[at]];
		is_rest = is_other && place == (1u << layout->direct) - 1;
		if (is_other && (!at || in[at - 1] != e->z))
			atomicAdd(&e->close, 1u);
		/* positions count from 1, so that 0 means before the first */
		prev = scan_block(e->tops, is_other ? at + 1 : 0, true, &all);
		prev = max(prev, last);
		last = max(last, all);
		run = at - prev;
		rank = others + scan_block(e->sums, is_rest, false, &all);
		others += all;
		token = tokens +
			scan_block(e->sums, is_other ? 1 + run / layout->max : 0, false,
				&all);
		tokens += all;
		if (!is_other)
			continue;
		if (is_rest)
			s->rest[rank] = in[at];
		for (; run >= layout->max; run -= layout->max) {
			s->runs[token] = HUFF_ESCAPE;
			s->lows[token++] = 0;
		}
		s->runs[token] = (unsigned char)(place << (8 - layout->direct) |
			run >> layout->split);
		s->lows[token] = run & ((1u << layout->split) - 1);
	}
	if (threadIdx.x == 0) {
		e->others = others;
		e->tokens = tokens;
	}
	__syncthreads();
}

__device__ __noinline__ void put_runs_block(struct encoder *e, unsigned char *slot,
	const struct space *s)
{
	uint32_t tokens = e->tokens, others = e->others, start;
	uint32_t head = huff_layout_bytes(e->layout.direct);

	if (threadIdx.x == 0) {
		huff_put_layout(slot, &e->layout, others, tokens);
		e->at = head + huff_lows_bytes(tokens, e->layout.split);
	}
	put_wide_lows_block(slot + head, s->lows, tokens, e->layout.split);
	__syncthreads();
	start = e->at;
	put_simple_block(e, slot, &e->plane[1], s->runs, tokens);
	if (threadIdx.x == 0)
		huff_put24(slot + 9, e->at - start);
	if (others)
		put_simple_block(e, slot, &e->plane[2], s->rest, others);
}

__device__ void pack_block(struct encoder *e, const struct space *s,
	const unsigned char *in, uint32_t n)
{
	unsigned width = huff_pack_width(e->plane[0].symbols), each = 8 / width;

	for (uint32_t i = threadIdx.x; i < (n * width + 7) / 8; i += THREADS) {
		unsigned v = 0;

		for (unsigned j = 0; j < each && i * each + j < n; j++) {
			unsigned place = 0;

			for (unsigned k = 0; k < in[i * each + j]; k++)
				place += e->chunk_counts[k] != 0;
			v |= place << j * width;
		}
		s->packed[i] = (unsigned char)v;
	}
	__syncthreads();
}

__device__ __noinline__ void put_pack_block(struct encoder *e, unsigned char *slot,
	const struct space *s, uint32_t m)
{
	if (threadIdx.x == 0) {
		uint32_t at = 2;

		slot[0] = HUFF_PACK;
		for (unsigned i = 0; i < 256; i++)
			if (e->chunk_counts[i])
				slot[at++] = (unsigned char)i;
		slot[1] = (unsigned char)(at - 3);
		e->at = at;
	}
	__syncthreads();
	put_simple_block(e, slot, &e->plane[3], s->packed, m);
}

/* Makes tokens, with named symbols or without, and plans. Returns the size of the chunk. */
__device__ __noinline__ uint32_t plan_runs_block(struct encoder *e, const struct space *s,
	const unsigned char *in, uint32_t n, int named)
{
	if (threadIdx.x == 0)
		e->layout_is_useful = huff_plan_layout(&e->layout, e->chunk_counts, e->z,
			n, named);
	__syncthreads();
	if (!e->layout_is_useful)
		return UINT32_MAX;
	layout_runs(e, s, in, n);
	plan_block(e, &e->plane[1], s->runs, e->tokens);
	plan_block(e, &e->plane[2], s->rest, e->others);
	return huff_layout_bytes(e->layout.direct) +
		huff_lows_bytes(e->tokens, e->layout.split) +
		huff_simple_bytes(&e->plane[1], e->tokens) +
		huff_simple_bytes(&e->plane[2], e->others);
}

/* Tries both ways of making tokens and keeps the smaller, unless it is known which is better;
 * e->chunk_counts holds the counts of the chunk. */
__device__ __noinline__ uint32_t choose_runs_block(struct encoder *e,
	const struct space *s, const unsigned char *in, uint32_t n)
{
	uint32_t named = plan_runs_block(e, s, in, n, 1), plain;

	if (named != UINT32_MAX && !huff_is_clustered(n, n - e->max, e->close))
		return named;
	__syncthreads();
	plain = plan_runs_block(e, s, in, n, 0);
	__syncthreads();
	return plain <= named ? plain : plan_runs_block(e, s, in, n, 1);
}

/* As huff_is_skewed, of the chunk. */
__device__ __noinline__ int is_skewed_block(struct encoder *e, uint32_t n)
{
	const struct huff_plane *p = &e->plane[0];
	uint64_t entropy;

	if (p->split || p->symbols < 2 || e->max <= n / 2)
		return 0;
	entropy = entropy_block(e, HUFF_ALPHABET, n);
	return p->bits << 16 > entropy + entropy / 50;
}

/* Decides as huff_encode() does. */
__device__ __noinline__ void skewed_block(struct encoder *e, unsigned char *slot,
	const struct space *s, const unsigned char *in, uint32_t n, uint32_t best)
{
	unsigned mode = HUFF_CODE;
	uint32_t m = 0;

	for (unsigned v = threadIdx.x; v < 256; v += THREADS)
		e->chunk_counts[v] = e->counts[v];
	__syncthreads();
	m = choose_runs_block(e, s, in, n);
	if (m < best) {
		best = m;
		mode = HUFF_RUNS;
	}
	if (huff_may_pack(e->plane[0].symbols, n, e->max)) {
		m = (n * huff_pack_width(e->plane[0].symbols) + 7) / 8;
		pack_block(e, s, in, n);
		plan_block(e, &e->plane[3], s->packed, m);
		if (2 + e->plane[0].symbols + huff_simple_bytes(&e->plane[3], m) < best)
			mode = HUFF_PACK;
	}
	if (mode == HUFF_RUNS)
		put_runs_block(e, slot, s);
	else if (mode == HUFF_PACK)
		put_pack_block(e, slot, s, m);
	else
		put_simple_block(e, slot, &e->plane[0], in, n);
}

__global__ void __launch_bounds__(THREADS, 4)
	encode_kernel(unsigned char *slots, uint32_t *bytes, unsigned char *spaces,
		const unsigned char *in, uint64_t n, uint32_t chunk, uint64_t stride)
{
	SHARED(struct encoder, encoder, 1);
	struct encoder *e = encoder;

	if (threadIdx.x == 0)
		e->space = space_of(spaces, chunk);
	for (uint64_t c = blockIdx.x; c < huff_chunks(n, chunk); c += gridDim.x) {
		const unsigned char *from = in + c * chunk;
		uint32_t count = n - c * chunk < chunk ? (uint32_t)(n - c * chunk) :
							 chunk;
		unsigned char *slot = slots + c * stride;
		int skewed;

		__syncthreads();
		plan_block(e, &e->plane[0], from, count);
		if (threadIdx.x == 0) {
			e->at = 0;
			e->top = 0;
		}
		__syncthreads();
		/* the first of the most frequent symbols */
		if (threadIdx.x < HUFF_ALPHABET >> e->plane[0].split)
			atomicMax(&e->top,
				e->counts[threadIdx.x] << 8 | (255 - threadIdx.x));
		__syncthreads();
		if (threadIdx.x == 0) {
			e->max = e->top >> 8;
			e->z = 255 - (e->top & 255);
		}
		__syncthreads();
		skewed = is_skewed_block(e, count);
		if (skewed)
			skewed_block(e, slot, &e->space, from, count,
				huff_simple_bytes(&e->plane[0], count));
		else
			put_simple_block(e, slot, &e->plane[0], from, count);
		if (threadIdx.x == 0)
			bytes[c] = e->at;
	}
}

/* at[c]: the sum of the sizes of the chunks before; runs in one thread block. */
__global__ void place_kernel(uint64_t *at, const uint32_t *bytes, uint64_t chunks)
{
	SHARED(uint32_t, sums, WARPS);
	uint64_t total = 0;

	/* 256 chunks are less than 2^26 bytes */
	for (uint64_t c = 0; c < chunks; c += THREADS) {
		uint64_t mine = c + threadIdx.x;
		uint32_t all,
			before = scan_block(sums, mine < chunks ? bytes[mine] : 0, false,
				&all);

		if (mine < chunks)
			at[mine] = total + before;
		total += all;
	}
	if (threadIdx.x == 0)
		at[chunks] = total;
}

/* Moves the chunks together: whole words of the result, from two words of a slot each, and single
 * bytes where two chunks share a word. */
__global__ void __launch_bounds__(THREADS) gather_kernel(unsigned char *out,
	const uint64_t *at, const unsigned char *slots, uint64_t chunks, uint64_t stride)
{
	for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
		uint32_t bytes = (uint32_t)(at[c + 1] - at[c]);
		unsigned char *to = out + at[c];
		const unsigned char *from = slots + c * stride;
		const uint32_t *words = (const uint32_t *)(const void *)from;
		uint32_t lead = (uint32_t)(-(uintptr_t)to & 3), count, shift = lead * 8;
		uint32_t *aligned;

		lead = lead < bytes ? lead : bytes;
		count = (bytes - lead) / 4;
		aligned = (uint32_t *)(void *)(to + lead);
		UNROLL_4
		for (uint32_t i = threadIdx.x; i < count; i += THREADS)
			aligned[i] = __funnelshift_r(words[i], words[i + 1], shift);
		if (threadIdx.x < lead)
			to[threadIdx.x] = from[threadIdx.x];
		if (threadIdx.x < (bytes - lead) % 4)
			to[lead + 4 * count + threadIdx.x] =
				from[lead + 4 * count + threadIdx.x];
	}
}

/* --- the operation ----------------------------------------------------------------------------- */

int cuda_huff_encode(struct dev *d, unsigned char *out, uint64_t *at,
	const unsigned char *in, uint64_t n, uint32_t chunk)
{
	uint64_t stride = ((uint64_t)chunk + HUFF_SLACK + 255) / 256 * 256;
	uint64_t chunks, slot_bytes, size_bytes;
	unsigned char *slots = NULL, *spaces;
	uint32_t *bytes;
	unsigned blocks;

	if (huff_check(d, chunk) < 0)
		return -1;
	chunks = huff_chunks(n, chunk);
	blocks = huff_blocks(d, chunks, 8);
	slot_bytes = chunks * stride;
	size_bytes = (chunks * 4 + 255) / 256 * 256;
	if (huff_scratch(d, &slots,
		    slot_bytes + size_bytes + blocks * space_bytes(chunk)) < 0)
		return -1;
	bytes = (uint32_t *)(slots + slot_bytes);
	spaces = slots + slot_bytes + size_bytes;
	if (chunks) {
		LAUNCH(encode_kernel, blocks, THREADS, cuda_of(d)->stream, slots, bytes,
			spaces, in, n, chunk, stride);
		CUDA_TRY(cudaGetLastError());
	}
	LAUNCH(place_kernel, 1, THREADS, cuda_of(d)->stream, at, bytes, chunks);
	CUDA_TRY(cudaGetLastError());
	LAUNCH(gather_kernel, huff_blocks(d, chunks, 8), THREADS, cuda_of(d)->stream, out,
		at, slots, chunks, stride);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
