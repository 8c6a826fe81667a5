/* gemm.cu - matrix products: by cuBLASLt (kernels/dev/cuda/lt.cu) if it is present, else by our own
 * kernels on tensor cores (kernels/dev/cuda/mma.cu), else by one that runs on every GPU and for
 * every alignment, with 64 x 64 tiles as f32 in shared memory and 4 x 4 results a thread. What the
 * library does not support (a bias, a scale, or an f32 addend for a bf16 result) goes through f32,
 * a few rows at a time. Contraction (-fmad) makes the steps of the plain kernel's sums
 * multiply-adds, within the bound of ops.h. */
#include "kernels/dev/cuda/lt.cuh"
#include "kernels/dev/cuda/mma.cuh"
#include "kernels/lm/cuda/cuda.cuh"

#define TILE  64
#define DEPTH 16

/* Return element (i, t) of A and element (j, t) of B, as the form stores them. */
template <bool LEADS, class T>
__device__ __forceinline__ float element(const T *m, uint64_t ld, uint64_t i, uint64_t t)
{
	return lm_f32(LEADS ? m[i * ld + t] : m[t * ld + i]);
}

/* Loads rows i0 .. i0 + 63 and t0 .. t0 + 15 into tile[t][i], with zeros beyond the edges.
 * LEADS: numbers of the same i are adjacent in memory. Neighbouring threads load neighbouring
 * numbers either way. */
template <bool LEADS, class T>
__device__ void load_tile(float *tile, const T *from, uint64_t ld, uint64_t rows,
	uint64_t depth, uint64_t i0, uint64_t t0)
{
	for (unsigned at = threadIdx.x; at < TILE * DEPTH; at += LM_THREADS) {
		unsigned i = LEADS ? at / DEPTH : at % TILE;
		unsigned t = LEADS ? at % DEPTH : at / TILE;
		bool inside = i0 + i < rows && t0 + t < depth;

		tile[t * (TILE + 1) + i] = inside ?
			element<LEADS, T>(from, ld, i0 + i, t0 + t) :
			0;
	}
}

__device__ __forceinline__ void put(const struct lm_gemm *g, uint64_t i, uint64_t j,
	float sum)
{
	sum *= lm_gemm_scale(g);
	if (g->from)
		sum += g->from[i * g->ldc + j];
	if (g->bias)
		sum += g->bias[j];
	if (g->out == LM_DTYPE_F32)
		((float *)g->c)[i * g->ldc + j] = sum;
	else
		lm_round(&((uint16_t *)g->c)[i * g->ldc + j], sum);
}

template <class T, bool A_LEADS, bool B_LEADS>
__device__ void product_tiles(const struct lm_gemm *g, float *a, float *b)
{
	uint64_t tiles_n = (g->n + TILE - 1) / TILE;
	uint64_t tiles = (g->m + TILE - 1) / TILE * tiles_n;
	unsigned y = threadIdx.x / 16, x = threadIdx.x % 16;

	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		uint64_t i0 = tile / tiles_n * TILE, j0 = tile % tiles_n * TILE;
		float sum[4][4] = {};

		for (uint64_t t0 = 0; t0 < g->k; t0 += DEPTH) {
			__syncthreads(); /* until the previous tiles are used */
			load_tile<A_LEADS, T>(a, (const T *)g->a, g->lda, g->m, g->k, i0,
				t0);
			load_tile<B_LEADS, T>(b, (const T *)g->b, g->ldb, g->n, g->k, j0,
				t0);
			__syncthreads();
			for (int t = 0; t < DEPTH; t++)
				for (int i = 0; i < 4; i++)
					for (int j = 0; j < 4; j++)
						sum[i][j] +=
							a[t * (TILE + 1) + y + 16 * i] *
							b[t * (TILE + 1) + x + 16 * j];
		}
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 4; j++)
				if (i0 + y + 16 * i < g->m && j0 + x + 16 * j < g->n)
					put(g, i0 + y + 16 * i, j0 + x + 16 * j,
						sum[i][j]);
	}
}

template <class T> __global__ void gemm_kernel(struct lm_gemm g)
{
	SHARED(float, a, DEPTH *(TILE + 1));
	SHARED(float, b, DEPTH *(TILE + 1));

	if (g.form == LM_XWT)
		product_tiles<T, true, true>(&g, a, b);
	else if (g.form == LM_XW)
		product_tiles<T, true, false>(&g, a, b);
	else
		product_tiles<T, false, false>(&g, a, b);
}

int cuda_lm_gemm_plain(struct dev *d, const struct lm_gemm *g)
{
	uint64_t tiles = ((g->m + TILE - 1) / TILE) * ((g->n + TILE - 1) / TILE);

	if (!tiles)
		return 0;
	LM_LAUNCH(g->dtype, gemm_kernel, cuda_grid(d, tiles, 1), LM_THREADS,
		cuda_of(d)->stream, *g);
	return lm_started(d);
}

/* C = f32 sums + from + bias, for the rows of C from `row` on; sums has row stride n. */
__global__ void finish_kernel(struct lm_gemm g, const float *sums, uint64_t row,
	uint64_t rows)
{
	for (uint64_t at = GRID_FIRST; at < rows * g.n; at += GRID_STRIDE)
		put(&g, row + at / g.n, at % g.n, sums[at]);
}

static struct lt_product product_of(const struct lm_gemm *g)
{
	struct lt_product p = {};

	p.in = g->dtype == LM_DTYPE_F32 ? LT_F32 : LT_BF16;
	p.out = g->out == LM_DTYPE_F32 ? LT_F32 : LT_BF16;
	p.a_turned = g->form == LM_XTX;
	p.b_turned = g->form != LM_XWT;
	p.m = g->m, p.n = g->n, p.k = g->k;
	p.lda = g->lda, p.ldb = g->ldb, p.ldc = g->ldc;
	p.c = g->c, p.a = g->a, p.b = g->b;
	return p;
}

/* Multiplies without bias, with `from` in the dtype of C. Returns as cuda_lt_multiply. */
static int by_library(struct dev *d, const struct lm_gemm *g)
{
	struct lt_product p = product_of(g);

	p.from = g->from;
	return cuda_lt_multiply(d, &p);
}

static int by_ours(struct dev *d, const struct lm_gemm *g)
{
	struct lt_product p = product_of(g);
	struct mma_extra extra = { g->from, g->bias, cuda_of(d)->lm_scratch,
		LM_SCRATCH_FLOATS };

	return cuda_mma_multiply(d, &p, &extra);
}

/* Multiplies a few rows at a time in f32 with the library and converts afterwards. Returns as
 * cuda_lt_multiply. */
static int in_pieces(struct dev *d, const struct lm_gemm *g)
{
	uint64_t largest = LM_SCRATCH_FLOATS / g->n / 64 * 64;
	const char *a = (const char *)g->a;
	struct lm_gemm part = *g;
	int rc = largest ? 0 : 1;

	part.c = cuda_of(d)->lm_scratch;
	part.out = LM_DTYPE_F32;
	part.from = part.bias = NULL;
	part.ldc = g->n;
	for (uint64_t row = 0; rc == 0 && row < g->m; row += largest) {
		uint64_t step = g->form == LM_XTX ? 1 : g->lda;

		part.m = g->m - row < largest ? g->m - row : largest;
		part.a = a + row * step * lm_dtype_bytes(g->dtype);
		rc = by_library(d, &part);
		if (rc == 0) {
			LAUNCH(finish_kernel, cuda_grid(d, part.m * g->n, LM_THREADS),
				LM_THREADS, cuda_of(d)->stream, *g, (const float *)part.c,
				row, part.m);
			rc = lm_started(d);
		}
	}
	return rc;
}

int cuda_lm_gemm(struct dev *d, const struct lm_gemm *g)
{
	bool scaled = lm_gemm_scale(g) != 1;
	bool plain = !g->bias && !scaled && (!g->from || g->out == LM_DTYPE_F32);
	int rc;

	if (!g->m || !g->n)
		return 0;
	rc = plain ? by_library(d, g) : in_pieces(d, g);
	if (rc > 0 && !scaled)
		rc = by_ours(d, g);
	return rc > 0 ? cuda_lm_gemm_plain(d, g) : rc;
}
