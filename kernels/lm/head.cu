/* head.cu - the output layer and the loss. The logits of a few rows at a time are computed in
 * f32, few enough to stay in the level-2 cache, and turned into gradients in the activations'
 * dtype. These are gathered for many rows before they are multiplied, because each such product
 * reads and writes the whole gradient of the output weight. */
#include "kernels/lm/cuda.cuh"

#define LOGITS_BYTES ((uint64_t)32 << 20) /* size of the logits of the few rows */
#define GATHER_BYTES \
	((uint64_t)256 << 20) /* size of the gathered gradients of the many rows */
#define FEW_MIN 64            /* with fewer rows products are slow */

/* How many rows are processed at once, and the layout of scratch. */
struct head_plan {
	uint64_t few, many, gathered_at, bytes;
	uint64_t
		/* of logits and their gradients: cuBLASLt requires rows aligned to 16 bytes,
		 * whatever the vocabulary */
		stride;
};

static uint64_t rows_in(uint64_t bytes, uint64_t each, uint64_t step, uint64_t all)
{
	uint64_t rows = bytes / (each ? each : 1) / step * step;

	rows = rows < step ? step : rows;
	return rows < all ? rows : all;
}

static struct head_plan head_plan(const struct lm_head *h)
{
	struct head_plan r = {};

	r.stride = (h->vocab + 63) / 64 * 64;
	r.few = rows_in(LOGITS_BYTES, r.stride * 4, FEW_MIN, h->rows);
	r.many = r.few;
	r.gathered_at = r.few * r.stride * 4;
	r.bytes = r.gathered_at;
	if (h->dh && h->rows) {
		r.many = rows_in(GATHER_BYTES, r.stride * lm_dtype_bytes(h->dtype), r.few,
			h->rows);
		r.bytes += r.many * r.stride * lm_dtype_bytes(h->dtype);
	}
	return r;
}

int cuda_lm_head_scratch(struct dev *d, const struct lm_head *h, uint64_t *bytes)
{
	(void)d;
	*bytes = head_plan(h).bytes;
	return 0;
}

/* Reduces all threads' values to the largest or the sum, which every thread gets; warps are
 * combined in order. */
template <bool LARGEST> __device__ float block_join(float v, float *shared)
{
	v = LARGEST ? lm_warp_max(v) : lm_warp_sum(v);
	__syncthreads(); /* until the previous values are read */
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = v;
	__syncthreads();
	v = shared[0];
	for (int w = 1; w < LM_WARPS; w++)
		v = !LARGEST ? v + shared[w] : shared[w] > v ? shared[w] : v;
	return v;
}

/* One thread block per row: computes its largest logit, the sum of exponentials, the loss, and
 * dl unless it is NULL. */
template <class T>
__global__ void loss_kernel(const float *logits, T *dl, float *loss,
	const uint32_t *target, uint64_t rows, uint64_t vocab, uint64_t stride,
	float scale, bool wide)
{
	SHARED(float, shared, LM_WARPS);

	for (uint64_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *l = logits + r * stride;
		uint32_t goal = target[r];
		float largest = -INFINITY, sum = 0, v[LM_PACK];

		for (uint64_t i = threadIdx.x * LM_PACK; i < vocab;
			i += LM_THREADS * LM_PACK) {
			unsigned n = lm_count(i, vocab);

			lm_load(v, l + i, n, wide && n == LM_PACK);
			for (unsigned k = 0; k < LM_PACK; k++)
				largest = k < n && v[k] > largest ? v[k] : largest;
		}
		largest = block_join<true>(largest, shared);
		for (uint64_t i = threadIdx.x * LM_PACK; i < vocab;
			i += LM_THREADS * LM_PACK) {
			unsigned n = lm_count(i, vocab);

			lm_load(v, l + i, n, wide && n == LM_PACK);
			for (unsigned k = 0; k < LM_PACK; k++)
				sum += k < n ? expf(v[k] - largest) : 0;
		}
		sum = block_join<false>(sum, shared);
		if (threadIdx.x == 0)
			loss[r] = goal == LM_NO_TARGET ? 0 :
							 logf(sum) + (largest - l[goal]);
		if (!dl)
			continue;
		for (uint64_t i = threadIdx.x * LM_PACK; i < vocab;
			i += LM_THREADS * LM_PACK) {
			unsigned n = lm_count(i, vocab);

			lm_load(v, l + i, n, wide && n == LM_PACK);
			for (unsigned k = 0; k < LM_PACK; k++) {
				float p = expf(v[k] - largest) / sum;

				v[k] = goal == LM_NO_TARGET ?
					0 :
					scale * (i + k == goal ? p - 1 : p);
			}
			lm_store(dl + r * stride + i, v, n, wide && n == LM_PACK);
		}
	}
}

/* Computes the loss of `rows` rows from `row` on, and the gradients of their logits in dl, a
 * few rows at a time. */
static int gather(struct dev *d, const struct lm_head *h, const struct head_plan *plan,
	uint64_t row, uint64_t rows, char *dl)
{
	uint64_t each = lm_dtype_bytes(h->dtype);
	float *logits = (float *)h->scratch;
	bool wide = lm_wide(plan->stride, logits, dl, NULL, NULL);

	for (uint64_t at = 0; at < rows; at += plan->few) {
		uint64_t n = rows - at < plan->few ? rows - at : plan->few;
		char *to = dl ? dl + at * plan->stride * each : NULL;
		struct lm_gemm g = {};

		g.form = LM_XWT;
		g.dtype = h->dtype;
		g.out = LM_DTYPE_F32;
		g.c = logits;
		g.a = (const char *)h->h + (row + at) * h->dim * each;
		g.b = h->w;
		g.m = n, g.n = h->vocab, g.ldc = plan->stride;
		g.k = g.lda = g.ldb = h->dim;
		if (cuda_lm_gemm(d, &g) < 0)
			return -1;
		if (h->dtype == LM_DTYPE_F32)
			LAUNCH(loss_kernel<float>, cuda_grid(d, n, 1), LM_THREADS,
				cuda_of(d)->stream, (const float *)logits,
				(float *)(void *)to, h->loss + row + at,
				h->target + row + at, n, h->vocab, plan->stride, h->scale,
				wide);
		else
			LAUNCH(loss_kernel<uint16_t>, cuda_grid(d, n, 1), LM_THREADS,
				cuda_of(d)->stream, (const float *)logits,
				(uint16_t *)(void *)to, h->loss + row + at,
				h->target + row + at, n, h->vocab, plan->stride, h->scale,
				wide);
	}
	return lm_started(d);
}

/* Computes dh of these rows, and their contribution to dw. */
static int multiply(struct dev *d, const struct lm_head *h, uint64_t row, uint64_t rows,
	const char *dl, uint64_t stride)
{
	uint64_t at = row * h->dim * lm_dtype_bytes(h->dtype);
	struct lm_gemm g = {};

	g.form = LM_XW;
	g.dtype = g.out = h->dtype;
	g.c = (char *)h->dh + at;
	g.a = dl;
	g.b = h->w;
	g.m = rows, g.n = h->dim, g.k = h->vocab;
	g.lda = stride, g.ldb = g.ldc = h->dim;
	if (cuda_lm_gemm(d, &g) < 0)
		return -1;
	g.form = LM_XTX;
	g.out = LM_DTYPE_F32;
	g.c = h->dw;
	g.b = (const char *)h->h + at;
	g.from = h->fresh && row == 0 ? NULL : h->dw;
	g.m = h->vocab, g.n = h->dim, g.k = rows;
	return cuda_lm_gemm(d, &g);
}

int cuda_lm_head(struct dev *d, const struct lm_head *h)
{
	struct head_plan plan = head_plan(h);
	char *dl = h->dh ? (char *)h->scratch + plan.gathered_at : NULL;

	if (!h->rows && h->dh && h->fresh)
		CUDA_TRY(cudaMemsetAsync(h->dw, 0, h->vocab * h->dim * sizeof *h->dw,
			cuda_of(d)->stream));
	for (uint64_t row = 0; row < h->rows; row += plan.many) {
		uint64_t n = h->rows - row < plan.many ? h->rows - row : plan.many;

		if (gather(d, h, &plan, row, n, dl) < 0)
			return -1;
		if (dl && multiply(d, h, row, n, dl, plan.stride) < 0)
			return -1;
	}
	return 0;
}
