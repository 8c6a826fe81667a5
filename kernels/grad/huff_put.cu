/* huff_put.cu - the encoder of huff.h on a GPU. */
#include "kernels/grad/huff.cuh"

/* --- an encoder: shared by a block ------------------------------------------------------------ */

struct encoder {
	uint32_t counts[256], chunk_counts[256];
	uint32_t sums[WARPS], tops[WARPS];
	uint32_t end[HUFF_STREAMS_MAX];
	uint32_t any;
	unsigned split;
	uint16_t entry[HUFF_ALPHABET];
	struct huff_tree tree;
	struct huff_plane plane
		[4]; /* of the chunk, of its runs, of its other symbols, of its packed form */
	struct huff_layout layout;
	int layout_is_useful;
	uint32_t others, tokens, close, max, at;
	unsigned z, mode;
};

__device__ void count_block(struct encoder *e, const unsigned char *in, uint32_t n,
	unsigned shift)
{
	for (unsigned v = threadIdx.x; v < 256; v += THREADS)
		e->counts[v] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		atomicAdd(&e->counts[in[i] >> shift], 1u);
	__syncthreads();
}

__device__ __noinline__ void plan_block(struct encoder *e, struct huff_plane *p,
	const unsigned char *in, uint32_t n)
{
	unsigned any = 0;

	__syncthreads();
	if (threadIdx.x == 0) {
		e->any = 0;
		e->split = 0;
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		any |= in[i];
	atomicOr(&e->any, any);
	__syncthreads();
	any = e->any;
	if (huff_may_split(n, any)) {
		for (unsigned v = threadIdx.x; v < 256; v += THREADS)
			e->counts[v] = 0;
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < huff_sample_count(n) * 64;
			i += THREADS)
			atomicAdd(&e->counts[in[huff_sample_at(i / 64) + i % 64]], 1u);
		__syncthreads();
		if (threadIdx.x == 0)
			e->split = huff_split(e->counts, huff_sample_count(n) * 64);
		__syncthreads();
	}
	count_block(e, in, n, e->split);
	if (threadIdx.x == 0)
		huff_plan(p, &e->tree, e->counts, n, e->split);
	__syncthreads();
}

/* Writes the low bits of n values: from `wide`, or if that is NULL, from `narrow`. */
__device__ __noinline__ void put_lows_block(unsigned char *out,
	const unsigned char *narrow, const uint32_t *wide, uint32_t n, unsigned width)
{
	for (uint32_t i = threadIdx.x; i < (n + 63) / 64 * 8 * width; i += THREADS) {
		uint32_t group = i / (8 * width), part = n - group * 64;
		uint32_t bytes = part < 64 ? (part + 7) / 8 : 8;
		uint32_t k = i % (8 * width) / 8, byte = i % 8, v = 0;

		if (byte >= bytes)
			continue;
		for (uint32_t j = 0; j < 8 && byte * 8 + j < part; j++) {
			uint32_t at = group * 64 + byte * 8 + j;

			v |= ((wide ? wide[at] : narrow[at]) >> k & 1) << j;
		}
		out[group * 8 * width + k * bytes + byte] = (unsigned char)v;
	}
}

/* Writes bits into a zeroed slot, from any bit on; count <= 64. The slot is aligned to 4 bytes. */
__device__ void put_bits(unsigned char *slot, uint64_t at, uint64_t v, unsigned count)
{
	uint32_t *word = (uint32_t *)slot + at / 32;
	unsigned shift = at % 32;
	uint32_t high;

	if (!count)
		return;
	atomicOr(word, (uint32_t)(v << shift));
	if (shift + count <= 32)
		return;
	v = shift ? v >> (32 - shift) : v >> 16 >> 16;
	atomicOr(word + 1, (uint32_t)v);
	high = (uint32_t)(v >> 32);
	if (high)
		atomicOr(word + 2, high);
}

__device__ uint32_t stream_bits(const struct encoder *e, const unsigned char *in,
	uint32_t count, unsigned split)
{
	uint32_t bits = 0;

	for (uint32_t i = threadIdx.x % 32; i < count; i += 32)
		bits += e->entry[in[i] >> split] >> 12;
	for (int by = 16; by; by /= 2)
		bits += __shfl_xor_sync(FULL, bits, by);
	return bits;
}

/* at: in bits */
__device__ void put_stream(const struct encoder *e, unsigned char *slot, uint64_t at,
	const unsigned char *in, uint32_t count, unsigned split)
{
	unsigned lane = threadIdx.x % 32;

	for (uint32_t i = 0; i < count; i += 32 * 4) {
		uint64_t v = 0;
		uint32_t bits = 0, before;

		for (uint32_t j = i + lane * 4; j < i + lane * 4 + 4 && j < count; j++) {
			unsigned c = e->entry[in[j] >> split];

			v |= (uint64_t)(c & 4095) << bits;
			bits += c >> 12;
		}
		before = bits;
		for (unsigned by = 1; by < 32; by *= 2) {
			uint32_t other = __shfl_up_sync(FULL, before, by);

			before += lane >= by ? other : 0;
		}
		put_bits(slot, at + before - bits, v, bits);
		at += __shfl_sync(FULL, before, 31);
	}
	if (lane == 0)
		put_bits(slot, at, 1, 1);
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
	if (threadIdx.x == 0) {
		slot[at] = HUFF_CODE;
		huff_codes(e->entry, p->length, HUFF_ALPHABET >> p->split);
	}
	for (uint32_t i = threadIdx.x; i < p->header_bytes; i += THREADS)
		slot[at + 2 + i] = p->header[i];
	put_lows_block(slot + at + 2 + p->header_bytes, in, NULL, n, p->split);
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
	/* the streams start as zeros: whole words, and single bytes where a word is partly
	 * written already */
	for (uint32_t i = at + threadIdx.x; i < ((at + e->end[streams - 1] + 11) & ~3u);
		i += THREADS)
		slot[i] = 0;
	__syncthreads();
	for (unsigned s = warp; s < streams; s += WARPS) {
		uint32_t from, count = huff_stream_symbols(&from, n, p->streams_log, s);

		put_stream(e, slot, 8 * ((uint64_t)at + (s ? e->end[s - 1] : 0)),
			in + from, count, p->split);
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
	put_lows_block(slot + head, NULL, s->lows, tokens, e->layout.split);
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

/* Decides as huff_encode() does. */
__device__ void skewed_block(struct encoder *e, unsigned char *slot,
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

__global__ void encode_kernel(unsigned char *slots, uint32_t *bytes,
	unsigned char *spaces, const unsigned char *in, uint64_t n, uint32_t chunk,
	uint64_t stride)
{
	SHARED(struct encoder, encoder, 1);
	struct encoder *e = encoder;
	struct space s = space_of(spaces, chunk);

	for (uint64_t c = blockIdx.x; c < huff_chunks(n, chunk); c += gridDim.x) {
		const unsigned char *from = in + c * chunk;
		uint32_t count = n - c * chunk < chunk ? (uint32_t)(n - c * chunk) :
							 chunk;
		unsigned char *slot = slots + c * stride;

		__syncthreads();
		plan_block(e, &e->plane[0], from, count);
		if (threadIdx.x == 0) {
			e->at = 0;
			e->max = 0;
			e->z = 0;
			for (unsigned i = 0; i < HUFF_ALPHABET >> e->split; i++)
				if (e->counts[i] > e->max) {
					e->z = i;
					e->max = e->counts[i];
				}
			e->mode = huff_is_skewed(&e->plane[0], e->counts, count, e->max);
		}
		__syncthreads();
		if (e->mode)
			skewed_block(e, slot, &s, from, count,
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

__global__ void gather_kernel(unsigned char *out, const uint64_t *at,
	const unsigned char *slots, uint64_t chunks, uint64_t stride)
{
	for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
		uint64_t bytes = at[c + 1] - at[c];
		unsigned char *to = out + at[c];
		const unsigned char *from = slots + c * stride;

		for (uint64_t i = threadIdx.x; i < bytes; i += THREADS)
			to[i] = from[i];
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
