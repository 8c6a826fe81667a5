/* quant_wide.cu - quantisers with bits beside their symbols on a GPU: ecq and qsgd. A thread block
 * takes a chunk, tile by tile, eight adjacent elements a thread; where the bits of each begin is a
 * sum over the threads before it. With ecq error feedback is in the same pass. Contraction (-fmad)
 * changes nothing: quant.cuh. */
#include "kernels/grad/cuda/quant.cuh"

#define TAKEN 8u /* elements that a thread takes at a time */
#define TILE  (THREADS * TAKEN)

/* --- encoding --------------------------------------------------------------------------------- */

/* Writes the bits beside a symbol; rare for most, so not inlined. Returns the bit behind them. */
static __device__ __noinline__ uint32_t put_bits(uint32_t *words, uint32_t bit,
	uint8_t symbol, uint32_t m)
{
	uint32_t bits = (uint32_t)quant_wide_bits(symbol);
	uint64_t moved = (uint64_t)quant_wide_beside(symbol, m) << bit % 32;

	if (bits)
		atomicOr(&words[bit / 32], (uint32_t)moved);
	if (bits && bit % 32 + bits > 32)
		atomicOr(&words[bit / 32 + 1], (uint32_t)(moved >> 32));
	return bit + bits;
}

/* A thread's elements of a tile. */
struct eight {
	float x[TAKEN];
	uint32_t m[TAKEN], symbols[2]; /* levels; symbols, the first lowest */
};

__device__ __forceinline__ uint8_t symbol_in(const struct eight *v, uint32_t k)
{
	return (uint8_t)(v->symbols[k / 4] >> k % 4 * 8);
}

/* Move all of them down by one, the first to the end, so that a loop that is not unrolled finds
 * each in the first place: an index would put them into memory. */
__device__ __forceinline__ void turn_levels(struct eight *v)
{
	uint32_t first = v->m[0];

	UNROLL
	for (uint32_t k = 0; k + 1 < TAKEN; k++)
		v->m[k] = v->m[k + 1];
	v->m[TAKEN - 1] = first;
}

__device__ __forceinline__ void turn(float *x)
{
	float first = x[0];

	UNROLL
	for (uint32_t k = 0; k + 1 < TAKEN; k++)
		x[k] = x[k + 1];
	x[TAKEN - 1] = first;
}

/* The same of symbols, of which the first is dropped and another is the last. */
__device__ __forceinline__ void set_symbol(struct eight *v, uint32_t symbol)
{
	v->symbols[0] = __funnelshift_r(v->symbols[0], v->symbols[1], 8);
	v->symbols[1] = v->symbols[1] >> 8 | symbol << 24;
}

__device__ __forceinline__ void set_four(float *x, float4 four)
{
	x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

/* The symbol of a value that may be any, and its level from bit 8 on: rare, so not inlined. */
static __device__ __noinline__ uint64_t any_symbol(float x, struct quant_step step)
{
	uint32_t m;
	uint32_t symbol = quant_ecq_symbol(x, &step, &m);

	return (uint64_t)m << 8 | symbol;
}

/* ecq: whether all levels are below 64, so that symbols are levels: rounding keeps order, so that
 * the largest magnitude has the largest level. */
__device__ __forceinline__ bool is_plain(const struct eight *v,
	const struct quant_step *step)
{
	uint32_t top = 0;

	UNROLL
	for (uint32_t k = 0; k < TAKEN; k++)
		top = max(top, quant_magnitude(v->x[k]));
	return top < half_bits_of_float(QUANT_ECQ_LARGE) &&
		QUANT_ADD(QUANT_MUL(half_float_of_bits(top), step->inverse),
			step->rounding) < 64;
}

/* Compute the symbols of a thread's elements, of which `left` exist, from `at` of chunk c on.
 * Return the bits beside them. */
__device__ __forceinline__ uint32_t make_ecq(struct eight *v,
	const struct quant_step *step, uint32_t left)
{
	uint32_t bits = 0;
	bool plain = is_plain(v, step);

	v->symbols[0] = v->symbols[1] = 0;
	UNROLL
	for (uint32_t k = 0; k < TAKEN && plain; k++) {
		uint32_t m = (uint32_t)
			QUANT_ADD(QUANT_MUL(half_float_of_bits(quant_magnitude(v->x[k])),
					  step->inverse),
				step->rounding);

		v->m[k] = m;
		v->symbols[k / 4] |=
			((half_bits_of_float(v->x[k]) >> 31 ? 0 - m : m) & 255)
			<< k % 4 * 8;
	}
	UNROLL_1
	for (uint32_t k = 0; k < TAKEN && !plain; k++) {
		uint64_t both = k < left ? any_symbol(v->x[0], *step) : 0;

		v->m[0] = (uint32_t)(both >> 8);
		set_symbol(v, (uint32_t)both & 255);
		turn_levels(v);
		turn(v->x);
		bits += (uint32_t)quant_wide_bits((uint8_t)both);
	}
	return bits;
}

__device__ __forceinline__ uint32_t make_qsgd(struct eight *v, const struct job *j,
	uint64_t c, uint32_t at, uint32_t left)
{
	float norm, inverse = 0, max = (float)j->q.levels;
	uint32_t word[TAKEN] = {}, bits = 0;

	if (left) { /* one block has them all */
		uint64_t index = j->first + c * j->chunk + at;
		struct philox p;

		norm = scale_at(plane_of(j, c, 2), plane_of(j, c, 3), at >> j->block_log);
		inverse = norm > 0 ? max / norm : 0;
		p.seed = j->q.seed;
		p.stream = QUANT_STREAM;
		p.block = 0;
		philox_block(word, &p, index / 4);
		philox_block(word + 4, &p, index / 4 + 1);
	}
	v->symbols[0] = v->symbols[1] = 0;
	UNROLL
	for (uint32_t k = 0; k < TAKEN; k++) {
		uint32_t symbol = quant_qsgd_symbol(v->x[k], inverse, max, word[k],
			&v->m[k]);

		symbol = k < left ? symbol : 0;
		v->symbols[k / 4] |= symbol << k % 4 * 8;
		bits += (uint32_t)quant_wide_bits((uint8_t)symbol);
	}
	return bits;
}

/* What the decoder makes of one of them: its level is known. */
__device__ __forceinline__ float sent_of(const struct eight *v, uint32_t k,
	const struct quant_step *step)
{
	uint8_t symbol = symbol_in(v, k);

	if (symbol == QUANT_WHOLE)
		return half_float_of_bits(v->m[k]);
	return quant_signed(quant_ecq_level(v->m[k], step), symbol >> 7);
}

/* Eight adjacent floats of which `left` exist, zeros after them. whole: all exist, at a multiple of
 * 16. */
__device__ __forceinline__ void load_eight(float *x, const float *p, uint32_t left,
	bool whole)
{
	if (whole) {
		set_four(x, *(const float4 *)(const void *)p);
		set_four(x + 4, *(const float4 *)(const void *)(p + 4));
	} else {
		set_four(x, load_less(p, left));
		set_four(x + 4, load_less(p + 4, behind(left, 4)));
	}
}

__device__ __forceinline__ void store_eight(float *p, const float *x, uint32_t left,
	bool whole)
{
	float4 low = make_float4(x[0], x[1], x[2], x[3]);
	float4 high = make_float4(x[4], x[5], x[6], x[7]);

	if (whole) {
		*(float4 *)(void *)p = low;
		*(float4 *)(void *)(p + 4) = high;
	} else {
		store_less(p, low, left);
		store_less(p + 4, high, behind(left, 4));
	}
}

__device__ __forceinline__ void store_eight_symbols(unsigned char *p,
	const struct eight *v, uint32_t left)
{
	if (left >= TAKEN) {
		*(uint2 *)(void *)p = make_uint2(v->symbols[0], v->symbols[1]);
	} else {
		store_few(p, v->symbols[0], left);
		store_few(p + 4, v->symbols[1], behind(left, 4));
	}
}

template <bool ECQ, bool FED>
__global__ void __launch_bounds__(THREADS) encode_wide(const GRID_CONSTANT struct job j)
{
	SHARED(uint32_t, sums, WARPS);
	const bool aligned = is_aligned<FED>(&j);

	for (uint64_t c = blockIdx.x; c < j.chunks; c += gridDim.x) {
		uint32_t *words = (uint32_t *)(void *)plane_of(&j, c, 1);
		uint32_t n = length_of(&j, c), bit = 0;
		uint64_t from = c * j.chunk;
		struct quant_step step = {};

		if (ECQ)
			step = j.steps[c];
		for (uint32_t tile = 0; tile < n; tile += TILE) {
			uint32_t at = tile + threadIdx.x * TAKEN, left = behind(n, at),
				 bits;
			uint32_t mine, total;
			struct eight v;

			bool whole = aligned && left >= TAKEN;
			float *values = (float *)(void *)j.elements + from + at;

			load_eight(v.x, values, left, whole);
			if (FED) {
				float x[TAKEN];

				load_eight(x, j.fresh + from + at, left, whole);
				UNROLL
				for (uint32_t k = 0; k < TAKEN; k++)
					v.x[k] = quant_carried(v.x[k], x[k], j.carry);
			}
			bits = ECQ ? make_ecq(&v, &step, left) :
				     make_qsgd(&v, &j, c, at, left);
			store_eight_symbols(plane_of(&j, c, 0) + at, &v, left);
			if (FED) {
				float rest[TAKEN];

				UNROLL
				for (uint32_t k = 0; k < TAKEN; k++)
					rest[k] = quant_remaining(v.x[k],
						sent_of(&v, k, &step));
				store_eight(values, rest, left, whole);
			}
			mine = bit + before(bits, sums, &total);
			if (!total)
				continue;
			/* words that this tile is the first to write */
			for (uint32_t w = (bit + 31) / 32 + threadIdx.x;
				w < (bit + total + 31) / 32; w += THREADS)
				words[w] = 0;
			__syncthreads();
			UNROLL_1
			for (uint32_t k = 0; k < TAKEN && bits; k++) {
				mine = put_bits(words, mine, symbol_in(&v, 0), v.m[0]);
				set_symbol(&v, 0);
				turn_levels(&v);
			}
			bit += total;
		}
		if (threadIdx.x == 0)
			j.used[c] = (bit + 7) / 8;
	}
}

/* --- decoding --------------------------------------------------------------------------------- */

/* Reads the bits beside a symbol, which has some, from `bit` on: they lie within the plane, and so
 * do the words that have them. */
__device__ __forceinline__ uint32_t get_bits(const uint32_t *words, uint32_t bit,
	uint32_t bits)
{
	uint32_t low = words[bit / 32], high = 0;

	if (bit % 32 + bits > 32)
		high = words[bit / 32 + 1];
	return __funnelshift_r(low, high, bit % 32) & (0xffffffffu >> (32 - bits));
}

/* The values of symbols of which some may have bits beside them, which begin at `bit`; words is
 * NULL where there are not so many. Rare for most, so not inlined. */
static __device__ __noinline__ float any_ecq(const uint32_t *words, uint32_t bit,
	uint8_t symbol, struct quant_step step)
{
	uint32_t bits = (uint32_t)quant_wide_bits(symbol);

	return quant_ecq_value(symbol, bits && words ? get_bits(words, bit, bits) : 0,
		&step);
}

static __device__ __noinline__ float any_qsgd(const uint32_t *words, uint32_t bit,
	uint8_t symbol, float unit)
{
	uint32_t bits = (uint32_t)quant_wide_bits(symbol);

	return quant_qsgd_value(symbol, bits && words ? get_bits(words, bit, bits) : 0,
		unit);
}

/* The value of a symbol without bits beside it. */
template <bool ECQ>
__device__ __forceinline__ float plain_value(uint8_t symbol,
	const struct quant_step *step, float unit)
{
	uint32_t m = quant_wide_code(symbol);
	float y = ECQ ? quant_ecq_level(m, step) : QUANT_MUL((float)m, unit);

	return quant_signed(y, symbol >> 7);
}

template <bool ECQ>
__global__ void __launch_bounds__(THREADS) decode_wide(const GRID_CONSTANT struct job j)
{
	SHARED(uint32_t, sums, WARPS);
	const bool aligned = is_aligned<false>(&j);

	for (uint64_t c = blockIdx.x; c < j.chunks; c += gridDim.x) {
		const unsigned char *beside = plane_of(&j, c, 1);
		uint32_t n = length_of(&j, c), bit = 0, end = j.used[c];
		bool bad = end > j.l.plane[1].bytes;
		struct quant_step step = {};

		if (ECQ)
			step = j.steps[c];
		for (uint32_t tile = 0; tile < n; tile += TILE) {
			uint32_t at = tile + threadIdx.x * TAKEN, left = behind(n, at);
			uint32_t bits = 0, mine, total;
			float *to = (float *)(void *)j.elements + c * j.chunk + at;
			float unit = 0, y[TAKEN];
			const uint32_t *words;
			uint2 both = make_uint2(0, 0);
			struct eight v;

			/* the plane has as many bytes for the last chunk as for others */
			if (left)
				both = *(const uint2 *)(const void *)(plane_of(&j, c, 0) +
					at);
			v.symbols[0] = both.x, v.symbols[1] = both.y;
			if (!ECQ && left)
				unit = scale_at(plane_of(&j, c, 2), plane_of(&j, c, 3),
					       at >> j.block_log) /
					(float)j.q.levels;
			UNROLL
			for (uint32_t k = 0; k < TAKEN; k++)
				bits += k < left ?
					(uint32_t)quant_wide_bits(symbol_in(&v, k)) :
					0;
			mine = bit + before(bits, sums, &total);
			bit += total;
			bad = bad || mine + bits > end * 8;
			words = bad ? NULL : (const uint32_t *)(const void *)beside;
			UNROLL
			for (uint32_t k = 0; k < TAKEN && !bits; k++)
				y[k] = plain_value<ECQ>(symbol_in(&v, k), &step, unit);
			UNROLL_1
			for (uint32_t k = 0; k < TAKEN && bits; k++) {
				uint8_t symbol = k < left ? symbol_in(&v, 0) : 0;

				y[0] = ECQ ? any_ecq(words, mine, symbol, step) :
					     any_qsgd(words, mine, symbol, unit);
				turn(y);
				set_symbol(&v, 0);
				mine += (uint32_t)quant_wide_bits(symbol);
			}
			store_eight(to, y, left, aligned && left >= TAKEN);
		}
		bad = bad || (bit + 7) / 8 != end ||
			(bit % 8 && beside[end - 1] >> bit % 8);
		if (bad)
			atomicOr(j.bad, 1u);
	}
}

/* --- launches --------------------------------------------------------------------------------- */

void quant_encode_wide(struct dev *d, const struct job *j)
{
	unsigned blocks = cuda_grid(d, j->chunks, 1);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j->q.method == QUANT_QSGD)
		LAUNCH((encode_wide<false, false>), blocks, THREADS, stream, *j);
	else if (j->fresh)
		LAUNCH((encode_wide<true, true>), blocks, THREADS, stream, *j);
	else
		LAUNCH((encode_wide<true, false>), blocks, THREADS, stream, *j);
}

void quant_decode_wide(struct dev *d, const struct job *j)
{
	unsigned blocks = cuda_grid(d, j->chunks, 1);
	cudaStream_t stream = cuda_of(d)->stream;

	if (j->q.method == QUANT_QSGD)
		LAUNCH(decode_wide<false>, blocks, THREADS, stream, *j);
	else
		LAUNCH(decode_wide<true>, blocks, THREADS, stream, *j);
}
