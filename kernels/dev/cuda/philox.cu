/* philox.cu - Philox-4x32-10 on a GPU: each thread computes blocks of the sequence
 * independently. Only integers are used: contraction (-fmad) changes nothing. */
#include "kernels/dev/cuda/cuda.cuh"

__global__ void philox_kernel(unsigned char *out, uint64_t bytes, struct philox p)
{
	uint64_t blocks = (bytes + PHILOX_BLOCK_BYTES - 1) / PHILOX_BLOCK_BYTES;
	bool aligned = (uintptr_t)out % 16 == 0;

	for (uint64_t i = GRID_FIRST; i < blocks; i += GRID_STRIDE) {
		uint64_t at = i * PHILOX_BLOCK_BYTES;
		uint32_t w[4];

		philox_block(w, &p, p.block + i);
		if (aligned && at + PHILOX_BLOCK_BYTES <= bytes) {
			*(uint4 *)(out + at) = make_uint4(w[0], w[1], w[2], w[3]);
			continue;
		}
		for (uint64_t k = 0; k < PHILOX_BLOCK_BYTES && at + k < bytes; k++)
			out[at + k] = (unsigned char)(w[k / 4] >> 8 * (k % 4));
	}
}

int cuda_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p)
{
	const unsigned threads = 256;
	unsigned grid = cuda_grid(d, (bytes + 15) / 16, threads);

	LAUNCH(philox_kernel, grid, threads, cuda_of(d)->stream, (unsigned char *)out,
		bytes, *p);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
