/* huff_plan.cuh - how an encoder of huff.h on a GPU decides: a thread block counts a chunk, plans
 * its codes as huff_plan.h does, and knows them afterwards. For huff_put.cu alone. */
#ifndef RNP_KERNELS_GRAD_HUFF_PLAN_CUH
#define RNP_KERNELS_GRAD_HUFF_PLAN_CUH

#include "kernels/grad/cuda/huff.cuh"

/* --- an encoder: shared by a block ------------------------------------------------------------ */

#define EACH        16 /* symbols that a thread takes at a time */
#define STAGE_WORDS (32 * EACH * HUFF_LENGTH_MAX / 32 + 4)
/* from so many low bits on the codes of two symbols fit into a table */
#define PAIR_SPLIT 3
#define PAIRS      ((HUFF_ALPHABET >> PAIR_SPLIT) * (HUFF_ALPHABET >> PAIR_SPLIT))

struct encoder {
	alignas(16) uint32_t counts[256];
	uint32_t chunk_counts[256];
	uint32_t sums[WARPS];
	uint32_t end[HUFF_STREAMS_MAX];
	uint32_t used, bits, any;
	unsigned long long entropy;
	unsigned split;
	uint16_t entry[HUFF_ALPHABET];
	uint32_t pair[PAIRS]; /* the codes of two symbols, their length from bit 24 on */
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
	uint32_t covered;   /* by the symbols that tokens name */
	uint32_t others, tokens, close, max, at, top;
	unsigned z, mode;
};

/* 16 symbols; p is a multiple of 16, as is where a chunk, a stream or a sample begins. */
__device__ __forceinline__ uint4 load_each(const unsigned char *p)
{
	return *(const uint4 *)(const void *)p;
}

/* The first `count` of up to 16 symbols, zeros after them; reads nothing else. */
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

/* Bit k of four symbols, the first lowest. */
__device__ __forceinline__ uint32_t four_bits(uint32_t w, unsigned k)
{
	return (w >> k & 0x01010101) * 0x01020408u >> 24;
}

/* Which bytes of w are not z: bit k for byte k. */
__device__ __forceinline__ uint32_t differ(uint32_t w, unsigned z)
{
	uint32_t x = w ^ z * 0x01010101u;

	return four_bits(((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x, 7);
}

/* Which of 16 symbols are not z: bit i for symbol i. */
__device__ __forceinline__ uint32_t others_of(uint4 v, unsigned z)
{
	return differ(v.x, z) | differ(v.y, z) << 4 | differ(v.z, z) << 8 |
		differ(v.w, z) << 12;
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
	uint64_t most = 0;
	unsigned split = 0;

	UNROLL_1
	for (unsigned k = 0; k <= HUFF_SPLIT_MAX; k++) {
		unsigned symbols = HUFF_ALPHABET >> k, used;

		if (k)
			fold_block(e, symbols);
		used = used_block(e, symbols);
		if (!huff_split_pays(&most, entropy_block(e, symbols, n), used, n, k))
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
 * its length and how many symbols before it have that length. Where these are few, also the codes
 * of each two of them. */
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
	UNROLL_1
	for (; v < PAIRS && p->split >= PAIR_SPLIT; v += THREADS) {
		unsigned more = p->split - PAIR_SPLIT;
		uint32_t c = e->entry[v % (HUFF_ALPHABET >> PAIR_SPLIT) >> more];
		uint32_t next = e->entry[v / (HUFF_ALPHABET >> PAIR_SPLIT) >> more];

		e->pair[v] = (c & 4095) | (next & 4095) << (c >> 12) |
			((c >> 12) + (next >> 12)) << 24;
	}
	__syncthreads();
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

#endif
