/* mma_tile.cuh - a tile of a product on tensor cores, for kernels that differ in what they do with
 * it: four warps make a tile of C, 128 x 128 or 64 x 64. Both operands come by asynchronous copies,
 * three steps of 64 bytes along k in shared memory at once. A 16-byte chunk lies where its place
 * exclusive-or its row says, so that eight rows that are loaded together lie in different banks. */
#ifndef RNP_KERNELS_DEV_MMA_TILE_CUH
#define RNP_KERNELS_DEV_MMA_TILE_CUH

#include "kernels/dev/half.h"
#include "kernels/dev/cuda/lt.cuh"
#include "kernels/dev/cuda/tensor.cuh"

#define MMA_THREADS    128
#define MMA_STEP_BYTES 64 /* along k of a tile in shared memory */
#define MMA_STAGES     3
#define MMA_GROUP      8 /* rows of tiles that are worked on together, for the level-2 cache */

/* A product as the kernels take it. */
struct multiply {
	struct lt_product p;
	const float *from, *bias;
	float *room;   /* of the parts, or NULL */
	uint64_t part; /* numbers along k of a part */
	unsigned parts;
	bool pairs; /* two results at once are aligned */
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

struct mma_extra;
/* A product is split until it has about so many tiles. */
#define MMA_TILES_WANTED 264
/* Splits k of a product with so many tiles so that there are enough of them, from the sizes
 * alone. */
void cuda_mma_split(struct multiply *m, uint64_t tiles, uint64_t bytes,
	const struct mma_extra *extra);
/* Adds up the parts of a product that is split. Returns 0 or -1. */
int cuda_mma_join(struct dev *d, const struct multiply *m);

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
		s.row = MMA_THREADS / WIDE * ld * T::BYTES;
		s.step = MMA_STEP_BYTES / T::BYTES * ld * T::BYTES;
		s.to = k * WIDE * 16 + (c ^ k % 8) * 16;
		s.along = (int)(rows - first < ROWS ? rows - first : ROWS) * T::BYTES -
			(int)c * 16;
		s.across = (int)(k1 - k0) - (int)k;
	} else {
		unsigned c = threadIdx.x % 4, i = threadIdx.x / 4;

		s.at = from + ((first + i) * ld + k0) * T::BYTES + c * 16;
		s.row = 32 * ld * T::BYTES;
		s.step = MMA_STEP_BYTES;
		s.to = i * MMA_STEP_BYTES + (c ^ i / 2 % 4) * 16;
		s.along = (int)(k1 - k0) * T::BYTES - (int)c * 16;
		s.across = (int)(rows - first < ROWS ? rows - first : ROWS) - (int)i;
	}
	return s;
}

/* Starts the copies of a step, and moves on to the next. WHOLE: nothing is beyond an edge. */
template <class T, bool TURNED, int ROWS, bool WHOLE>
__device__ __forceinline__ void copy_step(unsigned char *stage, source &s)
{
	enum { R = TURNED ? MMA_THREADS * 16 / (ROWS * T::BYTES) : 32 };
	unsigned bytes = s.along < 0 ? 0 : s.along > 16 ? 16 : (unsigned)s.along;
	const char *from = s.at;

	UNROLL
	for (int i = 0; i < ROWS / 32; i++) {
		if (WHOLE)
			tensor_copy(stage + s.to + i * 2048, from, 16);
		else
			tensor_copy(stage + s.to + i * 2048, from,
				R * i < s.across ? bytes : 0);
		from += s.row;
	}
	s.at += s.step;
	if (TURNED)
		s.across -= MMA_STEP_BYTES / T::BYTES;
	else
		s.along -= MMA_STEP_BYTES;
}

/* Loads 16 rows of an operand from row + 16 i on and half a step along k. As A: one tile of 16 x 16
 * pairs; as B, where LEFT is false: two of 8 columns, in r[0], r[1] and r[2], r[3]. Where a lane's
 * row of 16 bytes lies depends on the half or on i, but not on both: the others are added. */
template <bool TURNED, bool LEFT, int ROWS, int N> struct part_loads {
	unsigned at[TURNED ? N : 2];

	__device__ __forceinline__ explicit part_loads(unsigned row)
	{
		unsigned lane = threadIdx.x % 32;
		/* lanes 8 to 15 and 16 to 31 load the other rows, or the other half of k */
		unsigned low = lane / 8 % 2, high = lane / 16;
		unsigned i = (LEFT ? low : high) * 8, j = LEFT ? high : low;

		UNROLL
		for (unsigned n = 0; n < (TURNED ? N : 2); n++)
			at[n] = TURNED ? (j * 8 + lane % 8) * (ROWS * 2) +
					(((row + 16 * n + i) / 8) ^ lane % 8) * 16 :
					 (row + i + lane % 8) * MMA_STEP_BYTES +
					((2 * n + j) ^ lane % 8 / 2) * 16;
		UNROLL
		for (unsigned n = 0; n < (TURNED ? N : 2); n++)
			tensor_keep(at[n]);
	}

	__device__ __forceinline__ void load(unsigned (&r)[4], const unsigned char *stage,
		unsigned i, unsigned half) const
	{
		tensor_matrices<TURNED>(r,
			TURNED ? stage + at[TURNED ? i : 0] + 16 * half * (ROWS * 2) :
				 stage + at[TURNED ? 0 : half] + i * 16 * MMA_STEP_BYTES);
	}
};

/* The tile of C and the part of k that a thread block makes: MMA_GROUP rows of tiles together. */
struct tile_place {
	uint64_t i, j;
	unsigned part;
};

__device__ __forceinline__ tile_place place_of(const struct multiply &m, unsigned task,
	unsigned rows, unsigned columns)
{
	unsigned down = (unsigned)((m.p.m + rows - 1) / rows);
	unsigned across = (unsigned)((m.p.n + columns - 1) / columns);
	unsigned tile = task % (down * across), first = tile / (MMA_GROUP * across) * MMA_GROUP;
	unsigned high = down - first < MMA_GROUP ? down - first : MMA_GROUP;
	tile_place at;

	tile %= MMA_GROUP * across;
	at.part = task / (down * across);
	at.i = (uint64_t)(first + tile % high) * rows;
	at.j = (uint64_t)(tile / high) * columns;
	return at;
}
/* Bytes of shared memory that a block needs for its tile. */
template <int MI, int NI> struct tile_memory {
	enum { A = MMA_STAGES * 32 * MI * MMA_STEP_BYTES,
		ALL = A + MMA_STAGES * 32 * NI * MMA_STEP_BYTES };
};

/* This warp's first row and column of a tile: two by two warps. */
template <int MI> __device__ __forceinline__ unsigned warp_row(void)
{
	return threadIdx.x / 64 * 16 * MI;
}

template <int NI> __device__ __forceinline__ unsigned warp_column(void)
{
	return threadIdx.x / 32 % 2 * 16 * NI;
}

/* Sums a tile's products. MI and NI: tiles of 16 rows of A and of 16 rows of B that a warp has. sum
 * is as tensor.cuh says of C; a warp whose part is beyond C's edges only copies, and returns false.
 * WHOLE: m, n and k end with a tile and a step. Begins with a barrier, and the stages may be in use
 * by other warps when it ends. */
template <class T, bool A_TURNED, bool B_TURNED, int MI, int NI, bool WHOLE>
__device__ __forceinline__ bool multiply_tile(typename T::sum (&sum)[MI][2 * NI][4],
	const struct multiply &m, const tile_place &at, unsigned char *stages)
{
	enum { ROWS = 32 * MI, COLUMNS = 32 * NI };
	unsigned char *a_stages = stages, *b_stages = stages + tile_memory<MI, NI>::A;
	unsigned row = warp_row<MI>(), column = warp_column<NI>();
	uint64_t k0 = at.part * m.part;
	uint64_t k1 = m.p.k - k0 < m.part ? m.p.k : k0 + m.part;
	unsigned steps = (unsigned)((k1 - k0) * T::BYTES + MMA_STEP_BYTES - 1) /
		MMA_STEP_BYTES;
	source a = source_of<T, A_TURNED, ROWS>(m.p.a, m.p.lda, m.p.m, at.i, k0, k1);
	source b = source_of<T, B_TURNED, COLUMNS>(m.p.b, m.p.ldb, m.p.n, at.j, k0, k1);
	const part_loads<A_TURNED, true, ROWS, MI> a_loads(row);
	const part_loads<B_TURNED, false, COLUMNS, NI> b_loads(column);
	bool idle = !WHOLE && (at.i + row >= m.p.m || at.j + column >= m.p.n);
	unsigned slot = 0, next = MMA_STAGES - 1;

	tensor_keep(a.to);
	tensor_keep(b.to);
	__syncthreads(); /* until the stages of the previous tile are used */
	UNROLL
	for (unsigned s = 0; s < MMA_STAGES - 1; s++) {
		if (s < steps) {
			copy_step<T, A_TURNED, ROWS, WHOLE>(a_stages + s * ROWS * MMA_STEP_BYTES,
				a);
			copy_step<T, B_TURNED, COLUMNS, WHOLE>(b_stages +
					s * COLUMNS * MMA_STEP_BYTES,
				b);
		}
		tensor_commit();
	}
	for (unsigned s = 0; s < steps; s++) {
		const unsigned char *a_at = a_stages + slot * ROWS * MMA_STEP_BYTES;
		const unsigned char *b_at = b_stages + slot * COLUMNS * MMA_STEP_BYTES;

		tensor_wait<MMA_STAGES - 2>();
		__syncthreads();
		if (s + MMA_STAGES - 1 < steps) {
			copy_step<T, A_TURNED, ROWS, WHOLE>(a_stages +
					next * ROWS * MMA_STEP_BYTES,
				a);
			copy_step<T, B_TURNED, COLUMNS, WHOLE>(b_stages +
					next * COLUMNS * MMA_STEP_BYTES,
				b);
		}
		tensor_commit();
		slot = slot + 1 == MMA_STAGES ? 0 : slot + 1;
		next = next + 1 == MMA_STAGES ? 0 : next + 1;
		if (idle)
			continue;
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			unsigned left[MI][4];

			UNROLL
			for (int i = 0; i < MI; i++)
				a_loads.load(left[i], a_at, (unsigned)i, half);
			UNROLL
			for (int j = 0; j < NI; j++) {
				unsigned right[4];

				b_loads.load(right, b_at, (unsigned)j, half);
				UNROLL
				for (int i = 0; i < MI; i++) {
					multiply_add(T(), sum[i][2 * j], left[i], right[0],
						right[1]);
					multiply_add(T(), sum[i][2 * j + 1], left[i],
						right[2], right[3]);
				}
			}
		}
	}
	return !idle;
}
#endif

#endif
