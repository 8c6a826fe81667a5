/* huff.cu - the entropy coder on a GPU: the operations, made of the kernels in huff_put.cu and
 * huff_get.cu. Only integers are used: contraction (-fmad) changes nothing. */
#include "kernels/grad/cuda/huff.cuh"

#include <sysexits.h>

__global__ void count_kernel(uint32_t *counts, const unsigned char *in, uint64_t n)
{
	SHARED(uint32_t, mine, 256);

	for (unsigned v = threadIdx.x; v < 256; v += blockDim.x)
		mine[v] = 0;
	__syncthreads();
	for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)
		atomicAdd(&mine[in[i]], 1u);
	__syncthreads();
	for (unsigned v = threadIdx.x; v < 256; v += blockDim.x)
		if (mine[v])
			atomicAdd(&counts[v], mine[v]);
}

int cuda_huff_count(struct dev *d, uint32_t *counts, const unsigned char *in, uint64_t n)
{
	CUDA_TRY(cudaMemsetAsync(counts, 0, 256 * sizeof *counts, cuda_of(d)->stream));
	LAUNCH(count_kernel, cuda_grid(d, n, THREADS), THREADS, cuda_of(d)->stream,
		counts, in, n);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

int huff_check(struct dev *d, uint32_t chunk)
{
	if (chunk >= 1 && chunk <= HUFF_CHUNK_MAX)
		return 0;
	return dev_fail(d, EX_SOFTWARE, "%s: chunks of %u symbols", d->name,
		(unsigned)chunk);
}

int huff_scratch(struct dev *d, unsigned char **out, uint64_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (c->scratch_bytes < bytes) {
		if (c->scratch)
			cudaFree(c->scratch); /* waits for kernels that use it */
		c->scratch = NULL;
		c->scratch_bytes = 0;
		CUDA_TRY(cudaMalloc(&c->scratch, bytes));
		c->scratch_bytes = bytes;
	}
	*out = (unsigned char *)c->scratch;
	return 0;
}

unsigned huff_blocks(struct dev *d, uint64_t chunks, unsigned on_each)
{
	uint64_t max = (uint64_t)cuda_of(d)->sm_count * on_each;

	return (unsigned)(chunks < max ? (chunks ? chunks : 1) : max);
}
