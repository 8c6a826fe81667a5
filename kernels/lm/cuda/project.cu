/* project.cu - linear layers with weights as they lie in a model file, and the activations that go
 * with quantised ones, on a GPU. bf16 weights are those of project_bf16.cu where there are tensor
 * cores, quantised ones those of project_few.cu and project_tensor.cu, and of project_rows.cu where
 * there are none, or the weights are not aligned. Multiply-adds are fmaf(),
 * so that contraction (-fmad) changes nothing: the bits of a row are the same whatever R is. */
#include "kernels/lm/cuda/cuda.cuh"
#include "kernels/lm/cuda/project_quantized.cuh"

#include <sysexits.h>

#define THREADS 256
#define ROWS    4 /* of x that share a weight */

/* Weights that are not a multiple of eight in a row, or not aligned to 16 bytes: a warp for each
 * output and ROWS rows, whose lanes go along the weights. */
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
			float v = lm_weight_plain_at(p.type, w, t);

			for (int c = 0; c < rows; c++)
				sum[c] = fmaf(v, p.x[(r + (uint64_t)c) * p.ldx + t],
					sum[c]);
		}
		for (int c = 0; c < rows; c++) {
			sum[c] = lm_warp_sum(sum[c]);
			if (lane == 0)
				lm_project_store(p, r + (uint64_t)c, j, sum[c]);
		}
	}
}

/* Eight weights of a type: 16 bytes of the halves, 32 of f32. */
template <int TYPE>
__device__ __forceinline__ void load_weights(float (&w)[8], const unsigned char *row,
	uint64_t t)
{
	unsigned v[8];
	uint4 a, b;

	if (TYPE == LM_WEIGHT_F32) {
		a = __ldg((const uint4 *)(const void *)(row + 4 * t));
		b = __ldg((const uint4 *)(const void *)(row + 4 * t) + 1);
		v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
		v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
		UNROLL
		for (int i = 0; i < 8; i++)
			w[i] = half_float_of_bits(v[i]);
		return;
	}
	a = __ldg((const uint4 *)(const void *)(row + 2 * t));
	v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
	UNROLL
	for (int i = 0; i < 4; i++) {
		if (TYPE == LM_WEIGHT_BF16) {
			w[2 * i] = half_float_of_bits(v[i] << 16);
			w[2 * i + 1] = half_float_of_bits(v[i] & 0xffff0000u);
		} else {
			w[2 * i] = cuda_f16(v[i] & 0xffff);
			w[2 * i + 1] = cuda_f16(v[i] >> 16);
		}
	}
}

/* A warp for each output and R rows; a lane takes eight weights at a time, 256 apart, and adds
 * even and odd ones on their own. The order is the same whatever R is. */
template <int TYPE, int R> __global__ void project_wide_kernel(struct lm_project p)
{
	uint64_t bytes = lm_weight_row_bytes((enum lm_weight)TYPE, p.k);
	uint64_t groups = (p.rows + R - 1) / R;
	unsigned lane = threadIdx.x % 32;

	for (uint64_t task = GRID_FIRST / 32; task < p.n * groups;
		task += GRID_STRIDE / 32) {
		uint64_t j = task / groups, r = task % groups * R;
		const unsigned char *row = (const unsigned char *)p.w + j * bytes;
		int rows = p.rows - r < R ? (int)(p.rows - r) : R;
		float sum[R][2] = {};

		UNROLL_4
		for (uint64_t t = lane * 8; t < p.k; t += 256) {
			float w[8];

			load_weights<TYPE>(w, row, t);
			UNROLL
			for (int c = 0; c < R; c++) {
				const float4 *x = (const float4 *)(const void *)(p.x +
					(r + (uint64_t)(c < rows ? c : 0)) * p.ldx + t);
				float4 low = __ldg(x), high = __ldg(x + 1);

				sum[c][0] = fmaf(w[0], low.x, sum[c][0]);
				sum[c][1] = fmaf(w[1], low.y, sum[c][1]);
				sum[c][0] = fmaf(w[2], low.z, sum[c][0]);
				sum[c][1] = fmaf(w[3], low.w, sum[c][1]);
				sum[c][0] = fmaf(w[4], high.x, sum[c][0]);
				sum[c][1] = fmaf(w[5], high.y, sum[c][1]);
				sum[c][0] = fmaf(w[6], high.z, sum[c][0]);
				sum[c][1] = fmaf(w[7], high.w, sum[c][1]);
			}
		}
		UNROLL
		for (int c = 0; c < R; c++) {
			float y = lm_warp_sum(sum[c][0] + sum[c][1]);

			if (lane == 0 && c < rows)
				lm_project_store(p, r + (uint64_t)c, j, y);
		}
	}
}

template <int TYPE> static void launch_wide(struct dev *d, const struct lm_project *p)
{
	auto one_kernel = project_wide_kernel<TYPE, 1>;
	auto rows_kernel = project_wide_kernel<TYPE, ROWS>;
	uint64_t threads = p->n * 32 * (p->rows == 1 ? 1 : (p->rows + ROWS - 1) / ROWS);
	cudaStream_t stream = cuda_of(d)->stream;

	if (p->rows == 1)
		LAUNCH(one_kernel, cuda_grid(d, threads, THREADS), THREADS, stream, *p);
	else
		LAUNCH(rows_kernel, cuda_grid(d, threads, THREADS), THREADS, stream, *p);
}

/* Eight lanes for each block of activations, four numbers each. */
__global__ void quantize_kernel(struct lm_quantize q, bool wide)
{
	uint64_t blocks = q.k / LM_WEIGHT_BLOCK, all = q.rows * blocks;
	unsigned part = threadIdx.x % 8;

	/* whole warps go on as long as one of their blocks exists */
	for (uint64_t n = GRID_FIRST / 8; n - threadIdx.x % 32 / 8 < all;
		n += GRID_STRIDE / 8) {
		uint64_t at = n < all ? n : all - 1;
		const float *from = q.x + at / blocks * q.ldx +
			at % blocks * LM_WEIGHT_BLOCK + 4 * part;
		struct lm_block8 *to = &q.to[at];
		float x[4];

		if (wide) {
			float4 v = __ldg((const float4 *)(const void *)from);

			x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
		} else {
			UNROLL
			for (int i = 0; i < 4; i++)
				x[i] = from[i];
		}
		quantized_four four(x);

		if (n >= all)
			continue;
		((unsigned *)(void *)to->q)[part] = four.word;
		if (part == 0) {
			to->scale = four.scale;
			to->sum = four.sum;
			to->minus[0] = four.minus[0];
			to->minus[1] = four.minus[1];
		}
	}
}

int cuda_lm_quantize(struct dev *d, const struct lm_quantize *q)
{
	uint64_t n = q->rows * (q->k / LM_WEIGHT_BLOCK);

	if (!n)
		return 0;
	LAUNCH(quantize_kernel, cuda_grid(d, n * 8, 128), 128, cuda_of(d)->stream, *q,
		q->ldx % 4 == 0 && ((uintptr_t)q->x & 15) == 0);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

static int project_plain(struct dev *d, const struct lm_project *p)
{
	uint64_t warps = p->n * ((p->rows + ROWS - 1) / ROWS);
	bool wide = p->k % LM_PACK == 0 && p->ldx % 4 == 0 &&
		(((uintptr_t)p->w | (uintptr_t)p->x) & 15) == 0;
	int rc = 1;

	if (wide && p->type == LM_WEIGHT_BF16)
		rc = cuda_lm_project_bf16(d, p);
	if (rc <= 0)
		return rc;
	if (!wide)
		LAUNCH(project_kernel, cuda_grid(d, warps * 32, THREADS), THREADS,
			cuda_of(d)->stream, *p);
	else if (p->type == LM_WEIGHT_F32)
		launch_wide<LM_WEIGHT_F32>(d, p);
	else if (p->type == LM_WEIGHT_F16)
		launch_wide<LM_WEIGHT_F16>(d, p);
	else
		launch_wide<LM_WEIGHT_BF16>(d, p);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

int cuda_lm_project(struct dev *d, const struct lm_project *p)
{
	int rc;

	if (!p->n || !p->rows)
		return 0;
	if (!lm_weight_is_quantized(p->type))
		return project_plain(d, p);
	if ((uintptr_t)p->x8 & 15)
		return dev_fail(d, EX_SOFTWARE, "%s: activations that are not aligned",
			d->name);
	rc = cuda_lm_project_few(d, p);
	if (rc > 0)
		rc = cuda_lm_project_tensor(d, p);
	return rc > 0 ? cuda_lm_project_quantized(d, p) : rc;
}

int cuda_lm_project_group(struct dev *d, const struct lm_project_group *g)
{
	return lm_weight_is_quantized(g->p[0].type) ? cuda_lm_project_few_group(d, g) :
						      cuda_lm_project_bf16_group(d, g);
}
