/* project.cu - linear layers with weights as they lie in a model file, and the activations that go
 * with quantised ones, on a GPU. */
#include "kernels/lm/cuda.cuh"

#define THREADS 256
#define ROWS    4 /* of x that share a decoded weight */

/* A warp for each output and ROWS rows: its lanes go along the weights, so that a row of them
 * is read once, in order. */
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

/* A thread for each block of activations. */
__global__ void quantize_kernel(struct lm_quantize q)
{
	uint64_t blocks = q.k / LM_WEIGHT_BLOCK;

	for (uint64_t n = GRID_FIRST; n < q.rows * blocks; n += GRID_STRIDE) {
		const float *x = q.x + n / blocks * q.ldx + n % blocks * LM_WEIGHT_BLOCK;
		struct lm_block8 *to = &q.to[n];
		float max = 0, inverse;
		int minus = 0, upper = 0;

		for (int i = 0; i < LM_WEIGHT_BLOCK; i++)
			max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
		to->scale = max < 0x1p-100f ? 0 : max / 127;
		inverse = to->scale > 0 ? 1 / to->scale : 0;
		for (int i = 0; i < LM_WEIGHT_BLOCK; i++) {
			int v = (int)rintf(fminf(fmaxf(x[i] * inverse, -127), 127));

			to->q[i] = (int8_t)v;
			minus -= v;
			upper -= i < 16 ? 0 : v;
		}
		to->minus[0] = minus;
		to->minus[1] = upper;
		to->sum = to->scale * (float)-minus;
	}
}

int cuda_lm_quantize(struct dev *d, const struct lm_quantize *q)
{
	uint64_t n = q->rows * (q->k / LM_WEIGHT_BLOCK);

	if (!n)
		return 0;
	LAUNCH(quantize_kernel, cuda_grid(d, n, THREADS), THREADS, cuda_of(d)->stream,
		*q);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* The contribution of block b of W to an output. */
__device__ __forceinline__ float add_block(const struct lm_weight_32 *w, bool has_min,
	const struct lm_block8 *x, float y)
{
	int sum = 0;

	for (int i = 0; i < LM_WEIGHT_BLOCK; i++)
		sum += w->part[i / 16] * ((int)w->code[i] - w->offset) * x->q[i];
	y = fmaf(w->scale * x->scale, (float)sum, y);
	return has_min ? fmaf(w->min, x->sum, y) : y;
}

/* A warp for each output and ROWS rows: its lanes take the blocks in turn. */
__global__ void project_quantized_kernel(struct lm_project p)
{
	uint64_t bytes = lm_weight_row_bytes(p.type, p.k), blocks = p.k / LM_WEIGHT_BLOCK;
	uint64_t groups = (p.rows + ROWS - 1) / ROWS;
	bool has_min = lm_weight_has_min(p.type);
	unsigned lane = threadIdx.x % 32;

	for (uint64_t task = GRID_FIRST / 32; task < p.n * groups;
		task += GRID_STRIDE / 32) {
		uint64_t j = task / groups, r = task % groups * ROWS;
		const unsigned char *row = (const unsigned char *)p.w + j * bytes;
		int rows = p.rows - r < ROWS ? (int)(p.rows - r) : ROWS;
		float sum[ROWS] = { 0 };

		for (uint64_t b = lane; b < blocks; b += 32) {
			struct lm_weight_32 w;

			lm_weight_read_32(&w, p.type, row, b);
			for (int c = 0; c < rows; c++)
				sum[c] = add_block(&w, has_min,
					&p.x8[(r + (uint64_t)c) * blocks + b], sum[c]);
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
	if (lm_weight_is_quantized(p->type))
		LAUNCH(project_quantized_kernel, cuda_grid(d, warps * 32, THREADS),
			THREADS, cuda_of(d)->stream, *p);
	else
		LAUNCH(project_kernel, cuda_grid(d, warps * 32, THREADS), THREADS,
			cuda_of(d)->stream, *p);
	CUDA_TRY(cudaGetLastError());
	return 0;
}
