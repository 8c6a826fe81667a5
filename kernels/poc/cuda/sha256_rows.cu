/* sha256_rows.cu - SHA-256 of many rows on a GPU, one row per thread. Only integers are used:
 * contraction (-fmad) changes nothing. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/poc/ops.h"

__constant__ uint32_t sha256_k[64] = {
#include "kernels/crypto/sha256_constants.inc"
};

__constant__ uint32_t sha256_h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* One row per thread. Threads read rows far apart, but each cache line serves two blocks of its
 * thread, and hashing, not memory, is the limit. */
__global__ void sha256_kernel(unsigned char *out, struct sha256_rows in)
{
	uint64_t blocks = sha256_rows_blocks(&in);

	for (uint64_t i = GRID_FIRST; i < in.count; i += GRID_STRIDE) {
		uint32_t state[8], w[16];

		for (int k = 0; k < 8; k++)
			state[k] = sha256_h[k];
		for (uint64_t b = 0; b < blocks; b++) {
			const unsigned char *p = sha256_rows_inside(&in, i, b);

			for (int t = 0; t < 16; t++) {
				w[t] = 0;
				for (int k = 0; k < 4; k++)
					w[t] = w[t] << 8 |
						(p ? p[4 * t + k] :
						     sha256_rows_byte(&in, i,
							     64 * b + 4 * t + k));
			}
			sha256_block(state, w, sha256_k);
		}
		for (int k = 0; k < SHA256_BYTES; k++)
			out[SHA256_BYTES * i + k] = (unsigned char)(state[k / 4] >>
				(24 - 8 * (k % 4)));
	}
}

int cuda_poc_sha256(struct dev *d, unsigned char *out, const struct sha256_rows *in)
{
	const unsigned threads = 128;

	LAUNCH(sha256_kernel, cuda_grid(d, in->count, threads), threads,
		cuda_of(d)->stream, out, *in);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
