/* swiglu_sm90a.cu - SwiGLU together with the product that its g and u are, by the tiles of
 * kernels/dev/cuda/wgmma_tile.cuh: of a tile's columns half are g and half the u that belong to
 * them, so that a lane has both. They are rounded to bf16 and stored, as the gradient needs them,
 * and what is stored is what y is made of. A tile stays in registers as bf16, and is stored, and
 * its y made, while tensor cores multiply the next one (as softmax is of FlashAttention-3: Shah et
 * al. 2024). Rows and hidden are multiples of 128. Contraction (-fmad) joins one multiplication and
 * addition of the exponential, within the bound of ops.h. */
#include "kernels/dev/cuda/wgmma_tile.cuh"
#include "kernels/lm/cuda/cuda.cuh"

#define SIDE 128 /* rows of a tile, and columns of g and of u */
/* a whole warpgroup loads, so that it can leave its registers to the others: of the 16,384 of a
 * quarter of an SM the three warps that it has may have 512 for each lane */
#define THREADS ((WIDE_GROUPS + 1) * WGMMA_GROUP)
/* steps while which the tile before is stored */
#define STEPS_MIN          8
#define LOAD_REGISTERS     40
#define MULTIPLY_REGISTERS 232
/* With fewer tiles most of the GPU would wait; in the emulation a few are enough. */
#ifdef CUDA_EMU
#define TILES_MIN 1
#else
#define TILES_MIN 100
#endif
#define SIZE_MAX_TAKEN ((uint64_t)1 << 29) /* coordinates have 32 bits */

#if CUDA_WGMMA && WGMMA_UNEQUAL
__device__ __forceinline__ float swiglu_of(float g, float u)
{
	return g * lm_sigmoid(g) * u;
}

/* A thread's part of a tile, in pairs of bf16: 16 of g for each of two rows, and of u. It is stored
 * in parts while tensor cores make the next tile's. */
template <bool FORWARD> struct gates {
	enum { PAIRS = SIDE / 8, PARTS = STEPS_MIN };
	unsigned g[2][PAIRS], u[2][PAIRS];
	uint16_t *x, *y; /* where the first of them goes */
	uint64_t hidden;
	bool there;

	__device__ __forceinline__ void take(const float (&sum)[128])
	{
		UNROLL
		for (unsigned half = 0; half < 2; half++)
			UNROLL
		for (unsigned n = 0; n < PAIRS; n++) {
			unsigned at = 4 * n + 2 * half;

			g[half][n] = cuda_two_bf16(sum[at], sum[at + 1]);
			u[half][n] = cuda_two_bf16(sum[64 + at], sum[64 + at + 1]);
		}
		there = true;
	}

	__device__ __forceinline__ void part(unsigned which)
	{
		if (!there)
			return;
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			uint16_t *to = x + half * 16 * hidden,
				 *out = y + half * 8 * hidden;

			UNROLL
			for (unsigned i = 0; i < PAIRS / PARTS; i++) {
				unsigned n = which * (PAIRS / PARTS) + i;
				unsigned a = g[half][n], b = u[half][n];

				*(unsigned *)(void *)(to + 8 * n) = a;
				*(unsigned *)(void *)(to + hidden + 8 * n) = b;
				if (FORWARD)
					*(unsigned *)(void *)(out + 8 * n) =
						cuda_two_bf16(swiglu_of(lm_low(a),
								      lm_low(b)),
							swiglu_of(lm_high(a),
								lm_high(b)));
			}
		}
	}
};
#endif

/* FORWARD: y is wanted, too. */
template <bool FORWARD>
__global__ void __launch_bounds__(THREADS, 1)
	swiglu_product_kernel(const GRID_CONSTANT wgmma_map a,
		const GRID_CONSTANT wgmma_map b, struct multiply m, struct lm_swiglu s,
		unsigned tasks)
{
#if CUDA_WGMMA && WGMMA_UNEQUAL
	LARGE_SHARED(uint4, memory, WIDE_BYTES / 16);
	wide_stages stages = wide_begin(memory);
	unsigned steps = (unsigned)((m.p.k + WIDE_DEPTH - 1) / WIDE_DEPTH);

	if (threadIdx.x >= WIDE_GROUPS * WGMMA_GROUP) {
		wgmma_registers_less<LOAD_REGISTERS>();
		if (threadIdx.x % WGMMA_GROUP)
			return;
		for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
			tile_place at = place_of(m, task, SIDE, SIDE);

			wide_load<false, false>(stages, &a, &b, (unsigned)at.i,
				(unsigned)at.j, (unsigned)(s.hidden + at.j), 0, steps);
		}
	} else {
		gates<FORWARD> done;

		wgmma_registers_more<MULTIPLY_REGISTERS>();
		done.there = false;
		done.x = done.y = NULL;
		done.hidden = s.hidden;
		for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
			tile_place at = place_of(m, task, SIDE, SIDE);
			uint64_t row = at.i + wide_row(), column = at.j + wide_column();
			float sum[128];

			wide_multiply_beside<false, false>(sum, stages, steps, done);
			done.take(sum);
			done.x = (uint16_t *)s.product + row * 2 * s.hidden + column;
			done.y = (uint16_t *)s.y + row * s.hidden + column;
		}
		UNROLL
		for (unsigned i = 0; i < gates<FORWARD>::PARTS; i++)
			done.part(i);
	}
#else
	(void)a, (void)b, (void)m, (void)s, (void)tasks;
#endif
}

template <bool FORWARD>
static int launch(struct dev *d, const struct lm_swiglu *s, const struct multiply *m,
	const wgmma_map *a, const wgmma_map *b, unsigned tiles)
{
	auto kernel = swiglu_product_kernel<FORWARD>;
	unsigned blocks = (unsigned)cuda_of(d)->sm_count;

	blocks = tiles < blocks ? tiles : blocks;
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		WIDE_BYTES));
	LAUNCH_LARGE(kernel, blocks, THREADS, WIDE_BYTES, cuda_of(d)->stream, *a, *b, *m,
		*s, tiles);
	return lm_started(d);
}

int cuda_lm_swiglu_product(struct dev *d, const struct lm_swiglu *s)
{
	uint64_t tiles = s->rows / SIDE * (s->hidden / SIDE);
	bool whole = s->rows % SIDE == 0 && s->hidden % SIDE == 0;
	struct multiply m = {};
	wgmma_map a, b;

	/* also where cuBLASLt is there: its product and a kernel of their own move 6 bytes of each
	 * number of y besides */
	if (!WGMMA_UNEQUAL || !cuda_of(d)->wgmma || s->dtype != LM_DTYPE_BF16 ||
		s->gelu || !whole || s->dim <= (STEPS_MIN - 1) * WIDE_DEPTH ||
		tiles < TILES_MIN || s->rows >= SIZE_MAX_TAKEN ||
		s->dim >= SIZE_MAX_TAKEN || s->hidden >= SIZE_MAX_TAKEN ||
		tiles >= SIZE_MAX_TAKEN ||
		((uintptr_t)s->product | (uintptr_t)s->y) % 4 || s->dim % 8 ||
		wgmma_map_of(&a, s->in, s->rows, s->dim, s->dim, WIDE_BOX(false)) ||
		wgmma_map_of(&b, s->w, 2 * s->hidden, s->dim, s->dim, WIDE_BOX(false)))
		return 1;
	m.p.m = s->rows, m.p.n = s->hidden, m.p.k = s->dim;
	return s->y ? launch<true>(d, s, &m, &a, &b, (unsigned)tiles) :
		      launch<false>(d, s, &m, &a, &b, (unsigned)tiles);
}
