/* paged_split.cu - attention over a paged cache for heads of 64, 128 and 256 columns, in f32 (Dao
 * et al. 2023, Flash-Decoding): what paged_tensor.cu does not take, which is a cache of f32, and
 * any on a GPU without tensor cores. The keys that a row sees are split, from the first on, into
 * parts of SPLIT. A thread block computes a part for up to four heads that share keys and values,
 * which it loads 16 bytes at a time, eight numbers a lane. Where there are few rows each part has
 * its own block, and that which is the last to end joins the parts; where there are many, a block
 * computes all parts of its row. Parts are joined in order by the same operations, and each sum has
 * the same terms in the same order, so that the bits are the same: multiply-adds are fmaf(), and
 * contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/cuda.cuh"

#define THREADS 128
#define WARPS   (THREADS / 32)
#define SPLIT   128 /* keys of a part */
#define HEADS   4   /* of a group that a block computes together */
#define LOG2E   1.4426950408889634f
/* fewer blocks than this leave multiprocessors idle: parts get their own */
#define BLOCKS_WANTED 256

/* Loads numbers c .. c + 7 of a row of the cache. */
template <int TYPE>
__device__ __forceinline__ void load_eight(float (&v)[8], const char *row, unsigned c)
{
	if (TYPE == LM_CACHE_F32) {
		const float4 *p = (const float4 *)(const void *)(row + 4 * c);
		float4 a = __ldg(p), b = __ldg(p + 1);

		v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
		v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
	} else if (TYPE == LM_CACHE_F16) {
		uint4 a = __ldg((const uint4 *)(const void *)(row + 2 * c));
		unsigned w[4] = { a.x, a.y, a.z, a.w };

		UNROLL
		for (int i = 0; i < 4; i++) {
			v[2 * i] = cuda_f16(w[i] & 0xffff);
			v[2 * i + 1] = cuda_f16(w[i] >> 16);
		}
	} else { /* blocks of 34 bytes: two bytes at a time */
		const uint16_t *p = (const uint16_t *)(const void *)(row + c / 32 * 34);
		float scale = cuda_f16(__ldg(p));

		p += 1 + c % 32 / 2;
		UNROLL
		for (int i = 0; i < 4; i++) {
			unsigned two = __ldg(p + i);

			v[2 * i] = scale * (float)(int8_t)two;
			v[2 * i + 1] = scale * (float)(int8_t)(two >> 8);
		}
	}
}

/* What a row sees, and where. */
struct view {
	const uint32_t *blocks;
	uint64_t first, last, parts;
};

__device__ __forceinline__ view view_of(const struct lm_paged_attend &a, uint64_t r)
{
	view v;

	v.blocks = a.blocks + a.table[r];
	v.last = a.position[r];
	v.first = a.window && v.last + 1 > a.window ? v.last + 1 - a.window : 0;
	v.parts = (v.last - v.first) / SPLIT + 1;
	return v;
}

template <int TYPE>
__device__ __forceinline__ uint64_t place_of(const struct lm_paged_attend &a,
	const view &v, uint64_t j)
{
	return ((uint64_t)__ldg(v.blocks + j / LM_PAGE) * LM_PAGE + j % LM_PAGE) *
		lm_cache_bytes((enum lm_cache_type)TYPE, a.ldk);
}

/* The softmax of the keys so far, in base 2: sums are relative to 2^largest. */
struct running {
	float largest, sum, out;
};

__device__ __forceinline__ void join(running *to, float largest, float sum, float out)
{
	float more = fmaxf(to->largest, largest);
	float mine = lm_exp2(to->largest - more), other = lm_exp2(largest - more);

	to->sum = fmaf(to->sum, mine, sum * other);
	to->out = fmaf(to->out, mine, out * other);
	to->largest = more;
}

/* What the threads of a block share. */
/* MOST: heads that a block computes together, at most. */
template <int D, int MOST> struct part_room {
	float score[MOST][SPLIT];
	float out[WARPS][MOST][D];
	float largest[MOST], sum[MOST];
};

/* Computes part `part` of `heads` heads from h0 on, of keys and values in the columns from kv on:
 * s->largest, s->sum and s->out[0]. */
template <int TYPE, int D, int MOST>
__device__ __forceinline__ void compute_part(part_room<D, MOST> *s,
	const struct lm_paged_attend &a, const view &v, uint64_t r, uint64_t h0,
	unsigned heads, uint64_t kv, uint64_t part)
{
	enum { LANES = D / 8, KEYS = 32 / LANES * WARPS, PASSES = SPLIT / KEYS };
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned mine = warp * (32 / LANES) + lane / LANES, c = lane % LANES * 8;
	uint64_t base = v.first + part * SPLIT;
	unsigned count = v.last + 1 - base < SPLIT ? (unsigned)(v.last + 1 - base) :
						     SPLIT;
	const char *keys = (const char *)a.keys, *values = (const char *)a.values;
	float q[MOST][8], out[MOST][8] = {};

	for (unsigned h = 0; h < MOST; h++)
		for (unsigned i = 0; i < 8; i++)
			q[h][i] = h < heads ? a.q[r * a.ldq + (h0 + h) * D + c + i] : 0;
	__syncthreads(); /* until the previous part is used */
	UNROLL_4
	for (unsigned pass = 0; pass < PASSES; pass++) {
		unsigned j = pass * KEYS + mine;
		float k[8] = {};

		if (j < count)
			load_eight<TYPE>(k, keys + place_of<TYPE>(a, v, base + j),
				(unsigned)kv + c);
		UNROLL
		for (unsigned h = 0; h < MOST; h++) {
			float sum = 0;

			if (MOST > 1 && h >= heads)
				break;
			UNROLL
			for (int i = 0; i < 8; i++)
				sum = fmaf(q[h][i], k[i], sum);
			sum = lm_warp_sum(sum, LANES) * a.scale;
			if (a.softcap > 0)
				sum = a.softcap * tanhf(sum / a.softcap);
			if (lane % LANES == 0)
				s->score[h][j] = j < count ? sum * LOG2E : -INFINITY;
		}
	}
	__syncthreads();
	if (warp < heads) { /* a warp for each head */
		float *score = s->score[warp], largest = -INFINITY, sum = 0;

		for (unsigned j = lane; j < SPLIT; j += 32)
			largest = fmaxf(largest, score[j]);
		largest = lm_warp_max(largest);
		for (unsigned j = lane; j < SPLIT; j += 32) {
			float p = lm_exp2(score[j] - largest);

			score[j] = p;
			sum += p;
		}
		sum = lm_warp_sum(sum);
		if (lane == 0) {
			s->largest[warp] = largest;
			s->sum[warp] = sum;
		}
	}
	__syncthreads();
	UNROLL_4
	for (unsigned pass = 0; pass < PASSES; pass++) {
		unsigned j = pass * KEYS + mine;
		float x[8];

		if (j >= count)
			continue;
		load_eight<TYPE>(x, values + place_of<TYPE>(a, v, base + j),
			(unsigned)kv + c);
		UNROLL
		for (unsigned h = 0; h < MOST; h++) {
			float p;

			if (MOST > 1 && h >= heads)
				break;
			p = s->score[h][j];
			UNROLL
			for (int i = 0; i < 8; i++)
				out[h][i] = fmaf(p, x[i], out[h][i]);
		}
	}
	for (unsigned h = 0; h < heads; h++)
		UNROLL
	for (int i = 0; i < 8; i++) {
		float sum = out[h][i];

		for (int by = LANES; by < 32; by *= 2)
			sum += __shfl_xor_sync(LM_ALL, sum, by);
		if (lane < LANES)
			s->out[warp][h][c + (unsigned)i] = sum;
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < heads * D; i += THREADS) {
		float sum = s->out[0][i / D][i % D];

		for (unsigned w = 1; w < WARPS; w++)
			sum += s->out[w][i / D][i % D];
		s->out[0][i / D][i % D] = sum;
	}
	__syncthreads();
}

/* The heads that a task computes, and its row. */
struct heads_task {
	uint64_t r, h0, kv;
	unsigned heads;
};

__device__ __forceinline__ heads_task heads_of(const struct lm_paged_attend &a,
	uint64_t n)
{
	unsigned group = (unsigned)(a.heads / a.kv_heads),
		 fours = (group + HEADS - 1) / HEADS;
	unsigned all = fours * (unsigned)a.kv_heads, at = (unsigned)(n % all);
	heads_task t;

	t.r = n / all;
	t.kv = at / fours;
	t.h0 = t.kv * group + at % fours * HEADS;
	t.heads = group - at % fours * HEADS < HEADS ? group - at % fours * HEADS : HEADS;
	return t;
}

/* Joins the parts of a task's heads, which lie in `room`, where other blocks wrote them. */
template <int D>
__device__ __forceinline__ void join_parts(const struct lm_paged_attend &a,
	const heads_task &t, const view &v, uint64_t parts, const volatile float *room)
{
	for (unsigned i = threadIdx.x; i < t.heads * D; i += THREADS) {
		const volatile float *from = room + i / D * parts * (D + 2);
		running sum = { -INFINITY, 0, 0 };

		UNROLL_4
		for (uint64_t part = 0; part < v.parts; part++, from += D + 2)
			join(&sum, from[D], from[D + 1], from[i % D]);
		a.out[t.r * a.ldo + t.h0 * D + i] = sum.out / sum.sum;
	}
}

/* Each block computes one part, and leaves it in room: out, largest and sum of each head. The last
 * one of a task joins all. */
template <int TYPE, int D, int MOST>
__global__ void __launch_bounds__(THREADS, 5) paged_part_kernel(struct lm_paged_attend a,
	uint64_t tasks, uint64_t parts, float *room, unsigned *done)
{
	typedef part_room<D, MOST> room_type;
	SHARED(room_type, s, 1);
	SHARED(unsigned, before, 1);

	for (uint64_t n = blockIdx.x; n < tasks * parts; n += gridDim.x) {
		uint64_t task = n / parts, part = n % parts;
		heads_task t = heads_of(a, task);
		view v = view_of(a, t.r);
		float *mine = room + (t.r * a.heads + t.h0) * parts * (D + 2);

		if (part >= v.parts)
			continue;
		compute_part<TYPE, D, MOST>(s, a, v, t.r, t.h0, t.heads, t.kv * D, part);
		for (unsigned i = threadIdx.x; i < t.heads * (D + 2); i += THREADS) {
			unsigned h = i / (D + 2), c = i % (D + 2);

			mine[(h * parts + part) * (D + 2) + c] = c < D ? s->out[0][h][c] :
				c == D                                 ? s->largest[h] :
									 s->sum[h];
		}
		__threadfence();
		__syncthreads();
		if (threadIdx.x == 0) {
			before[0] = atomicAdd(done + task, 1u);
			if (before[0] + 1 == v.parts)
				CUDA_ORDERED(mine, t.heads * parts * (D + 2) * 4);
		}
		__syncthreads();
		if (before[0] + 1 < v.parts)
			continue;
		__threadfence();
		join_parts<D>(a, t, v, parts, mine);
		if (threadIdx.x == 0)
			done[task] = 0; /* for the next launch */
	}
}

/* Each block computes all parts of its heads. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, 5)
	paged_row_kernel(struct lm_paged_attend a, uint64_t tasks)
{
	enum { EACH = (HEADS * D + THREADS - 1) / THREADS }; /* numbers of a thread */
	typedef part_room<D, HEADS> room_type;
	SHARED(room_type, s, 1);

	for (uint64_t n = blockIdx.x; n < tasks; n += gridDim.x) {
		heads_task t = heads_of(a, n);
		view v = view_of(a, t.r);
		running sum[EACH];

		UNROLL
		for (int e = 0; e < EACH; e++)
			sum[e] = { -INFINITY, 0, 0 };
		for (uint64_t part = 0; part < v.parts; part++) {
			compute_part<TYPE, D, HEADS>(s, a, v, t.r, t.h0, t.heads,
				t.kv * D, part);
			UNROLL
			for (unsigned e = 0; e < EACH; e++) {
				unsigned i = threadIdx.x + e * THREADS;

				if (i < t.heads * D)
					join(&sum[e], s->largest[i / D], s->sum[i / D],
						s->out[0][i / D][i % D]);
			}
		}
		UNROLL
		for (unsigned e = 0; e < EACH; e++) {
			unsigned i = threadIdx.x + e * THREADS;

			if (i < t.heads * D)
				a.out[t.r * a.ldo + t.h0 * D + i] = sum[e].out /
					sum[e].sum;
		}
	}
}

/* --- on the host --------------------------------------------------------------------------- */

template <int TYPE, int D>
static int launch(struct dev *d, const struct lm_paged_attend *a)
{
	auto part_kernel = a->heads == a->kv_heads ? paged_part_kernel<TYPE, D, 1> :
						     paged_part_kernel<TYPE, D, HEADS>;
	auto row_kernel = paged_row_kernel<TYPE, D>;
	static_assert(BLOCKS_WANTED <= LM_COUNTERS, "a counter for each task");
	uint64_t group = a->heads / a->kv_heads;
	uint64_t tasks = a->rows * a->kv_heads * ((group + HEADS - 1) / HEADS);
	uint64_t parts = (a->keys_max + SPLIT - 1) / SPLIT;
	float *room = cuda_of(d)->lm_scratch;
	cudaStream_t stream = cuda_of(d)->stream;

	if (parts < 2 || tasks >= BLOCKS_WANTED ||
		a->rows * a->heads * parts * (D + 2) > LM_SCRATCH_FLOATS) {
		LAUNCH(row_kernel, cuda_grid(d, tasks, 1), THREADS, stream, *a, tasks);
	} else {
		LAUNCH(part_kernel, cuda_grid(d, tasks * parts, 1), THREADS, stream, *a,
			tasks, parts, room, (unsigned *)(room + LM_SCRATCH_FLOATS));
	}
	return lm_started(d);
}

template <int D> static int launch_type(struct dev *d, const struct lm_paged_attend *a)
{
	switch (a->type) {
	case LM_CACHE_F16:
		return launch<LM_CACHE_F16, D>(d, a);
	case LM_CACHE_F32:
		return launch<LM_CACHE_F32, D>(d, a);
	default:
		return launch<LM_CACHE_Q8_0, D>(d, a);
	}
}

int cuda_lm_paged_split(struct dev *d, const struct lm_paged_attend *a)
{
	bool whole = a->ldk % 8 == 0 &&
		(((uintptr_t)a->keys | (uintptr_t)a->values) & 15) == 0;

	if (!whole || a->heads * a->rows >= UINT32_MAX)
		return 1;
	switch (a->head_dim) {
	case 64:
		return launch_type<64>(d, a);
	case 128:
		return launch_type<128>(d, a);
	case 256:
		return launch_type<256>(d, a);
	default:
		return 1;
	}
}
