/* attend.cu - attention in f32 arithmetic, for every GPU, dtype and head width: 32 queries against
 * 32 keys at a time, with the online softmax. A thread block makes 64 columns of a result, so that
 * wider heads compute their scores once for every 64 columns. In the backward pass each block owns
 * its result: one sums dk and dv over queries and heads in order, another dq over keys; no two
 * blocks add to the same number. Contraction (-fmad) makes the steps of its sums multiply-adds,
 * within the bounds of ops.h. */
#include "kernels/lm/cuda/cuda.cuh"

#define TILE    32
#define COLUMNS 64
#define STRIDE  (COLUMNS + 1)
#define THREADS 128

/* Thread (y, x) owns rows y + 8 i and columns x + 16 j of a tile. */
#define ROW(i)    (threadIdx.x / 16 + 8 * (unsigned)(i))
#define COLUMN(j) (threadIdx.x % 16 + 16 * (unsigned)(j))

/* Rows of one head: row i starts at at + i ld. */
template <class T> struct rows {
	T *at;
	uint64_t ld, count;
};

template <class T>
__device__ rows<T> rows_of(T *base, uint64_t ld, uint64_t b, uint64_t each,
	uint64_t column, uint64_t from)
{
	return { base + (b * each + from) * ld + column, ld, each - from };
}

/* Loads columns c .. c + 63 of TILE rows as f32, with zeros beyond the edges. */
template <class T>
__device__ void load_rows(float *tile, const rows<const T> &from, uint64_t c,
	uint64_t width)
{
	for (unsigned n = threadIdx.x; n < TILE * COLUMNS; n += THREADS) {
		unsigned i = n / COLUMNS, t = n % COLUMNS;
		bool inside = i < from.count && c + t < width;

		tile[i * STRIDE + t] = inside ? lm_f32(from.at[i * from.ld + c + t]) : 0;
	}
}

/* s = x y^T for TILE rows of each; a and b are shared memory for tiles. */
template <class T>
__device__ void dot_rows(float (&s)[4][2], const rows<const T> &x, const rows<const T> &y,
	uint64_t width, float *a, float *b)
{
	for (int i = 0; i < 4; i++)
		s[i][0] = s[i][1] = 0;
	for (uint64_t c = 0; c < width; c += COLUMNS) {
		__syncthreads(); /* until the previous tile is used */
		load_rows<T>(a, x, c, width);
		load_rows<T>(b, y, c, width);
		__syncthreads();
		for (int t = 0; t < COLUMNS; t++)
			for (int i = 0; i < 4; i++)
				for (int j = 0; j < 2; j++)
					s[i][j] += a[ROW(i) * STRIDE + t] *
						b[COLUMN(j) * STRIDE + t];
	}
}

/* sum[row][column] += p[row][t] x[t][column] over the TILE values of t; TURNED: with p[t][row]. */
template <bool TURNED>
__device__ void add_product(float (&sum)[4][4], const float *p, const float *x)
{
	for (unsigned t = 0; t < TILE; t++)
		for (int i = 0; i < 4; i++) {
			float w = TURNED ? p[t * (TILE + 1) + ROW(i)] :
					   p[ROW(i) * (TILE + 1) + t];

			for (int j = 0; j < 4; j++)
				sum[i][j] += w * x[t * STRIDE + COLUMN(j)];
		}
}

template <class T>
__device__ void store_rows(const rows<T> &to, const float (&sum)[4][4],
	const float (&factor)[4], uint64_t c, uint64_t width)
{
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
			if (ROW(i) < to.count && c + COLUMN(j) < width)
				lm_round(&to.at[ROW(i) * to.ld + c + COLUMN(j)],
					sum[i][j] * factor[i]);
}

/* --- what sees what ------------------------------------------------------------------------ */

/* Returns the position of query i, and the first key it sees. */
__device__ uint64_t position_of(const struct lm_attend *a, uint64_t i)
{
	return a->keys - a->positions + i;
}

__device__ uint64_t first_key(const struct lm_attend *a, uint64_t i)
{
	uint64_t p = position_of(a, i);

	return a->window && p + 1 > a->window ? p + 1 - a->window : 0;
}

__device__ bool sees(const struct lm_attend *a, uint64_t i, uint64_t j)
{
	return i < a->positions && j <= position_of(a, i) && j >= first_key(a, i);
}

/* The work of one thread block: a tile of rows of a head, and columns from c on. The last
 * tiles, which see the most keys, come first. */
struct task {
	uint64_t b, h, first, c;
};

__device__ task task_of(uint64_t n, uint64_t length, uint64_t heads, uint64_t head_dim)
{
	uint64_t chunks = (head_dim + COLUMNS - 1) / COLUMNS;
	uint64_t tiles = (length + TILE - 1) / TILE;
	task t;

	t.c = n % chunks * COLUMNS;
	n /= chunks;
	t.h = n % heads;
	n /= heads;
	t.first = (tiles - 1 - n % tiles) * TILE;
	t.b = n / tiles;
	return t;
}

static uint64_t tasks(uint64_t batch, uint64_t length, uint64_t heads, uint64_t head_dim)
{
	return batch * heads * ((length + TILE - 1) / TILE) *
		((head_dim + COLUMNS - 1) / COLUMNS);
}

/* --- forward ------------------------------------------------------------------------------- */

/* Running softmax of a row: its largest score and the sum of exponentials; all 16 lanes of the
 * row hold the same. */
struct running {
	float largest, sum;
};

/* Turns the scores of one row into weights in p. Returns the factor by which earlier sums
 * shrink. */
__device__ float weigh(struct running *r, const float (&s)[2], float *p)
{
	float more = lm_warp_max(s[0] > s[1] ? s[0] : s[1], 16), shrink, w[2];

	more = more > r->largest ? more : r->largest;
	shrink = more == -INFINITY ? 1 : expf(r->largest - more);
	for (int j = 0; j < 2; j++) {
		w[j] = s[j] == -INFINITY ? 0 : expf(s[j] - more);
		p[COLUMN(j)] = w[j];
	}
	r->sum = r->sum * shrink + lm_warp_sum(w[0] + w[1], 16);
	r->largest = more;
	return shrink;
}

template <class T> __global__ void attend_kernel(struct lm_attend a, uint64_t all)
{
	SHARED(float, x, TILE *STRIDE);
	SHARED(float, y, TILE *STRIDE);
	SHARED(float, p, TILE *(TILE + 1));

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		task t = task_of(n, a.positions, a.heads, a.head_dim);
		uint64_t kv_at = t.h / (a.heads / a.kv_heads) * a.head_dim;
		uint64_t at = t.h * a.head_dim, end = t.first + TILE;
		rows<const T> q = rows_of((const T *)a.q, a.ldq, t.b, a.positions, at,
			t.first);
		float sum[4][4] = {}, factor[4];
		struct running run[4];

		end = position_of(&a, (end < a.positions ? end : a.positions) - 1) + 1;
		for (int i = 0; i < 4; i++)
			run[i] = { -INFINITY, 0 };
		for (uint64_t j0 = first_key(&a, t.first) / TILE * TILE; j0 < end;
			j0 += TILE) {
			float s[4][2];

			dot_rows<T>(s, q,
				rows_of((const T *)a.k, a.ldk, t.b, a.keys, kv_at, j0),
				a.head_dim, x, y);
			for (int i = 0; i < 4; i++) {
				float shrink;

				for (int j = 0; j < 2; j++)
					s[i][j] = sees(&a, t.first + ROW(i),
							  j0 + COLUMN(j)) ?
						a.scale * s[i][j] :
						-INFINITY;
				shrink = weigh(&run[i], s[i], p + ROW(i) * (TILE + 1));
				for (int j = 0; j < 4; j++)
					sum[i][j] *= shrink;
			}
			__syncthreads();
			load_rows<T>(y,
				rows_of((const T *)a.v, a.ldk, t.b, a.keys, kv_at, j0),
				t.c, a.head_dim);
			__syncthreads();
			add_product<false>(sum, p, y);
		}
		for (int i = 0; i < 4; i++) {
			uint64_t row = t.first + ROW(i);

			factor[i] = 1 / run[i].sum;
			if (a.lse && t.c == 0 && COLUMN(0) == 0 && row < a.positions)
				a.lse[(t.b * a.heads + t.h) * a.positions + row] =
					run[i].largest + logf(run[i].sum);
		}
		store_rows(rows_of((T *)a.out, a.ldo, t.b, a.positions, at, t.first), sum,
			factor, t.c, a.head_dim);
	}
}

int cuda_lm_attend(struct dev *d, const struct lm_attend *a)
{
	uint64_t n = tasks(a->batch, a->positions, a->heads, a->head_dim);
	struct lm_rotate r = lm_attend_rotation(a);
	int rc = cuda_lm_attend_wide(d, a);

	if (rc > 0)
		rc = cuda_lm_attend_tensor(d, a);

	if (rc <= 0 || !n)
		return rc < 0 ? -1 : 0;
	if (a->table && cuda_lm_rotate(d, &r) < 0)
		return -1;
	LM_LAUNCH(a->dtype, attend_kernel, cuda_grid(d, n, 1), THREADS,
		cuda_of(d)->stream, *a, n);
	return lm_started(d);
}

/* --- backward ------------------------------------------------------------------------------ */

/* d_i = sum dout_i out_i is stored in the first four bytes of the row of dq until that row is
 * written. */
__device__ void keep(float *row, float d)
{
	*row = d;
}

__device__ void keep(uint16_t *row, float d)
{
	uint32_t bits = half_bits_of_float(d);

	row[0] = (uint16_t)bits;
	row[1] = (uint16_t)(bits >> 16);
}

__device__ float load_d(const float *row)
{
	return *row;
}

__device__ float load_d(const uint16_t *row)
{
	return half_float_of_bits((uint32_t)row[0] | (uint32_t)row[1] << 16);
}

/* One warp for each query of a head. */
template <class T> __global__ void keep_kernel(struct lm_attend_back a, uint64_t all)
{
	const struct lm_attend *f = &a.forward;
	unsigned lane = threadIdx.x % 32;

	for (uint64_t n = GRID_FIRST / 32; n < all; n += GRID_STRIDE / 32) {
		uint64_t row = n / f->heads, h = n % f->heads * f->head_dim;
		const T *dout = (const T *)a.dout + row * f->ldo + h;
		const T *out = (const T *)f->out + row * f->ldo + h;
		float d = 0;

		for (uint64_t t = lane; t < f->head_dim; t += 32)
			d += lm_f32(dout[t]) * lm_f32(out[t]);
		d = lm_warp_sum(d);
		if (lane == 0)
			keep((T *)a.dq + row * f->ldq + h, d);
	}
}

/* Computes p and ds of queries i0 .. and keys j0 .. of head h. a and b are shared memory for
 * tiles, d the queries' d_i. */
template <class T>
__device__ void weights(const struct lm_attend_back *a, uint64_t b, uint64_t h,
	uint64_t i0, uint64_t j0, const float (&d)[4], float (&p)[4][2],
	float (&ds)[4][2], float *x, float *y)
{
	const struct lm_attend *f = &a->forward;
	uint64_t at = h * f->head_dim, kv_at = h / (f->heads / f->kv_heads) * f->head_dim;

	dot_rows<T>(p, rows_of((const T *)f->q, f->ldq, b, f->positions, at, i0),
		rows_of((const T *)f->k, f->ldk, b, f->keys, kv_at, j0), f->head_dim, x,
		y);
	dot_rows<T>(ds, rows_of((const T *)a->dout, f->ldo, b, f->positions, at, i0),
		rows_of((const T *)f->v, f->ldk, b, f->keys, kv_at, j0), f->head_dim, x,
		y);
	for (int i = 0; i < 4; i++) {
		uint64_t row = i0 + ROW(i);
		float lse = row < f->positions ?
			f->lse[(b * f->heads + h) * f->positions + row] :
			0;

		for (int j = 0; j < 2; j++) {
			p[i][j] = sees(f, row, j0 + COLUMN(j)) ?
				expf(f->scale * p[i][j] - lse) :
				0;
			ds[i][j] = p[i][j] * (ds[i][j] - d[i]);
		}
	}
}

/* Computes dk and dv of a tile of keys. */
template <class T>
__global__ void attend_back_kv_kernel(struct lm_attend_back a, uint64_t all)
{
	const struct lm_attend *f = &a.forward;
	uint64_t group = f->heads / f->kv_heads;
	SHARED(float, x, TILE *STRIDE);
	SHARED(float, y, TILE *STRIDE);
	SHARED(float, p, TILE *(TILE + 1));
	SHARED(float, s, TILE *(TILE + 1));

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		task t = task_of(n, f->keys, f->kv_heads, f->head_dim);
		float dk[4][4] = {}, dv[4][4] = {};
		float scale[4] = { f->scale, f->scale, f->scale, f->scale };
		float one[4] = { 1, 1, 1, 1 };
		/* the first query that no longer sees the last of these keys */
		uint64_t end = f->window &&
				t.first + TILE - 1 + f->window < f->positions ?
			t.first + TILE - 1 + f->window :
			f->positions;

		for (uint64_t h = t.h * group; h < (t.h + 1) * group; h++)
			for (uint64_t i0 = t.first; i0 < end; i0 += TILE) {
				rows<T> dq = rows_of((T *)a.dq, f->ldq, t.b, f->positions,
					h * f->head_dim, i0);
				float d[4], w[4][2], ds[4][2];

				for (int i = 0; i < 4; i++)
					d[i] = ROW(i) < dq.count ?
						load_d(dq.at + ROW(i) * dq.ld) :
						0;
				weights<T>(&a, t.b, h, i0, t.first, d, w, ds, x, y);
				for (int i = 0; i < 4; i++)
					for (int j = 0; j < 2; j++) {
						unsigned at = ROW(i) * (TILE + 1) +
							COLUMN(j);

						p[at] = w[i][j];
						s[at] = ds[i][j];
					}
				__syncthreads();
				load_rows<T>(x,
					rows_of((const T *)a.dout, f->ldo, t.b,
						f->positions, h * f->head_dim, i0),
					t.c, f->head_dim);
				load_rows<T>(y,
					rows_of((const T *)f->q, f->ldq, t.b,
						f->positions, h * f->head_dim, i0),
					t.c, f->head_dim);
				__syncthreads();
				add_product<true>(dv, p, x);
				add_product<true>(dk, s, y);
			}
		store_rows(rows_of((T *)a.dk, f->ldk, t.b, f->keys, t.h * f->head_dim,
				   t.first),
			dk, scale, t.c, f->head_dim);
		store_rows(rows_of((T *)a.dv, f->ldk, t.b, f->keys, t.h * f->head_dim,
				   t.first),
			dv, one, t.c, f->head_dim);
	}
}

/* Computes dq of a tile of queries. Wide heads share it among several blocks; then each
 * computes d_i itself instead of reading it from dq, which another may already have
 * overwritten. */
template <class T>
__global__ void attend_back_q_kernel(struct lm_attend_back a, uint64_t all)
{
	const struct lm_attend *f = &a.forward;
	SHARED(float, x, TILE *STRIDE);
	SHARED(float, y, TILE *STRIDE);
	SHARED(float, s, TILE *(TILE + 1));

	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		task t = task_of(n, f->positions, f->heads, f->head_dim);
		uint64_t at = t.h * f->head_dim, end = t.first + TILE;
		uint64_t kv_at = t.h / (f->heads / f->kv_heads) * f->head_dim;
		rows<const T> dout = rows_of((const T *)a.dout, f->ldo, t.b, f->positions,
			at, t.first);
		rows<const T> out = rows_of((const T *)f->out, f->ldo, t.b, f->positions,
			at, t.first);
		float dq[4][4] = {}, d[4], w[4][2], ds[4][2];
		float scale[4] = { f->scale, f->scale, f->scale, f->scale };

		end = end < f->positions ? end : f->positions;
		for (int i = 0; i < 4; i++) {
			d[i] = 0;
			for (uint64_t c = COLUMN(0);
				ROW(i) < dout.count && c < f->head_dim; c += 16)
				d[i] += lm_f32(dout.at[ROW(i) * dout.ld + c]) *
					lm_f32(out.at[ROW(i) * out.ld + c]);
			d[i] = lm_warp_sum(d[i], 16);
		}
		for (uint64_t j0 = first_key(f, t.first) / TILE * TILE; j0 < end;
			j0 += TILE) {
			weights<T>(&a, t.b, t.h, t.first, j0, d, w, ds, x, y);
			for (int i = 0; i < 4; i++)
				for (int j = 0; j < 2; j++)
					s[ROW(i) * (TILE + 1) + COLUMN(j)] = ds[i][j];
			__syncthreads();
			load_rows<T>(x,
				rows_of((const T *)f->k, f->ldk, t.b, f->keys, kv_at, j0),
				t.c, f->head_dim);
			__syncthreads();
			add_product<false>(dq, s, x);
		}
		store_rows(rows_of((T *)a.dq, f->ldq, t.b, f->positions, at, t.first), dq,
			scale, t.c, f->head_dim);
	}
}

int cuda_lm_attend_back(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;
	uint64_t queries = f->batch * f->positions * f->heads;
	uint64_t kv = tasks(f->batch, f->keys, f->kv_heads, f->head_dim);
	uint64_t q = tasks(f->batch, f->positions, f->heads, f->head_dim);
	cudaStream_t stream = cuda_of(d)->stream;
	int rc = cuda_lm_attend_back_tensor(d, a);
	struct lm_rotate r[2];
	unsigned rotations = lm_attend_rotations(a, r);

	if (rc <= 0 || !q)
		return rc < 0 ? -1 : 0;
	LM_LAUNCH(f->dtype, keep_kernel, cuda_grid(d, queries, THREADS / 32), THREADS,
		stream, *a, queries);
	LM_LAUNCH(f->dtype, attend_back_kv_kernel, cuda_grid(d, kv, 1), THREADS, stream,
		*a, kv);
	LM_LAUNCH(f->dtype, attend_back_q_kernel, cuda_grid(d, q, 1), THREADS, stream, *a,
		q);
	for (unsigned i = 0; i < rotations; i++)
		if (cuda_lm_rotate(d, &r[i]) < 0)
			return -1;
	return lm_started(d);
}
