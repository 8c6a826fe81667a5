/* product_sm90a.cu - products of bf16 by wgmma, for GPUs of compute capability 9.0 without
 * cuBLASLt; and the maps that the TMA needs. A pair of columns is stored by each lane, so that four
 * write half a sector of bf16 and the next pair the other half: 1,024 cycles of a tile's at least
 * 16,000 at a depth of 1,024. Besides wgmma there are additions alone: contraction (-fmad) changes
 * nothing. */
#include "kernels/dev/cuda/mma.cuh"
#include "kernels/dev/cuda/wgmma_tile.cuh"

#include <stdlib.h>

/* With fewer tiles most of the GPU would wait; in the emulation those of mma.cu stay tested. */
#ifdef CUDA_EMU
#define ENOUGH(q, tiles) ((q)->m > WIDE_ROWS && (q)->n > WIDE_COLUMNS)
#else
#define ENOUGH(q, tiles) ((tiles) >= 100)
#endif

#if CUDA_WGMMA
template <bool F32>
__device__ __forceinline__ void store_two(void *to, uint64_t at, float v0, float v1,
	bool two, bool pair)
{
	float *f = (float *)to + at;
	uint16_t *h = (uint16_t *)to + at;
	unsigned both = F32 ? 0 : cuda_two_bf16(v0, v1);

	if (F32 && pair) {
		*(float2 *)(void *)f = make_float2(v0, v1);
	} else if (F32) {
		f[0] = v0;
		if (two)
			f[1] = v1;
	} else if (pair) {
		*(unsigned *)(void *)h = both;
	} else {
		h[0] = (uint16_t)both;
		if (two)
			h[1] = (uint16_t)(both >> 16);
	}
}

/* Stores a thread's part of a tile that is inside, of pairs that are aligned; FROM: added to what
 * is there. */
template <bool F32, bool FROM>
__device__ __forceinline__ void store_whole(void *to, const float *from, uint64_t ld,
	const float (&sum)[128], uint64_t i, uint64_t j)
{
	UNROLL
	for (unsigned half = 0; half < 2; half++) {
		uint64_t at = (i + 8 * half) * ld + j;

		UNROLL
		for (unsigned n = 0; n < 32; n++) {
			float v0 = sum[4 * n + 2 * half], v1 = sum[4 * n + 2 * half + 1];

			if (FROM) {
				v0 += from[at + 8 * n];
				v1 += from[at + 8 * n + 1];
			}
			store_two<F32>(to, at + 8 * n, v0, v1, true, true);
		}
	}
}

/* Stores a thread's part of a tile whose first row and column, of this thread, are i and j; of a
 * product that is split, into its part of the room. inside: all of the tile is. */
template <bool F32>
__device__ __forceinline__ void store_tile(const struct multiply &m,
	const float (&sum)[128], unsigned part, uint64_t i, uint64_t j, bool inside)
{
	uint64_t ld = m.room ? m.p.n : m.p.ldc;
	void *to = m.room ? (void *)(m.room + part * m.p.m * m.p.n) : m.p.c;
	bool pairs = m.room ? m.p.n % 2 == 0 : m.pairs;
	const float *from = m.room ? NULL : m.from, *bias = m.room ? NULL : m.bias;

	if (inside && pairs && !bias) {
		if (from)
			store_whole<F32, true>(to, from, ld, sum, i, j);
		else
			store_whole<F32, false>(to, from, ld, sum, i, j);
		return;
	}
	UNROLL
	for (unsigned half = 0; half < 2; half++) {
		uint64_t row = i + 8 * half;

		if (row >= m.p.m)
			continue;
		UNROLL
		for (unsigned n = 0; n < 32; n++) {
			uint64_t column = j + 8 * n, at = row * ld + column;
			float v0 = sum[4 * n + 2 * half], v1 = sum[4 * n + 2 * half + 1];
			bool two = column + 1 < m.p.n;

			if (column >= m.p.n)
				continue;
			if (from) {
				v0 += from[at];
				v1 += two ? from[at + 1] : 0;
			}
			if (bias) {
				v0 += bias[column];
				v1 += two ? bias[column + 1] : 0;
			}
			store_two<F32>(to, at, v0, v1, two, two && pairs);
		}
	}
}
#endif

/* F32: of C, and of the room of parts. */
template <bool A_TURNED, bool B_TURNED, bool F32>
__global__ void __launch_bounds__(WIDE_THREADS, 1)
	wide_product_kernel(const GRID_CONSTANT wgmma_map a,
		const GRID_CONSTANT wgmma_map b, struct multiply m, unsigned tasks)
{
#if CUDA_WGMMA
	LARGE_SHARED(uint4, memory, WIDE_BYTES / 16);
	wide_stages s = wide_begin(memory);
	bool loads = threadIdx.x >= WIDE_GROUPS * WGMMA_GROUP;

	if (loads && threadIdx.x % 32)
		return;
	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		tile_place at = place_of(m, task, WIDE_ROWS, WIDE_COLUMNS);
		uint64_t k0 = at.part * m.part;
		uint64_t k1 = m.p.k - k0 < m.part ? m.p.k : k0 + m.part;
		unsigned steps = (unsigned)((k1 - k0 + WIDE_DEPTH - 1) / WIDE_DEPTH);

		if (loads) {
			wide_load<A_TURNED, B_TURNED>(s, &a, &b, (unsigned)at.i,
				(unsigned)at.j, (unsigned)at.j + WIDE_COLUMNS / 2,
				(unsigned)k0, steps);
		} else {
			float sum[128];

			wide_multiply<A_TURNED, B_TURNED>(sum, s, steps);
			store_tile<F32>(m, sum, at.part, at.i + wide_row(),
				at.j + wide_column(),
				at.i + WIDE_ROWS <= m.p.m &&
					at.j + WIDE_COLUMNS <= m.p.n);
		}
	}
#else
	(void)a, (void)b, (void)m, (void)tasks;
#endif
}

/* --- on the host --------------------------------------------------------------------------- */

#ifndef CUDA_EMU
typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
	const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
	CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
	CUtensorMapFloatOOBfill);

/* The driver's function, without a link to its library; NULL: it has none, which is no error of the
 * launches that follow: those look at the last one. */
static encode_fn encoder(void)
{
	cudaDriverEntryPointQueryResult found;
	void *f = NULL;
#if CUDART_VERSION >= 12050
	cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f,
		12000, cudaEnableDefault, &found);
#else
	cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f,
		cudaEnableDefault, &found);
#endif

	if (e == cudaSuccess && found == cudaDriverEntryPointSuccess)
		return (encode_fn)f;
	cudaGetLastError();
	return NULL;
}
#endif

bool cuda_wgmma_maps(void)
{
#ifdef CUDA_EMU
	return !getenv("CUDA_EMU_NO_MAPS");
#else
	return encoder() != NULL;
#endif
}

#ifndef CUDA_EMU
/* Of two dimensions where there are no sheets, else of three. */
static int map_of(wgmma_map *map, const void *at, uint64_t sheets, uint64_t apart,
	uint64_t rows, uint64_t columns, uint64_t ld, unsigned box_rows)
{
	static encode_fn encode = encoder();
	const cuuint64_t sizes[3] = { columns, rows, sheets },
			 strides[2] = { ld * 2, apart * 2 };
	const cuuint32_t box[3] = { WGMMA_WIDE, box_rows, 1 }, steps[3] = { 1, 1, 1 };

	return !encode ||
		encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, sheets ? 3 : 2,
			(void *)(uintptr_t)at, sizes, strides, box, steps,
			CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
			CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
			CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS;
}
#endif

int wgmma_map_of(wgmma_map *map, const void *at, uint64_t rows, uint64_t columns,
	uint64_t ld, unsigned box_rows)
{
#ifdef CUDA_EMU
	return emu_tensor_map(map, at, rows, columns, ld * 2, box_rows, WGMMA_WIDE);
#else
	return map_of(map, at, 0, 0, rows, columns, ld, box_rows);
#endif
}

int wgmma_map_of_sheets(wgmma_map *map, const void *at, uint64_t sheets, uint64_t apart,
	uint64_t rows, uint64_t columns, uint64_t ld, unsigned box_rows)
{
#ifdef CUDA_EMU
	return emu_tensor_map(map, at, rows, columns, ld * 2, box_rows, WGMMA_WIDE) ||
		emu_tensor_map_sheets(map, sheets, apart * 2);
#else
	return !sheets || map_of(map, at, sheets, apart, rows, columns, ld, box_rows);
#endif
}

template <bool A_TURNED, bool B_TURNED, bool F32>
static int launch(struct dev *d, const struct multiply *m, const wgmma_map *a,
	const wgmma_map *b, unsigned tasks)
{
	auto kernel = wide_product_kernel<A_TURNED, B_TURNED, F32>;
	unsigned blocks = (unsigned)cuda_of(d)->sm_count;

	blocks = tasks < blocks ? tasks : blocks;
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		WIDE_BYTES));
	LAUNCH_LARGE(kernel, blocks, WIDE_THREADS, WIDE_BYTES, cuda_of(d)->stream, *a, *b,
		*m, tasks);
	CUDA_TRY(cudaGetLastError());
	return cuda_mma_join(d, m);
}

template <bool A_TURNED, bool B_TURNED>
static int launch_out(struct dev *d, const struct multiply *m, const wgmma_map *a,
	const wgmma_map *b, unsigned tasks)
{
	return m->room || m->p.out == LT_F32 ?
		launch<A_TURNED, B_TURNED, true>(d, m, a, b, tasks) :
		launch<A_TURNED, B_TURNED, false>(d, m, a, b, tasks);
}

int cuda_wgmma_multiply(struct dev *d, const struct multiply *product,
	const struct mma_extra *extra)
{
	struct multiply m = *product;
	const struct lt_product *p = &m.p;
	uint64_t tiles = (p->m + WIDE_ROWS - 1) / WIDE_ROWS *
		((p->n + WIDE_COLUMNS - 1) / WIDE_COLUMNS);
	wgmma_map a, b;

	cuda_mma_split(&m, tiles, 2, extra);
	tiles *= m.parts;
	m.pairs = p->ldc % 2 == 0 && (uintptr_t)p->c % (p->out == LT_BF16 ? 4 : 8) == 0;
	if (!ENOUGH(p, tiles) || (p->a_turned && !p->b_turned) ||
		wgmma_map_of(&a, p->a, p->a_turned ? p->k : p->m,
			p->a_turned ? p->m : p->k, p->lda, WIDE_BOX(p->a_turned)) ||
		wgmma_map_of(&b, p->b, p->b_turned ? p->k : p->n,
			p->b_turned ? p->n : p->k, p->ldb, WIDE_BOX(p->b_turned)))
		return 1;
	if (p->a_turned)
		return launch_out<true, true>(d, &m, &a, &b, (unsigned)tiles);
	if (p->b_turned)
		return launch_out<false, true>(d, &m, &a, &b, (unsigned)tiles);
	return launch_out<false, false>(d, &m, &a, &b, (unsigned)tiles);
}
