/* quant.cu - the quantisers on a GPU: the operations, elements that are independent, scales from
 * the sums of a chunk, statistics. quant_blocks.cu, quant_wide.cu and quant_topk.cu have the other
 * methods. Contraction (-fmad) changes nothing: quant.cuh. */
#include "kernels/grad/cuda/quant.cuh"

#define SIGMA_THREADS 1024 /* of a block that has a multiprocessor to itself */

/* --- each element alone --------------------------------------------------------------------- */

__device__ static void put_16(const struct job *j, uint64_t c, uint32_t at, uint16_t h)
{
	plane_of(j, c, 0)[at] = (unsigned char)(h >> 8);
	plane_of(j, c, 1)[at] = (unsigned char)h;
}

__device__ static void put_lossless(const struct job *j, uint64_t c, uint32_t at,
	uint64_t i)
{
	uint16_t upper;

	if (j->q.bf16) {
		upper = ((const uint16_t *)(const void *)j->elements)[i];
	} else {
		uint32_t bits = ((const uint32_t *)(const void *)j->elements)[i];

		upper = (uint16_t)(bits >> 16);
		((uint16_t *)(void *)plane_of(j, c, 2))[at] = (uint16_t)bits;
	}
	plane_of(j, c, 0)[at] = (unsigned char)(upper >> 7);
	plane_of(j, c, 1)[at] = (unsigned char)((upper >> 8 & 0x80) | (upper & 0x7f));
}

__global__ void encode_each(struct job j)
{
	for (uint64_t i = GRID_FIRST; i < j.n; i += GRID_STRIDE) {
		uint64_t c = chunk_of(&j, i);
		uint32_t at = place_of(&j, i);
		const float *x = (const float *)(const void *)j.elements;

		switch (j.q.method) {
		case QUANT_NONE:
			if (j.q.bf16)
				((uint16_t *)(void *)plane_of(&j, c, 0))[at] = ((
					const uint16_t *)(const void *)j.elements)[i];
			else
				((float *)(void *)plane_of(&j, c, 0))[at] = x[i];
			break;
		case QUANT_LOSSLESS:
			put_lossless(&j, c, at, i);
			break;
		case QUANT_F16:
			put_16(&j, c, at, f16_from_f32(x[i]));
			break;
		case QUANT_BF16:
			put_16(&j, c, at, bf16_from_f32(x[i]));
			break;
		case QUANT_FP8E4:
			plane_of(&j, c, 0)[at] = f8_from_f32(x[i]);
			break;
		default:
			plane_of(&j, c, 0)[at] = quant_fp8e5_from_f32(x[i]);
		}
	}
}

__device__ static uint16_t get_16(const struct job *j, uint64_t c, uint32_t at)
{
	return (uint16_t)(plane_of(j, c, 0)[at] << 8 | plane_of(j, c, 1)[at]);
}

__device__ static void get_lossless(const struct job *j, uint64_t c, uint32_t at,
	uint64_t i)
{
	uint32_t rest = plane_of(j, c, 1)[at];
	uint32_t upper = (rest & 0x80) << 8 | (uint32_t)plane_of(j, c, 0)[at] << 7 |
		(rest & 0x7f);

	if (j->q.bf16)
		((uint16_t *)(void *)j->elements)[i] = (uint16_t)upper;
	else
		((uint32_t *)(void *)j->elements)[i] = upper << 16 |
			((const uint16_t *)(const void *)plane_of(j, c, 2))[at];
}

__device__ static float value_at(const struct job *j, uint64_t c, uint32_t at)
{
	unsigned char symbol = plane_of(j, c, 0)[at];

	switch (j->q.method) {
	case QUANT_F16:
		return f16_to_f32(get_16(j, c, at));
	case QUANT_BF16:
		return bf16_to_f32(get_16(j, c, at));
	case QUANT_FP8E4:
		return f8_to_f32(symbol);
	default:
		return quant_fp8e5_to_f32(symbol);
	}
}

__global__ void decode_each(struct job j)
{
	for (uint64_t i = GRID_FIRST; i < j.n; i += GRID_STRIDE) {
		uint64_t c = chunk_of(&j, i);
		uint32_t at = place_of(&j, i);

		if (j.q.method == QUANT_LOSSLESS)
			get_lossless(&j, c, at, i);
		else if (j.q.method != QUANT_NONE)
			((float *)(void *)j.elements)[i] = value_at(&j, c, at);
		else if (j.q.bf16)
			((uint16_t *)(void *)j.elements)[i] = ((
				const uint16_t *)(const void *)plane_of(&j, c, 0))[at];
		else
			((uint32_t *)(void *)j.elements)[i] = ((
				const uint32_t *)(const void *)plane_of(&j, c, 0))[at];
	}
}

__device__ static uint8_t level_symbol(const struct quant *q, float x, float inverse,
	float shift, uint64_t index)
{
	float t = quant_clamp(QUANT_MUL(QUANT_ADD(x, -shift), inverse),
		(float)quant_level_max(q->method));

	if (!quant_finite(x))
		return q->method == QUANT_Q8 ? QUANT_Q8_NAN : QUANT_Q4_NAN;
	return quant_symbol(q->stochastic ? quant_chance(t, quant_word(q->seed, index)) :
					    quant_nearest(t),
		q->method);
}

/* --- sums: 16 threads a run --------------------------------------------------------------- */

/* Returns the sums of a run of n elements, valid in the first of the 16 threads. FED: what is fresh
 * is added to the elements first. */
template <bool FED>
__device__ static struct quant_sums run_sums(float *x, const float *fresh, float carry,
	uint32_t n)
{
	unsigned lane = threadIdx.x % QUANT_LANES;
	unsigned mask = 0xffffu << (threadIdx.x % 32 / QUANT_LANES * QUANT_LANES);
	struct quant_sums s = {};

	for (uint32_t i = lane; i < n; i += QUANT_LANES) {
		float e = FED ? quant_carried(x[i], fresh[i], carry) : x[i];
		double v = quant_finite(e) ? (double)e : 0;

		if (FED)
			x[i] = e;
		s.sum = QUANT_DADD(s.sum, v);
		s.squares = QUANT_DADD(s.squares, QUANT_DMUL(v, v));
		s.count += quant_finite(e);
	}
	for (unsigned half = QUANT_LANES / 2; half; half /= 2) {
		s.sum = QUANT_DADD(s.sum,
			__shfl_down_sync(mask, s.sum, half, QUANT_LANES));
		s.squares = QUANT_DADD(s.squares,
			__shfl_down_sync(mask, s.squares, half, QUANT_LANES));
		s.count += __shfl_down_sync(mask, s.count, half, QUANT_LANES);
	}
	return s;
}

/* Four adjacent values become four symbols. */
__device__ static uint32_t four_symbols(const struct quant *q, float4 x, float inverse,
	float shift, uint64_t index)
{
	return level_symbol(q, x.x, inverse, shift, index) |
		(uint32_t)level_symbol(q, x.y, inverse, shift, index + 1) << 8 |
		(uint32_t)level_symbol(q, x.z, inverse, shift, index + 2) << 16 |
		(uint32_t)level_symbol(q, x.w, inverse, shift, index + 3) << 24;
}

/* Mean and step of a chunk, from the sums of its runs in order: by one thread. */
__device__ static void put_sigma(const struct job *j, uint64_t c, float pair[2],
	const struct quant_sums *runs, uint32_t count)
{
	struct quant_sums all = {};

	for (uint32_t r = 0; r < count; r++) {
		all.sum = QUANT_DADD(all.sum, runs[r].sum);
		all.squares = QUANT_DADD(all.squares, runs[r].squares);
		all.count += runs[r].count;
	}
	pair[1] = quant_sigma_step(&all, quant_level_max(j->q.method), &pair[0]);
	memcpy(plane_of(j, c, 1), &pair[0], 4);
	memcpy(plane_of(j, c, 1) + 4, &pair[1], 4);
}

/* One thread block per chunk, whose elements are read again from the level-2 cache: there are no
 * more blocks than multiprocessors, whose chunks of 256 KB it holds, and each has as many threads
 * as there may be. CHANCE: values are rounded at random. FED: the first pass leaves the sums with
 * what is fresh in their place, the second what of these is not sent. */
template <bool CHANCE, bool FED>
__global__ void __launch_bounds__(SIGMA_THREADS, 1)
	encode_sigma(const GRID_CONSTANT struct job given)
{
	SHARED(struct quant_sums, runs, QUANT_CHUNK / QUANT_RUN);
	SHARED(float, pair, 2);
	const bool aligned = is_aligned<false>(&given);
	struct quant q = given.q;

	q.stochastic = CHANCE;
	for (uint64_t c = blockIdx.x; c < given.chunks; c += gridDim.x) {
		const struct job &j = given;
		float *x = floats_of(&j, c);
		const float *fresh = FED ? j.fresh + c * j.chunk : NULL;
		unsigned char *symbols = plane_of(&j, c, 0);
		uint32_t n = length_of(&j, c);
		uint32_t count = (n + QUANT_RUN - 1) / QUANT_RUN;
		float inverse, shift, step;

		__syncthreads(); /* until the previous chunk is done */
		for (uint32_t r = threadIdx.x / QUANT_LANES; r < count;
			r += SIGMA_THREADS / QUANT_LANES) {
			uint32_t at = r * QUANT_RUN, left = n - at;
			struct quant_sums s = run_sums<FED>(x + at, fresh + at, j.carry,
				left < QUANT_RUN ? left : QUANT_RUN);

			if (threadIdx.x % QUANT_LANES == 0)
				runs[r] = s;
		}
		__syncthreads();
		if (threadIdx.x == 0)
			put_sigma(&j, c, pair, runs, count);
		__syncthreads();
		shift = pair[0], step = pair[1], inverse = quant_inverse(step);
		UNROLL_1
		for (uint32_t i = 4 * threadIdx.x; i < n; i += 4 * SIGMA_THREADS) {
			float4 v = load_four(x + i, n - i, aligned);
			uint32_t four = four_symbols(&q, v, inverse, shift,
				j.first + c * j.chunk + i);

			store_symbols(symbols + i, four, n - i);
			if (FED)
				store_four(x + i,
					remaining_four(v,
						values_of(four, step, shift, q.method)),
					n - i, aligned);
		}
	}
}

/* qsgd's norms, 16 threads per block. */
__global__ void encode_norms(struct job j)
{
	uint64_t blocks = (j.n + j.q.block - 1) / j.q.block;

	for (uint64_t b = GRID_FIRST / QUANT_LANES; b < blocks;
		b += GRID_STRIDE / QUANT_LANES) {
		uint64_t from = b * j.q.block, left = j.n - from;
		uint32_t n = (uint32_t)(left < j.q.block ? left : j.q.block);
		float *x = (float *)(void *)j.elements + from;
		double squares = 0;

		for (uint32_t at = 0; at < n; at += QUANT_RUN) {
			uint32_t run = n - at < QUANT_RUN ? n - at : QUANT_RUN;

			squares = QUANT_DADD(squares,
				run_sums<false>(x + at, NULL, 0, run).squares);
		}
		if (threadIdx.x % QUANT_LANES == 0) {
			uint16_t scale = quant_scale((float)sqrt(squares), true);
			uint64_t c = chunk_of(&j, from);
			uint32_t at = place_of(&j, from) >> j.block_log;

			plane_of(&j, c, 2)[at] = (unsigned char)(scale >> 8);
			plane_of(&j, c, 3)[at] = (unsigned char)scale;
		}
	}
}

/* --- statistics ------------------------------------------------------------------------------ */

__device__ __forceinline__ void count_bin(uint32_t *bins, float x, bool exists)
{
	uint32_t magnitude = quant_magnitude(x);

	if (exists && magnitude < 0x7f800000)
		atomicAdd(&bins[quant_bin(magnitude)], 1u);
}

/* One thread block for 65536 elements, four of a thread at a time; chunk is a multiple of that, or
 * all. FED: of sums with e. */
template <bool FED>
__global__ void __launch_bounds__(THREADS) spread_kernel(uint32_t *bins, const float *x,
	const float *e, float b, uint64_t n, uint64_t chunk)
{
	SHARED(uint32_t, mine, QUANT_BINS);
	uint64_t stretches = (n + QUANT_CHUNK - 1) / QUANT_CHUNK;
	const bool aligned = !(((uintptr_t)x | (FED ? (uintptr_t)e : 0)) & 15);

	for (uint64_t s = blockIdx.x; s < stretches; s += gridDim.x) {
		uint64_t from = s * QUANT_CHUNK, left = n - from;
		uint32_t count = left < QUANT_CHUNK ? (uint32_t)left : QUANT_CHUNK;
		uint32_t *out = bins + from / chunk * QUANT_BINS;

		for (uint32_t i = threadIdx.x; i < QUANT_BINS; i += THREADS)
			mine[i] = 0;
		__syncthreads();
		UNROLL_1
		for (uint32_t i = 4 * threadIdx.x; i < count; i += 4 * THREADS) {
			float4 v = load_four(x + from + i, count - i, aligned);

			if (FED)
				v = carried_four(load_four(e + from + i, count - i,
							 aligned),
					v, b);

			count_bin(mine, v.x, true);
			count_bin(mine, v.y, i + 1 < count);
			count_bin(mine, v.z, i + 2 < count);
			count_bin(mine, v.w, i + 3 < count);
		}
		__syncthreads();
		UNROLL_1
		for (uint32_t i = threadIdx.x; i < QUANT_BINS; i += THREADS)
			if (mine[i])
				atomicAdd(&out[i], mine[i]);
		__syncthreads();
	}
}

/* --- the table ---------------------------------------------------------------------------- */

static struct job make_job(const struct quant_job *q)
{
	struct job j = {};
	uint32_t full = quant_chunk(q->q.method);

	j.q = q->q;
	quant_layout(&j.l, &q->q, full);
	j.first = q->first, j.n = q->n, j.chunk = full;
	j.chunk_log = (unsigned)__builtin_ctz(full);
	j.block_log = q->q.block ? (unsigned)__builtin_ctz(q->q.block) : 0;
	j.chunks = quant_chunks(q->q.method, q->n);
	j.elements = (char *)q->elements, j.planes = q->planes;
	j.used = q->used, j.bad = q->bad, j.steps = q->steps;
	return j;
}

static int started(struct dev *d)
{
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* Returns the number of thread blocks for n items that take a whole block each. */
static unsigned grid_of(struct dev *d, uint64_t n)
{
	return cuda_grid(d, n, 1);
}

static void encode_by_sigma(struct dev *d, const struct job *j)
{
	uint64_t most = (uint64_t)cuda_of(d)->sm_count;
	unsigned blocks = (unsigned)(j->chunks < most ? j->chunks : most);
	cudaStream_t stream = cuda_of(d)->stream;

	blocks = blocks ? blocks : 1;
	if (j->fresh)
		LAUNCH((j->q.stochastic ? encode_sigma<true, true> :
					  encode_sigma<false, true>),
			blocks, SIGMA_THREADS, stream, *j);
	else
		LAUNCH((j->q.stochastic ? encode_sigma<true, false> :
					  encode_sigma<false, false>),
			blocks, SIGMA_THREADS, stream, *j);
}

static int encode(struct dev *d, const struct job *given)
{
	struct job j = *given;
	cudaStream_t stream = cuda_of(d)->stream;
	uint64_t blocks = j.q.block ? (j.n + j.q.block - 1) / j.q.block : 0;

	switch (j.q.method) {
	case QUANT_QSGD:
		LAUNCH(encode_norms, cuda_grid(d, blocks * QUANT_LANES, THREADS), THREADS,
			stream, j);
		quant_encode_wide(d, &j);
		return started(d);
	case QUANT_ECQ:
		quant_encode_wide(d, &j);
		return started(d);
	case QUANT_TOPK:
		quant_encode_topk(d, &j);
		break;
	case QUANT_Q8:
	case QUANT_Q4:
	case QUANT_E3M0:
		if (j.q.sigma)
			encode_by_sigma(d, &j);
		else
			quant_encode_blocks(d, &j);
		break;
	default:
		LAUNCH(encode_each, cuda_grid(d, j.n, THREADS), THREADS, stream, j);
	}
	CUDA_TRY(cudaMemsetAsync(j.used, 0, j.chunks * sizeof *j.used, stream));
	return started(d);
}

int cuda_quant_encode(struct dev *d, const struct quant_job *q)
{
	struct job j = make_job(q);

	return encode(d, &j);
}

int cuda_quant_decode(struct dev *d, const struct quant_job *q)
{
	struct job j = make_job(q);
	cudaStream_t stream = cuda_of(d)->stream;

	switch (j.q.method) {
	case QUANT_ECQ:
	case QUANT_QSGD:
		quant_decode_wide(d, &j);
		break;
	case QUANT_TOPK:
		quant_decode_topk(d, &j);
		break;
	case QUANT_Q8:
	case QUANT_Q4:
	case QUANT_E3M0:
		quant_decode_levels(d, &j);
		break;
	default:
		LAUNCH(decode_each, cuda_grid(d, j.n, THREADS), THREADS, stream, j);
	}
	return started(d);
}

int cuda_quant_spread(struct dev *d, uint32_t *bins, const float *x, const float *e,
	float b, uint64_t n, uint64_t chunk)
{
	LAUNCH((e ? spread_kernel<true> : spread_kernel<false>),
		grid_of(d, (n + QUANT_CHUNK - 1) / QUANT_CHUNK), THREADS,
		cuda_of(d)->stream, bins, x, e, b, n,
		chunk < n ? chunk :
			n ? n :
			    1);
	return started(d);
}

/* An operation on each of n elements i: defines its kernel and the function that launches it.
 * `given`: the names of its arguments. */
#define ARGUMENTS(...) __VA_ARGS__
#define EACH(name, given, statement, ...)                                \
	__global__ void name##_kernel(__VA_ARGS__, uint64_t n)           \
	{                                                                \
		for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)   \
			statement;                                       \
	}                                                                \
	int cuda_quant_##name(struct dev *d, __VA_ARGS__, uint64_t n)    \
	{                                                                \
		LAUNCH(name##_kernel, cuda_grid(d, n, THREADS), THREADS, \
			cuda_of(d)->stream, given, n);                   \
		return started(d);                                       \
	}

EACH(carry, ARGUMENTS(e, x, b), e[i] = quant_carried(e[i], x[i], b), float *e,
	const float *x, float b)
EACH(remain, ARGUMENTS(e, sent), e[i] = quant_remaining(e[i], sent[i]), float *e,
	const float *sent)
EACH(widen, ARGUMENTS(out, bf16), out[i] = bf16_to_f32(bf16[i]), float *out,
	const uint16_t *bf16)
EACH(narrow, ARGUMENTS(bf16, in), bf16[i] = bf16_from_f32(in[i]), uint16_t *bf16,
	const float *in)

/* In one pass, but for methods that few use with it: a value is read and written once. */
int cuda_quant_feed(struct dev *d, const struct quant_job *q, float *sent, const float *x,
	float b)
{
	struct job j = make_job(q);
	struct quant_job sends = *q;
	float *e = (float *)q->elements;

	if (q->q.method == QUANT_ECQ || q->q.method == QUANT_Q8 ||
		q->q.method == QUANT_Q4 || q->q.method == QUANT_E3M0) {
		j.fresh = x;
		j.carry = b;
		return encode(d, &j);
	}
	sends.elements = sent;
	if (cuda_quant_carry(d, e, x, b, q->n) < 0 || encode(d, &j) < 0 ||
		cuda_quant_decode(d, &sends) < 0)
		return -1;
	return cuda_quant_remain(d, e, sent, q->n);
}
