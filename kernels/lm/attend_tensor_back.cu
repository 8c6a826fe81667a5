/* attend_tensor_back.cu - the gradient of attention in bf16 on tensor cores, for heads of 64 and
 * 128 columns. Keys and queries change roles: one kernel sums over the tiles of the other side,
 * and each result has one owner. With heads of 64 columns a warp keeps its own rows in registers,
 * and the next tiles of the other side are loaded while these are multiplied. Contraction (-fmad)
 * joins scaling, subtraction and rotation, within what rounding to bf16 changes. */
#include "kernels/lm/attend_tensor.cuh"

/* Blocks of an SM that ptxas is told of: without two it aims at three on sm_100 and spills, with
 * two it spills on sm_90. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define BLOCKS 2
#else
#define BLOCKS 0
#endif

/* d_i = sum dout_i out_i is stored in the first four bytes of the row of dq until that row is
 * written; one warp for each query of a head. */
__global__ void keep_sums_kernel(struct lm_attend_back a, uint64_t all)
{
	const struct lm_attend *f = &a.forward;
	unsigned lane = threadIdx.x % 32;

	for (uint64_t n = GRID_FIRST / 32; n < all; n += GRID_STRIDE / 32) {
		uint64_t row = n / f->heads, h = n % f->heads * f->head_dim;
		const uint16_t *dout = (const uint16_t *)a.dout + row * f->ldo + h;
		const uint16_t *out = (const uint16_t *)f->out + row * f->ldo + h;
		float d = 0;

		for (uint64_t t = lane * 2; t < f->head_dim; t += 64)
			d += bf16_to_f32(dout[t]) * bf16_to_f32(out[t]) +
				bf16_to_f32(dout[t + 1]) * bf16_to_f32(out[t + 1]);
		d = lm_warp_sum(d);
		if (lane == 0)
			*(float *)(void *)((uint16_t *)a.dq + row * f->ldq + h) = d;
	}
}

#if CUDA_TENSOR
/* A block's work. KEYS: dk and dv of a tile of keys, from the tiles of queries that see them;
 * else dq of a tile of queries, from tiles of keys. own0, other0 are keys and queries, own1 and
 * other1 values and dout, in the order of their roles. */
template <int D, int TILE, bool KEYS> struct back {
	static constexpr bool AHEAD = D == 64;
	/* whole tiles have a loop of their own, where registers allow */
	static constexpr bool SPLIT = AHEAD || !KEYS;
	static constexpr unsigned SIZE = TILE * STRIDE(D);

	float sum0[1][D / 8][4], sum1[1][KEYS ? D / 8 : 1][4];
	unsigned own0[1][AHEAD ? D / 16 : 1][4], own1[1][AHEAD ? D / 16 : 1][4];
	tile_source<D, TILE> s0, s1;
	uint16_t *tiles;   /* shared memory for four tiles */
	float *lse, *less; /* KEYS: of each query of a tile, for two tiles; -d */
	float row_lse[2], row_less[2]; /* else of this lane's two queries */
	const float *lse_at;           /* KEYS: of this thread's query of the next tile */
	const uint16_t *d_at;
	int query_left; /* queries from it on */
	unsigned ldq;
	float factor;
	int ahead;
	unsigned window, stage;

	__device__ __forceinline__ uint16_t *other(unsigned which)
	{
		return tiles + (AHEAD ? 2 * stage + which : 2 + which) * SIZE;
	}

	/* Reads the numbers of this thread's query of the next tile. */
	__device__ __forceinline__ void read_sums(float (&v)[2])
	{
		v[0] = v[1] = 0;
		/* a thread below TILE loads the query of row threadIdx.x */
		if (threadIdx.x < TILE && query_left > 0) {
			v[0] = *lse_at * LOG2E;
			v[1] = -*(const float *)(const void *)d_at;
		}
		query_left -= TILE;
		lse_at += TILE;
		d_at += (uint64_t)TILE * ldq;
	}

	__device__ __forceinline__ void write_sums(const float (&v)[2], unsigned to)
	{
		if (threadIdx.x < TILE) {
			lse[to * TILE + threadIdx.x] = v[0];
			less[to * TILE + threadIdx.x] = v[1];
		}
	}

	/* Starts with the other side's first tiles. */
	__device__ __forceinline__ void begin()
	{
		float v[2];

		stage = 0;
		if (!AHEAD)
			return;
		s0.start(other(0));
		s1.start(other(1));
		tensor_commit();
		if (KEYS) {
			read_sums(v);
			write_sums(v, 0);
		}
	}

	/* Turns scores into p, and dout . v - d into ds. */
	template <bool EDGE>
	__device__ __forceinline__ void weights(float (&p)[TILE / 8][4],
		float (&ds)[TILE / 8][4])
	{
		UNROLL
		for (int n = 0; n < TILE / 8; n++)
			for (int e = 0; e < 4; e++) {
				int column = 8 * n + (int)column_of(e);
				float l = KEYS ? lse[stage * TILE + (unsigned)column] :
						 row_lse[e / 2];

				p[n][e] = lm_exp2(p[n][e] * factor - l);
			}
		if (EDGE && (SPLIT || !all_visible(ahead, window, TILE, TILE))) {
			UNROLL
			for (int n = 0; n < TILE / 8; n++)
				for (int e = 0; e < 4; e++) {
					int column = 8 * n + (int)column_of(e);
					int row = (int)row_of(e);
					bool seen = KEYS ?
						visible(column, row, ahead, window) :
						visible(row, column, ahead, window);

					p[n][e] = seen ? p[n][e] : 0;
				}
		}
		UNROLL
		for (int n = 0; n < TILE / 8; n++)
			for (int e = 0; e < 4; e++)
				ds[n][e] *= p[n][e];
	}

	template <bool EDGE> __device__ __forceinline__ void multiply()
	{
		float p[1][TILE / 8][4], ds[1][TILE / 8][4];
		uint16_t *other0 = other(0), *other1 = other(1);

		UNROLL
		for (int n = 0; n < TILE / 8; n++)
			for (int e = 0; e < 4; e++) {
				unsigned column = 8 * n + column_of(e);

				p[0][n][e] = 0;
				ds[0][n][e] = KEYS ? less[stage * TILE + column] :
						     row_less[e / 2];
			}
		if constexpr (AHEAD) {
			add_scores<D, TILE, 1>(p, own0, other0);
			add_scores<D, TILE, 1>(ds, own1, other1);
		} else {
			add_scores_of<D, TILE, 1>(p, tiles, other0);
			add_scores_of<D, TILE, 1>(ds, tiles + SIZE, other1);
		}
		weights<EDGE>(p[0], ds[0]);
		add_weighted<D, TILE, 1>(sum0, ds, other0);
		if constexpr (KEYS)
			add_weighted<D, TILE, 1>(sum1, p, other1);
	}

	/* One tile of the other side. EDGE: some keys are not seen. */
	template <bool EDGE> __device__ __forceinline__ void step()
	{
		float v[2];

		if constexpr (AHEAD) {
			tensor_wait<0>();
			__syncthreads(); /* this tile is here, and the one before is used */
			stage ^= 1;
			s0.start(other(0));
			s1.start(other(1));
			tensor_commit();
			stage ^= 1;
			if (KEYS)
				read_sums(v);
			multiply<EDGE>();
			if (KEYS)
				write_sums(v, stage ^ 1);
			stage ^= 1;
		} else {
			__syncthreads(); /* until the one before is used */
			s0.start(other(0));
			s1.start(other(1));
			tensor_commit();
			if (KEYS) {
				read_sums(v);
				write_sums(v, 0);
			}
			tensor_wait<0>();
			__syncthreads();
			multiply<EDGE>();
		}
		ahead += KEYS ? TILE : -TILE;
	}

	/* Loads this block's own rows, which begin at row `row`; `left` exist. */
	__device__ __forceinline__ void load_own(const void *a, uint64_t lda,
		const void *b, uint64_t ldb, uint64_t row, unsigned left, uint64_t column)
	{
		uint16_t *to = tiles + (AHEAD ? 2 * SIZE : 0);

		tensor_wait<0>();
		__syncthreads(); /* until the previous tiles are used */
		s0.place(a, lda, row, left, column);
		s1.place(b, ldb, row, left, column);
		s0.start(to);
		s1.start(to + SIZE);
		tensor_commit();
		tensor_wait<0>();
		__syncthreads();
		if constexpr (AHEAD) {
			left_rows<D>(own0[0], to);
			left_rows<D>(own1[0], to + SIZE);
		}
		for (int n = 0; n < D / 8; n++)
			for (int e = 0; e < 4; e++) {
				sum0[0][n][e] = 0;
				if constexpr (KEYS)
					sum1[0][n][e] = 0;
			}
	}
};

__device__ __forceinline__ void turn_back(float &x, float &y, const float *cos_sin)
{
	float c = cos_sin[0], s = cos_sin[1], was = x;

	x = was * c + y * s;
	y = y * c - was * s;
}

/* Rotates this warp's rows back; row 0 of the tile has position `first`, and `left` exist. Both
 * numbers of a pair are in the same lane. */
template <int D>
__device__ __forceinline__ void rotate_back(float (&sum)[D / 8][4],
	const struct lm_attend_back &a, unsigned first, unsigned left)
{
	if (!a.table)
		return;
	UNROLL
	for (int half = 0; half < 2; half++) {
		unsigned row = row_of(2 * half);
		const float *table = a.table + (uint64_t)(first + row) * D;

		if (row >= left)
			continue;
		UNROLL
		for (int n = 0; n < D / 8 && a.interleaved; n++)
			turn_back(sum[n][2 * half], sum[n][2 * half + 1],
				table + 8 * n + column_of(0));
		UNROLL
		for (int n = 0; n < D / 16 && !a.interleaved; n++)
			for (int e = 2 * half; e < 2 * half + 2; e++)
				turn_back(sum[n][e], sum[n + D / 16][e],
					table + 2 * (8 * n + column_of(e)));
	}
}

template <int D, int TILE>
__device__ __forceinline__ void back_keys(const struct lm_attend_back &a,
	back<D, TILE, true> &w, const tile_task &t)
{
	const struct lm_attend *f = &a.forward;
	unsigned group = (unsigned)f->heads / (unsigned)f->kv_heads;
	unsigned first = (unsigned)t.first, to = (unsigned)f->positions;
	uint64_t base = t.b * f->positions, at = (base + first) * f->ldk + t.h * D;
	unsigned left = to - first;

	/* queries from the first key on, up to the end of the window */
	if (w.window < to - first && first + TILE - 1 + w.window < to)
		to = first + TILE - 1 + w.window;
	w.load_own(f->k, f->ldk, f->v, f->ldk, base + first, left, t.h * D);
	for (uint64_t h = t.h * group; h < (t.h + 1) * group; h++) {
		unsigned i = first;

		if (h > t.h * group) {
			tensor_wait<0>();
			__syncthreads(); /* until the previous head's tiles are used */
		}
		w.s0.place(f->q, f->ldq, base + first, to - first, h * D);
		w.s1.place(a.dout, f->ldo, base + first, to - first, h * D);
		w.lse_at = f->lse + (t.b * f->heads + h) * f->positions + first +
			threadIdx.x;
		w.d_at = (const uint16_t *)a.dq + (base + first + threadIdx.x) * f->ldq +
			h * D;
		w.query_left = (int)(to - first - threadIdx.x);
		w.ahead = 0;
		w.begin();
		while (i < to) {
			for (; w.SPLIT && i < to &&
				all_visible(w.ahead, w.window, TILE, TILE);
				i += TILE)
				w.template step<false>();
			if (i < to) {
				w.template step<true>();
				i += TILE;
			}
		}
	}
	rotate_back<D>(w.sum0[0], a, first, left);
	store_tile<D>((uint16_t *)a.dk + at, f->ldk, left, w.sum0[0], f->scale, f->scale);
	store_tile<D>((uint16_t *)a.dv + at, f->ldk, left, w.sum1[0], 1, 1);
}

template <int D, int TILE>
__device__ __forceinline__ void back_queries(const struct lm_attend_back &a,
	back<D, TILE, false> &w, const tile_task &t)
{
	const struct lm_attend *f = &a.forward;
	unsigned group = (unsigned)f->heads / (unsigned)f->kv_heads;
	unsigned first = (unsigned)t.first, left = (unsigned)f->positions - first;
	unsigned to = left < TILE ? (unsigned)f->positions : first + TILE;
	unsigned j = first_key_of(w.window, first) / TILE * TILE;
	uint64_t base = t.b * f->positions, kv_at = (unsigned)t.h / group * (uint64_t)D;
	uint16_t *dq = (uint16_t *)a.dq + (base + first) * f->ldq + t.h * D;

	w.load_own(f->q, f->ldq, a.dout, f->ldo, base + first, left, t.h * D);
	for (int half = 0; half < 2; half++) {
		unsigned row = row_of(2 * half);

		w.row_lse[half] = w.row_less[half] = 0;
		if (row < left) {
			w.row_lse[half] = f->lse[(t.b * f->heads + t.h) * f->positions +
						  first + row] *
				LOG2E;
			w.row_less[half] = -*(
				const float *)(const void *)(dq + row * f->ldq);
		}
	}
	w.s0.place(f->k, f->ldk, base + j, to - j, kv_at);
	w.s1.place(f->v, f->ldk, base + j, to - j, kv_at);
	w.ahead = (int)(first - j);
	w.begin();
	while (j < to) {
		for (; w.SPLIT && all_visible(w.ahead, w.window, TILE, TILE); j += TILE)
			w.template step<false>();
		if (j < to) {
			w.template step<true>();
			j += TILE;
		}
	}
	rotate_back<D>(w.sum0[0], a, first, left);
	store_tile<D>(dq, f->ldq, left, w.sum0[0], f->scale, f->scale);
}
#endif

template <int D, int TILE, bool KEYS>
__global__ void __launch_bounds__(2 * TILE, BLOCKS)
	attend_back_tensor_kernel(struct lm_attend_back a, uint64_t all)
{
#if CUDA_TENSOR
	SHARED(uint4, tiles, 4 * TILE * STRIDE(D) / 8);
	SHARED(float, lse, KEYS ? 2 * TILE : 1);
	SHARED(float, less, KEYS ? 2 * TILE : 1);
	back<D, TILE, KEYS> w;

	w.tiles = (uint16_t *)(void *)tiles;
	w.lse = lse;
	w.less = less;
	w.ldq = (unsigned)a.forward.ldq;
	w.factor = a.forward.scale * LOG2E;
	w.window = window_of(&a.forward);
	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		tile_task t = tile_of(n, a.forward.positions,
			KEYS ? a.forward.kv_heads : a.forward.heads, TILE);

		if constexpr (KEYS)
			back_keys<D, TILE>(a, w, t);
		else
			back_queries<D, TILE>(a, w, t);
	}
	tensor_wait<0>();
#else
	(void)a, (void)all;
#endif
}

/* --- launches ------------------------------------------------------------------------------ */

/* the macro LAUNCH would split template arguments at their comma */
template <int D, int TILE>
static int launch_back(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;
	uint64_t queries = f->batch * f->positions * f->heads;
	uint64_t kv = tiles_of(f->batch, f->positions, f->kv_heads, TILE);
	uint64_t q = tiles_of(f->batch, f->positions, f->heads, TILE);
	void (*keys_kernel)(struct lm_attend_back,
		uint64_t) = attend_back_tensor_kernel<D, TILE, true>;
	void (*queries_kernel)(struct lm_attend_back,
		uint64_t) = attend_back_tensor_kernel<D, TILE, false>;
	cudaStream_t stream = cuda_of(d)->stream;

	LAUNCH(keep_sums_kernel, cuda_grid(d, queries, LM_WARPS), LM_THREADS, stream, *a,
		queries);
	LAUNCH(keys_kernel, cuda_grid(d, kv, 1), 2 * TILE, stream, *a, kv);
	LAUNCH(queries_kernel, cuda_grid(d, q, 1), 2 * TILE, stream, *a, q);
	return lm_started(d);
}

int cuda_lm_attend_back_tensor(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;

	if (!cuda_lm_attend_takes(d, f) ||
		!lm_wide(LM_PACK, a->dout, a->dq, a->dk, a->dv))
		return 1;
	if (!f->batch || !f->positions)
		return 0;
	/* the largest tiles that 48 KiB of shared memory and the registers allow */
	return f->head_dim == 64 ? launch_back<64, 64>(d, a) : launch_back<128, 32>(d, a);
}
