/* mma.cu - products on tensor cores: four warps make a tile of C, 128 x 128 or 64 x 64. Both
 * operands come by asynchronous copies, three steps of 64 bytes along k in shared memory at once.
 * A 16-byte chunk lies where its place exclusive-or its row says, so that eight rows that are
 * loaded together lie in different banks. Deep products with few tiles are split along k; their
 * parts are added in order. Besides tensor cores there are additions alone: contraction (-fmad)
 * changes nothing. */
#include "kernels/dev/mma.cuh"

#include "kernels/dev/cuda.cuh"
#include "kernels/dev/half.h"
#include "kernels/dev/tensor.cuh"

#define THREADS    128
#define STEP_BYTES 64 /* along k of a tile in shared memory */
#define STAGES     3
#define GROUP      8 /* rows of tiles that are worked on together, for the level-2 cache */
/* a product is split until it has about so many tiles, into parts at least so deep */
#define TILES_WANTED 264
#define PART_BYTES   ((uint64_t)2048)
#define SMALL_TILES  96 /* with fewer large tiles, small ones */

/* A product as the kernels take it. */
struct multiply {
	struct lt_product p;
	const float *from, *bias;
	float *room;   /* of the parts, or NULL */
	uint64_t part; /* numbers along k of a part */
	unsigned parts;
	bool pairs; /* two results at once are aligned */
};

struct bf16_numbers {
	typedef float sum;
	enum { BYTES = 2 };
};

struct f16_numbers {
	typedef float sum;
	enum { BYTES = 2 };
};

struct i8_numbers {
	typedef int sum;
	enum { BYTES = 1 };
};

__device__ __forceinline__ void put(const struct multiply &m, uint64_t i, uint64_t j,
	float v)
{
	uint64_t at = i * m.p.ldc + j;

	if (m.from)
		v += m.from[at];
	if (m.bias)
		v += m.bias[j];
	if (m.p.out == LT_F32)
		((float *)m.p.c)[at] = v;
	else
		((uint16_t *)m.p.c)[at] = (uint16_t)cuda_two_bf16(v, 0);
}

#if CUDA_TENSOR
__device__ __forceinline__ void multiply_add(bf16_numbers, float (&sum)[4],
	const unsigned (&a)[4], unsigned b0, unsigned b1)
{
	tensor_mma_bf16(sum, a, b0, b1);
}

__device__ __forceinline__ void multiply_add(f16_numbers, float (&sum)[4],
	const unsigned (&a)[4], unsigned b0, unsigned b1)
{
	tensor_mma_f16(sum, a, b0, b1);
}

__device__ __forceinline__ void multiply_add(i8_numbers, int (&sum)[4],
	const unsigned (&a)[4], unsigned b0, unsigned b1)
{
	tensor_mma_i8(sum, a, b0, b1);
}

/* What a thread copies of an operand: ROWS / 32 chunks in each step, R rows of memory apart.
 * Rows of memory are those of the operand, or when TURNED numbers of the same k. */
struct source {
	const char *at;
	uint64_t row, step; /* bytes between its chunks, and between steps */
	unsigned to;        /* where its first chunk goes in a stage */
	int along, across;  /* bytes left in its row, and rows left from its first */
};

template <class T, bool TURNED, int ROWS>
__device__ source source_of(const void *base, uint64_t ld, uint64_t rows, uint64_t first,
	uint64_t k0, uint64_t k1)
{
	enum { PER = 16 / T::BYTES, WIDE = ROWS / PER };
	const char *from = (const char *)base;
	source s;

	if (TURNED) {
		unsigned c = threadIdx.x % WIDE, k = threadIdx.x / WIDE;

		s.at = from + ((k0 + k) * ld + first) * T::BYTES + c * 16;
		s.row = THREADS / WIDE * ld * T::BYTES;
		s.step = STEP_BYTES / T::BYTES * ld * T::BYTES;
		s.to = k * WIDE * 16 + (c ^ k % 8) * 16;
		s.along = (int)(rows - first < ROWS ? rows - first : ROWS) * T::BYTES -
			(int)c * 16;
		s.across = (int)(k1 - k0) - (int)k;
	} else {
		unsigned c = threadIdx.x % 4, i = threadIdx.x / 4;

		s.at = from + ((first + i) * ld + k0) * T::BYTES + c * 16;
		s.row = 32 * ld * T::BYTES;
		s.step = STEP_BYTES;
		s.to = i * STEP_BYTES + (c ^ i / 2 % 4) * 16;
		s.along = (int)(k1 - k0) * T::BYTES - (int)c * 16;
		s.across = (int)(rows - first < ROWS ? rows - first : ROWS) - (int)i;
	}
	return s;
}

/* Starts the copies of a step, and moves on to the next. */
template <class T, bool TURNED, int ROWS>
__device__ __forceinline__ void copy_step(unsigned char *stage, source &s)
{
	enum { R = TURNED ? THREADS * 16 / (ROWS * T::BYTES) : 32 };
	unsigned bytes = s.along < 0 ? 0 : s.along > 16 ? 16 : (unsigned)s.along;

	UNROLL
	for (int i = 0; i < ROWS / 32; i++)
		tensor_copy(stage + s.to + i * 2048, s.at + (unsigned)i * s.row,
			R * i < s.across ? bytes : 0);
	s.at += s.step;
	if (TURNED)
		s.across -= STEP_BYTES / T::BYTES;
	else
		s.along -= STEP_BYTES;
}

/* Loads 16 rows of an operand from `row` on and half a step along k. As A: one tile of 16 x 16
 * pairs; as B, where LEFT is false: two of 8 columns, in r[0], r[1] and r[2], r[3]. */
template <bool TURNED, bool LEFT, int ROWS>
__device__ __forceinline__ void load_part(unsigned (&r)[4], const unsigned char *stage,
	unsigned row, unsigned half)
{
	unsigned lane = threadIdx.x % 32;
	/* lanes 8 to 15 and 16 to 31 load the other rows, or the other half of k */
	unsigned low = lane / 8 % 2, high = lane / 16;
	unsigned i = (LEFT ? low : high) * 8, j = LEFT ? high : low;

	/* what depends on the lane alone comes first: row is a multiple of 16 */
	if (TURNED) {
		const unsigned char *k = stage + (j * 8 + lane % 8) * (ROWS * 2);

		tensor_matrices<true>(r,
			k + 16 * half * (ROWS * 2) + (((row + i) / 8) ^ lane % 8) * 16);
	} else {
		const unsigned char *at = stage + (i + lane % 8) * STEP_BYTES;

		tensor_matrices<false>(r,
			at + row * STEP_BYTES + ((2 * half + j) ^ lane % 8 / 2) * 16);
	}
}

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

/* The tile of C and the part of k that a thread block makes: GROUP rows of tiles together. */
struct tile_place {
	uint64_t i, j;
	unsigned part;
};

__device__ __forceinline__ tile_place place_of(const struct multiply &m, unsigned task,
	unsigned rows, unsigned columns)
{
	unsigned down = (unsigned)((m.p.m + rows - 1) / rows);
	unsigned across = (unsigned)((m.p.n + columns - 1) / columns);
	unsigned tile = task % (down * across), first = tile / (GROUP * across) * GROUP;
	unsigned high = down - first < GROUP ? down - first : GROUP;
	tile_place at;

	tile %= GROUP * across;
	at.part = task / (down * across);
	at.i = (uint64_t)(first + tile % high) * rows;
	at.j = (uint64_t)(tile / high) * columns;
	return at;
}
#endif

/* MI and NI: tiles of 16 rows of A and of 16 rows of B that a warp has; two by two warps. */
template <class T, bool A_TURNED, bool B_TURNED, int MI, int NI>
__global__ void __launch_bounds__(THREADS, 2)
	multiply_kernel(struct multiply m, unsigned tasks)
{
#if CUDA_TENSOR
	enum { ROWS = 32 * MI, COLUMNS = 32 * NI };
	SHARED(uint4, a_shared, STAGES * ROWS * STEP_BYTES / 16);
	SHARED(uint4, b_shared, STAGES * COLUMNS * STEP_BYTES / 16);
	unsigned char *a_stages = (unsigned char *)(void *)a_shared;
	unsigned char *b_stages = (unsigned char *)(void *)b_shared;
	unsigned lane = threadIdx.x % 32;
	unsigned row = threadIdx.x / 64 * 16 * MI,
		 column = threadIdx.x / 32 % 2 * 16 * NI;

	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		tile_place at = place_of(m, task, ROWS, COLUMNS);
		uint64_t k0 = at.part * m.part;
		uint64_t k1 = m.p.k - k0 < m.part ? m.p.k : k0 + m.part;
		unsigned steps = (unsigned)((k1 - k0) * T::BYTES + STEP_BYTES - 1) /
			STEP_BYTES;
		source a = source_of<T, A_TURNED, ROWS>(m.p.a, m.p.lda, m.p.m, at.i, k0,
			k1);
		source b = source_of<T, B_TURNED, COLUMNS>(m.p.b, m.p.ldb, m.p.n, at.j,
			k0, k1);
		/* a warp whose part of the tile is beyond C's edges only copies */
		bool idle = at.i + row >= m.p.m || at.j + column >= m.p.n;
		unsigned slot = 0, next = STAGES - 1;
		typename T::sum sum[MI][2 * NI][4] = {};

		__syncthreads(); /* until the stages of the previous tile are used */
		UNROLL
		for (unsigned s = 0; s < STAGES - 1; s++) {
			if (s < steps) {
				copy_step<T, A_TURNED, ROWS>(a_stages +
						s * ROWS * STEP_BYTES,
					a);
				copy_step<T, B_TURNED, COLUMNS>(b_stages +
						s * COLUMNS * STEP_BYTES,
					b);
			}
			tensor_commit();
		}
		for (unsigned s = 0; s < steps; s++) {
			const unsigned char *a_at = a_stages + slot * ROWS * STEP_BYTES;
			const unsigned char *b_at = b_stages +
				slot * COLUMNS * STEP_BYTES;

			tensor_wait<STAGES - 2>();
			__syncthreads();
			if (s + STAGES - 1 < steps) {
				copy_step<T, A_TURNED, ROWS>(a_stages +
						next * ROWS * STEP_BYTES,
					a);
				copy_step<T, B_TURNED, COLUMNS>(b_stages +
						next * COLUMNS * STEP_BYTES,
					b);
			}
			tensor_commit();
			slot = slot + 1 == STAGES ? 0 : slot + 1;
			next = next + 1 == STAGES ? 0 : next + 1;
			if (idle)
				continue;
			UNROLL
			for (unsigned half = 0; half < 2; half++) {
				unsigned left[MI][4];

				UNROLL
				for (int i = 0; i < MI; i++)
					load_part<A_TURNED, true, ROWS>(left[i], a_at,
						row + 16 * (unsigned)i, half);
				UNROLL
				for (int j = 0; j < NI; j++) {
					unsigned right[4];

					load_part<B_TURNED, false, COLUMNS>(right, b_at,
						column + 16 * (unsigned)j, half);
					UNROLL
					for (int i = 0; i < MI; i++) {
						multiply_add(T(), sum[i][2 * j], left[i],
							right[0], right[1]);
						multiply_add(T(), sum[i][2 * j + 1],
							left[i], right[2], right[3]);
					}
				}
			}
		}
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
static void split(struct multiply *m, uint64_t tiles, uint64_t bytes,
	const struct mma_extra *extra)
{
	uint64_t most = m->p.k * bytes / PART_BYTES, parts = TILES_WANTED / tiles;
	uint64_t room = extra->room ? extra->room_floats / (m->p.m * m->p.n) : 0;

	parts = parts < most ? parts : most;
	parts = parts < room ? parts : room;
	m->parts = 1;
	m->part = m->p.k;
	m->room = NULL;
	if (parts < 2 || m->p.out == LT_I32)
		return;
	m->part = (m->p.k / parts + STEP_BYTES) / STEP_BYTES * STEP_BYTES;
	m->parts = (unsigned)((m->p.k + m->part - 1) / m->part);
	m->room = extra->room;
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
	if (m->room) {
		LAUNCH(join_parts_kernel, cuda_grid(d, m->p.m * m->p.n, 256), 256, stream,
			*m);
		CUDA_TRY(cudaGetLastError());
	}
	return 0;
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
	small = tiles_of(p, 128) < SMALL_TILES &&
		(p->m <= 64 || p->n <= 64 || p->k < 2048);
	tiles = tiles_of(p, small ? 64 : 128);
	split(&m, tiles, p->in == LT_I8 ? 1 : 2, extra);
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
