/* huff_put.cu - the encoder of huff.h on a GPU. Only integers are used: contraction (-fmad) changes
 * nothing. */
#include "kernels/grad/cuda/huff_stream.cuh"

/* --- low bits, and the codes of a plane --------------------------------------------------- */

/* Writes the low bits of n wide values, of which a warp takes 64 at a time. */
__device__ __noinline__ void put_wide_lows_block(unsigned char *out, const uint32_t *wide,
	uint32_t n, unsigned width)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL_1
	for (uint32_t i = threadIdx.x / 32 * 64; i < n; i += WARPS * 64) {
		uint32_t v = i + lane < n ? wide[i + lane] : 0;
		uint32_t more = i + 32 + lane < n ? wide[i + 32 + lane] : 0;
		uint32_t bytes = n - i < 64 ? (n - i + 7) / 8 : 8;

		UNROLL_1
		for (unsigned k = 0; k < width; k++) {
			uint32_t first = __ballot_sync(FULL, v >> k & 1);
			uint32_t second = __ballot_sync(FULL, more >> k & 1);

			if (lane < bytes)
				out[i / 8 * width + k * bytes + lane] =
					(unsigned char)((lane < 4 ? first : second) >>
						lane % 4 * 8);
		}
	}
}

/* Writes the low bits of 16 symbols, of which `count` exist, from i on of n. */
__device__ __forceinline__ void put_lows(unsigned char *out, uint4 v, uint32_t i,
	uint32_t count, uint32_t bytes, unsigned width)
{
	unsigned char *to = out + i / 64 * 8 * width + i % 64 / 8;

	UNROLL_1
	for (unsigned k = 0; k < width; k++) {
		to[k * bytes] = (unsigned char)(four_bits(v.x, k) |
			four_bits(v.y, k) << 4);
		if (count > 8)
			to[k * bytes + 1] = (unsigned char)(four_bits(v.z, k) |
				four_bits(v.w, k) << 4);
	}
}

/* Writes the low bits of n symbols, 16 a thread. */
__device__ __noinline__ void put_lows_block(unsigned char *out, const unsigned char *in,
	uint32_t n, unsigned width)
{
	uint32_t whole = n / 64 * 64, i = threadIdx.x * EACH;

	UNROLL_1
	for (; i < whole; i += THREADS * EACH)
		put_lows(out, load_each(in + i), i, EACH, 8, width);
	i = whole + threadIdx.x * EACH;
	if (i < n)
		put_lows(out, load_some(in + i, n - i), i, n - i, (n - whole + 7) / 8,
			width);
}

/* Writes the planned plane at slot[e->at] and moves e->at behind it. */
__device__ __noinline__ void put_simple_block(struct encoder *e, unsigned char *slot,
	const struct huff_plane *p, const unsigned char *in, uint32_t n)
{
	uint32_t at = e->at;
	unsigned warp = threadIdx.x / 32, streams = 1u << p->streams_log, wide;
	bool paired = p->split >= PAIR_SPLIT;

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
		uint32_t bits = paired ?
			stream_bits<true>(e, in + from, count, p->split) :
			stream_bits<false>(e, in + from, count, p->split);

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

		uint32_t bit = 8 * (at + (s ? e->end[s - 1] : 0));

		if (paired)
			put_stream<true>(e, e->stage[warp], (uint32_t *)(void *)slot, bit,
				in + from, count, p->split);
		else
			put_stream<false>(e, e->stage[warp], (uint32_t *)(void *)slot,
				bit, in + from, count, p->split);
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

#define LISTED 4 /* entries of a list that a thread takes at a time */

/* --- RUNS and PACK ---------------------------------------------------------------------------- */

/* Returns the sum of v over the threads before this one; *all: over all. */
__device__ __noinline__ uint32_t scan_block(uint32_t *sums, uint32_t v, uint32_t *all)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint32_t mine = v, before;

	for (unsigned by = 1; by < 32; by *= 2) {
		uint32_t other = __shfl_up_sync(FULL, mine, by);

		if (lane >= by)
			mine += other;
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
			before += *all;
		*all += sums[w];
	}
	__syncthreads();
	return before;
}

/* Memory for a list of what is not z, which ends where s->lows does. */
__device__ __forceinline__ uint32_t *list_of(const struct encoder *e,
	const struct space *s, uint32_t n)
{
	return (uint32_t *)(void *)s->runs - (n - e->chunk_counts[e->z]);
}

/* Lists the symbols that are not z, each with its position from bit 8 on; 32 symbols a thread. */
__device__ __noinline__ void list_others(struct encoder *e, const struct space *s,
	const unsigned char *in, uint32_t n)
{
	uint32_t *list = list_of(e, s, n);
	uint32_t total = 0;

	UNROLL_1
	for (uint32_t i = 0; i < n; i += THREADS * 2 * EACH) {
		uint32_t at = i + threadIdx.x * 2 * EACH, left = at < n ? n - at : 0;
		uint32_t mask = others_of(load_some(in + at, left), e->z);
		uint32_t upper = behind(left, EACH), all, to;

		mask |= others_of(load_some(in + at + EACH, upper), e->z) << 16;
		if (left < 2 * EACH)
			mask &= (1u << left) - 1;
		to = total + scan_block(e->sums, (uint32_t)__popc(mask), &all);
		total += all;
		UNROLL_1
		for (; mask; mask &= mask - 1) {
			uint32_t here = at + (uint32_t)__ffs((int)mask) - 1;

			list[to++] = here << 8 | in[here];
		}
	}
	__syncthreads();
}

/* Makes tokens, and the list of symbols that they do not name, as e->layout says, of `count`
 * symbols that are not z. The list of these ends where s->lows does: the tokens up to the one for
 * an entry lie before what follows it, because each entry has a token and all fit. */
__device__ __noinline__ void make_tokens(struct encoder *e, const struct space *s,
	uint32_t n)
{
	const uint32_t *list = list_of(e, s, n), count = n - e->chunk_counts[e->z];
	const unsigned char *places = e->layout.place;
	const unsigned direct = e->layout.direct, split = e->layout.split;
	const uint32_t none = (1u << direct) - 1, max_run = e->layout.max;
	unsigned char *runs = s->runs, *rest = s->rest;
	uint32_t *lows = s->lows;
	uint32_t others = 0, tokens = 0, last = 0;

	if (threadIdx.x == 0)
		e->close = 0;
	__syncthreads();
	UNROLL_1
	for (uint32_t i = 0; i < count; i += THREADS * LISTED) {
		uint32_t at = i + threadIdx.x * LISTED, entry[LISTED], all, rank, token;
		uint32_t before = last, prev, both = 0, close = 0;

		/* positions after a symbol, so that 0 means before the first */
		if (threadIdx.x && at < count)
			before = (list[at - 1] >> 8) + 1;
		if (i + THREADS * LISTED < count)
			last = (list[i + THREADS * LISTED - 1] >> 8) + 1;
		prev = before;
		UNROLL
		for (uint32_t k = 0; k < LISTED; k++) {
			uint32_t run;

			entry[k] = 0;
			if (at + k >= count)
				continue;
			entry[k] = list[at + k];
			run = (entry[k] >> 8) - prev;
			close += !run;
			/* of a turn's entries: less than 2^16 tokens */
			both += places[entry[k] & 255] == none ? 1 << 16 | 1 : 1;
			UNROLL_1
			for (; run >= max_run; run -= max_run)
				both++;
			prev = (entry[k] >> 8) + 1;
		}
		if (close)
			atomicAdd(&e->close, close);
		both = scan_block(e->sums, both, &all);
		rank = others + (both >> 16);
		others += all >> 16;
		token = tokens + (both & 0xffff);
		tokens += all & 0xffff;
		prev = before;
		UNROLL
		for (uint32_t k = 0; k < LISTED; k++) {
			uint32_t run = (entry[k] >> 8) - prev, symbol = entry[k] & 255;
			uint32_t place;

			if (at + k >= count)
				continue;
			place = places[symbol];
			if (place == none)
				rest[rank++] = (unsigned char)symbol;
			UNROLL_1
			for (; run >= max_run; run -= max_run) {
				runs[token] = HUFF_ESCAPE;
				lows[token++] = 0;
			}
			runs[token] = (unsigned char)(place << (8 - direct) |
				run >> split);
			lows[token++] = run & ((1u << split) - 1);
			prev = (entry[k] >> 8) + 1;
		}
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
	unsigned width = huff_pack_width(e->plane[0].symbols), each = 8 / width,
		 place = 0;

	/* each symbol's index; codes take this memory later */
	for (unsigned v = 0; v < threadIdx.x; v++)
		place += e->chunk_counts[v] != 0;
	e->entry[threadIdx.x] = (uint16_t)place;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < (n * width + 7) / 8; i += THREADS) {
		unsigned v = 0;

		for (unsigned j = 0; j < each && i * each + j < n; j++)
			v |= (unsigned)e->entry[in[i * each + j]] << j * width;
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

/* As huff_plan_layout, of e->chunk_counts: a symbol's index is how many that are not z are more
 * frequent, or as frequent and before it: how many have a larger key. e->counts holds the keys. */
__device__ __noinline__ int layout_block(struct encoder *e, uint32_t n, int named)
{
	struct huff_layout *layout = &e->layout;
	uint32_t count = e->chunk_counts[threadIdx.x], others = n - e->chunk_counts[e->z];
	uint32_t key = threadIdx.x == e->z || !count ? 0 :
						       count << 8 | (255 - threadIdx.x);
	unsigned used = e->plane[0].symbols, places, place = 0;
	unsigned direct = huff_direct(used, named);

	places = (1u << direct) - 1;
	if (threadIdx.x == 0) {
		e->covered = 0;
		layout->z = e->z;
		layout->direct = direct;
		layout->split = huff_run_split(n - others, others, direct);
		layout->max = (uint32_t)(HUFF_ESCAPE >> direct) << layout->split;
	}
	if (threadIdx.x < places)
		layout->symbol[threadIdx.x] = (unsigned char)e->z;
	e->counts[threadIdx.x] = key;
	__syncthreads();
	UNROLL_4
	for (unsigned v = key ? 0 : 256; v < 256; v += 4) {
		uint4 other = *(const uint4 *)(const void *)(e->counts + v);

		place += (other.x > key) + (other.y > key);
		place += (other.z > key) + (other.w > key);
	}
	place = key && place < places ? place : places;
	layout->place[threadIdx.x] = (unsigned char)place;
	if (place < places) {
		layout->symbol[place] = (unsigned char)threadIdx.x;
		atomicAdd(&e->covered, count);
	}
	__syncthreads();
	return !named || e->covered >= others / 4;
}

/* Makes tokens, with named symbols or without, and plans. Returns the size of the chunk. */
__device__ __noinline__ uint32_t plan_runs_block(struct encoder *e, const struct space *s,
	const unsigned char *in, uint32_t n, int named)
{
	if (!layout_block(e, n, named))
		return UINT32_MAX;
	list_others(e, s, in, n);
	make_tokens(e, s, n);
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

	/* each has a slot of 256 bytes or more: memory for 2^32 of them there is none */
	uint32_t chunks = (uint32_t)huff_chunks(n, chunk);

	if (threadIdx.x == 0)
		e->space = space_of(spaces, chunk);
	for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
		const unsigned char *from = in + (uint64_t)c * chunk;
		uint32_t count = c + 1 < chunks ? chunk :
						  (uint32_t)(n - (uint64_t)c * chunk);
		unsigned char *slot = slots + (uint64_t)c * stride;

		__syncthreads();
		if ((uintptr_t)from & 15) {
			for (uint32_t i = threadIdx.x; i < count; i += THREADS)
				e->space.in[i] = from[i];
			from = e->space.in;
			__syncthreads();
		}
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
		if (is_skewed_block(e, count))
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
			before = scan_block(sums, mine < chunks ? bytes[mine] : 0, &all);

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

/* --- the operation ------------------------------------------------------------------------ */

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
	blocks = huff_blocks(d, chunks, 4); /* as many as run at a time */
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
