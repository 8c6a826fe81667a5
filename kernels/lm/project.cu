/* project.cu - linear layers on a GPU whose weights stay in the types of a model file. */
#include "kernels/lm/cuda.cuh"

#define THREADS 256
#define ROWS    4 /* rows of x that share a decoded weight */

/* One warp for each output and ROWS rows: its lanes walk along the weights, so that a row of
 * them is read once, in order. */
__global__ void project_kernel(struct lm_project p)
{
	uint64_t bytes = lm_weight_row_bytes(p.type, p.k);
	uint64_t groups = (p.rows + ROWS - 1) / ROWS;
	unsigned lane = threadIdx.x % 32;

	for (uint64_t task = GRID_FIRST / 32; task < p.n * groups;
		task += GRID_STRIDE / 32) {
		uint64_t j = task / groups, r = task % groups * ROWS;
		const unsigned char *w = (const unsigned char *)p.w + j * bytes;
		int rows = p.rows - r < ROWS ? (int)(p.rows - r) : ROWS;
		float sum[ROWS] = { 0 };

		for (uint64_t t = lane; t < p.k; t += 32) {
			float v = lm_weight_at(p.type, w, t);

			for (int c = 0; c < rows; c++)
				sum[c] += v * p.x[(r + (uint64_t)c) * p.ldx + t];
		}
		for (int c = 0; c < rows; c++) {
			for (int step = 16; step; step /= 2)
				sum[c] += __shfl_xor_sync(0xffffffffu, sum[c], step);
			if (lane == 0) {
				uint64_t at = (r + (uint64_t)c) * p.ldy + j;
				float y = sum[c];

				if (p.bias)
					y += p.bias[j];
				if (p.from)
					y += p.from[at];
				p.y[at] = y;
			}
		}
	}
}

int cuda_lm_project(struct dev *d, const struct lm_project *p)
{
	uint64_t warps = p->n * ((p->rows + ROWS - 1) / ROWS);

	if (!warps)
		return 0;
	LAUNCH(project_kernel, cuda_grid(d, warps * 32, THREADS), THREADS,
		cuda_of(d)->stream, *p);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
