/* huff_get.cu - the decoder of huff.h on a GPU: one warp per chunk, one lane per stream. Only
 * integers are used: contraction (-fmad) changes nothing. */
#include "kernels/grad/cuda/huff.cuh"

/* --- a decoder: shared by a warp ---------------------------------------------------------- */

struct decoder {
	uint16_t table[1 << HUFF_LENGTH_MAX]; /* symbol | length << 8 */
	uint16_t entry[HUFF_ALPHABET];
	unsigned char length[HUFF_ALPHABET];
	uint32_t from[HUFF_STREAMS_MAX + 1];
	uint32_t took;
};

/* What a lane has of its stream, whose bits it takes from the top down. */
struct window {
	uint64_t bits;           /* the next ones, from bit 63 on; zeros after them */
	int32_t have;            /* how many; below 0: more were taken than there are */
	const unsigned char *in; /* the bytes before them, ending at a multiple of 4 */
	uint32_t bytes;
};

/* Makes at least two codes ready, unless the stream ends. PLENTY: four bytes are there. */
template <bool PLENTY> __device__ __forceinline__ void refill(struct window *w)
{
	if (w->have > 32)
		return;
	if (PLENTY || w->bytes >= 4) {
		w->bytes -= 4;
		w->bits |= (uint64_t) * (const uint32_t *)(const void *)(w->in + w->bytes)
			<< (32 - w->have);
		w->have += 32;
	} else if constexpr (!PLENTY) {
		UNROLL_1
		for (; w->bytes; w->have += 8)
			w->bits |= (uint64_t)w->in[--w->bytes] << (56 - w->have);
	}
}

/* Begins after the 1 that ends the stream. Returns 0 or -1. */
__device__ __forceinline__ int begin(struct window *w, const unsigned char *in,
	uint32_t bytes)
{
	if (!bytes || !in[bytes - 1])
		return -1;
	w->in = in;
	w->bytes = bytes - 1;
	w->have = 31 - __clz(in[bytes - 1]);
	w->bits = w->have ? (uint64_t)in[bytes - 1] << (64 - w->have) : 0;
	while (w->bytes && ((uintptr_t)(in + w->bytes) & 3)) {
		w->bits |= (uint64_t)in[--w->bytes] << (56 - w->have);
		w->have += 8;
	}
	return 0;
}

/* Returns the next symbol below its length. */
__device__ __forceinline__ uint32_t take(struct window *w, const uint16_t *table)
{
	uint32_t v = table[w->bits >> (64 - HUFF_LENGTH_MAX)];

	w->bits <<= v >> 8;
	w->have -= (int32_t)(v >> 8);
	return v;
}

__device__ __forceinline__ int64_t bits_left(const struct window *w)
{
	return (int64_t)w->bytes * 8 + w->have;
}

/* Decodes single symbols, from the end of out. */
__device__ __forceinline__ void get_singles(unsigned char *out, uint32_t n,
	struct window *w, const uint16_t *table)
{
	UNROLL_1
	while (n--) {
		refill<false>(w);
		out[n] = (unsigned char)take(w, table);
	}
}

/* Decodes eight symbols, the last first, to a multiple of 8 bytes. */
template <bool PLENTY>
__device__ __forceinline__ void get_eight(unsigned char *out, struct window *w,
	const uint16_t *table)
{
	uint32_t word[2];

	UNROLL
	for (int half = 1; half >= 0; half--) {
		uint32_t ready = 0;

		UNROLL
		for (int k = 0; k < 4; k++) {
			if (k % 2 == 0)
				refill<PLENTY>(w);
			ready = ready << 8 | (take(w, table) & 255);
		}
		word[half] = ready;
	}
	*(uint64_t *)(void *)out = (uint64_t)word[1] << 32 | word[0];
}

/* Decodes the symbols of one stream with one lane, storing 8 at a time where memory is aligned.
 * Returns 0 or -1. */
__device__ int get_stream(unsigned char *out, uint32_t n, const uint16_t *table,
	const unsigned char *in, uint32_t bytes)
{
	uint32_t top = (uint32_t)((uintptr_t)(out + n) & 7);
	struct window w;

	if (begin(&w, in, bytes) < 0)
		return -1;
	top = top < n ? top : n;
	n -= top;
	get_singles(out + n, top, &w, table);
	/* eight codes and what is there already take no more than 16 bytes */
	UNROLL_1
	for (; n >= 8 && w.bytes >= 16; n -= 8)
		get_eight<true>(out + n - 8, &w, table);
	UNROLL_1
	for (; n >= 8; n -= 8) {
		get_eight<false>(out + n - 8, &w, table);
		if (bits_left(&w) < 0)
			return -1;
	}
	get_singles(out, n, &w, table);
	return bits_left(&w) == 0 ? 0 : -1;
}

/* Puts the low bits below four symbols: bit j of `bits` below symbol j. */
__device__ __forceinline__ uint32_t spread_bits(uint32_t bits)
{
	return (bits & 15) * 0x00204081u & 0x01010101;
}

/* Inserts the low bits below n symbols, 16 a lane where memory is aligned. */
__device__ __noinline__ void add_lows_warp(unsigned char *out, const unsigned char *lows,
	uint32_t n, unsigned split)
{
	uint32_t whole = (uintptr_t)out & 15 ? 0 : n / 64 * 64;

	UNROLL_1
	for (uint32_t i = threadIdx.x * 16; i < whole; i += 32 * 16) {
		const unsigned char *mask = lows + i / 64 * 8 * split + i % 64 / 8;
		uint4 *to = (uint4 *)(void *)(out + i), v = *to;

		/* symbols are below 256 >> split */
		v = make_uint4(v.x << split, v.y << split, v.z << split, v.w << split);
		UNROLL_1
		for (unsigned k = 0; k < split; k++) {
			uint32_t lower = mask[8 * k], upper = mask[8 * k + 1];

			v.x |= spread_bits(lower) << k;
			v.y |= spread_bits(lower >> 4) << k;
			v.z |= spread_bits(upper) << k;
			v.w |= spread_bits(upper >> 4) << k;
		}
		*to = v;
	}
	for (uint32_t i = whole + threadIdx.x; i < n; i += 32) {
		uint32_t part = n - i / 64 * 64, each = part < 64 ? (part + 7) / 8 : 8;
		const unsigned char *group = lows + (uint64_t)(i / 64) * 8 * split;
		unsigned v = out[i];

		v <<= split;
		for (unsigned k = 0; k < split; k++)
			v |= (unsigned)(group[k * each + i % 64 / 8] >> i % 8 & 1) << k;
		out[i] = (unsigned char)v;
	}
}

__device__ __noinline__ int get_plane_warp(struct decoder *d, unsigned char *out,
	uint32_t n, const unsigned char *in, uint64_t bytes)
{
	unsigned lane = threadIdx.x, split, streams, symbols, width;
	uint32_t lows, streams_log;
	int rc = 0;

	if (bytes < 1)
		return -1;
	split = in[0] & 15;
	streams_log = in[0] >> 4 & 7;
	if (split > HUFF_SPLIT_MAX || 1u << streams_log > HUFF_STREAMS_MAX)
		return -1;
	streams = 1u << streams_log;
	width = in[0] >> 7;
	symbols = HUFF_ALPHABET >> split;
	lows = huff_lows_bytes(n, split);
	in++, bytes--;
	__syncwarp();
	if (lane == 0) {
		d->took = huff_get_lengths(d->length, symbols, in, bytes);
		if (d->took && bytes - d->took >= lows &&
			huff_get_sizes(d->from, streams, (int)width, in + d->took + lows,
				bytes - d->took - lows) == 0)
			huff_codes(d->entry, d->length, symbols);
		else
			d->took = 0;
	}
	__syncwarp();
	if (!d->took)
		return -1;
	in += d->took;
	for (unsigned v = 0; v < symbols; v++) {
		unsigned l = d->length[v], start;

		if (!l)
			continue;
		start = (d->entry[v] & 4095u) << (HUFF_LENGTH_MAX - l);
		UNROLL_1
		for (unsigned i = lane; i < 1u << (HUFF_LENGTH_MAX - l); i += 32)
			d->table[start + i] = (uint16_t)(v | l << 8);
	}
	__syncwarp();
	if (lane < streams) {
		uint32_t first, count = huff_stream_symbols(&first, n, streams_log, lane);

		rc = get_stream(out + first, count, d->table, in + lows + d->from[lane],
			d->from[lane + 1] - d->from[lane]);
	}
	if (__any_sync(FULL, rc < 0))
		return -1;
	__syncwarp(); /* the vote does not order memory, and other lanes' symbols are read below */
	if (split)
		add_lows_warp(out, in, n, split);
	__syncwarp();
	return 0;
}

/* Writes n times the same symbol, 16 a lane where memory is aligned. */
__device__ __noinline__ void fill_warp(unsigned char *out, unsigned symbol, uint32_t n)
{
	uint32_t lead = (uint32_t)(-(uintptr_t)out & 15), w = symbol * 0x01010101u, end;

	lead = lead < n ? lead : n;
	end = lead + (n - lead) / 16 * 16;
	if (threadIdx.x < lead)
		out[threadIdx.x] = (unsigned char)symbol;
	for (uint32_t i = lead + 16 * threadIdx.x; i < end; i += 32 * 16)
		*(uint4 *)(void *)(out + i) = make_uint4(w, w, w, w);
	if (end + threadIdx.x < n)
		out[end + threadIdx.x] = (unsigned char)symbol;
}

__device__ __noinline__ int get_simple_warp(struct decoder *d, unsigned char *out,
	uint32_t n, const unsigned char *in, uint64_t bytes)
{
	if (bytes < 2)
		return -1;
	if (in[0] == HUFF_CODE)
		return get_plane_warp(d, out, n, in + 1, bytes - 1);
	if (in[0] == HUFF_RAW && bytes == (uint64_t)n + 1) {
		for (uint32_t i = threadIdx.x; i < n; i += 32)
			out[i] = in[1 + i];
	} else if (in[0] == HUFF_ONE && bytes == 2) {
		fill_warp(out, in[1], n);
	} else {
		return -1;
	}
	__syncwarp();
	return 0;
}

/* Returns the sum over the lanes up to and including this one. */
__device__ uint32_t sum_warp(uint32_t v)
{
	for (unsigned by = 1; by < 32; by *= 2) {
		uint32_t other = __shfl_up_sync(FULL, v, by);

		v += threadIdx.x >= by ? other : 0;
	}
	return v;
}

__device__ __noinline__ int get_runs_warp(struct decoder *d, const struct space *s,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	struct huff_runs r;
	uint32_t other = 0, none;
	uint64_t at = 0;

	if (huff_get_layout(&r, n, in, bytes) < 0)
		return -1;
	if (get_simple_warp(d, s->runs, r.tokens, r.run, r.run_bytes) < 0)
		return -1;
	if (r.rest && get_simple_warp(d, s->rest, r.rest, r.last, r.last_bytes) < 0)
		return -1;
	none = (1u << r.direct) - 1;
	fill_warp(out, in[1], n);
	__syncwarp();
	for (uint32_t t = 0; t < r.tokens; t += 32) {
		uint32_t mine = t + threadIdx.x, run = 0, is_other = 0, place = 0, end;
		uint32_t is_rest, rank;

		if (mine < r.tokens) {
			unsigned token = s->runs[mine];

			run = (token & 255u >> r.direct) << r.split |
				huff_low(r.low, r.tokens, r.split, mine);
			is_other = token != HUFF_ESCAPE;
			place = token >> (8 - r.direct);
		}
		is_rest = is_other && place == none;
		end = sum_warp(run + is_other);
		rank = other + sum_warp(is_rest);
		if (__any_sync(FULL,
			    is_other && (at + end > n || (is_rest && rank > r.rest))))
			return -1;
		if (is_other)
			out[at + end - 1] = is_rest ? s->rest[rank - 1] : r.symbol[place];
		at += __shfl_sync(FULL, end, 31);
		other = __shfl_sync(FULL, rank, 31);
	}
	__syncwarp();
	return other == r.rest ? 0 : -1;
}

__device__ __noinline__ int get_pack_warp(struct decoder *d, const struct space *s,
	unsigned char *out, uint32_t n, const unsigned char *in, uint64_t bytes)
{
	unsigned symbols, width, mask;
	bool bad = false;

	if (bytes < 2 || in[1] >= HUFF_PACK_MAX || bytes < in[1] + 3u)
		return -1;
	symbols = in[1] + 1u;
	width = huff_pack_width(symbols);
	mask = (1u << width) - 1;
	if (get_simple_warp(d, s->packed, (n * width + 7) / 8, in + 2 + symbols,
		    bytes - 2 - symbols) < 0)
		return -1;
	for (uint32_t i = threadIdx.x; i < n; i += 32) {
		unsigned place = s->packed[i * width / 8] >> i * width % 8 & mask;

		bad = bad || place >= symbols;
		out[i] = in[2 + (place < symbols ? place : 0)];
	}
	return __any_sync(FULL, bad) ? -1 : 0;
}

__global__ void __launch_bounds__(32) decode_kernel(unsigned char *out, uint32_t *bad,
	unsigned char *spaces, const unsigned char *in, uint64_t bytes,
	const uint64_t *at, uint64_t n, uint32_t chunk)
{
	SHARED(struct decoder, decoder, 1);
	struct space s = space_of(spaces, chunk);

	for (uint64_t c = blockIdx.x; c < huff_chunks(n, chunk); c += gridDim.x) {
		uint32_t count = n - c * chunk < chunk ? (uint32_t)(n - c * chunk) :
							 chunk;
		uint64_t from = at[c], to = at[c + 1], size = to - from;
		unsigned char *symbols = out + c * chunk;
		int rc = -1;

		if (from <= to && to <= bytes && size >= 2) {
			const unsigned char *coded = in + from;

			if (coded[0] == HUFF_RUNS)
				rc = get_runs_warp(decoder, &s, symbols, count, coded,
					size);
			else if (coded[0] == HUFF_PACK)
				rc = get_pack_warp(decoder, &s, symbols, count, coded,
					size);
			else
				rc = get_simple_warp(decoder, symbols, count, coded,
					size);
		}
		__syncwarp();
		if (rc < 0 && threadIdx.x == 0)
			atomicAdd(bad, 1u);
	}
}

/* --- the operation ------------------------------------------------------------------------ */

int cuda_huff_decode(struct dev *d, unsigned char *out, uint32_t *bad,
	const unsigned char *in, uint64_t bytes, const uint64_t *at, uint64_t n,
	uint32_t chunk)
{
	unsigned char *spaces = NULL;
	unsigned blocks;

	if (huff_check(d, chunk) < 0)
		return -1;
	blocks = huff_blocks(d, huff_chunks(n, chunk), 24);
	if (huff_scratch(d, &spaces, blocks * space_bytes(chunk)) < 0)
		return -1;
	CUDA_TRY(cudaMemsetAsync(bad, 0, sizeof *bad, cuda_of(d)->stream));
	LAUNCH(decode_kernel, blocks, 32, cuda_of(d)->stream, out, bad, spaces, in, bytes,
		at, n, chunk);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
