/* attend_tensor.cu - attention in bf16 on tensor cores, for heads of 64 and 128 columns. A warp
 * owns 16 rows of a tile, whose scores never leave its registers (Dao 2023, FlashAttention-2).
 * Scores and weights are f32 until they become operands of a product. In the backward pass keys
 * and queries change roles: one kernel sums over the tiles of the other side, and each result
 * has one owner again. */
#include "kernels/dev/tensor.cuh"
#include "kernels/lm/cuda.cuh"

#define LOG2E 1.4426950408889634f
#define LN2   0.6931471805599453f

/* a row of a tile is padded by eight numbers, so that eight rows of 16 bytes lie in different
 * banks */
#define STRIDE(D) ((D) + 8)

#if CUDA_TENSOR
/* Rows of one head in memory. */
struct head_rows {
	uint16_t *at;
	uint64_t ld, count;
};

__device__ static head_rows rows_of(const void *base, uint64_t ld, uint64_t row,
	uint64_t rows, uint64_t column)
{
	return { (uint16_t *)base + row * ld + column, ld, rows };
}

__device__ static uint64_t first_key_of(const struct lm_attend *a, uint64_t i)
{
	uint64_t p = a->keys - a->positions + i;

	return a->window && p + 1 > a->window ? p + 1 - a->window : 0;
}

/* Which places of a tile are seen, in 32-bit arithmetic: query i of the tile (from i0 on) sees
 * key j (from j0 on) if i exists, j does not come after it, and j is not before its window. */
struct tile_mask {
	int rows, ahead, span;
};

__device__ static int clipped(int64_t v)
{
	return v < -(1 << 20) ? -(1 << 20) : v > 1 << 20 ? 1 << 20 : (int)v;
}

__device__ static tile_mask mask_of(const struct lm_attend *a, uint64_t i0, uint64_t j0)
{
	int64_t ahead = (int64_t)(a->keys - a->positions + i0) - (int64_t)j0;
	tile_mask m;

	m.rows = clipped((int64_t)a->positions - (int64_t)i0);
	m.ahead = clipped(ahead);
	m.span = a->window ? clipped((int64_t)a->window - ahead) : 1 << 20;
	return m;
}

__device__ __forceinline__ bool visible(const tile_mask &m, int i, int j)
{
	return i < m.rows && j - i <= m.ahead && i - j < m.span;
}

/* Whether all of `tile` queries from i on see all of as many keys from j on. Most tiles are
 * such and need no mask. */
__device__ static bool all_visible(const struct lm_attend *a, uint64_t i, uint64_t j,
	unsigned tile)
{
	return i + tile <= a->positions && j + tile - 1 <= a->keys - a->positions + i &&
		j >= first_key_of(a, i + tile - 1);
}

/* The work of one thread block: a tile of rows of a head. Tiles that see the most keys come
 * first. */
struct tile_task {
	uint64_t b, h, first;
};

__device__ static tile_task tile_of(uint64_t n, uint64_t length, uint64_t heads,
	unsigned tile)
{
	/* takes() has checked that they fit: a 64-bit division is a function call, around which
	 * registers are spilled */
	unsigned tiles = (unsigned)((length + tile - 1) / tile), all = (unsigned)n;
	unsigned h = (unsigned)heads, rest = all / h;
	tile_task t;

	t.h = all % h;
	t.first = (uint64_t)(tiles - 1 - rest % tiles) * tile;
	t.b = rest / tiles;
	return t;
}

/* Loads TILE rows of D numbers into shared memory, with zeros for rows that do not exist; for
 * TILE / 16 warps. */
template <int D, int TILE> __device__ void load_tile(uint16_t *to, const head_rows &from)
{
	for (unsigned n = threadIdx.x; n < TILE * D / 8; n += TILE * 2) {
		unsigned row = n / (D / 8), c = n % (D / 8) * 8;
		uint4 v = make_uint4(0, 0, 0, 0);

		if (row < from.count)
			v = *(const uint4 *)(const void *)(from.at + row * from.ld + c);
		*(uint4 *)(void *)(to + row * STRIDE(D) + c) = v;
	}
}

/* Loads the operand A of 16 rows from `row` on and 16 columns from c on of a tile. */
template <int D>
__device__ __forceinline__ void left_part(unsigned (&a)[4], const uint16_t *tile,
	unsigned row, unsigned c)
{
	unsigned lane = threadIdx.x % 32;

	tensor_matrices<false>(a,
		tile + (row + lane % 16) * STRIDE(D) + c + lane / 16 * 8);
}

/* s[n] = own times rows 8 n .. of other, along D, for this warp's 16 rows of own. */
template <int D, int TILE>
__device__ __forceinline__ void scores(float (&s)[TILE / 8][4], const uint16_t *own,
	const uint16_t *other)
{
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;

	UNROLL
	for (int n = 0; n < TILE / 8; n++)
		for (int e = 0; e < 4; e++)
			s[n][e] = 0;
	UNROLL
	for (unsigned c = 0; c < D; c += 32) {
		unsigned a0[4], a1[4];

		left_part<D>(a0, own, row, c);
		left_part<D>(a1, own, row, c + 16);
		UNROLL
		for (unsigned n = 0; n < TILE / 8; n++) {
			unsigned b[4];

			tensor_matrices<false>(b,
				other + (8 * n + lane % 8) * STRIDE(D) + c +
					lane / 8 * 8);
			tensor_mma_bf16(s[n], a0, b[0], b[1]);
			tensor_mma_bf16(s[n], a1, b[2], b[3]);
		}
	}
}

/* sum[d] += weights times columns 8 d .. of a tile, along its rows. The registers that hold a
 * product's result are in the layout of operand A of the next. */
template <int D, int TILE>
__device__ __forceinline__ void add_weighted(float (&sum)[D / 8][4],
	const float (&w)[TILE / 8][4], const uint16_t *tile)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned k = 0; k < TILE / 16; k++) {
		unsigned a[4] = { cuda_two_bf16(w[2 * k][0], w[2 * k][1]),
			cuda_two_bf16(w[2 * k][2], w[2 * k][3]),
			cuda_two_bf16(w[2 * k + 1][0], w[2 * k + 1][1]),
			cuda_two_bf16(w[2 * k + 1][2], w[2 * k + 1][3]) };

		UNROLL
		for (unsigned n = 0; n < D / 16; n++) {
			unsigned b[4];

			tensor_matrices<true>(b,
				tile + (16 * k + lane % 16) * STRIDE(D) + 16 * n +
					lane / 16 * 8);
			tensor_mma_bf16(sum[2 * n], a, b[0], b[1]);
			tensor_mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
		}
	}
}

/* Return the row of element e of a fragment within the warp's tile, and its column among 8. */
__device__ __forceinline__ unsigned row_of(int e)
{
	return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (unsigned)e / 2 * 8;
}

__device__ __forceinline__ unsigned column_of(int e)
{
	return threadIdx.x % 4 * 2 + (unsigned)e % 2;
}

template <int D>
__device__ void store_tile(const head_rows &to, const float (&sum)[D / 8][4], float upper,
	float lower)
{
	UNROLL
	for (int n = 0; n < D / 8; n++)
		for (int e = 0; e < 4; e += 2) {
			unsigned row = row_of(e);
			float f = e ? lower : upper;

			if (row < to.count)
				*(unsigned *)(void *)(to.at + row * to.ld + 8 * n +
					column_of(e)) = cuda_two_bf16(sum[n][e] * f,
					sum[n][e + 1] * f);
		}
}
#endif

/* --- forward ------------------------------------------------------------------------------- */

#define QUERIES 64 /* per tile; as many keys */

#if CUDA_TENSOR
/* s[n] = own times keys 8 n ..; own stays in registers. */
template <int D>
__device__ __forceinline__ void scores_of(float (&s)[QUERIES / 8][4],
	const unsigned (&own)[D / 16][4], const uint16_t *keys)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned n = 0; n < QUERIES / 8; n++) {
		for (int e = 0; e < 4; e++)
			s[n][e] = 0;
		UNROLL
		for (unsigned c = 0; c < D; c += 32) {
			unsigned b[4];

			tensor_matrices<false>(b,
				keys + (8 * n + lane % 8) * STRIDE(D) + c + lane / 8 * 8);
			tensor_mma_bf16(s[n], own[c / 16], b[0], b[1]);
			tensor_mma_bf16(s[n], own[c / 16 + 1], b[2], b[3]);
		}
	}
}

/* Converts scores to base 2; what a query does not see becomes -infinity. */
__device__ __forceinline__ void mask(float (&s)[QUERIES / 8][4],
	const struct lm_attend *a, uint64_t i0, uint64_t j0, float factor)
{
	tile_mask m;

	UNROLL
	for (int n = 0; n < QUERIES / 8; n++)
		for (int e = 0; e < 4; e++)
			s[n][e] *= factor;
	if (all_visible(a, i0, j0, QUERIES))
		return;
	m = mask_of(a, i0, j0);
	UNROLL
	for (int n = 0; n < QUERIES / 8; n++)
		for (int e = 0; e < 4; e++)
			s[n][e] = visible(m, (int)row_of(e), 8 * n + (int)column_of(e)) ?
				s[n][e] :
				-INFINITY;
}

/* Turns the scores in the row of elements e and e + 1 into weights; four lanes share a row.
 * total is this lane's part of the sum. Returns the factor by which earlier sums shrink. */
__device__ __forceinline__ float weigh(float (&s)[QUERIES / 8][4], int e, float *largest,
	float *total)
{
	float more = -INFINITY, less, shrink, sum = 0;

	UNROLL
	for (int n = 0; n < QUERIES / 8; n++)
		more = fmaxf(more, fmaxf(s[n][e], s[n][e + 1]));
	more = lm_warp_max(more, 4);
	more = fmaxf(more, *largest);
	/* while no key is visible, all weights are 2^-infinity and the sums that shrink are 0 */
	less = more == -INFINITY ? 0 : more;
	shrink = lm_exp2(*largest - less);
	UNROLL
	for (int n = 0; n < QUERIES / 8; n++)
		for (int k = e; k < e + 2; k++) {
			s[n][k] = lm_exp2(s[n][k] - less);
			sum += s[n][k];
		}
	*total = *total * shrink + sum;
	*largest = more;
	return shrink;
}
#endif

template <int D>
__global__ void __launch_bounds__(2 * QUERIES)
	attend_tensor_kernel(struct lm_attend a, uint64_t all)
{
#if CUDA_TENSOR
	SHARED(uint4, x_shared, QUERIES * STRIDE(D) / 8); /* queries, then keys */
	SHARED(uint4, y_shared, QUERIES * STRIDE(D) / 8); /* values */
	uint16_t *x = (uint16_t *)(void *)x_shared, *y = (uint16_t *)(void *)y_shared;
	float factor = a.scale * LOG2E;

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		tile_task t = tile_of(n, a.positions, a.heads, QUERIES);
		unsigned group = (unsigned)a.heads / (unsigned)a.kv_heads;
		uint64_t kv_at = (unsigned)t.h / group * (uint64_t)D, at = t.h * D;
		uint64_t row = t.b * a.positions + t.first, left = a.positions - t.first;
		uint64_t end = a.keys - a.positions + t.first +
			(left < QUERIES ? left : QUERIES);
		float sum[D / 8][4] = {}, largest[2] = { -INFINITY, -INFINITY },
			      total[2] = { 0, 0 };
		unsigned own[D / 16][4];

		__syncthreads(); /* until the previous tile is used */
		load_tile<D, QUERIES>(x, rows_of(a.q, a.ldq, row, left, at));
		__syncthreads();
		UNROLL
		for (int k = 0; k < D / 16; k++)
			left_part<D>(own[k], x, threadIdx.x / 32 * 16, 16 * k);
		for (uint64_t j0 = first_key_of(&a, t.first) / QUERIES * QUERIES;
			j0 < end; j0 += QUERIES) {
			uint64_t key = t.b * a.keys + j0;
			float s[QUERIES / 8][4], shrink[2];

			__syncthreads();
			load_tile<D, QUERIES>(x,
				rows_of(a.k, a.ldk, key, a.keys - j0, kv_at));
			load_tile<D, QUERIES>(y,
				rows_of(a.v, a.ldk, key, a.keys - j0, kv_at));
			__syncthreads();
			scores_of<D>(s, own, x);
			mask(s, &a, t.first, j0, factor);
			shrink[0] = weigh(s, 0, &largest[0], &total[0]);
			shrink[1] = weigh(s, 2, &largest[1], &total[1]);
			UNROLL
			for (int d = 0; d < D / 8; d++)
				for (int e = 0; e < 4; e++)
					sum[d][e] *= shrink[e / 2];
			add_weighted<D, QUERIES>(sum, s, y);
		}
		UNROLL
		for (int half = 0; half < 2; half++) {
			uint64_t i = t.first + row_of(2 * half);

			total[half] = lm_warp_sum(total[half], 4);
			if (a.lse && threadIdx.x % 4 == 0 && i < a.positions)
				a.lse[(t.b * a.heads + t.h) * a.positions + i] =
					largest[half] * LN2 + logf(total[half]);
		}
		store_tile<D>(rows_of(a.out, a.ldo, row, left, at), sum, 1 / total[0],
			1 / total[1]);
	}
#else
	(void)a, (void)all;
#endif
}

/* --- backward ------------------------------------------------------------------------------ */

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
/* The numbers that each query of a tile needs for its weights. */
template <int TILE>
__device__ void load_sums(float *lse, float *d, const struct lm_attend_back *a,
	uint64_t b, uint64_t h, uint64_t i0, unsigned D)
{
	const struct lm_attend *f = &a->forward;
	uint64_t i = i0 + threadIdx.x;

	if (threadIdx.x >= TILE)
		return;
	lse[threadIdx.x] = 0;
	d[threadIdx.x] = 0;
	if (i < f->positions) {
		lse[threadIdx.x] = f->lse[(b * f->heads + h) * f->positions + i] * LOG2E;
		d[threadIdx.x] = *(const float *)(const void *)((const uint16_t *)a->dq +
			(b * f->positions + i) * f->ldq + h * D);
	}
}

/* Turns scores into p, and dout . v into ds. KEYS: rows are keys and columns queries; else the
 * other way round. */
template <int TILE, bool KEYS>
__device__ __forceinline__ void weights(float (&p)[TILE / 8][4], float (&ds)[TILE / 8][4],
	const struct lm_attend *f, const float *lse, const float *d, uint64_t i0,
	uint64_t j0, float factor)
{
	UNROLL
	for (int n = 0; n < TILE / 8; n++)
		for (int e = 0; e < 4; e++) {
			unsigned i = KEYS ? 8 * n + column_of(e) : row_of(e);

			p[n][e] = lm_exp2(p[n][e] * factor - lse[i]);
		}
	/* only tiles at the edge test each place */
	if (!all_visible(f, i0, j0, TILE)) {
		tile_mask m = mask_of(f, i0, j0);

		UNROLL
		for (int n = 0; n < TILE / 8; n++)
			for (int e = 0; e < 4; e++) {
				unsigned column = 8 * n + column_of(e);
				unsigned i = KEYS ? column : row_of(e);
				unsigned j = KEYS ? row_of(e) : column;

				p[n][e] = visible(m, (int)i, (int)j) ? p[n][e] : 0;
			}
	}
	UNROLL
	for (int n = 0; n < TILE / 8; n++)
		for (int e = 0; e < 4; e++) {
			unsigned i = KEYS ? 8 * n + column_of(e) : row_of(e);

			ds[n][e] = p[n][e] * (ds[n][e] - d[i]);
		}
}
#endif

/* KEYS: computes dk and dv of a tile of keys, over the queries of all heads of its group; else
 * dq of a tile of queries, over keys. */
template <int D, int TILE, bool KEYS>
__global__ void __launch_bounds__(2 * TILE)
	attend_back_tensor_kernel(struct lm_attend_back a, uint64_t all)
{
#if CUDA_TENSOR
	const struct lm_attend *f = &a.forward;
	unsigned group = (unsigned)f->heads / (unsigned)f->kv_heads;
	SHARED(uint4, own0_shared, TILE * STRIDE(D) / 8); /* k or q */
	SHARED(uint4, own1_shared, TILE * STRIDE(D) / 8); /* v or dout */
	SHARED(uint4, other0_tile, TILE * STRIDE(D) / 8);
	SHARED(uint4, other1_tile, TILE * STRIDE(D) / 8);
	SHARED(float, lse, TILE);
	SHARED(float, sums, TILE);
	uint16_t *own0 = (uint16_t *)(void *)own0_shared;
	uint16_t *own1 = (uint16_t *)(void *)own1_shared;
	uint16_t *other0 = (uint16_t *)(void *)other0_tile;
	uint16_t *other1 = (uint16_t *)(void *)other1_tile;

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		tile_task t = tile_of(n, f->positions, KEYS ? f->kv_heads : f->heads,
			TILE);
		uint64_t first_head = KEYS ? t.h * group : t.h, base = t.b * f->positions;
		uint64_t last_head = KEYS ? first_head + group : first_head + 1;
		uint64_t left = f->positions - t.first, from, to;
		float sum0[D / 8][4] = {}, sum1[KEYS ? D / 8 : 1][4] = {};

		if (KEYS) { /* queries from the first key on, up to the end of the window */
			from = t.first;
			to = f->window && t.first + TILE - 1 + f->window < f->positions ?
				t.first + TILE - 1 + f->window :
				f->positions;
		} else {
			from = first_key_of(f, t.first) / TILE * TILE;
			to = left < TILE ? f->positions : t.first + TILE;
		}
		__syncthreads(); /* until the previous tiles are used */
		if (KEYS) {
			load_tile<D, TILE>(own0,
				rows_of(f->k, f->ldk, base + t.first, left, t.h * D));
			load_tile<D, TILE>(own1,
				rows_of(f->v, f->ldk, base + t.first, left, t.h * D));
		} else {
			load_tile<D, TILE>(own0,
				rows_of(f->q, f->ldq, base + t.first, left, t.h * D));
			load_tile<D, TILE>(own1,
				rows_of(a.dout, f->ldo, base + t.first, left, t.h * D));
			load_sums<TILE>(lse, sums, &a, t.b, t.h, t.first, D);
		}
		for (uint64_t h = first_head; h < last_head; h++)
			for (uint64_t at = from; at < to; at += TILE) {
				float p[TILE / 8][4], ds[TILE / 8][4];
				uint64_t row = base + at, rest = f->positions - at;
				uint64_t kv_at = (unsigned)h / group * (uint64_t)D;

				__syncthreads();
				if (KEYS) {
					load_tile<D, TILE>(other0,
						rows_of(f->q, f->ldq, row, rest, h * D));
					load_tile<D, TILE>(other1,
						rows_of(a.dout, f->ldo, row, rest,
							h * D));
					load_sums<TILE>(lse, sums, &a, t.b, h, at, D);
				} else {
					load_tile<D, TILE>(other0,
						rows_of(f->k, f->ldk, row, rest, kv_at));
					load_tile<D, TILE>(other1,
						rows_of(f->v, f->ldk, row, rest, kv_at));
				}
				__syncthreads();
				scores<D, TILE>(p, own0, other0);
				scores<D, TILE>(ds, own1, other1);
				weights<TILE, KEYS>(p, ds, f, lse, sums,
					KEYS ? at : t.first, KEYS ? t.first : at,
					f->scale * LOG2E);
				add_weighted<D, TILE>(sum0, ds, other0);
				if constexpr (KEYS)
					add_weighted<D, TILE>(sum1, p, other1);
			}
		if constexpr (KEYS) {
			store_tile<D>(rows_of(a.dk, f->ldk, base + t.first, left,
					      t.h * D),
				sum0, f->scale, f->scale);
			store_tile<D>(rows_of(a.dv, f->ldk, base + t.first, left,
					      t.h * D),
				sum1, 1, 1);
		} else {
			store_tile<D>(rows_of(a.dq, f->ldq, base + t.first, left,
					      t.h * D),
				sum0, f->scale, f->scale);
		}
	}
#else
	(void)a, (void)all;
#endif
}

/* --- launches ------------------------------------------------------------------------------ */

static uint64_t tiles_of(uint64_t batch, uint64_t length, uint64_t heads, unsigned tile)
{
	return batch * heads * ((length + tile - 1) / tile);
}

/* Whether these kernels support the GPU and the shape: compute capability, head width, 16-byte
 * alignment. */
static bool takes(struct dev *d, const struct lm_attend *a)
{
	return cuda_tensor(d) && a->dtype == LM_DTYPE_BF16 &&
		(a->head_dim == 64 || a->head_dim == 128) &&
		lm_wide(a->ldq, a->q, a->k, a->v, a->out) && a->ldk % LM_PACK == 0 &&
		a->ldo % LM_PACK == 0 && a->heads <= UINT32_MAX &&
		a->positions < UINT32_MAX - 64 &&
		tiles_of(a->batch, a->positions, a->heads, 32) <= UINT32_MAX;
}

int cuda_lm_attend_tensor(struct dev *d, const struct lm_attend *a)
{
	uint64_t n = tiles_of(a->batch, a->positions, a->heads, QUERIES);
	unsigned grid = cuda_grid(d, n, 1);

	if (!takes(d, a))
		return 1;
	if (!n)
		return 0;
	if (a->head_dim == 64)
		LAUNCH(attend_tensor_kernel<64>, grid, 2 * QUERIES, cuda_of(d)->stream,
			*a, n);
	else
		LAUNCH(attend_tensor_kernel<128>, grid, 2 * QUERIES, cuda_of(d)->stream,
			*a, n);
	return lm_started(d);
}

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

	if (!takes(d, f) || !lm_wide(LM_PACK, a->dout, a->dq, a->dk, a->dv))
		return 1;
	if (!f->batch || !f->positions)
		return 0;
	/* the largest tiles that 48 KiB of shared memory and the registers allow */
	return f->head_dim == 64 ? launch_back<64, 64>(d, a) : launch_back<128, 32>(d, a);
}
