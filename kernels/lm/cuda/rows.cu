/* rows.cu - operations that work row by row; memory bandwidth decides the speed of all of them.
 * Independent elements are processed in packs of eight, a row that is summed belongs to one
 * warp or a few, and sums over rows take two steps: pieces of rows in parallel, then the pieces
 * in an order that depends on sizes alone. Contraction (-fmad) changes norms, rotations and
 * their gradients within the bounds of ops.h; copies and sums of biases it does not. SwiGLU is in
 * swiglu.cu, the gradient of a table of embeddings in embed_back.cu. */
#include "kernels/lm/cuda/cuda.cuh"

/* --- tables of embeddings ------------------------------------------------------------------- */

template <class T> __global__ void embed_kernel(struct lm_embed e, bool wide)
{
	uint64_t packs = (e.dim + LM_PACK - 1) / LM_PACK, all = e.rows * packs;

	for (uint64_t n = GRID_FIRST; n < all; n += GRID_STRIDE) {
		uint64_t r = n / packs, i = n % packs * LM_PACK;
		unsigned count = lm_count(i, e.dim);
		float v[LM_PACK];

		lm_load(v, (const T *)e.w + e.token[r] * e.dim + i, count, wide);
		lm_store(e.x + r * e.dim + i, v, count, wide);
	}
}

/* --- sums over rows ------------------------------------------------------------------------ */

#define PIECE_ROWS 128 /* least size of a piece */
#define PIECES_MAX 256

/* terms of a sum: one for row r and column c */
template <class T> struct bias_terms {
	const T *dy;
	uint64_t ld;
	__device__ float at(uint64_t r, uint64_t c) const
	{
		return lm_f32(dy[r * ld + c]);
	}
};

template <class T> struct norm_terms {
	const T *dy;
	const float *x, *rms;
	uint64_t ld;
	__device__ float at(uint64_t r, uint64_t c) const
	{
		return lm_f32(dy[r * ld + c]) * x[r * ld + c] * rms[r];
	}
};

/* Sums piece y of the rows for 32 columns: each warp of the block takes every LM_WARPS-th row,
 * and the warps' sums are added in order. */
template <class S>
__global__ void pieces_kernel(S terms, float *piece, uint64_t rows, uint64_t each,
	uint64_t first_column, uint64_t columns)
{
	SHARED(float, sums, LM_THREADS);
	uint64_t groups = (columns + 31) / 32;
	uint64_t all = groups * ((rows + each - 1) / each);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		uint64_t part = n / groups, c = n % groups * 32 + lane;
		uint64_t end = (part + 1) * each < rows ? (part + 1) * each : rows;
		float sum = 0;

		if (c < columns) {
			UNROLL_4
			for (uint64_t r = part * each + warp; r < end; r += LM_WARPS)
				sum += terms.at(r, first_column + c);
		}
		__syncthreads(); /* until the previous sums are read */
		sums[threadIdx.x] = sum;
		__syncthreads();
		if (warp == 0 && c < columns) {
			for (int w = 1; w < LM_WARPS; w++)
				sum += sums[w * 32 + lane];
			piece[part * columns + c] = sum;
		}
	}
}

/* Adds the pieces of 32 columns: each warp of the block every LM_WARPS-th, then the warps in
 * order. */
__global__ void join_kernel(float *to, const float *piece, uint64_t pieces,
	uint64_t columns, bool fresh)
{
	SHARED(float, sums, LM_THREADS);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (uint64_t n = blockIdx.x; n < (columns + 31) / 32; n += gridDim.x) {
		uint64_t c = n * 32 + lane;
		float sum = 0;

		if (c < columns) {
			UNROLL_16
			for (uint64_t p = warp; p < pieces; p += LM_WARPS)
				sum += piece[p * columns + c];
		}
		__syncthreads(); /* until the previous sums are read */
		sums[threadIdx.x] = sum;
		__syncthreads();
		if (warp == 0 && c < columns) {
			for (int w = 1; w < LM_WARPS; w++)
				sum += sums[w * 32 + lane];
			to[c] = fresh ? sum : to[c] + sum;
		}
	}
}

static void join(struct dev *d, float *to, const float *piece, uint64_t pieces,
	uint64_t columns, bool fresh)
{
	LAUNCH(join_kernel, cuda_grid(d, columns, 32), LM_THREADS, cuda_of(d)->stream, to,
		piece, pieces, columns, fresh);
}

/* to[c] (+)= sum over the rows of terms.at(r, c) */
template <class S>
static int sum_rows(struct dev *d, S terms, float *to, uint64_t rows, uint64_t columns,
	bool fresh)
{
	cudaStream_t stream = cuda_of(d)->stream;
	float *piece = cuda_of(d)->lm_scratch;

	for (uint64_t c = 0; c < columns; c += LM_SCRATCH_FLOATS) {
		uint64_t n = columns - c < LM_SCRATCH_FLOATS ? columns - c :
							       LM_SCRATCH_FLOATS;
		uint64_t largest = LM_SCRATCH_FLOATS / n < PIECES_MAX ?
			LM_SCRATCH_FLOATS / n :
			PIECES_MAX;
		uint64_t each = (rows + largest - 1) / largest, pieces;

		each = each < PIECE_ROWS ? PIECE_ROWS : each;
		pieces = (rows + each - 1) / each;
		if (pieces)
			LAUNCH(pieces_kernel<S>,
				cuda_grid(d, pieces * ((n + 31) / 32), 1), LM_THREADS,
				stream, terms, piece, rows, each, c, n);
		join(d, to + c, piece, pieces, n, fresh);
	}
	return lm_started(d);
}

template <class T> static int bias_back(struct dev *d, const struct lm_bias_back *b)
{
	struct bias_terms<T> terms = {
		(const T *)b->dy, b->ld
	};

	return sum_rows(d, terms, b->db, b->rows, b->n, b->fresh);
}

int cuda_lm_bias_back(struct dev *d, const struct lm_bias_back *b)
{
	return b->dtype == LM_DTYPE_F32 ? bias_back<float>(d, b) :
					  bias_back<uint16_t>(d, b);
}

/* --- RMSNorm ------------------------------------------------------------------------------- */

/* Row r by one warp. EMBED: x is first stored, from `row` of a table. */
template <class T, bool EMBED>
__device__ __forceinline__ void norm_row(const struct lm_norm &n, uint64_t r, float *to,
	const T *row, bool wide)
{
	unsigned lane = threadIdx.x % 32;
	const float *x = n.x + r * n.dim;
	float v[LM_PACK], w[LM_PACK], squares = 0, rms;

	for (uint64_t i = lane * LM_PACK; i < n.dim; i += 32 * LM_PACK) {
		unsigned count = lm_count(i, n.dim);

		if (EMBED) {
			lm_load(v, row + i, count, wide);
			lm_store(to + i, v, count, wide);
		} else {
			lm_load(v, x + i, count, wide);
		}
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			squares += v[k] * v[k];
	}
	squares = lm_warp_sum(squares);
	rms = 1 / sqrtf(squares / (float)n.dim + n.eps);
	if (n.rms && lane == 0)
		n.rms[r] = rms;
	for (uint64_t i = lane * LM_PACK; i < n.dim; i += 32 * LM_PACK) {
		unsigned count = lm_count(i, n.dim);

		if (EMBED)
			lm_load(v, row + i, count, wide);
		else
			lm_load(v, x + i, count, wide);
		lm_load(w, n.w + i, count, wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] = v[k] * rms * w[k];
		if (!EMBED && n.from) {
			lm_load(w, n.from + r * n.dim + i, count, wide);
			UNROLL
			for (int k = 0; k < LM_PACK; k++)
				v[k] += w[k];
		}
		lm_store((T *)n.y + r * n.dim + i, v, count, wide);
	}
}

template <class T> __global__ void norm_kernel(struct lm_norm n, bool wide)
{
	for (uint64_t r = GRID_FIRST / 32; r < n.rows; r += GRID_STRIDE / 32)
		norm_row<T, false>(n, r, NULL, NULL, wide);
}

/* The rows of a table, and their norm from the same pass. */
template <class T>
__global__ void embed_norm_kernel(struct lm_embed e, struct lm_norm n, bool wide)
{
	for (uint64_t r = GRID_FIRST / 32; r < e.rows; r += GRID_STRIDE / 32)
		norm_row<T, true>(n, r, e.x + r * e.dim,
			(const T *)e.w + e.token[r] * e.dim, wide);
}

int cuda_lm_embed(struct dev *d, const struct lm_embed *e)
{
	uint64_t n = e->rows * lm_packs(e->dim);
	bool wide = lm_wide(e->dim, e->w, e->x, e->y, e->norm);

	if (!n)
		return 0;
	if (e->y)
		LM_LAUNCH(e->dtype, embed_norm_kernel, cuda_grid(d, e->rows, LM_WARPS),
			LM_THREADS, cuda_of(d)->stream, *e, lm_embed_norm(e), wide);
	else
		LM_LAUNCH(e->dtype, embed_kernel, cuda_grid(d, n, LM_THREADS), LM_THREADS,
			cuda_of(d)->stream, *e, wide);
	return lm_started(d);
}

int cuda_lm_norm(struct dev *d, const struct lm_norm *n)
{
	if (!n->rows)
		return 0;
	LM_LAUNCH(n->dtype, norm_kernel, cuda_grid(d, n->rows, LM_WARPS), LM_THREADS,
		cuda_of(d)->stream, *n, lm_wide(n->dim, n->y, n->x, n->w, n->from));
	return lm_started(d);
}

/* outputs are divided by weights up to this, and down to its inverse */
#define NORM_WEIGHT_MAX 0x1p100f

/* x r, from x or from the norm's output y = x r w where w has an inverse. */
__device__ __forceinline__ void norm_rows(float (&v)[LM_PACK],
	const struct lm_norm_back &n, uint64_t at, const float (&w)[LM_PACK], float rms)
{
	bool exact = !n.y;

	UNROLL
	for (int k = 0; k < LM_PACK; k++)
		exact = exact || !(fabsf(w[k]) < NORM_WEIGHT_MAX) ||
			!(fabsf(w[k]) > 1 / NORM_WEIGHT_MAX);
	if (exact) {
		lm_load(v, n.x + at, LM_PACK, true);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] *= rms;
	} else {
		lm_load(v, n.y + at, LM_PACK, true);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] = lm_divide(v[k], w[k]);
	}
}

/* Adds the gradient that there is before the norm's. */
__device__ __forceinline__ void norm_add_from(float (&v)[LM_PACK],
	const struct lm_norm_back &n, uint64_t at, unsigned count, bool wide)
{
	float from[LM_PACK], rest[LM_PACK];

	if (n.halves) {
		lm_load(from, n.copy + at, count, wide);
		lm_load(rest, n.rest + at, count, wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] += from[k] + rest[k];
	} else if (n.from) {
		lm_load(from, n.from + at, count, wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] += from[k];
	}
}

__device__ __forceinline__ void norm_store(const struct lm_norm_back &n, uint64_t at,
	float (&v)[LM_PACK], unsigned count, bool wide)
{
	if (n.dx)
		lm_store(n.dx + at, v, count, wide);
	if (n.whole)
		return;
	if (n.copy)
		lm_store(n.copy + at, v, count, wide);
	if (n.rest) {
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			v[k] -= bf16_to_f32((uint16_t)cuda_two_bf16(v[k], 0));
		lm_store(n.rest + at, v, count, wide);
	}
}

/* One pass over dy and x makes dx and the pieces of dw. `share` warps take a row, of which each
 * owns 256 J columns; a block takes `each` rows, of which its groups of warps take turns, and
 * adds the groups' sums in order. */
#define NORM_PIECE_ROWS  64 /* least rows of a block */
#define NORM_PIECES_MAX  512
#define NORM_COLUMNS_MAX (768 * LM_WARPS)

template <class T, int J>
__global__ void __launch_bounds__(LM_THREADS, 2)
	norm_back_once_kernel(struct lm_norm_back n, float *piece, uint64_t each,
		unsigned share)
{
	SHARED(float4, columns, NORM_COLUMNS_MAX / 4);
	SHARED(float, dots, LM_WARPS);
	float *sums = (float *)(void *)columns;
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned part = warp % share, group = warp / share, groups = LM_WARPS / share;
	uint64_t pieces = (n.rows + each - 1) / each;

	for (uint64_t p = blockIdx.x; p < pieces; p += gridDim.x) {
		uint64_t end = (p + 1) * each < n.rows ? (p + 1) * each : n.rows;
		float sum[J][LM_PACK] = {};

		for (uint64_t first = p * each; first < end; first += groups) {
			uint64_t r = first + group;
			bool inside = r < end;
			float g[J][LM_PACK], x[J][LM_PACK], w[LM_PACK];
			float rms = inside ? n.rms[r] : 0, dot = 0;

			UNROLL
			for (int j = 0; j < J; j++) {
				unsigned i = ((j * share + part) * 32 + lane) * LM_PACK;

				for (int k = 0; k < LM_PACK; k++)
					g[j][k] = x[j][k] = 0;
				if (!inside || i >= n.dim)
					continue;
				lm_load(g[j], (const T *)n.dy + r * n.dim + i, LM_PACK,
					true);
				lm_load(w, n.w + i, LM_PACK, true);
				norm_rows(x[j], n, r * n.dim + i, w, rms);
				UNROLL
				for (int k = 0; k < LM_PACK; k++)
					dot += g[j][k] * w[k] * x[j][k];
			}
			dot = lm_warp_sum(dot);
			if (share > 1) {
				__syncthreads(); /* until the previous row's are read */
				if (lane == 0)
					dots[warp] = dot;
				__syncthreads();
				dot = lm_warp_sum(
					lane < share ? dots[group * share + lane] : 0.0f);
			}
			dot /= (float)n.dim;
			UNROLL
			for (int j = 0; j < J; j++) {
				unsigned i = ((j * share + part) * 32 + lane) * LM_PACK;
				uint64_t at = r * n.dim + i;

				if (!inside || i >= n.dim)
					continue;
				lm_load(w, n.w + i, LM_PACK, true);
				UNROLL
				for (int k = 0; k < LM_PACK; k++) {
					sum[j][k] += g[j][k] * x[j][k];
					g[j][k] = rms * (g[j][k] * w[k] - x[j][k] * dot);
				}
				norm_add_from(g[j], n, at, LM_PACK, true);
				norm_store(n, at, g[j], LM_PACK, true);
			}
		}
		for (unsigned turn = 0; turn < groups; turn++) {
			UNROLL
			for (int j = 0; j < J && group == turn; j++) {
				unsigned i = ((j * share + part) * 32 + lane) * LM_PACK;
				float before[LM_PACK];

				if (i >= n.dim)
					continue;
				if (turn > 0) {
					lm_load(before, sums + i, LM_PACK, true);
					for (int k = 0; k < LM_PACK; k++)
						sum[j][k] += before[k];
				}
				lm_store(sums + i, sum[j], LM_PACK, true);
			}
			__syncthreads();
		}
		for (unsigned c = threadIdx.x; c < n.dim; c += LM_THREADS)
			piece[p * n.dim + c] = sums[c];
		__syncthreads(); /* until the sums are read */
	}
}

/* Rows of up to NORM_COLUMNS_MAX columns, at multiples of 16 bytes. */
template <class T> static int norm_back_once(struct dev *d, const struct lm_norm_back *n)
{
	uint64_t largest = LM_SCRATCH_FLOATS / n->dim < NORM_PIECES_MAX ?
		LM_SCRATCH_FLOATS / n->dim :
		NORM_PIECES_MAX;
	uint64_t each = (n->rows + largest - 1) / largest, pieces;
	void (*kernel)(struct lm_norm_back, float *, uint64_t,
		unsigned) = norm_back_once_kernel<T, 3>;
	unsigned share = 1;

	each = each < NORM_PIECE_ROWS ? NORM_PIECE_ROWS : each;
	pieces = (n->rows + each - 1) / each;
	while (share * 768 < n->dim)
		share *= 2;
	if (share * 512 >= n->dim)
		kernel = norm_back_once_kernel<T, 2>;
	LAUNCH(kernel, cuda_grid(d, pieces, 1), LM_THREADS, cuda_of(d)->stream, *n,
		cuda_of(d)->lm_scratch, each, share);
	join(d, n->dw, (const float *)cuda_of(d)->lm_scratch, pieces, n->dim, n->fresh);
	return lm_started(d);
}

/* Rows of any size: one warp per row, after dw has been summed. */
template <class T> __global__ void norm_back_kernel(struct lm_norm_back n, bool wide)
{
	unsigned lane = threadIdx.x % 32;

	for (uint64_t r = GRID_FIRST / 32; r < n.rows; r += GRID_STRIDE / 32) {
		uint64_t row = r * n.dim;
		const T *dy = (const T *)n.dy + row;
		float rms = n.rms[r], dot = 0;
		float x[LM_PACK], w[LM_PACK], g[LM_PACK];

		for (uint64_t i = lane * LM_PACK; i < n.dim; i += 32 * LM_PACK) {
			unsigned count = lm_count(i, n.dim);

			lm_load(g, dy + i, count, wide);
			lm_load(w, n.w + i, count, wide);
			lm_load(x, n.x + row + i, count, wide);
			UNROLL
			for (int k = 0; k < LM_PACK; k++)
				dot += g[k] * w[k] * x[k];
		}
		dot = lm_warp_sum(dot) * rms * rms / (float)n.dim;
		for (uint64_t i = lane * LM_PACK; i < n.dim; i += 32 * LM_PACK) {
			unsigned count = lm_count(i, n.dim);

			lm_load(g, dy + i, count, wide);
			lm_load(w, n.w + i, count, wide);
			lm_load(x, n.x + row + i, count, wide);
			UNROLL
			for (int k = 0; k < LM_PACK; k++)
				g[k] = rms * (g[k] * w[k] - x[k] * dot);
			norm_add_from(g, n, row + i, count, wide);
			norm_store(n, row + i, g, count, wide);
		}
	}
}

template <class T> static int norm_back(struct dev *d, const struct lm_norm_back *n)
{
	struct norm_terms<T> terms = {
		(const T *)n->dy, n->x, n->rms, n->dim
	};
	bool wide = lm_wide(n->dim, n->dx, n->dy, n->x, n->w) &&
		lm_wide(n->dim, n->copy, n->from, n->rest, n->y);

	if (wide && n->rows && n->dim && n->dim <= NORM_COLUMNS_MAX)
		return norm_back_once<T>(d, n);
	if (sum_rows(d, terms, n->dw, n->rows, n->dim, n->fresh) < 0)
		return -1;
	if (n->rows)
		LAUNCH(norm_back_kernel<T>, cuda_grid(d, n->rows, LM_WARPS), LM_THREADS,
			cuda_of(d)->stream, *n, wide);
	return lm_started(d);
}

int cuda_lm_norm_back(struct dev *d, const struct lm_norm_back *n)
{
	return n->dtype == LM_DTYPE_F32 ? norm_back<float>(d, n) :
					  norm_back<uint16_t>(d, n);
}

/* --- rotary positions ---------------------------------------------------------------------- */

/* A thread rotates eight pairs. */
template <class T> __global__ void rotate_kernel(struct lm_rotate r, bool wide)
{
	uint64_t packs = (r.head_dim / 2 + LM_PACK - 1) / LM_PACK;
	uint64_t all = r.rows * r.heads * packs;

	for (uint64_t n = GRID_FIRST; n < all; n += GRID_STRIDE)
		lm_rotate_pack<T>(r, n / packs / r.heads, n / packs % r.heads,
			n % packs * LM_PACK, wide);
}

int cuda_lm_rotate(struct dev *d, const struct lm_rotate *r)
{
	uint64_t n = r->rows * r->heads * lm_packs(r->head_dim / 2);
	bool wide = lm_rotate_wide(r);

	if (!n)
		return 0;
	LM_LAUNCH(r->dtype, rotate_kernel, cuda_grid(d, n, LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *r, wide);
	return lm_started(d);
}

/* --- bf16 ---------------------------------------------------------------------------------- */

__global__ void softcap_kernel(struct lm_softcap s)
{
	for (uint64_t i = GRID_FIRST; i < s.n; i += GRID_STRIDE)
		s.x[i] = s.cap * tanhf(s.x[i] / s.cap);
}

int cuda_lm_softcap(struct dev *d, const struct lm_softcap *s)
{
	if (!s->n)
		return 0;
	LAUNCH(softcap_kernel, cuda_grid(d, s->n, LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *s);
	return lm_started(d);
}

__global__ void narrow_rows_kernel(struct lm_narrow x, bool wide)
{
	for (uint64_t i = GRID_FIRST * LM_PACK; i < x.n; i += GRID_STRIDE * LM_PACK) {
		unsigned n = lm_count(i, x.n);
		float v[LM_PACK];

		lm_load(v, x.from + i, n, wide && n == LM_PACK);
		lm_store(x.to + i, v, n, wide && n == LM_PACK);
	}
}

int cuda_lm_narrow(struct dev *d, const struct lm_narrow *n)
{
	if (!n->n)
		return 0;
	LAUNCH(narrow_rows_kernel, cuda_grid(d, lm_packs(n->n), LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *n, lm_wide(LM_PACK, n->to, n->from, NULL, NULL));
	return lm_started(d);
}
