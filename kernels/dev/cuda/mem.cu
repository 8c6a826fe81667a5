/* mem.cu - copies and fills memory on a GPU. There is nothing to contract (-fmad). */
#include "kernels/dev/cuda/cuda.cuh"

/* 16 bytes per thread if both sides allow it; the bytes before and after one by one */
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

cudaError_t cuda_try_kernel(void)
{
	cudaFuncAttributes a;

	return cudaFuncGetAttributes(&a, (const void *)fill_kernel);
}

int cuda_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words)
{
	const unsigned threads = 256;

	LAUNCH(fill_kernel, cuda_grid(d, words, threads), threads, cuda_of(d)->stream, to,
		word, words);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
