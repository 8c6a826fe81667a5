/* paged_long.cuh - which rows see many more keys than others of a step do, and where the parts of
 * such a row lie while blocks of their own compute them: for paged_tensor.cu. What a row sees is
 * known to the device alone, as the launches of a step are recorded and run again for other
 * positions. */
#ifndef RNP_KERNELS_LM_PAGED_LONG_CUH
#define RNP_KERNELS_LM_PAGED_LONG_CUH

#include "kernels/lm/cuda/paged_tensor.cuh"

/* A row of more parts is long: one block would walk through it for longer than 64 streams of 1,024
 * keys take together, some 80 us of an H200. */
#ifdef CUDA_EMU
#define WALK_PARTS 3
#else
#define WALK_PARTS 34
#endif

/* The parts of long rows are counted from the first row on; those of a row have blocks while
 * v.spare is not exceeded. Of a thread's rows: how many lie before them. */
struct mixed_memory {
	unsigned before[THREADS], all, of_warp[WARPS];
};

#if CUDA_TENSOR
__device__ __forceinline__ unsigned parts_seen(const seen &s)
{
	return (s.first + s.more) / SPLIT - s.first / SPLIT + 1;
}

/* Where parts of a task are left until the last one is there: [heads][parts][D], and [heads][parts]
 * largest scores and totals; and how many are there. */
struct task_room {
	float *sums;
	float2 *stats;
	unsigned *done;
	unsigned parts;
};

/* How many parts of a row want blocks: none of a short one. */
__device__ __forceinline__ unsigned parts_apart(const struct lm_paged_attend &a,
	const division &v, unsigned r)
{
	unsigned n = parts_seen(seen_by(a, r));

	return n > WALK_PARTS ? min(n, v.spare + 1) : 0;
}

/* Whether rows of the tile that begins with row r0 are of one sequence, which each thread finds out
 * by itself. */
__device__ __forceinline__ bool is_tile(const struct lm_paged_attend &a,
	const division &v, unsigned r0)
{
	unsigned end = min((unsigned)a.rows, r0 + v.tile);
	bool is = end - r0 > 1;

	for (unsigned r = r0 + 1; is && r < end; r++)
		is = __ldg(a.table + r) == __ldg(a.table + r0);
	return is;
}

/* Counts on from *before over rows r .. end - 1, the first of which begins a tile, to the row that
 * has part `wanted`, and returns it; or `end`, with all counted. */
__device__ __forceinline__ unsigned count_apart(const struct lm_paged_attend &a,
	const division &v, unsigned r, unsigned end, unsigned wanted, unsigned *before)
{
	bool tile = false;

	UNROLL_1
	for (; r < end; r++) {
		unsigned n;

		if (v.tile && r % v.tile == 0)
			tile = is_tile(a, v, r);
		n = tile ? 0 : parts_apart(a, v, r);
		if (wanted - *before < n)
			break;
		*before += n;
	}
	return r;
}

/* How many rows a thread counts: whole tiles. */
__device__ __forceinline__ unsigned rows_each(const struct lm_paged_attend &a,
	const division &v)
{
	unsigned each = ((unsigned)a.rows + THREADS - 1) / THREADS;

	return v.tile ? (each + v.tile - 1) / v.tile * v.tile : each;
}

/* Counts all rows. */
__device__ __forceinline__ void count_rows(const struct lm_paged_attend &a,
	const division &v, mixed_memory *m)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = 0, sum;
	unsigned each = rows_each(a, v);
	unsigned from = min(threadIdx.x * each, (unsigned)a.rows);

	count_apart(a, v, from, min(from + each, (unsigned)a.rows), UINT32_MAX, &own);
	sum = own;
	for (unsigned by = 1; by < 32; by *= 2) {
		unsigned other = __shfl_up_sync(LM_ALL, sum, by);

		sum += lane >= by ? other : 0;
	}
	if (lane == 31)
		m->of_warp[warp] = sum;
	__syncthreads();
	for (unsigned w = 0; w < warp; w++)
		sum += m->of_warp[w];
	m->before[threadIdx.x] = sum - own;
	if (threadIdx.x == THREADS - 1)
		m->all = sum;
	__syncthreads();
}

/* A row's place among the parts of long rows. */
struct long_row {
	unsigned r, before, parts;

	/* Whether its parts have blocks. */
	__device__ __forceinline__ bool is_apart(const division &v) const
	{
		return parts && before + parts <= v.spare;
	}
};

__device__ __forceinline__ long_row long_row_of(const struct lm_paged_attend &a,
	const division &v, const mixed_memory *m, unsigned r)
{
	unsigned each = rows_each(a, v);
	long_row l = { r, m->before[r / each], parts_apart(a, v, r) };

	if (l.parts)
		count_apart(a, v, r / each * each, r, UINT32_MAX, &l.before);
	return l;
}

/* The row that has part n of those of long rows, of which there are more. */
__device__ __forceinline__ long_row long_row_with(const struct lm_paged_attend &a,
	const division &v, const mixed_memory *m, unsigned n)
{
	unsigned each = rows_each(a, v), i = 0;
	long_row l;

	/* the last thread with no more parts before its rows: it has the row */
	for (unsigned by = THREADS / 2; by; by /= 2)
		if (m->before[i + by] <= n)
			i += by;
	l.before = m->before[i];
	l.r = count_apart(a, v, i * each, min((i + 1) * each, (unsigned)a.rows), n,
		&l.before);
	l.parts = parts_apart(a, v, l.r);
	return l;
}

/* The room of a long row's heads h0 and on, which are its chunk'th. */
template <int D>
__device__ __forceinline__ task_room long_room(const struct lm_paged_attend &a,
	const division &v, const long_row &l, unsigned h0, unsigned chunk)
{
	uint64_t at = (uint64_t)l.before * a.heads + h0 * l.parts;
	task_room room = { v.room + at * D,
		(float2 *)(void *)(v.room + v.spare * a.heads * D) + at,
		/* a long row's parts are at least as many */
		v.done + l.before / (WALK_PARTS + 1) * v.chunks + chunk, l.parts };

	return room;
}
#endif

#endif
