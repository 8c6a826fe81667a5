#include "kernels/cuda.cuh"

__global__ void balance_kernel(int8_t *x, uint64_t count)
{
	for (uint64_t i = GRID_FIRST; i < count; i += GRID_STRIDE)
		if (x[i] == INT8_MIN)
			x[i] = 0;
}

int cuda_balance(struct dev *d, int8_t *x, uint64_t count)
{
	const unsigned threads = 256;

	LAUNCH(balance_kernel, cuda_grid(d, count, threads), threads, cuda_of(d)->stream,
		x, count);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

#define SIDE    32
#define THREADS 256

/* tiles of 32 x 32 through shared memory, so that reads and writes both go along rows */
__global__ void turn_kernel(int8_t *out, const int8_t *in, uint64_t n)
{
	SHARED(int8_t, tile, SIDE * (SIDE + 4));
	uint64_t side = (n + SIDE - 1) / SIDE;
	unsigned x = threadIdx.x % SIDE, y0 = threadIdx.x / SIDE;

	for (uint64_t t = blockIdx.x; t < side * side; t += gridDim.x) {
		uint64_t i0 = t / side * SIDE, j0 = t % side * SIDE;

		__syncthreads(); /* the tile before is used up */
		for (unsigned y = y0; y < SIDE; y += THREADS / SIDE)
			if (i0 + y < n && j0 + x < n)
				tile[y * (SIDE + 4) + x] = in[(i0 + y) * n + j0 + x];
		__syncthreads();
		for (unsigned y = y0; y < SIDE; y += THREADS / SIDE)
			if (j0 + y < n && i0 + x < n)
				out[(j0 + y) * n + i0 + x] = tile[x * (SIDE + 4) + y];
	}
}

int cuda_turn(struct dev *d, int8_t *out, const int8_t *in, uint64_t n)
{
	uint64_t side = (n + SIDE - 1) / SIDE;

	LAUNCH(turn_kernel, cuda_grid(d, side * side, 1), THREADS, cuda_of(d)->stream,
		out, in, n);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

__global__ void mix_kernel(int8_t *out, struct int8_mix m)
{
	uint64_t count = m.rows * m.n;

	for (uint64_t at = GRID_FIRST; at < count; at += GRID_STRIDE)
		out[at] = int8_mixed(m.c[at], m.row_salt[at / m.n],
			m.column_salt[at % m.n]);
}

int cuda_mix(struct dev *d, int8_t *out, const struct int8_mix *m)
{
	const unsigned threads = 256;

	LAUNCH(mix_kernel, cuda_grid(d, m->rows * m->n, threads), threads,
		cuda_of(d)->stream, out, *m);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
