#include "kernels/dev/cuda.cuh"

/* 16 bytes a thread where both sides allow it; what is before and behind goes byte by byte */
__global__ void copy_kernel(unsigned char *to, const unsigned char *from, uint64_t bytes,
	uint64_t lead, uint64_t wide)
{
	const uint4 *f = (const uint4 *)(from + lead);
	uint4 *t = (uint4 *)(to + lead);
	uint64_t done = lead + wide * 16, rest = lead + (bytes - done);

	for (uint64_t i = GRID_FIRST; i < wide; i += GRID_STRIDE)
		t[i] = f[i];
	for (uint64_t i = GRID_FIRST; i < rest; i += GRID_STRIDE) {
		uint64_t at = i < lead ? i : i - lead + done;

		to[at] = from[at];
	}
}

int cuda_copy(struct dev *d, void *to, const void *from, uint64_t bytes)
{
	const unsigned threads = 256;
	uint64_t lead = -(uintptr_t)to & 15, wide = 0;

	if (lead > bytes || ((uintptr_t)to ^ (uintptr_t)from) & 15)
		lead = 0;
	else
		wide = (bytes - lead) / 16;
	LAUNCH(copy_kernel, cuda_grid(d, wide ? wide : bytes, threads), threads,
		cuda_of(d)->stream, (unsigned char *)to, (const unsigned char *)from,
		bytes, lead, wide);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

__global__ void fill_kernel(uint32_t *to, uint32_t word, uint64_t words)
{
	for (uint64_t i = GRID_FIRST; i < words; i += GRID_STRIDE)
		to[i] = word;
}

int cuda_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words)
{
	const unsigned threads = 256;

	LAUNCH(fill_kernel, cuda_grid(d, words, threads), threads, cuda_of(d)->stream, to,
		word, words);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* __dmul_rn and __dadd_rn are not fused: the definition rounds twice */
__global__ void triad_kernel(double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)
		a[i] = __dadd_rn(b[i], __dmul_rn(s, c[i]));
}

int cuda_triad(struct dev *d, double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	const unsigned threads = 256;

	LAUNCH(triad_kernel, cuda_grid(d, n, threads), threads, cuda_of(d)->stream, a, b,
		c, s, n);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

#define RANDOM_THREADS 256

/* Sums of integers are the same in any order: warps by shuffles, blocks in shared memory, one
 * atomic addition a block. */
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

int cuda_random(struct dev *d, uint64_t *sum, const struct bulk_random *r)
{
	CUDA_TRY(cudaMemsetAsync(sum, 0, sizeof *sum, cuda_of(d)->stream));
	LAUNCH(random_kernel, cuda_grid(d, r->count, RANDOM_THREADS), RANDOM_THREADS,
		cuda_of(d)->stream, (unsigned long long *)sum, *r);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
