/* swiglu_tensor.cu - the gradient of SwiGLU together with the product that its dy is: a tile of the
 * product passes through shared memory as bf16, so that lanes have eight adjacent columns of it
 * and read g and u, and write dg and du, 16 bytes at a time. g and u are asked into the level-2
 * cache when the tile is begun. Sizes are multiples of a tile's. Contraction (-fmad) joins one
 * multiplication and addition of dg, within what rounding to bf16 changes. */
#include "kernels/dev/cuda/mma_tile.cuh"
#include "kernels/lm/cuda/cuda.cuh"

#define THREADS 128
#define SIDE    128 /* of a tile */
/* With fewer tiles, most of the GPU would wait; in the emulation a few are enough. */
#ifdef CUDA_EMU
#define TILES_MIN 1
#else
#define TILES_MIN 96
#endif
#define SIZE_MAX_TAKEN \
	((uint64_t)1 << 29) /* kernels/dev/cuda/mma_tile.cuh counts in 32 bits */

#if CUDA_TENSOR
#define WARP_SIDE (SIDE / 2)
/* a row of a warp's part is padded by eight numbers: eight rows lie in different banks */
#define STRIDE (WARP_SIDE + 8)

/* Asks for g and u of a tile: each thread a line of 128 bytes of both, at four places. */
__device__ __forceinline__ void ask_gates(const struct lm_swiglu_back &s,
	const tile_place &at)
{
	UNROLL
	for (unsigned k = 0; k < SIDE * SIDE * 2 / 128 / THREADS; k++) {
		unsigned line = k * THREADS + threadIdx.x;
		uint64_t r = at.i + line / 2, j = at.j + line % 2 * 64;
		const uint16_t *x = (const uint16_t *)s.x + r * 2 * s.hidden + j;

		tensor_ask(x);
		tensor_ask(x + s.hidden);
	}
}

/* Eight columns of a row at x, of which dy are at `from`; y is NULL or where the forward result
 * goes. */
__device__ __forceinline__ void finish_pack(const uint16_t *x, uint16_t *dx, uint16_t *y,
	uint64_t hidden, const uint16_t *from)
{
	float g[LM_PACK], u[LM_PACK], dy[LM_PACK], act[LM_PACK];

	lm_load(g, x, LM_PACK, true);
	lm_load(u, x + hidden, LM_PACK, true);
	lm_load(dy, from, LM_PACK, true);
	UNROLL
	for (int k = 0; k < LM_PACK; k++) {
		float s = lm_sigmoid(g[k]), gate = g[k] * s;

		act[k] = gate * u[k];
		g[k] = dy[k] * u[k] * (s + gate * (1 - s));
		u[k] = dy[k] * gate;
	}
	lm_store(dx, g, LM_PACK, true);
	lm_store(dx + hidden, u, LM_PACK, true);
	if (y)
		lm_store(y, act, LM_PACK, true);
}

/* A warp's part of a tile, whose first row and column are r and j: each lane has eight columns of
 * every eighth row, and of those 32 columns further. */
__device__ __forceinline__ void finish_part(const struct lm_swiglu_back &s, uint64_t r,
	uint64_t j, const uint16_t *part)
{
	unsigned lane = threadIdx.x % 32;
	uint64_t row = r + lane % 8, at = j + lane / 8 * LM_PACK;
	const uint16_t *x = (const uint16_t *)s.x + row * 2 * s.hidden + at;
	uint16_t *dx = (uint16_t *)s.dx + row * 2 * s.hidden + at;
	uint16_t *y = s.y ? (uint16_t *)s.y + row * s.hidden + at : NULL;

	part += lane % 8 * STRIDE + lane / 8 * LM_PACK;
	UNROLL_1
	for (int n = 0; n < WARP_SIDE; n += 8) {
		finish_pack(x, dx, y, s.hidden, part);
		finish_pack(x + 32, dx + 32, y ? y + 32 : NULL, s.hidden, part + 32);
		x += 16 * s.hidden;
		dx += 16 * s.hidden;
		y = y ? y + 8 * s.hidden : NULL;
		part += 8 * STRIDE;
	}
}
#endif

__global__ void __launch_bounds__(THREADS, 2)
	swiglu_back_product_kernel(struct multiply m, struct lm_swiglu_back s,
		unsigned tasks)
{
#if CUDA_TENSOR
	enum { CHUNKS = tile_memory<4, 4>::ALL / 16 };
	SHARED(uint4, stages, CHUNKS);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint16_t *part = (uint16_t *)(void *)stages + warp * WARP_SIDE * STRIDE;

	static_assert(THREADS == MMA_THREADS, "the block of mma_tile.cuh");
	static_assert(4 * WARP_SIDE * STRIDE * 2 <= CHUNKS * 16, "all parts of a tile");
	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		tile_place at = place_of(m, task, SIDE, SIDE);
		float sum[4][8][4] = {};

		ask_gates(s, at);
		multiply_tile<bf16_numbers, false, true, 4, 4, true>(sum, m, at,
			(unsigned char *)(void *)stages);
		__syncthreads(); /* until the stages are used */
		UNROLL
		for (int i = 0; i < 4; i++)
			UNROLL
		for (int j = 0; j < 8; j++)
			for (int e = 0; e < 4; e += 2)
				*(unsigned *)(void *)(part +
					(16 * i + lane / 4 + 4 * e) * STRIDE + 8 * j +
					lane % 4 * 2) = cuda_two_bf16(sum[i][j][e],
					sum[i][j][e + 1]);
		__syncwarp();
		finish_part(s, at.i + warp_row<4>(), at.j + warp_column<4>(), part);
	}
#else
	(void)m, (void)s, (void)tasks;
#endif
}

int cuda_lm_swiglu_back_product(struct dev *d, const struct lm_swiglu_back *s)
{
	uint64_t tiles = s->rows / SIDE * (s->hidden / SIDE);
	bool whole = s->rows % SIDE == 0 && s->hidden % SIDE == 0 &&
		s->dim % (MMA_STEP_BYTES / 2) == 0;
	bool wide = lm_wide(s->hidden, s->dx, s->y, s->x, s->w) &&
		lm_wide(s->dim, s->dout, NULL, NULL, NULL);
	struct multiply m = {};

	if (!cuda_tensor(d) || s->dtype != LM_DTYPE_BF16 || !whole || !wide || !s->dim ||
		tiles < TILES_MIN || s->rows >= SIZE_MAX_TAKEN ||
		s->hidden >= SIZE_MAX_TAKEN || s->dim >= SIZE_MAX_TAKEN ||
		tiles >= SIZE_MAX_TAKEN)
		return 1;
	m.p.a = s->dout, m.p.b = s->w;
	m.p.m = s->rows, m.p.n = s->hidden, m.p.k = m.part = s->dim;
	m.p.lda = s->dim, m.p.ldb = s->hidden;
	LAUNCH(swiglu_back_product_kernel, (unsigned)tiles, THREADS, cuda_of(d)->stream,
		m, *s, (unsigned)tiles);
	return lm_started(d);
}
