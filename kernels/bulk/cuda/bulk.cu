/* bulk.cu - the triad and random reads on a GPU. Contraction (-fmad) changes nothing: the triad is
 * written so that it cannot, the rest are integers. */
#include "kernels/bulk/ops.h"
#include "kernels/dev/cuda/cuda.cuh"

/* __dmul_rn and __dadd_rn are not fused: the definition rounds twice */
__global__ void triad_kernel(double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)
		a[i] = __dadd_rn(b[i], __dmul_rn(s, c[i]));
}

int cuda_bulk_triad(struct dev *d, double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	const unsigned threads = 256;

	LAUNCH(triad_kernel, cuda_grid(d, n, threads), threads, cuda_of(d)->stream, a, b,
		c, s, n);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

#define RANDOM_THREADS 256

/* Sums of integers are the same in any order: warps add by shuffles, blocks in shared memory,
 * and each block does one atomic addition. */
__global__ void random_kernel(unsigned long long *sum, struct bulk_random r)
{
	SHARED(unsigned long long, warps, RANDOM_THREADS / 32);
	unsigned long long mine = 0;

	for (uint64_t i = GRID_FIRST; i < r.count; i += GRID_STRIDE)
		mine += r.table[bulk_place(r.seed, r.from + i, r.words)];
	for (int k = 16; k; k /= 2)
		mine += __shfl_xor_sync(0xffffffff, mine, k);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = mine;
	__syncthreads();
	if (threadIdx.x)
		return;
	for (int k = 1; k < RANDOM_THREADS / 32; k++)
		mine += warps[k];
	atomicAdd(sum, mine);
}

int cuda_bulk_random(struct dev *d, uint64_t *sum, const struct bulk_random *r)
{
	CUDA_TRY(cudaMemsetAsync(sum, 0, sizeof *sum, cuda_of(d)->stream));
	LAUNCH(random_kernel, cuda_grid(d, r->count, RANDOM_THREADS), RANDOM_THREADS,
		cuda_of(d)->stream, (unsigned long long *)sum, *r);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
