/* paged_tensor.cu - attention over a paged cache of f16 or q8_0 on tensor cores, for heads of 64,
 * 128 and 256 columns. Of a few rows each part of the keys has a block (Dao et al. 2023,
 * Flash-Decoding), whose warps share its keys, then its columns; that which is the last to end
 * joins the parts. Of many rows a block walks through the parts of its own, but those of a row that
 * sees many have blocks again, so that a long conversation does not hold up short ones; prompts
 * have paged_prompt.cu. All do what paged_tensor.cuh describes, so that their bits are the same:
 * multiply-adds are fmaf(), and contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/paged_long.cuh"

/* fewer tasks than this leave multiprocessors idle: parts get their own blocks */
#define TASKS_WANTED 256
/* rows of a prompt's few that are computed one by one, in so many launches at most: tiles share
 * their keys */
#define PROMPT_LAUNCHES 2

/* --- a few rows ---------------------------------------------------------------------------- */

template <int TYPE, int D> struct rows_memory {
	typedef part_of<TYPE, D> part;
	enum { WEIGHTS_STRIDE = SPLIT + 8 };
	alignas(16) char part_room[part::BYTES];
	uint16_t queries[PAIRS * part::STRIDE];
	uint16_t weights[PAIRS * WEIGHTS_STRIDE];
	float largest[WARPS][PAIRS];
	unsigned before;
};

#if CUDA_TENSOR
/* A block's work: a row, and up to 16 heads that share keys. */
template <int TYPE, int D> struct row_work {
	typedef part_of<TYPE, D> part;
	typedef rows_memory<TYPE, D> memory;
	enum { COLUMNS = D / WARPS }; /* that a warp sums */
	memory *m;
	part_places<TYPE, D> at;
	part_source from;
	pairs_task t;
	seen keys_seen;
	float sum[COLUMNS / 8][4], total[4]; /* of a part */
	float largest[2];                    /* scores of it */

	__device__ __forceinline__ void place(const struct lm_paged_attend &a,
		const pairs_task &task, memory *shared)
	{
		t = task;
		m = shared;
		at.place(m->part_room);
		from = source_of<TYPE, D>(a, t);
		keys_seen = seen_by(a, t.r0);
	}

	/* Starts to copy; none beyond the last key. */
	__device__ __forceinline__ void start(const struct lm_paged_attend &a,
		bool of_keys, unsigned base, bool is)
	{
		if (is)
			ask<TYPE, D>(of_keys ? at.keys_raw : at.values_raw,
				of_keys ? a.keys : a.values, a, from, base,
				keys_seen.first, keys_seen.first + keys_seen.more + 1);
		tensor_commit();
	}

	/* Scores of the warp's 16 keys, and of all warps' the largest. */
	__device__ __forceinline__ void score(float (&s)[2][4], float (&factor)[2],
		float softcap, unsigned base)
	{
		unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
		seen both[2] = { keys_seen, keys_seen };

		load_factors<D>(factor, m->queries);
		UNROLL
		for (int i = 0; i < 8; i++)
			s[i / 4][i % 4] = 0;
		UNROLL
		for (unsigned c = 0; c < D; c += 16) {
			unsigned q[4];

			load_query<D>(q, m->queries, c);
			add_scores<D, 2>(s, q, at.keys + warp * 16 * part::STRIDE, c);
		}
		if (softcap > 0)
			cap_scores<2>(s, factor, softcap);
		mask_scores<2>(s, both, base + warp * 16);
		UNROLL
		for (int half = 0; half < 2; half++) {
			float most = largest_of<2>(s, half);

			if (lane % 4 == 0)
				m->largest[warp][lane / 4 + 8 * half] = most;
		}
		__syncthreads(); /* all have scored: the keys are used, too */
		UNROLL
		for (int half = 0; half < 2; half++) {
			float most = -INFINITY;

			for (int w = 0; w < WARPS; w++)
				most = fmaxf(most, m->largest[w][lane / 4 + 8 * half]);
			largest[half] = __fmul_rn(most, factor[half]);
		}
	}

	/* Computes the part from key `base` on: sum, total and largest. The copies of its keys
	 * and values are the last two groups; `next`: those of the next part are started. */
	__device__ __forceinline__ void compute(const struct lm_paged_attend &a,
		unsigned base, bool next)
	{
		unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
		float s[2][4], factor[2];
		unsigned w[2][2];

		land<TYPE, D, 1>(at.keys, at.keys_raw);
		score(s, factor, a.softcap, base);
		start(a, true, base + SPLIT, next);
		UNROLL
		for (int half = 0; half < 2; half++) {
			weigh<2>(w, s, half, factor[half], largest[half]);
			for (int n = 0; n < 2; n++)
				*(unsigned *)(void *)(m->weights +
					(lane / 4 + 8 * half) * memory::WEIGHTS_STRIDE +
					warp * 16 + 8 * n + lane % 4 * 2) = w[n][half];
		}
		land<TYPE, D, 1>(at.values,
			at.values_raw); /* the weights are there, too */
		UNROLL
		for (int i = 0; i < COLUMNS / 2; i++)
			sum[i / 4][i % 4] = 0;
		for (int i = 0; i < 4; i++)
			total[i] = 0;
		UNROLL
		for (unsigned k = 0; k < SPLIT; k += 16) {
			unsigned of_16[4];

			tensor_matrices<false>(of_16,
				m->weights + lane % 16 * memory::WEIGHTS_STRIDE + k +
					lane / 16 * 8);
			add_weights(total, of_16);
			add_values<D, COLUMNS / 8>(sum, of_16,
				at.values + k * part::STRIDE + warp * COLUMNS);
		}
		if (!part::QUANTIZED && next)
			__syncthreads(); /* until the values are used */
		start(a, false, base + SPLIT, next);
	}

	/* All parts of the row, one after the other. */
	__device__ __forceinline__ void walk(const struct lm_paged_attend &a)
	{
		unsigned base = keys_seen.first / SPLIT * SPLIT;
		unsigned last = keys_seen.first + keys_seen.more;
		float out[COLUMNS / 8][4] = {};
		running so_far[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };

		start(a, true, base, true);
		start(a, false, base, true);
		store_queries<D, PAIRS>(m->queries, a, t);
		UNROLL_1
		for (; base <= last; base += SPLIT) {
			compute(a, base, base + SPLIT <= last);
			UNROLL
			for (int half = 0; half < 2; half++) {
				shares by = join(&so_far[half], largest[half],
					total[2 * half]);

				UNROLL
				for (int i = 0; i < COLUMNS / 4; i++) {
					int e = 2 * half + i % 2;

					out[i / 2][e] = fmaf(out[i / 2][e], by.mine,
						sum[i / 2][e] * by.other);
				}
			}
		}
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			float one = 1 / so_far[half].total;

			UNROLL
			for (int n = 0; n < COLUMNS / 8; n++)
				store(a.out + (uint64_t)t.r0 * a.ldo + t.h0 * D, D, half,
					n, out[n][2 * half] * one,
					out[n][2 * half + 1] * one);
		}
	}

	/* Stores two columns of a pair, where it exists; rows of pairs are `apart`. */
	__device__ __forceinline__ void store(float *to, uint64_t apart, unsigned half,
		int n, float x, float y)
	{
		unsigned lane = threadIdx.x % 32, pair = lane / 4 + 8 * half;

		if (pair < t.heads)
			*(float2 *)(void *)(to + pair * apart +
				threadIdx.x / 32 * COLUMNS + 8 * n +
				lane % 4 * 2) = make_float2(x, y);
	}

	/* How many parts the row sees. */
	__device__ __forceinline__ unsigned count(void) const
	{
		return parts_seen(keys_seen);
	}

	/* One part, of which what is computed goes into the room. */
	__device__ __forceinline__ void leave(const struct lm_paged_attend &a,
		const task_room &room, unsigned n)
	{
		unsigned base = keys_seen.first / SPLIT * SPLIT + n * SPLIT;
		float *to = room.sums + (uint64_t)n * D;
		float2 *stats = room.stats + n;
		unsigned lane = threadIdx.x % 32;

		start(a, true, base, true);
		start(a, false, base, true);
		store_queries<D, PAIRS>(m->queries, a, t);
		compute(a, base, false);
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			unsigned h = lane / 4 + 8 * half;

			UNROLL
			for (int i = 0; i < COLUMNS / 8; i++)
				store(to, (uint64_t)room.parts * D, half, i,
					sum[i][2 * half], sum[i][2 * half + 1]);
			if (threadIdx.x < 32 && lane % 4 == 0 && h < t.heads)
				stats[h * room.parts] = make_float2(largest[half],
					total[2 * half]);
		}
	}

	/* Joins `count` parts, which lie in the room, where other blocks left them. */
	__device__ __forceinline__ void join_all(const struct lm_paged_attend &a,
		const task_room &room, unsigned count)
	{
		for (unsigned i = threadIdx.x; i < t.heads * (D / 4); i += THREADS) {
			unsigned h = i / (D / 4), c = i % (D / 4) * 4;
			const float *from = room.sums + (uint64_t)h * room.parts * D + c;
			const float2 *stat = room.stats + h * room.parts;
			float out[4] = {}, one;
			running so_far = { -INFINITY, 0 };

			UNROLL_8
			for (unsigned n = 0; n < count; n++, from += D) {
				float2 of = __ldcg(stat + n);
				float4 x = __ldcg((const float4 *)(const void *)from);
				shares by = join(&so_far, of.x, of.y);

				out[0] = fmaf(out[0], by.mine, x.x * by.other);
				out[1] = fmaf(out[1], by.mine, x.y * by.other);
				out[2] = fmaf(out[2], by.mine, x.z * by.other);
				out[3] = fmaf(out[3], by.mine, x.w * by.other);
			}
			one = 1 / so_far.total;
			*(float4 *)(void *)(a.out + (uint64_t)t.r0 * a.ldo +
				(t.h0 + h) * D + c) = make_float4(out[0] * one,
				out[1] * one, out[2] * one, out[3] * one);
		}
	}
};
#endif

#if CUDA_TENSOR
/* Whether the row is of a tile that paged_prompt_kernel computes; called by whole warps. */
__device__ __forceinline__ bool is_in_tile(const struct lm_paged_attend &a,
	const division &v, unsigned r)
{
	unsigned r0;

	if (!v.tile)
		return false;
	r0 = r / v.tile * v.tile;
	return view_of(a, r0, min((unsigned)a.rows - r0, v.tile)).is;
}

/* Computes one of the row's parts, and joins all of them if it is the last of all blocks that
 * do. */
template <int TYPE, int D>
__device__ __forceinline__ void compute_part(const struct lm_paged_attend &a,
	row_work<TYPE, D> &w, const task_room &room, unsigned part)
{
	unsigned count = w.count();

	w.leave(a, room, part);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		w.m->before = atomicAdd(room.done, 1u);
		if (w.m->before + 1 == count) {
			CUDA_ORDERED(room.sums,
				(uint64_t)w.t.heads * room.parts * D * sizeof(float));
			CUDA_ORDERED(room.stats,
				(uint64_t)w.t.heads * room.parts * sizeof(float2));
		}
	}
	__syncthreads();
	if (w.m->before + 1 < count)
		return;
	__threadfence();
	w.join_all(a, room, count);
	if (threadIdx.x == 0)
		*room.done = 0; /* for the next launch */
}

/* The room of the launch's n-th task, where each has the same. */
template <int D>
__device__ __forceinline__ task_room room_of(const division &v, unsigned n)
{
	uint64_t each = (uint64_t)v.each * v.parts;
	task_room room = { v.room + n * each * D,
		(float2 *)(void *)(v.room + v.tasks * each * D) + n * each, v.done + n,
		v.parts };

	return room;
}
#endif

/* Each part of a task has a block; or without parts each task. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, D == 256 ? 3 : 5)
	paged_rows_kernel(const GRID_CONSTANT struct lm_paged_attend a,
		const GRID_CONSTANT struct division v)
{
#if CUDA_TENSOR
	typedef rows_memory<TYPE, D> memory;
	LARGE_SHARED(uint4, all_shared, sizeof(memory) / 16 + 1);
	memory *m = (memory *)(void *)all_shared;
	unsigned parts = v.parts ? v.parts : 1;

	for (unsigned n = blockIdx.x; n < v.tasks * parts; n += gridDim.x) {
		unsigned task = n / parts, part = n % parts;
		pairs_task t = task_of(a, v.first + task, 1, v.each);
		row_work<TYPE, D> w;

		w.place(a, t, m);
		if (is_in_tile(a, v, t.r0))
			continue;
		if (n != blockIdx.x)
			__syncthreads(); /* until the previous task is done */
		if (!v.parts)
			w.walk(a);
		else if (part < w.count())
			compute_part(a, w, room_of<D>(v, task), part);
	}
#else
	(void)a, (void)v;
#endif
}

/* --- rows of which some are long ------------------------------------------------------------- */

/* Each task has a block, but each part of a long row's. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, D == 256 ? 3 : 5)
	paged_mixed_kernel(const GRID_CONSTANT struct lm_paged_attend a,
		const GRID_CONSTANT struct division v)
{
#if CUDA_TENSOR
	typedef rows_memory<TYPE, D> memory;
	LARGE_SHARED(uint4, all_shared, sizeof(memory) / 16 + 1);
	SHARED(mixed_memory, counted, 1);
	memory *m = (memory *)(void *)all_shared;
	unsigned all;

	count_rows(a, v, counted);
	all = v.tasks + min(counted->all, v.spare) * v.chunks;
	for (unsigned n = blockIdx.x; n < all; n += gridDim.x) {
		bool whole = n < v.tasks;
		unsigned at = (whole ? n : n - v.tasks) / v.chunks;
		unsigned chunk = (whole ? n : n - v.tasks) % v.chunks;
		row_work<TYPE, D> w;
		pairs_task t;
		long_row l;

		if (whole && is_in_tile(a, v, at))
			continue;
		l = whole ? long_row_of(a, v, counted, at) :
			    long_row_with(a, v, counted, at);
		if (whole == l.is_apart(v))
			continue;
		t = task_of(a, l.r * v.chunks + chunk, 1, v.each);
		w.place(a, t, m);
		if (n != blockIdx.x)
			__syncthreads(); /* until the previous task is done */
		if (whole)
			w.walk(a);
		else
			compute_part(a, w, long_room<D>(a, v, l, t.h0, chunk),
				at - l.before);
	}
#else
	(void)a, (void)v;
#endif
}

/* --- on the host --------------------------------------------------------------------------- */

/* The largest number of parts that a row sees. */
static uint64_t parts_of(const struct lm_paged_attend *a)
{
	uint64_t all = (a->keys_max + SPLIT - 1) / SPLIT;
	uint64_t window = a->window / SPLIT + 2;

	return a->window && window < all ? window : all;
}

/* Each part has a block: as many tasks at once as there is room for. */
template <int TYPE, int D>
static int launch_parts(struct dev *d, const struct lm_paged_attend *a, division v,
	uint64_t fit)
{
	auto rows_kernel = paged_rows_kernel<TYPE, D>;
	uint64_t all = a->rows * v.chunks;

	v.parts = (unsigned)parts_of(a);
	for (uint64_t at = 0; at < all; at += fit) {
		v.first = (unsigned)at;
		v.tasks = (unsigned)(all - at < fit ? all - at : fit);
		LAUNCH_LARGE(rows_kernel, cuda_grid(d, (uint64_t)v.tasks * v.parts, 1),
			THREADS, sizeof(rows_memory<TYPE, D>), cuda_of(d)->stream, *a, v);
	}
	return lm_started(d);
}

/* Each task has a block, but parts of long rows. */
template <int TYPE, int D>
static int launch_tasks(struct dev *d, const struct lm_paged_attend *a, division v)
{
	auto rows_kernel = paged_rows_kernel<TYPE, D>;
	auto mixed_kernel = paged_mixed_kernel<TYPE, D>;
	const size_t bytes = sizeof(rows_memory<TYPE, D>);
	uint64_t counters = LM_COUNTERS / v.chunks * (WALK_PARTS + 1);
	uint64_t spare, blocks, most;

	v.tasks = (unsigned)(a->rows * v.chunks);
	spare = cuda_of(d)->lm_room_floats / (a->heads * (D + 2));
	v.spare = (unsigned)(spare < counters ? spare : counters);
	if (parts_of(a) <= WALK_PARTS || v.spare <= WALK_PARTS ||
		!allowed(mixed_kernel, bytes)) {
		LAUNCH_LARGE(rows_kernel, cuda_grid(d, v.tasks, 1), THREADS, bytes,
			cuda_of(d)->stream, *a, v);
		return lm_started(d);
	}
	/* as many as run at once: each counts the rows */
	most = (uint64_t)cuda_of(d)->sm_count * (D == 256 ? 3 : 5);
	blocks = v.tasks + (uint64_t)v.spare * v.chunks;
	LAUNCH_LARGE(mixed_kernel, (unsigned)(blocks < most ? blocks : most), THREADS,
		bytes, cuda_of(d)->stream, *a, v);
	return lm_started(d);
}

template <int TYPE, int D>
static int launch(struct dev *d, const struct lm_paged_attend *a)
{
	static_assert(TASKS_WANTED <= LM_COUNTERS, "a counter for each task");
	unsigned group = (unsigned)(a->heads / a->kv_heads);
	unsigned chunks = (group + PAIRS - 1) / PAIRS;
	uint64_t parts = parts_of(a), tasks, fit;
	division v = {};

	v.each = (group + chunks - 1) / chunks;
	v.chunks = chunks * (unsigned)a->kv_heads;
	v.room = cuda_of(d)->lm_room;
	v.done = (unsigned *)(void *)(cuda_of(d)->lm_scratch + LM_SCRATCH_FLOATS);
	if (!allowed(paged_rows_kernel<TYPE, D>, sizeof(rows_memory<TYPE, D>)))
		return 1;
	tasks = a->rows * v.chunks;
	fit = cuda_of(d)->lm_room_floats / (v.each * parts * (D + 2));
	if (parts > 1 && tasks < TASKS_WANTED && fit &&
		(a->apart || tasks <= PROMPT_LAUNCHES * fit))
		return launch_parts<TYPE, D>(d, a, v, fit);
	if (cuda_lm_paged_prompt(d, a, &v) < 0)
		return -1;
	return launch_tasks<TYPE, D>(d, a, v);
}

template <int TYPE>
static int launch_width(struct dev *d, const struct lm_paged_attend *a)
{
	switch (a->head_dim) {
	case 64:
		return launch<TYPE, 64>(d, a);
	case 128:
		return launch<TYPE, 128>(d, a);
	case 256:
		return launch<TYPE, 256>(d, a);
	default:
		return 1;
	}
}

int cuda_lm_paged_tensor(struct dev *d, const struct lm_paged_attend *a)
{
	bool whole = a->ldk % a->head_dim == 0 && a->ldq % 4 == 0 && a->ldo % 4 == 0 &&
		(((uintptr_t)a->keys | (uintptr_t)a->values | (uintptr_t)a->q |
			 (uintptr_t)a->out) &
			15) == 0;

	/* the largest score is looked for before it is scaled, so that the scale must be
	 * positive */
	if (!cuda_tensor(d) || !whole || a->scale <= 0 || a->keys_max >= 1u << 31 ||
		a->rows * a->heads * parts_of(a) >= UINT32_MAX)
		return 1;
	return a->type == LM_CACHE_F16   ? launch_width<LM_CACHE_F16>(d, a) :
		a->type == LM_CACHE_Q8_0 ? launch_width<LM_CACHE_Q8_0>(d, a) :
					   1;
}
