/* mma.cu - products on tensor cores, by the tiles of mma_tile.cuh. Deep products with few tiles are
 * split along k; their parts are added in order. Besides tensor cores there are additions alone:
 * contraction (-fmad) changes nothing. */
#include "kernels/dev/cuda/mma.cuh"

#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/dev/half.h"
#include "kernels/dev/cuda/mma_tile.cuh"

#define THREADS     128
#define PART_BYTES  ((uint64_t)2048) /* least depth of a product that is split */
#define SMALL_TILES 96               /* with fewer large tiles, small ones */

#if CUDA_TENSOR
/* Stores sums of columns j and j + 1 of row i; of a part, in its room. */
__device__ __forceinline__ void put_two(const struct multiply &m, unsigned part,
	uint64_t i, uint64_t j, float v0, float v1)
{
	if (i >= m.p.m || j >= m.p.n)
		return;
	if (m.room) {
		float *to = m.room + (part * m.p.m + i) * m.p.n + j;

		to[0] = v0;
		if (j + 1 < m.p.n)
			to[1] = v1;
	} else if (m.pairs && j + 1 < m.p.n && !m.from && !m.bias) {
		if (m.p.out == LT_F32)
			*(float2 *)(void *)((float *)m.p.c + i * m.p.ldc +
				j) = make_float2(v0, v1);
		else
			*(unsigned *)(void *)((uint16_t *)m.p.c + i * m.p.ldc +
				j) = cuda_two_bf16(v0, v1);
	} else {
		put(m, i, j, v0);
		if (j + 1 < m.p.n)
			put(m, i, j + 1, v1);
	}
}

__device__ __forceinline__ void put_two(const struct multiply &m, unsigned, uint64_t i,
	uint64_t j, int v0, int v1)
{
	int32_t *to = (int32_t *)m.p.c + i * m.p.ldc + j;

	if (i < m.p.m && j < m.p.n)
		to[0] = v0;
	if (i < m.p.m && j + 1 < m.p.n)
		to[1] = v1;
}

#endif

/* MI and NI: tiles of 16 rows of A and of 16 rows of B that a warp has; two by two warps. */
template <class T, bool A_TURNED, bool B_TURNED, int MI, int NI>
__global__ void __launch_bounds__(THREADS, 2)
	multiply_kernel(struct multiply m, unsigned tasks)
{
#if CUDA_TENSOR
	enum { CHUNKS = tile_memory<MI, NI>::ALL / 16 };
	SHARED(uint4, stages, CHUNKS);
	unsigned lane = threadIdx.x % 32;
	unsigned row = warp_row<MI>(), column = warp_column<NI>();

	static_assert(THREADS == MMA_THREADS, "the block of mma_tile.cuh");
	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		tile_place at = place_of(m, task, 32 * MI, 32 * NI);
		typename T::sum sum[MI][2 * NI][4] = {};

		multiply_tile<T, A_TURNED, B_TURNED, MI, NI, false>(sum, m, at,
			(unsigned char *)(void *)stages);
		UNROLL
		for (int i = 0; i < MI; i++)
			UNROLL
		for (int j = 0; j < 2 * NI; j++)
			for (int e = 0; e < 4; e += 2)
				put_two(m, at.part,
					at.i + row + 16 * (unsigned)i + lane / 4 +
						4 * (unsigned)e,
					at.j + column + 8 * (unsigned)j + lane % 4 * 2,
					sum[i][j][e], sum[i][j][e + 1]);
	}
#else
	(void)m, (void)tasks;
#endif
}

/* Adds up the parts, in order. */
__global__ void join_parts_kernel(struct multiply m)
{
	uint64_t all = m.p.m * m.p.n;

	for (uint64_t at = GRID_FIRST; at < all; at += GRID_STRIDE) {
		float v = 0;

		for (unsigned part = 0; part < m.parts; part++)
			v += m.room[part * all + at];
		put(m, at / m.p.n, at % m.p.n, v);
	}
}

/* --- on the host --------------------------------------------------------------------------- */

static uint64_t tiles_of(const struct lt_product *p, uint64_t side)
{
	return (p->m + side - 1) / side * ((p->n + side - 1) / side);
}

/* Splits k so that there are enough tiles, from the sizes alone. */
void cuda_mma_split(struct multiply *m, uint64_t tiles, uint64_t bytes,
	const struct mma_extra *extra)
{
	uint64_t most = m->p.k * bytes / PART_BYTES, parts = MMA_TILES_WANTED / tiles;
	uint64_t room = extra->room ? extra->room_floats / (m->p.m * m->p.n) : 0;

	parts = parts < most ? parts : most;
	parts = parts < room ? parts : room;
	m->parts = 1;
	m->part = m->p.k;
	m->room = NULL;
	if (parts < 2 || m->p.out == LT_I32)
		return;
	m->part = (m->p.k / parts + MMA_STEP_BYTES) / MMA_STEP_BYTES * MMA_STEP_BYTES;
	m->parts = (unsigned)((m->p.k + m->part - 1) / m->part);
	m->room = extra->room;
}

int cuda_mma_join(struct dev *d, const struct multiply *m)
{
	if (m->room)
		LAUNCH(join_parts_kernel, cuda_grid(d, m->p.m * m->p.n, 256), 256,
			cuda_of(d)->stream, *m);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

template <class T, bool A_TURNED, bool B_TURNED>
static int launch(struct dev *d, const struct multiply *m, bool small, uint64_t tasks)
{
	auto large_kernel = multiply_kernel<T, A_TURNED, B_TURNED, 4, 4>;
	auto small_kernel = multiply_kernel<T, A_TURNED, B_TURNED, 2, 2>;
	unsigned grid = (unsigned)tasks;
	cudaStream_t stream = cuda_of(d)->stream;

	if (small)
		LAUNCH(small_kernel, grid, THREADS, stream, *m, grid);
	else
		LAUNCH(large_kernel, grid, THREADS, stream, *m, grid);
	CUDA_TRY(cudaGetLastError());
	return cuda_mma_join(d, m);
}

/* Whether the kernels take it: types that they have, rows that can be copied 16 bytes at a time,
 * sizes that fit into 32 bits where that is what they count in. */
static bool takes(struct dev *d, const struct lt_product *p)
{
	uint64_t bytes = p->in == LT_I8 ? 1 : 2, most = (uint64_t)1 << 29;
	bool two = p->in == LT_BF16 && (p->out == LT_BF16 || p->out == LT_F32) &&
		(!p->a_turned || p->b_turned);
	bool plain = !p->a_turned && !p->b_turned;

	two = two || (plain && p->in == LT_F16 && p->out == LT_F32) ||
		(plain && p->in == LT_I8 && p->out == LT_I32);
	return two && cuda_tensor(d) && p->m && p->n && p->k && p->m < most &&
		p->n < most && p->k < most && tiles_of(p, 64) < most &&
		(((uintptr_t)p->a | (uintptr_t)p->b | p->lda * bytes | p->ldb * bytes) &
			15) == 0;
}

int cuda_mma_multiply(struct dev *d, const struct lt_product *p,
	const struct mma_extra *extra)
{
	struct multiply m = {};
	uint64_t each = p->out == LT_BF16 ? 2 : 4, tiles;
	bool small;

	if (!takes(d, p))
		return 1;
	m.p = *p;
	m.from = extra->from;
	m.bias = extra->bias;
	if (p->in == LT_BF16 && cuda_of(d)->wgmma) {
		int rc = cuda_wgmma_multiply(d, &m, extra);

		if (rc <= 0)
			return rc;
	}
	small = tiles_of(p, 128) < SMALL_TILES &&
		(p->m <= 64 || p->n <= 64 || p->k < 2048);
	tiles = tiles_of(p, small ? 64 : 128);
	cuda_mma_split(&m, tiles, p->in == LT_I8 ? 1 : 2, extra);
	m.pairs = p->ldc % 2 == 0 && (uintptr_t)p->c % (2 * each) == 0;
	tiles *= m.parts;
	if (p->in == LT_I8)
		return launch<i8_numbers, false, false>(d, &m, small, tiles);
	if (p->in == LT_F16)
		return launch<f16_numbers, false, false>(d, &m, small, tiles);
	if (p->a_turned)
		return launch<bf16_numbers, true, true>(d, &m, small, tiles);
	if (p->b_turned)
		return launch<bf16_numbers, false, true>(d, &m, small, tiles);
	return launch<bf16_numbers, false, false>(d, &m, small, tiles);
}
