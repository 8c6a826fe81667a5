/* swiglu_sm90a.cu - SwiGLU together with the product that its g and u are, by the tiles of
 * wgmma_tile.cuh: of a tile's columns half are g and half the u that belong to them, so that a lane
 * has both. They are rounded to bf16 and stored, as the gradient needs them, and what is stored is
 * what y is made of. Rows and hidden are multiples of 128. Contraction (-fmad) joins one
 * multiplication and addition of the exponential, within the bound of ops.h. */
#include "kernels/dev/wgmma_tile.cuh"
#include "kernels/lm/cuda.cuh"

#define SIDE 128 /* rows of a tile, and columns of g and of u */
/* A product with fewer tiles is split along k, as one without y is that is computed again: so both
 * have the same bits. */
#ifdef CUDA_EMU
#define TILES_MIN 1
#else
#define TILES_MIN (MMA_TILES_WANTED / 2 + 1)
#endif
#define SIZE_MAX_TAKEN ((uint64_t)1 << 29) /* coordinates have 32 bits */

#if CUDA_WGMMA
__device__ __forceinline__ float high_bf16(unsigned two)
{
	return bf16_to_f32((uint16_t)(two >> 16));
}

__device__ __forceinline__ float low_bf16(unsigned two)
{
	return bf16_to_f32((uint16_t)two);
}

__device__ __forceinline__ float swiglu_of(float g, float u)
{
	return g * lm_sigmoid(g) * u;
}

/* Stores a thread's part of a tile whose first row and column, of this thread, are i and j. */
__device__ __forceinline__ void store_tile(const struct lm_swiglu &s,
	const float (&sum)[128], uint64_t i, uint64_t j)
{
	UNROLL
	for (unsigned half = 0; half < 2; half++) {
		uint64_t row = i + 8 * half;
		uint16_t *x = (uint16_t *)s.product + row * 2 * s.hidden + j;
		uint16_t *y = (uint16_t *)s.y + row * s.hidden + j;

		UNROLL
		for (unsigned n = 0; n < SIDE / 8; n++) {
			unsigned at = 4 * n + 2 * half;
			unsigned g = cuda_two_bf16(sum[at], sum[at + 1]);
			unsigned u = cuda_two_bf16(sum[64 + at], sum[64 + at + 1]);

			*(unsigned *)(void *)(x + 8 * n) = g;
			*(unsigned *)(void *)(x + s.hidden + 8 * n) = u;
			*(unsigned *)(void *)(y + 8 * n) =
				cuda_two_bf16(swiglu_of(low_bf16(g), low_bf16(u)),
					swiglu_of(high_bf16(g), high_bf16(u)));
		}
	}
}
#endif

__global__ void __launch_bounds__(WIDE_THREADS, 1)
	swiglu_product_kernel(const GRID_CONSTANT wgmma_map a,
		const GRID_CONSTANT wgmma_map b, struct multiply m, struct lm_swiglu s,
		unsigned tasks)
{
#if CUDA_WGMMA
	LARGE_SHARED(uint4, memory, WIDE_BYTES / 16);
	wide_stages stages = wide_begin(memory);
	bool loads = threadIdx.x >= WIDE_GROUPS * WGMMA_GROUP;
	unsigned steps = (unsigned)((m.p.k + WIDE_DEPTH - 1) / WIDE_DEPTH);

	if (loads && threadIdx.x % 32)
		return;
	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		tile_place at = place_of(m, task, SIDE, SIDE);

		if (loads) {
			wide_load<false, false>(stages, &a, &b, (unsigned)at.i,
				(unsigned)at.j, (unsigned)(s.hidden + at.j), 0, steps);
		} else {
			float sum[128];

			wide_multiply<false, false>(sum, stages, steps);
			store_tile(s, sum, at.i + wide_row(), at.j + wide_column());
		}
	}
#else
	(void)a, (void)b, (void)m, (void)s, (void)tasks;
#endif
}

int cuda_lm_swiglu_product(struct dev *d, const struct lm_swiglu *s)
{
	uint64_t tiles = s->rows / SIDE * (s->hidden / SIDE);
	bool whole = s->rows % SIDE == 0 && s->hidden % SIDE == 0 && s->dim;
	unsigned blocks = (unsigned)cuda_of(d)->sm_count;
	struct multiply m = {};
	wgmma_map a, b;

	/* what follows a tile is not overlapped with the next: by prediction cuBLASLt's product and a
	 * kernel of its own are as fast where that library is there */
	if (!cuda_of(d)->wgmma || cuda_of(d)->lt || s->dtype != LM_DTYPE_BF16 ||
		s->gelu || !whole || tiles < TILES_MIN || s->rows >= SIZE_MAX_TAKEN ||
		s->dim >= SIZE_MAX_TAKEN || s->hidden >= SIZE_MAX_TAKEN ||
		tiles >= SIZE_MAX_TAKEN ||
		((uintptr_t)s->product | (uintptr_t)s->y) % 4 || s->dim % 8 ||
		wgmma_map_of(&a, s->in, s->rows, s->dim, s->dim, WIDE_BOX(false)) ||
		wgmma_map_of(&b, s->w, 2 * s->hidden, s->dim, s->dim, WIDE_BOX(false)))
		return 1;
	m.p.m = s->rows, m.p.n = s->hidden, m.p.k = s->dim;
	blocks = tiles < blocks ? (unsigned)tiles : blocks;
	CUDA_TRY(cudaFuncSetAttribute(swiglu_product_kernel,
		cudaFuncAttributeMaxDynamicSharedMemorySize, WIDE_BYTES));
	LAUNCH_LARGE(swiglu_product_kernel, blocks, WIDE_THREADS, WIDE_BYTES,
		cuda_of(d)->stream, a, b, m, *s, (unsigned)tiles);
	return lm_started(d);
}
