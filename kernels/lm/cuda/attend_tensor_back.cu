/* attend_tensor_back.cu - the gradient of attention in bf16 on tensor cores, for heads of 64 and
 * 128 columns. Keys and queries change roles: one kernel sums over the tiles of the other side,
 * and each result has one owner. With heads of 64 columns a warp owns two groups of 16 rows, which
 * share what it reads of the other side, and the next tiles of that are loaded while these are
 * multiplied. The kernel of queries comes first: it also computes what that of keys needs of each
 * query. Contraction (-fmad) joins scaling, subtraction and rotation, within what rounding to bf16
 * changes. */
#include "kernels/lm/cuda/attend_tensor.cuh"

/* Blocks of an SM that ptxas is told of: untold it aims at six of some kernels, and spills. */
#define BLOCKS 4

/* KEPT: the kernel of keys keeps its keys in registers, which spares a seventh of what it reads of
 * shared memory. AGAIN: it computes again for each head what it would else spill. As ptxas allots
 * the registers of each architecture, so that none spills. */
#ifdef __CUDA_ARCH__
#define KEPT  (__CUDA_ARCH__ == 900)
#define AGAIN (__CUDA_ARCH__ <= 900)
#else
#define KEPT  true
#define AGAIN true
#endif

/* Scratch memory for a number of each query; in the emulation so little that small batches are
 * divided, as large ones are on a GPU. */
#ifdef CUDA_EMU
#define SUMS_MAX 1400
#else
#define SUMS_MAX LM_SCRATCH_FLOATS
#endif

#if CUDA_TENSOR
/* d[half] = sum of x y over each of this lane's rows in two tiles. */
template <int D>
__device__ __forceinline__ void multiply_rows(float (&d)[2], const uint16_t *x,
	const uint16_t *y)
{
	d[0] = d[1] = 0;
	UNROLL
	for (unsigned c = 0; c < D; c += 16) {
		unsigned a[4], b[4];

		left_part<D>(a, x, threadIdx.x / 32 * 16, c);
		left_part<D>(b, y, threadIdx.x / 32 * 16, c);
		UNROLL
		for (int i = 0; i < 4; i++)
			d[i % 2] += bf16_to_f32((uint16_t)a[i]) *
					bf16_to_f32((uint16_t)b[i]) +
				bf16_to_f32((uint16_t)(a[i] >> 16)) *
					bf16_to_f32((uint16_t)(b[i] >> 16));
	}
	d[0] = lm_warp_sum(d[0], 4);
	d[1] = lm_warp_sum(d[1], 4);
}

/* A block's work on M tiles of rows of its own. KEYS: dk and dv of keys, from the tiles of queries
 * that see them; else dq of queries, from tiles of keys. own0, other0 are keys and queries, own1
 * and other1 values and dout, in the order of their roles. A warp owns 16 rows of each of the M
 * tiles. FIRST_HELD: of keys whose heads have 64 columns own0 stays in registers. */
template <int D, int TILE, int M, bool KEYS, bool FIRST_HELD> struct back {
	static constexpr bool AHEAD = D == 64;
	static constexpr bool HELD = AHEAD && !KEYS; /* own rows stay in registers */
	static constexpr bool HELD0 = AHEAD && (!KEYS || FIRST_HELD); /* own0 does */
	/* columns whose scores are in registers at once */
	static constexpr int PART = HELD ? 16 : TILE;
	static constexpr unsigned OWN = M * TILE;
	static constexpr unsigned SIZE = TILE * STRIDE(D);
	static constexpr unsigned FIRST = HELD ? 0 : 2 * M; /* tile of the other side */
	static constexpr unsigned TILES = HELD ? (3 * M > 4 ? 3 * M : 4) :
						 2 * M + (AHEAD ? 4 : 2);

	float sum0[M][D / 8][4], sum1[KEYS ? M : 1][KEYS ? D / 8 : 1][4];
	unsigned own0[M][HELD0 ? D / 16 : 1][4], own1[M][HELD ? D / 16 : 1][4];
	tile_source<D, TILE> s0, s1;
	uint16_t *tiles;   /* shared memory for TILES of them */
	float *lse, *less; /* KEYS: of each query of a tile, for two tiles; -d */
	float row_lse[M][2], row_less[M][2]; /* else of this lane's queries */
	const float *lse_of, *d_of;          /* KEYS: of all queries */
	unsigned query;                      /* this thread's of the next tile */
	int query_left;                      /* queries from that tile on */
	float factor;
	int ahead;
	unsigned window, stage;

	__device__ __forceinline__ uint16_t *other(unsigned which)
	{
		return tiles + (FIRST + (AHEAD ? 2 * stage : 0) + which) * SIZE;
	}

	/* Whether no query of the next tile, or of the own rows, misses a key. */
	__device__ __forceinline__ bool whole()
	{
		return KEYS ? all_visible(ahead, window, TILE, OWN) :
			      all_visible(ahead, window, OWN, TILE);
	}

	/* Reads the numbers of this thread's query of the next tile. */
	__device__ __forceinline__ void read_sums(float (&v)[2])
	{
		v[0] = v[1] = 0;
		/* a thread below TILE loads the query of row threadIdx.x */
		if ((int)threadIdx.x < min(TILE, query_left)) {
			v[0] = lse_of[query] * LOG2E;
			v[1] = -d_of[query];
		}
		query_left -= TILE;
		query += TILE;
	}

	__device__ __forceinline__ void write_sums(const float (&v)[2], unsigned to)
	{
		if (threadIdx.x < TILE) {
			lse[to * TILE + threadIdx.x] = v[0];
			less[to * TILE + threadIdx.x] = v[1];
		}
	}

	/* Starts to load the next tiles of the other side. */
	__device__ __forceinline__ void start()
	{
		/* a register that counts the same is one too many */
		if (KEYS)
			s0.left = query_left - (int)(threadIdx.x / (D / 8));
		s1.left = s0.left;
		s0.start(other(0));
		s1.start(other(1));
		tensor_commit();
	}

	/* Starts with the first ones. */
	__device__ __forceinline__ void begin()
	{
		float v[2];

		stage = 0;
		if (!AHEAD)
			return;
		start();
		if (KEYS) {
			read_sums(v);
			write_sums(v, 0);
		}
	}

	/* Turns scores of columns from `first` on into p, and dout . v - d into ds. */
	__device__ __forceinline__ void weights(float (&p)[PART / 8][4],
		float (&ds)[PART / 8][4], int m, int first)
	{
		UNROLL
		for (int n = 0; n < PART / 8; n++)
			for (int e = 0; e < 4; e++) {
				int column = first + 8 * n + (int)column_of(e);
				float l = KEYS ? lse[stage * TILE + (unsigned)column] :
						 row_lse[m][e / 2];

				p[n][e] = lm_exp2(p[n][e] * factor - l);
			}
		if (!whole()) {
			UNROLL
			for (int n = 0; n < PART / 8; n++)
				for (int e = 0; e < 4; e++) {
					int column = first + 8 * n + (int)column_of(e);
					int row = TILE * m + (int)row_of(e);
					bool seen = KEYS ?
						visible(column, row, ahead, window) :
						visible(row, column, ahead, window);

					p[n][e] = seen ? p[n][e] : 0;
				}
		}
		UNROLL
		for (int n = 0; n < PART / 8; n++)
			for (int e = 0; e < 4; e++)
				ds[n][e] *= p[n][e];
	}

	/* The same of rows from `first` on of a tile. */
	__device__ __forceinline__ void multiply(int first)
	{
		float p[M][PART / 8][4], ds[M][PART / 8][4];
		uint16_t *other0 = other(0) + first * STRIDE(D);
		uint16_t *other1 = other(1) + first * STRIDE(D);

		UNROLL
		for (int m = 0; m < M; m++)
			for (int n = 0; n < PART / 8; n++)
				for (int e = 0; e < 4; e++) {
					unsigned column = 8 * n + column_of(e);

					p[m][n][e] = 0;
					ds[m][n][e] = KEYS ? less[stage * TILE + column] :
							     row_less[m][e / 2];
				}
		if constexpr (HELD) {
			add_scores<D, PART, M>(p, own0, other0);
			add_scores<D, PART, M>(ds, own1, other1);
		} else {
			if constexpr (HELD0)
				add_scores<D, PART, M>(p, own0, other0);
			else
				add_scores_of<D, TILE, M>(p, tiles, other0);
			add_scores_of<D, TILE, M>(ds, tiles + M * SIZE, other1);
		}
		UNROLL
		for (int m = 0; m < M; m++)
			weights(p[m], ds[m], m, first);
		add_weighted<D, PART, M>(sum0, ds, other0);
		if constexpr (KEYS)
			add_weighted<D, PART, M>(sum1, p, other1);
	}

	/* One tile of the other side. */
	__device__ __forceinline__ void step()
	{
		float v[2];

		if constexpr (AHEAD) {
			tensor_wait<0>();
			__syncthreads(); /* this tile is here, and the one before is used */
			stage ^= 1;
			start();
			stage ^= 1;
			if (KEYS)
				read_sums(v);
			UNROLL
			for (int first = 0; first < TILE; first += PART)
				multiply(first);
			if (KEYS)
				write_sums(v, stage ^ 1);
			stage ^= 1;
		} else {
			__syncthreads(); /* until the one before is used */
			start();
			if (KEYS) {
				read_sums(v);
				write_sums(v, 0);
			}
			tensor_wait<0>();
			__syncthreads();
			multiply(0);
		}
		ahead += KEYS ? TILE : -TILE;
	}

	/* Loads this block's own rows, which begin at row `row`; `left` exist. */
	__device__ __forceinline__ void load_own(const void *a, uint64_t lda,
		const void *b, uint64_t ldb, const void *out, uint64_t row, unsigned left,
		uint64_t column)
	{
		tensor_wait<0>();
		__syncthreads(); /* until the previous tiles are used */
		s0.place(a, lda, row, left, column);
		s1.place(b, ldb, row, left, column);
		UNROLL
		for (int m = 0; m < M; m++) {
			s0.start(tiles + m * SIZE);
			s1.start(tiles + (M + m) * SIZE);
		}
		if (!KEYS) {
			s0.place(out, ldb, row, left, column);
			UNROLL
			for (int m = 0; m < M; m++)
				s0.start(tiles + (2 * M + m) * SIZE);
		}
		tensor_commit();
		tensor_wait<0>();
		__syncthreads();
		UNROLL
		for (int m = 0; m < M; m++) {
			if constexpr (HELD0)
				left_rows<D>(own0[m], tiles + m * SIZE);
			if constexpr (HELD) {
				left_rows<D>(own1[m], tiles + (M + m) * SIZE);
			}
			if constexpr (!KEYS)
				multiply_rows<D>(row_less[m], tiles + (M + m) * SIZE,
					tiles + (2 * M + m) * SIZE);
			for (int n = 0; n < D / 8; n++)
				for (int e = 0; e < 4; e++) {
					sum0[m][n][e] = 0;
					if constexpr (KEYS)
						sum1[m][n][e] = 0;
				}
		}
		if (HELD)
			__syncthreads(); /* until own rows are read */
	}
};

/* Where the rows of a task lie, and how many there are. */
struct own_rows {
	tile_task t;
	unsigned first, left;
	uint64_t row; /* of the first in all sequences */
};

/* n is hidden from the compiler: it would keep in registers, through all the products of a task,
 * what is computed again after them. */
__device__ __forceinline__ own_rows rows_of(unsigned n, const struct lm_attend &f,
	uint64_t heads, unsigned tile)
{
	own_rows r;

#ifdef __CUDA_ARCH__
	asm volatile("" : "+r"(n));
#endif
	r.t = tile_of(n, f.positions, heads, tile);
	r.first = (unsigned)r.t.first;
	r.left = (unsigned)f.positions - r.first;
	r.row = r.t.b * f.positions + r.first;
	return r;
}

/* Sums dk and dv of a task's keys. d: of each query of a head, from the kernel of queries. */
template <int D, int TILE, int M, bool FIRST_HELD>
__device__ __forceinline__ void sum_keys(const struct lm_attend_back &a,
	back<D, TILE, M, true, FIRST_HELD> &w, unsigned n, const float *d)
{
	const struct lm_attend *f = &a.forward;
	unsigned group = (unsigned)f->heads / (unsigned)f->kv_heads;
	own_rows r = rows_of(n, *f, f->kv_heads, w.OWN);

	w.lse_of = f->lse;
	w.d_of = d;
	w.load_own(f->k, f->ldk, f->v, f->ldk, NULL, r.row, r.left, r.t.h * D);
	for (unsigned i = 0; i < group; i++) {
		unsigned to = (unsigned)f->positions, g;

		if (AGAIN)
			r = rows_of(n, *f, f->kv_heads, w.OWN);
		g = (unsigned)r.t.h * group + i;
		/* queries from the first key on, up to the end of the window */
		if (w.window < r.left && r.first + w.OWN - 1 + w.window < to)
			to = r.first + w.OWN - 1 + w.window;
		tensor_wait<0>();
		__syncthreads(); /* until the previous head's tiles are used */
		w.s0.place(f->q, f->ldq, r.row, to - r.first, g * (uint64_t)D);
		w.s1.place(a.dout, f->ldo, r.row, to - r.first, g * (uint64_t)D);
		w.query = ((unsigned)r.t.b * (unsigned)f->heads + g) *
				(unsigned)f->positions +
			r.first + threadIdx.x;
		w.query_left = (int)(to - r.first);
		w.ahead = 0;
		w.begin();
		while (w.query_left > (w.AHEAD ? -TILE : 0))
			w.step();
	}
}

template <int D, int TILE, int M, bool FIRST_HELD>
__device__ __forceinline__ void back_keys(const struct lm_attend_back &a,
	back<D, TILE, M, true, FIRST_HELD> &w, unsigned n, const float *d)
{
	const struct lm_attend &f = a.forward;
	own_rows r;

	sum_keys<D, TILE, M, FIRST_HELD>(a, w, n, d);
	r = rows_of(n, f, f.kv_heads, M * TILE);
	UNROLL
	for (unsigned m = 0; m < M; m++) {
		unsigned row = m * TILE, rows = r.left > row ? r.left - row : 0;
		uint64_t at = (r.row + row) * f.ldk + r.t.h * D;

		rotate_back<D>(w.sum0[m], a, r.first + row, rows);
		store_tile<D>((uint16_t *)a.dk + at, f.ldk, rows, w.sum0[m], f.scale,
			f.scale);
		store_tile<D>((uint16_t *)a.dv + at, f.ldk, rows, w.sum1[m], 1, 1);
	}
}

/* Sums dq of a task's queries, and stores their d. */
template <int D, int TILE, int M>
__device__ __forceinline__ void sum_queries(const struct lm_attend_back &a,
	back<D, TILE, M, false, false> &w, const own_rows &r, float *d)
{
	const struct lm_attend *f = &a.forward;
	unsigned group = (unsigned)f->heads / (unsigned)f->kv_heads;
	unsigned to = r.left < w.OWN ? (unsigned)f->positions : r.first + w.OWN;
	unsigned j = first_key_of(w.window, r.first) / TILE * TILE;
	uint64_t key = r.row - (r.first - j),
		 kv_at = (unsigned)r.t.h / group * (uint64_t)D;
	uint64_t query = (r.t.b * f->heads + r.t.h) * f->positions + r.first;
	int last = (int)(to - r.first);

	w.load_own(f->q, f->ldq, a.dout, f->ldo, f->out, r.row, r.left, r.t.h * D);
	UNROLL
	for (int m = 0; m < M; m++)
		for (int half = 0; half < 2; half++) {
			unsigned row = m * TILE + row_of(2 * half);

			w.row_lse[m][half] = 0;
			if (row < r.left) {
				w.row_lse[m][half] = f->lse[query + row] * LOG2E;
				if (threadIdx.x % 4 == 0)
					d[query + row] = w.row_less[m][half];
			}
			w.row_less[m][half] = -w.row_less[m][half];
		}
	w.s0.place(f->k, f->ldk, key, to - j, kv_at);
	w.s1.place(f->v, f->ldk, key, to - j, kv_at);
	w.ahead = (int)(r.first - j);
	w.begin();
	while (w.ahead > -last)
		w.step();
}

template <int D, int TILE, int M>
__device__ __forceinline__ void back_queries(const struct lm_attend_back &a,
	back<D, TILE, M, false, false> &w, unsigned n, float *d)
{
	const struct lm_attend &f = a.forward;
	own_rows r;

	sum_queries<D, TILE, M>(a, w, rows_of(n, f, f.heads, M * TILE), d);
	r = rows_of(n, f, f.heads, M * TILE);
	UNROLL
	for (unsigned m = 0; m < M; m++) {
		unsigned row = m * TILE, rows = r.left > row ? r.left - row : 0;

		rotate_back<D>(w.sum0[m], a, r.first + row, rows);
		store_tile<D>((uint16_t *)a.dq + (r.row + row) * f.ldq + r.t.h * D, f.ldq,
			rows, w.sum0[m], f.scale, f.scale);
	}
}

struct back_memory {
	uint16_t *tiles;
	float *lse, *less;
};

struct back_scores {
	float factor;
	unsigned window;
};

template <int D, int TILE, int M, bool KEYS, bool FIRST_HELD>
__device__ __forceinline__ void back_tasks(const struct lm_attend_back &a, unsigned all,
	float *d, const struct back_memory &memory, const struct back_scores &scores)
{
	back<D, TILE, M, KEYS, KEYS && FIRST_HELD> w;

	w.tiles = memory.tiles;
	w.lse = memory.lse;
	w.less = memory.less;
	w.factor = scores.factor;
	w.window = scores.window;
	for (unsigned n = blockIdx.x; n < all; n += gridDim.x) {
		if constexpr (KEYS)
			back_keys<D, TILE, M>(a, w, n, d);
		else
			back_queries<D, TILE, M>(a, w, n, d);
	}
}
#endif

/* d: of each query of each head, where lse has it. factor, of scores to powers of two, and window
 * are arguments, which instructions read without a register. */
template <int D, int TILE, int M, bool KEYS>
__global__ void __launch_bounds__(2 * TILE, BLOCKS)
	attend_back_tensor_kernel(struct lm_attend_back a, unsigned all, float *d,
		float factor, unsigned window)
{
#if CUDA_TENSOR
	typedef back<D, TILE, M, KEYS, false> work;
	SHARED(uint4, tiles, work::TILES * work::SIZE / 8);
	SHARED(float, lse, KEYS ? 2 * TILE : 1);
	SHARED(float, less, KEYS ? 2 * TILE : 1);
	const struct back_memory memory = { (uint16_t *)(void *)tiles, lse, less };
	const struct back_scores scores = { factor, window };

#ifdef CUDA_EMU
	/* both ways to hold keys */
	if (KEYS && a.forward.positions % 2)
		back_tasks<D, TILE, M, KEYS, !KEPT>(a, all, d, memory, scores);
	else
#endif
		back_tasks<D, TILE, M, KEYS, KEPT>(a, all, d, memory, scores);
	tensor_wait<0>();
#else
	(void)a, (void)all, (void)d, (void)factor, (void)window;
#endif
}

/* --- launches ------------------------------------------------------------------------------ */

/* Sequences from b on, `batch` of them. */
static struct lm_attend_back sequences_of(const struct lm_attend_back *a, uint64_t b,
	uint64_t batch)
{
	struct lm_attend_back r = *a;
	const struct lm_attend *f = &a->forward;
	uint64_t rows = b * f->positions, q = rows * f->ldq, k = rows * f->ldk;

	r.forward.batch = batch;
	r.forward.q = (const uint16_t *)f->q + q;
	r.forward.k = (const uint16_t *)f->k + k;
	r.forward.v = (const uint16_t *)f->v + k;
	r.forward.out = (uint16_t *)f->out + rows * f->ldo;
	r.forward.lse = f->lse + rows * f->heads;
	r.dout = (const uint16_t *)a->dout + rows * f->ldo;
	r.dq = (uint16_t *)a->dq + q;
	r.dk = (uint16_t *)a->dk + k;
	r.dv = (uint16_t *)a->dv + k;
	return r;
}

/* the macro LAUNCH would split template arguments at their comma */
template <int D, int TILE, int M>
static int launch_back(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;
	unsigned kv = (unsigned)tiles_of(f->batch, f->positions, f->kv_heads, M * TILE);
	unsigned q = (unsigned)tiles_of(f->batch, f->positions, f->heads, M * TILE);
	void (*keys_kernel)(struct lm_attend_back, unsigned, float *, float,
		unsigned) = attend_back_tensor_kernel<D, TILE, M, true>;
	void (*queries_kernel)(struct lm_attend_back, unsigned, float *, float,
		unsigned) = attend_back_tensor_kernel<D, TILE, M, false>;
	cudaStream_t stream = cuda_of(d)->stream;

	float *sums = cuda_of(d)->lm_scratch;
	int rc = cuda_lm_attend_back_wide_queries(d, a, sums);

	if (rc > 0)
		LAUNCH(queries_kernel, cuda_grid(d, q, 1), 2 * TILE, stream, *a, q, sums,
			f->scale * LOG2E, window_of(f));
	if (rc >= 0)
		rc = cuda_lm_attend_back_wide_keys(d, a, sums);
	if (rc > 0)
		LAUNCH(keys_kernel, cuda_grid(d, kv, 1), 2 * TILE, stream, *a, kv, sums,
			f->scale * LOG2E, window_of(f));
	return rc < 0 ? -1 : lm_started(d);
}

int cuda_lm_attend_back_tensor(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;
	uint64_t each = f->positions * f->heads, most;

	/* a number of each query of some sequences is kept in scratch memory */
	if (!cuda_lm_attend_takes(d, f) || each > SUMS_MAX ||
		!lm_wide(LM_PACK, a->dout, a->dq, a->dk, a->dv))
		return 1;
	most = each ? SUMS_MAX / each : 0;
	for (uint64_t b = 0; b < f->batch && each; b += most) {
		struct lm_attend_back some = sequences_of(a, b,
			f->batch - b < most ? f->batch - b : most);

		/* the largest tiles that 48 KiB of shared memory and the registers allow */
		if ((f->head_dim == 64 ? launch_back<64, 32, 2>(d, &some) :
					 launch_back<128, 32, 1>(d, &some)) < 0)
			return -1;
	}
	return 0;
}
