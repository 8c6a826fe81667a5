/* int8.cu - what the matmul test does to int8 matrices between products, on a GPU. Only integers
 * are used: contraction (-fmad) changes nothing. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/poc/ops.h"

__global__ void balance_kernel(int8_t *x, uint64_t count)
{
	for (uint64_t i = GRID_FIRST; i < count; i += GRID_STRIDE)
		if (x[i] == INT8_MIN)
			x[i] = 0;
}

int cuda_poc_balance(struct dev *d, int8_t *x, uint64_t count)
{
	const unsigned threads = 256;

	LAUNCH(balance_kernel, cuda_grid(d, count, threads), threads, cuda_of(d)->stream,
		x, count);
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

int cuda_poc_mix(struct dev *d, int8_t *out, const struct int8_mix *m)
{
	const unsigned threads = 256;

	LAUNCH(mix_kernel, cuda_grid(d, m->rows * m->n, threads), threads,
		cuda_of(d)->stream, out, *m);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
