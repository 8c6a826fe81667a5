/* memfill.cu - the memory test's fill on a GPU. 16 threads fill a lane, one for each column of the
 * matrix: V works in registers, T goes through shared memory, and the previous block is still in
 * registers when the next one needs it. Only integers are used: contraction (-fmad) changes
 * nothing. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/poc/ops.h"

#define SIDE    16
#define THREADS 128
#define LANES   (THREADS / SIDE)

__device__ __forceinline__ uint32_t rotated(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

__device__ __forceinline__ void quarter(uint32_t *x, int a, int b, int c, int d)
{
	x[a] += x[b], x[d] = rotated(x[d] ^ x[a], 16);
	x[c] += x[d], x[b] = rotated(x[b] ^ x[c], 12);
	x[a] += x[b], x[d] = rotated(x[d] ^ x[a], 8);
	x[c] += x[d], x[b] = rotated(x[b] ^ x[c], 7);
}

/* two ChaCha double rounds */
__device__ __forceinline__ void stir(uint32_t x[SIDE])
{
	for (int i = 0; i < 2; i++) {
		quarter(x, 0, 4, 8, 12);
		quarter(x, 1, 5, 9, 13);
		quarter(x, 2, 6, 10, 14);
		quarter(x, 3, 7, 11, 15);
		quarter(x, 0, 5, 10, 15);
		quarter(x, 1, 6, 11, 12);
		quarter(x, 2, 7, 8, 13);
		quarter(x, 3, 4, 9, 14);
	}
}

/* square: this lane's 16 rows of 17 words */
__device__ void fill_lane(const struct memfill *m, uint64_t lane, unsigned column,
	uint32_t *square, bool idle)
{
	uint64_t slice = m->step % MEMFILL_SLICES;
	uint32_t last[SIDE] = {};

	if (m->step && !idle) {
		const uint32_t *prev = m->blocks +
			MEMFILL_WORDS *
				memfill_index(m, lane,
					(slice + MEMFILL_SLICES - 1) % MEMFILL_SLICES,
					m->per_slice - 1);

		for (int r = 0; r < SIDE; r++)
			last[r] = prev[SIDE * r + column];
	}
	for (uint64_t i = 0; i < m->per_slice; i++) {
		struct memfill_ref from;
		uint32_t salt[4], x[SIDE], y[SIDE];

		memfill_salt(salt, m, lane, i);
		for (int j = 0; j < MEMFILL_REFS; j++) {
			const uint32_t *ref;

			if (!memfill_ref_of(&from, m, salt, j) || idle)
				continue;
			ref = m->blocks +
				MEMFILL_WORDS *
					memfill_index(m, from.lane, from.slice, from.i);
			for (int r = 0; r < SIDE; r++)
				last[r] ^= ref[SIDE * r + column];
		}
		if (column < 4)
			last[0] ^= salt[column];
		for (int r = 0; r < SIDE; r++)
			x[r] = y[r] = last[r];
		stir(y);
		__syncwarp(); /* until the previous square has been read */
		for (int r = 0; r < SIDE; r++)
			square[column * (SIDE + 1) + r] = y[r];
		__syncwarp();
		for (int r = 0; r < SIDE; r++)
			y[r] = square[r * (SIDE + 1) + column];
		stir(y);
		for (int r = 0; r < SIDE; r++)
			last[r] = y[r] ^ x[r];
		if (!idle) {
			uint32_t *out = m->blocks +
				MEMFILL_WORDS * memfill_index(m, lane, slice, i);

			for (int r = 0; r < SIDE; r++)
				out[SIDE * r + column] = last[r];
		}
	}
}

__global__ void memfill_kernel(struct memfill m)
{
	SHARED(uint32_t, squares, LANES * SIDE * (SIDE + 1));
	unsigned mine = threadIdx.x / SIDE, column = threadIdx.x % SIDE;

	/* all threads of a warp iterate together: those without a lane follow idly */
	for (uint64_t first = (uint64_t)blockIdx.x * LANES; first < m.lanes;
		first += (uint64_t)gridDim.x * LANES) {
		bool idle = first + mine >= m.lanes;

		fill_lane(&m, idle ? 0 : first + mine, column,
			squares + mine * SIDE * (SIDE + 1), idle);
	}
}

int cuda_poc_memfill(struct dev *d, const struct memfill *m)
{
	LAUNCH(memfill_kernel, cuda_grid(d, m->lanes, LANES), THREADS, cuda_of(d)->stream,
		*m);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
