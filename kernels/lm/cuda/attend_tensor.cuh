/* attend_tensor.cuh - what both passes of attention on tensor cores share: tiles of rows in shared
 * memory, loaded while others are multiplied; products of tiles; and which keys a query sees. */
#ifndef RNP_KERNELS_LM_ATTEND_TENSOR_CUH
#define RNP_KERNELS_LM_ATTEND_TENSOR_CUH

#include "kernels/dev/cuda/tensor.cuh"
#include "kernels/lm/cuda/cuda.cuh"

#define LOG2E 1.4426950408889634f
#define LN2   0.6931471805599453f

/* a row of a tile is padded by eight numbers, so that eight rows of 16 bytes lie in different
 * banks */
#define STRIDE(D) ((D) + 8)

/* The work of one thread block: a tile of rows of a head. Tiles that see the most keys come
 * first. */
struct tile_task {
	uint64_t b, h, first;
};

static inline uint64_t tiles_of(uint64_t batch, uint64_t length, uint64_t heads,
	unsigned tile)
{
	return batch * heads * ((length + tile - 1) / tile);
}

/* Whether these kernels support the GPU and the shape: compute capability, head width, 16-byte
 * alignment, sizes that fit into 32 bits. The largest score is looked for before it is scaled,
 * so that the scale must be positive. */
bool cuda_lm_attend_takes(struct dev *d, const struct lm_attend *a);

/* The window, where 0 is the largest. */
HD unsigned window_of(const struct lm_attend *a)
{
	return a->window && a->window < 0x7fffffff ? (unsigned)a->window : 0x7fffffff;
}

#if CUDA_TENSOR
__device__ __forceinline__ tile_task tile_of(uint64_t n, uint64_t length, uint64_t heads,
	unsigned tile)
{
	/* cuda_lm_attend_takes has checked that they fit: a 64-bit division is a function call,
	 * around which registers are spilled */
	unsigned tiles = (unsigned)((length + tile - 1) / tile), all = (unsigned)n;
	unsigned h = (unsigned)heads, rest = all / h;
	tile_task t;

	t.h = all % h;
	t.first = (uint64_t)(tiles - 1 - rest % tiles) * tile;
	t.b = rest / tiles;
	return t;
}

/* The first of this block's tasks; of block gridDim.x the end of all. */
__device__ __forceinline__ unsigned first_task(unsigned all, unsigned block)
{
	unsigned each = all / gridDim.x, more = all % gridDim.x;

	return block * each + (block < more ? block : more);
}

/* --- which keys a query sees --------------------------------------------------------------- */

/* Tile-relative query i sees key j if i + ahead - j is from 0 to window - 1: ahead is the
 * position of the tile's first query less that of its first key. */
__device__ __forceinline__ bool visible(int i, int j, int ahead, unsigned window)
{
	return (unsigned)(i - j + ahead) < window;
}

/* Whether all of `queries` see all of `keys`. Most tiles are such and need no mask. */
__device__ __forceinline__ bool all_visible(int ahead, unsigned window, int queries,
	int keys)
{
	return ahead >= keys - 1 && (unsigned)(ahead + queries - 1) < window;
}

/* The first key that the query at position p sees. */
__device__ __forceinline__ unsigned first_key_of(unsigned window, unsigned p)
{
	return p + 1 > window ? p + 1 - window : 0;
}

/* --- tiles --------------------------------------------------------------------------------- */

/* One tile after the other of a head's rows, loaded by 2 TILE threads: this thread's 16 bytes
 * of a row, and of every EACH-th after it. Rows from `rows` on are zeros. */
template <int D, int TILE> struct tile_source {
	static constexpr unsigned EACH = TILE * 16 / D;
	const uint16_t *at;
	unsigned ld;
	int left; /* rows from this thread's on */

	/* Begins with row `first` of the matrix, from which on `rows` exist. */
	__device__ __forceinline__ void place(const void *base, uint64_t stride,
		uint64_t first, unsigned rows, uint64_t column)
	{
		unsigned row = threadIdx.x / (D / 8);

		left = (int)(rows - row);
		ld = (unsigned)stride;
		at = (const uint16_t *)base + (first + row) * stride + column +
			threadIdx.x % (D / 8) * 8;
	}

	/* Starts to load the next tile; the caller commits. WHOLE: all of its rows exist. */
	template <bool WHOLE = false>
	__device__ __forceinline__ void start(uint16_t *tile)
	{
		uint16_t *to = tile + threadIdx.x / (D / 8) * STRIDE(D) +
			threadIdx.x % (D / 8) * 8;

		UNROLL
		for (unsigned k = 0; k < D / 16; k++)
			tensor_copy(to + k * EACH * STRIDE(D),
				at + (uint64_t)(k * EACH) * ld,
				WHOLE || left > (int)(k * EACH) ? 16 : 0);
		at += (uint64_t)TILE * ld;
		left -= TILE;
	}
};

/* Loads the operand A of 16 rows from `row` on and 16 columns from c on of a tile. */
template <int D>
__device__ __forceinline__ void left_part(unsigned (&a)[4], const uint16_t *tile,
	unsigned row, unsigned c)
{
	unsigned lane = threadIdx.x % 32;

	tensor_matrices<false>(a,
		tile + (row + lane % 16) * STRIDE(D) + c + lane / 16 * 8);
}

/* The same of all columns, for this warp's 16 rows. */
template <int D>
__device__ __forceinline__ void left_rows(unsigned (&a)[D / 16][4], const uint16_t *tile)
{
	UNROLL
	for (int k = 0; k < D / 16; k++)
		left_part<D>(a[k], tile, threadIdx.x / 32 * 16, 16 * k);
}

/* s[m][n] += own[m] times rows 8 n .. of other, along D. */
template <int D, int TILE, int M>
__device__ __forceinline__ void add_scores(float (&s)[M][TILE / 8][4],
	const unsigned (&own)[M][D / 16][4], const uint16_t *other)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned n = 0; n < TILE / 8; n++) {
		UNROLL
		for (unsigned c = 0; c < D; c += 32) {
			unsigned b[4];

			tensor_matrices<false>(b,
				other + (8 * n + lane % 8) * STRIDE(D) + c +
					lane / 8 * 8);
			UNROLL
			for (int m = 0; m < M; m++) {
				tensor_mma_bf16(s[m][n], own[m][c / 16], b[0], b[1]);
				tensor_mma_bf16(s[m][n], own[m][c / 16 + 1], b[2], b[3]);
			}
		}
	}
}

/* The same for this warp's 16 rows of each of M tiles `own` in shared memory. */
template <int D, int TILE, int M>
__device__ __forceinline__ void add_scores_of(float (&s)[M][TILE / 8][4],
	const uint16_t *own, const uint16_t *other)
{
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;

	UNROLL
	for (unsigned c = 0; c < D; c += 16) {
		unsigned a[M][4];

		UNROLL
		for (int m = 0; m < M; m++)
			left_part<D>(a[m], own + m * TILE * STRIDE(D), row, c);
		UNROLL
		for (unsigned n = 0; n < TILE / 8; n += 2) {
			unsigned b[4];

			tensor_matrices<false>(b,
				other + (8 * n + lane / 16 * 8 + lane % 8) * STRIDE(D) +
					c + lane / 8 % 2 * 8);
			UNROLL
			for (int m = 0; m < M; m++) {
				tensor_mma_bf16(s[m][n], a[m], b[0], b[1]);
				tensor_mma_bf16(s[m][n + 1], a[m], b[2], b[3]);
			}
		}
	}
}

/* sum[m][d] += weights times columns 8 d .. of a tile, along its rows. The registers that hold a
 * product's result are in the layout of operand A of the next. */
template <int D, int TILE, int M>
__device__ __forceinline__ void add_weighted(float (&sum)[M][D / 8][4],
	const float (&w)[M][TILE / 8][4], const uint16_t *tile)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned k = 0; k < TILE / 16; k++) {
		unsigned a[M][4];

		UNROLL
		for (int m = 0; m < M; m++)
			for (int e = 0; e < 4; e++)
				a[m][e] = cuda_two_bf16(w[m][2 * k + e / 2][e % 2 * 2],
					w[m][2 * k + e / 2][e % 2 * 2 + 1]);
		UNROLL
		for (unsigned n = 0; n < D / 16; n++) {
			unsigned b[4];

			tensor_matrices<true>(b,
				tile + (16 * k + lane % 16) * STRIDE(D) + 16 * n +
					lane / 16 * 8);
			UNROLL
			for (int m = 0; m < M; m++) {
				tensor_mma_bf16(sum[m][2 * n], a[m], b[0], b[1]);
				tensor_mma_bf16(sum[m][2 * n + 1], a[m], b[2], b[3]);
			}
		}
	}
}

/* Return the row of element e of a fragment within the block's 16 rows a warp, and its column
 * among 8. */
__device__ __forceinline__ unsigned row_of(int e)
{
	return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (unsigned)e / 2 * 8;
}

__device__ __forceinline__ unsigned column_of(int e)
{
	return threadIdx.x % 4 * 2 + (unsigned)e % 2;
}

/* --- softmax of the forward pass -------------------------------------------------------------- */

/* What a query does not see becomes -infinity. */
template <int KEYS, int M>
__device__ __forceinline__ void mask(float (&s)[M][KEYS / 8][4], int ahead,
	unsigned window)
{
	UNROLL
	for (int m = 0; m < M; m++)
		for (int n = 0; n < KEYS / 8; n++)
			for (int e = 0; e < 4; e++)
				s[m][n][e] = visible(64 * m + (int)row_of(e),
						     8 * n + (int)column_of(e), ahead,
						     window) ?
					s[m][n][e] :
					-INFINITY;
}

/* Turns the scores in the row of elements e and e + 1 into weights; four lanes share a row.
 * factor converts scores to base 2; total is this lane's part of the sum. Returns the factor by
 * which earlier sums shrink. EDGE: some are not seen. */
template <int KEYS, bool EDGE>
__device__ __forceinline__ float weigh(float (&s)[KEYS / 8][4], int e, float factor,
	float *largest, float *total)
{
	float more = *largest, less, shrink, sum = 0;

	UNROLL
	for (int n = 0; n < KEYS / 8; n++)
		more = fmaxf(more, fmaxf(s[n][e], s[n][e + 1]));
	more = fmaxf(more, __shfl_xor_sync(LM_ALL, more, 2));
	more = fmaxf(more, __shfl_xor_sync(LM_ALL, more, 1));
	/* while no key is visible, all weights are 2^-infinity and the sums that shrink are 0 */
	less = EDGE && more == -INFINITY ? 0 : more * factor;
	shrink = lm_exp2(*largest * factor - less);
	UNROLL
	for (int n = 0; n < KEYS / 8; n++)
		for (int k = e; k < e + 2; k++) {
			s[n][k] = lm_exp2(s[n][k] * factor - less);
			sum += s[n][k];
		}
	*total = *total * shrink + sum;
	*largest = more;
	return shrink;
}

/* --- results --------------------------------------------------------------------------------- */

__device__ __forceinline__ void turn_back(float &x, float &y, const float *cos_sin)
{
	float c = cos_sin[0], s = cos_sin[1], was = x;

	x = was * c + y * s;
	y = y * c - was * s;
}

/* Rotates this warp's rows of a gradient back; row 0 of the tile has position `first`, and `left`
 * exist. Both numbers of a pair are in the same lane. */
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

/* Stores this warp's rows of a tile whose row 0 lies at `to`; the first `rows` exist. */
template <int D>
__device__ __forceinline__ void store_tile(uint16_t *to, uint64_t ld, uint64_t rows,
	const float (&sum)[D / 8][4], float upper, float lower)
{
	UNROLL
	for (int n = 0; n < D / 8; n++)
		for (int e = 0; e < 4; e += 2) {
			unsigned row = row_of(e);
			float f = e ? lower : upper;

			if (row < rows)
				*(unsigned *)(void *)(to + row * ld + 8 * n +
					column_of(e)) = cuda_two_bf16(sum[n][e] * f,
					sum[n][e + 1] * f);
		}
}
#endif

#endif
