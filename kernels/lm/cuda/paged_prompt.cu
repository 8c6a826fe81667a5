/* paged_prompt.cu - attention of prompts over a paged cache on tensor cores. The tile of a prompt's
 * rows, 64 pairs of a row and a head, has a block, of which a warp owns 16 pairs (Dao 2023,
 * FlashAttention-2). Keys are loaded while weights multiply values, values while keys are
 * multiplied. The bits are those of paged_tensor.cu: see paged_tensor.cuh. Multiply-adds are
 * fmaf(), and contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/paged_tensor.cuh"

/* with fewer rows no tile is looked for */
#define TILE_ROWS_MIN 8

/* A warp of a prompt's block owns the sums of 16 pairs in COLUMNS columns. Of 256 columns two warps
 * compute the same scores: registers are too few for one. */
template <int D> struct tile_of {
	enum {
		COLUMNS = D < 128 ? D : 128,
		ACROSS = D / COLUMNS,
		PAIRS_ALL = WARPS / ACROSS * PAIRS,
		GROUP = 64,                /* columns that are summed at once */
		OWN = D < 256 ? D / 16 : 0 /* of its queries that are in registers */
	};
};

template <int TYPE, int D> struct tile_memory {
	typedef part_of<TYPE, D> part;
	alignas(16) char part_room[part::BYTES];
	uint16_t queries[tile_of<D>::PAIRS_ALL * part::STRIDE];
};

#if CUDA_TENSOR
/* A block's work. */
template <int TYPE, int D> struct tile_work {
	typedef part_of<TYPE, D> part;
	typedef tile_of<D> tile;
	typedef tile_memory<TYPE, D> memory;
	part_places<TYPE, D> at;
	part_source from;
	const uint16_t *queries; /* of the warp */
	unsigned n;              /* of the task */
	tile_view view;
	unsigned all_lo, all_hi; /* keys that all pairs of the warp see */
	float out[tile::COLUMNS / 8][4];
	unsigned own[tile::OWN + 1][4];
	running so_far[2];

	/* The task is found out anew where it is needed, and not kept in registers. */
	__device__ __forceinline__ pairs_task task(const struct lm_paged_attend &a,
		const division &v) const
	{
		unsigned tiles = ((unsigned)a.rows + v.tile - 1) / v.tile, again = n;

		tensor_keep(again);
		/* the tiles that see most come first */
		return task_of(a,
			(tiles - 1 - again / v.chunks) * v.chunks + again % v.chunks,
			v.tile, v.each);
	}

	/* The first pair, and column, of the warp. */
	__device__ __forceinline__ unsigned first_pair(void) const
	{
		return threadIdx.x / 32 / tile::ACROSS * PAIRS;
	}

	__device__ __forceinline__ unsigned first_column(void) const
	{
		return threadIdx.x / 32 % tile::ACROSS * tile::COLUMNS;
	}

	__device__ __forceinline__ unsigned pair_of(unsigned half) const
	{
		return first_pair() + threadIdx.x % 32 / 4 + 8 * half;
	}

	/* What this lane's pairs see. What does not exist sees all, and is stored nowhere. */
	__device__ __forceinline__ void see(seen (&of)[2],
		const struct lm_paged_attend &a, const pairs_task &t) const
	{
		for (unsigned half = 0; half < 2; half++) {
			unsigned pair = pair_of(half);

			of[half].first = 0, of[half].more = UINT32_MAX;
			if (t.has(pair))
				of[half] = seen_by(a, t.r0 + pair / t.each);
		}
	}

	/* Begins with the task, of which the first keys are asked for. Returns whether the tile
	 * is one. */
	__device__ __forceinline__ bool begin(const struct lm_paged_attend &a,
		const division &v, unsigned number, memory *m)
	{
		pairs_task t;
		seen of[2];

		n = number;
		t = task(a, v);
		view = view_of(a, t.r0, t.rows);
		if (!view.is)
			return false;
		at.place(m->part_room);
		from = source_of<TYPE, D>(a, t);
		__syncthreads(); /* until the previous tile is done */
		start(a, true, view.lo / SPLIT * SPLIT);
		store_queries<D, tile::PAIRS_ALL>(m->queries, a, t);
		queries = m->queries + first_pair() * part::STRIDE;
		see(of, a, t);
		all_lo = max(of[0].first, of[1].first);
		all_hi = min(of[0].first + of[0].more, of[1].first + of[1].more);
		for (int by = 16; by; by /= 2) {
			all_lo = max(all_lo, __shfl_xor_sync(LM_ALL, all_lo, by));
			all_hi = min(all_hi, __shfl_xor_sync(LM_ALL, all_hi, by));
		}
		so_far[0] = so_far[1] = { -INFINITY, 0 };
		for (int i = 0; i < tile::COLUMNS / 2; i++)
			out[i / 4][i % 4] = 0;
		return true;
	}

	__device__ __forceinline__ void start(const struct lm_paged_attend &a,
		bool of_keys, unsigned base)
	{
		ask<TYPE, D>(of_keys ? at.keys_raw : at.values_raw,
			of_keys ? a.keys : a.values, a, from, base, view.lo, view.end);
		tensor_commit();
	}

	/* Weights of the part's keys, and what the pairs' sums are multiplied by. */
	__device__ __forceinline__ void weigh_all(unsigned (&w)[SPLIT / 8][2],
		float (&most)[2], float (&s)[SPLIT / 8][4],
		const struct lm_paged_attend &a, const division &v, unsigned base)
	{
		float by[2];

		load_factors<D>(by, queries);
		if (a.softcap > 0)
			cap_scores<SPLIT / 8>(s, by, a.softcap);
		if (base < all_lo || base + SPLIT - 1 > all_hi) {
			seen of[2];

			see(of, a, task(a, v));
			mask_scores<SPLIT / 8>(s, of, base);
		}
		UNROLL
		for (int half = 0; half < 2; half++) {
			most[half] = __fmul_rn(largest_of<SPLIT / 8>(s, half), by[half]);
			weigh<SPLIT / 8>(w, s, half, by[half], most[half]);
		}
	}

	/* Adds the part to what is so far, some columns at a time: registers are few. */
	__device__ __forceinline__ void add(const unsigned (&w)[SPLIT / 8][2],
		const float (&most)[2])
	{
		float total[4] = { 0, 0, 0, 0 };
		shares by[2];

		UNROLL
		for (int k = 0; k < SPLIT / 8; k += 2) {
			unsigned of_16[4] = { w[k][0], w[k][1], w[k + 1][0],
				w[k + 1][1] };

			add_weights(total, of_16);
		}
		for (int half = 0; half < 2; half++)
			by[half] = join(&so_far[half], most[half], total[2 * half]);
		UNROLL
		for (int c = 0; c < tile::COLUMNS; c += tile::GROUP) {
			float sum[tile::GROUP / 8][4] = {};

			UNROLL
			for (int k = 0; k < SPLIT / 8; k += 2) {
				unsigned of_16[4] = { w[k][0], w[k][1], w[k + 1][0],
					w[k + 1][1] };

				add_values<D, tile::GROUP / 8>(sum, of_16,
					at.values + 8 * k * part::STRIDE +
						first_column() + c);
			}
			UNROLL
			for (int i = 0; i < tile::GROUP / 2; i++) {
				float *to = &out[c / 8 + i / 4][i % 4];

				*to = fmaf(*to, by[i % 4 / 2].mine,
					sum[i / 4][i % 4] * by[i % 4 / 2].other);
			}
		}
	}

	/* Products of the warp's queries, which are in registers but of 256 columns, with the
	 * keys. */
	__device__ __forceinline__ void score(float (&s)[SPLIT / 8][4])
	{
		UNROLL
		for (int i = 0; i < SPLIT / 2; i++)
			s[i / 4][i % 4] = 0;
		UNROLL
		for (unsigned k = 0; k < D / 16; k++) {
			if constexpr (tile::OWN > 0) {
				add_scores<D, SPLIT / 8>(s, own[k], at.keys, 16 * k);
			} else {
				load_query<D>(own[0], queries, 16 * k);
				add_scores<D, SPLIT / 8>(s, own[0], at.keys, 16 * k);
			}
		}
	}

	/* All parts that any row of the tile sees. */
	__device__ __forceinline__ void walk(const struct lm_paged_attend &a,
		const division &v)
	{
		__syncthreads(); /* the queries are here */
		UNROLL
		for (int k = 0; k < tile::OWN; k++)
			load_query<D>(own[k], queries, 16 * (unsigned)k);
		UNROLL_1
		for (unsigned base = view.lo / SPLIT * SPLIT; base < view.end;
			base += SPLIT) {
			float s[SPLIT / 8][4], most[2];
			unsigned w[SPLIT / 8][2];

			/* the keys are here, and the previous values are used */
			land<TYPE, D, 0>(at.keys, at.keys_raw);
			start(a, false, base);
			score(s);
			/* the values are here, and the keys are used */
			land<TYPE, D, 0>(at.values, at.values_raw);
			if (base + SPLIT < view.end)
				start(a, true, base + SPLIT);
			weigh_all(w, most, s, a, v, base);
			add(w, most);
		}
	}

	__device__ __forceinline__ void store(const struct lm_paged_attend &a,
		const division &v)
	{
		pairs_task t = task(a, v);

		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			unsigned pair = pair_of(half);
			float one = 1 / so_far[half].total;
			float *to = a.out + (uint64_t)(t.r0 + pair / t.each) * a.ldo +
				(t.h0 + pair % t.each) * D + first_column() +
				threadIdx.x % 4 * 2;

			if (!t.has(pair))
				continue;
			UNROLL
			for (int n = 0; n < tile::COLUMNS / 8; n++)
				*(float2 *)(void *)(to +
					8 * n) = make_float2(out[n][2 * half] * one,
					out[n][2 * half + 1] * one);
		}
	}
};
#endif

/* Each block computes a tile of rows of one sequence for heads that share keys; other tiles are
 * left to paged_rows_kernel. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, D == 64 ? 3 : 2)
	paged_prompt_kernel(const GRID_CONSTANT struct lm_paged_attend a,
		const GRID_CONSTANT struct division v)
{
#if CUDA_TENSOR
	typedef tile_memory<TYPE, D> memory;
	LARGE_SHARED(uint4, all_shared, sizeof(memory) / 16);
	unsigned tiles = ((unsigned)a.rows + v.tile - 1) / v.tile;

	for (unsigned n = blockIdx.x; n < tiles * v.chunks; n += gridDim.x) {
		tile_work<TYPE, D> w;

		if (!w.begin(a, v, n, (memory *)(void *)all_shared))
			continue;
		w.walk(a, v);
		w.store(a, v);
	}
#else
	(void)a, (void)v;
#endif
}

/* --- on the host --------------------------------------------------------------------------- */

template <int TYPE, int D>
static int launch(struct dev *d, const struct lm_paged_attend *a, division *v)
{
	auto kernel = paged_prompt_kernel<TYPE, D>;
	typedef tile_memory<TYPE, D> memory;
	uint64_t blocks;

	if (!allowed(kernel, sizeof(memory)))
		return 0;
	v->tile = tile_of<D>::PAIRS_ALL / v->each;
	blocks = (a->rows + v->tile - 1) / v->tile * v->chunks;
	LAUNCH_LARGE(kernel, cuda_grid(d, blocks, 1), THREADS, sizeof(memory),
		cuda_of(d)->stream, *a, *v);
	return lm_started(d);
}

template <int TYPE>
static int launch_width(struct dev *d, const struct lm_paged_attend *a, division *v)
{
	return a->head_dim == 64   ? launch<TYPE, 64>(d, a, v) :
		a->head_dim == 128 ? launch<TYPE, 128>(d, a, v) :
				     launch<TYPE, 256>(d, a, v);
}

int cuda_lm_paged_prompt(struct dev *d, const struct lm_paged_attend *a, division *v)
{
	if (a->rows < TILE_ROWS_MIN || a->apart)
		return 0;
	return a->type == LM_CACHE_F16 ? launch_width<LM_CACHE_F16>(d, a, v) :
					 launch_width<LM_CACHE_Q8_0>(d, a, v);
}
