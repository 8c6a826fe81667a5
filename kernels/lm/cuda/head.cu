/* head.cu - the output layer and the loss. When training, the logits of many rows are computed in
 * the activations' dtype and turned into their gradients in place, because each product with
 * these gradients reads and writes the whole gradient of the output weight. Evaluation computes
 * the logits of a few rows at a time in f32, few enough to stay in the level-2 cache. Contraction
 * (-fmad) joins the scaling of exponents, within the bound of ops.h. */
#include "kernels/lm/cuda/cuda.cuh"

#define LOGITS_BYTES ((uint64_t)32 << 20)  /* size of the logits of the few rows */
#define GATHER_BYTES ((uint64_t)512 << 20) /* size of the gradients of the many rows */
#define ROWS_PER_SM  4                     /* of logits between their two passes */
#define FEW_MIN      64                    /* with fewer rows products are slow */

/* How many rows are processed at once, and the size of scratch. */
struct head_plan {
	uint64_t rows, bytes;
	uint64_t
		/* of logits and their gradients: cuBLASLt requires rows aligned to 16 bytes,
		 * whatever the vocabulary */
		stride;
};

static uint64_t rows_in(uint64_t bytes, uint64_t each, uint64_t all)
{
	uint64_t rows = bytes / (each ? each : 1) / FEW_MIN * FEW_MIN;

	rows = rows < FEW_MIN ? FEW_MIN : rows;
	return rows < all ? rows : all;
}

/* The scratch of training serves evaluation too. */
static struct head_plan head_plan(const struct lm_head *h)
{
	struct head_plan r = {};
	uint64_t stride = (h->vocab + 63) / 64 * 64, each = lm_dtype_bytes(h->dtype);
	uint64_t few = rows_in(LOGITS_BYTES, stride * 4, h->rows);
	uint64_t many = rows_in(GATHER_BYTES, stride * each, h->rows);

	r.stride = stride;
	r.rows = h->dh ? many : few;
	r.bytes = few * stride * 4;
	if (h->dh && many * stride * each > r.bytes)
		r.bytes = many * stride * each;
	return r;
}

int cuda_lm_head_scratch(struct dev *d, const struct lm_head *h, uint64_t *bytes)
{
	(void)d;
	*bytes = head_plan(h).bytes;
	return 0;
}

/* The logits of rows in memory, whose gradients replace them. */
struct logits {
	void *l;
	float *loss; /* on entry the target's logit */
	const uint32_t *target;
	uint64_t rows, vocab, stride;
	float scale;
	bool gradient, wide;
};

/* The logit of each row's target in f32, one warp per row, and -infinity after the row's logits.
 * The loss is computed from it: the rounding of the many other logits averages out, that of one
 * does not. */
template <class T, class L>
__global__ void target_kernel(struct logits x, const T *h, const T *w, uint64_t dim,
	bool wide)
{
	unsigned lane = threadIdx.x % 32;

	for (uint64_t r = GRID_FIRST / 32; r < x.rows; r += GRID_STRIDE / 32) {
		uint32_t goal = x.target[r];
		float a[LM_PACK], b[LM_PACK], sum = 0;

		for (uint64_t i = lane * LM_PACK; goal != LM_NO_TARGET && i < dim;
			i += 32 * LM_PACK) {
			lm_load(a, h + r * dim + i, lm_count(i, dim), wide);
			lm_load(b, w + goal * dim + i, lm_count(i, dim), wide);
			UNROLL
			for (int k = 0; k < LM_PACK; k++)
				sum = fmaf(a[k], b[k], sum);
		}
		sum = lm_warp_sum(sum);
		if (lane == 0)
			x.loss[r] = sum;
		for (uint64_t i = x.vocab + lane; i < x.stride; i += 32)
			lm_round((L *)x.l + r * x.stride + i, -INFINITY);
	}
}

/* What a block knows of its row's softmax: p of logit l is 2^(l LOG2E - shift). */
struct row_sum {
	float shift, goal; /* goal: the target's p */
};

#define LOG2E 1.4426950408889634f

/* Joins all threads' largest logits and their sums of exponentials relative to these. logit: of the
 * target as stored, exact: to be used in its place. Thread 0 stores the loss. */
__device__ __forceinline__ row_sum finish_row(float largest, float sum, float logit,
	float exact, bool has_target, float *loss, float *shared)
{
	float most = lm_warp_max(largest), all;
	row_sum r;

	static_assert(LM_WARPS == 8, "a power of two");
	sum = lm_warp_sum(
		largest == -INFINITY ? 0 : sum * lm_exp2((largest - most) * LOG2E));
	__syncthreads(); /* until the previous values are read */
	if (threadIdx.x % 32 == 0) {
		shared[threadIdx.x / 32] = most;
		shared[LM_WARPS + threadIdx.x / 32] = sum;
	}
	__syncthreads();
	/* every lane takes a warp's, and lanes are joined again */
	largest = shared[threadIdx.x % LM_WARPS];
	sum = shared[LM_WARPS + threadIdx.x % LM_WARPS];
	most = lm_warp_max(largest, LM_WARPS);
	all = lm_warp_sum(largest == -INFINITY ? 0 :
						 sum * lm_exp2((largest - most) * LOG2E),
		LM_WARPS);
	if (has_target)
		all += expf(exact - most) - expf(logit - most);
	r.shift = most * LOG2E + log2f(all);
	r.goal = expf(exact - most) / all;
	if (threadIdx.x == 0)
		*loss = has_target ? logf(all) + (most - exact) : 0;
	return r;
}

/* Turns eight logits into gradients, as if none were the target's. */
__device__ __forceinline__ void gradients(float (&v)[LM_PACK], const row_sum &sum,
	float scale)
{
	UNROLL
	for (int k = 0; k < LM_PACK; k++)
		v[k] = scale * lm_exp2(fmaf(v[k], LOG2E, -sum.shift));
}

/* Stores the gradient of the target's logit, by the thread that stored the pack around it. */
template <class T>
__device__ __forceinline__ void store_goal(T *l, uint32_t goal, float scale,
	const row_sum &sum)
{
	if (goal != LM_NO_TARGET && goal / LM_PACK % LM_THREADS == threadIdx.x)
		lm_round(&l[goal], scale * (sum.goal - 1));
}

/* Loads eight logits from column i on, -infinity in place of those that do not exist. */
template <bool WIDE, class T>
__device__ __forceinline__ void load_logits(float (&v)[LM_PACK], const T *l, uint64_t i,
	uint64_t end)
{
	unsigned n = i < end ? lm_count(i, end) : 0;

	if (WIDE && n)
		lm_load(v, l + i, LM_PACK, true);
	else if (!WIDE)
		lm_load(v, l + i, n, false);
	UNROLL
	for (unsigned k = 0; k < LM_PACK; k++)
		v[k] = k < n || (WIDE && n) ? v[k] : -INFINITY;
}

/* packs of a thread that are on their way together */
#define AHEAD 4

/* One thread block per row: one pass over the logits for the sum (Milakov, Gimelshein 2018, Online
 * normalizer calculation for softmax), one for the gradients. So few rows are under way that the
 * second pass reads from the level-2 cache. WIDE: 16 bytes at a time, up to the stride. */
template <class T, bool WIDE> __global__ void loss_kernel(struct logits x)
{
	SHARED(float, shared, 2 * LM_WARPS);
	const uint64_t step = LM_THREADS * LM_PACK, end = WIDE ? x.stride : x.vocab;

	for (uint64_t r = blockIdx.x; r < x.rows; r += gridDim.x) {
		T *l = (T *)x.l + r * x.stride;
		uint32_t goal = x.target[r];
		bool has = goal != LM_NO_TARGET;
		float largest = -INFINITY, sum = 0, shift = 0;
		float exact = x.loss[r], logit = has ? lm_f32(l[goal]) : 0;
		row_sum s;

		for (uint64_t i = threadIdx.x * LM_PACK; i < end; i += AHEAD * step) {
			float v[AHEAD][LM_PACK];

			UNROLL
			for (unsigned p = 0; p < AHEAD; p++)
				load_logits<WIDE>(v[p], l, i + p * step, end);
			UNROLL
			for (unsigned p = 0; p < AHEAD; p++) {
				float more = largest;

				UNROLL
				for (int k = 0; k < LM_PACK; k++)
					more = fmaxf(more, v[p][k]);
				if (more > largest) {
					sum *= lm_exp2((largest - more) * LOG2E);
					largest = more;
					shift = more * LOG2E;
				}
				UNROLL
				for (int k = 0; k < LM_PACK; k++)
					sum += lm_exp2(fmaf(v[p][k], LOG2E, -shift));
			}
		}
		s = finish_row(largest, sum, logit, exact, has, x.loss + r, shared);
		for (uint64_t i = threadIdx.x * LM_PACK; x.gradient && i < end;
			i += AHEAD * step) {
			float v[AHEAD][LM_PACK];

			UNROLL
			for (unsigned p = 0; p < AHEAD; p++)
				load_logits<WIDE>(v[p], l, i + p * step, end);
			UNROLL
			for (unsigned p = 0; p < AHEAD; p++) {
				gradients(v[p], s, has ? x.scale : 0);
				if (i + p * step < end)
					lm_store(l + i + p * step, v[p],
						WIDE ? LM_PACK :
						       lm_count(i + p * step, end),
						WIDE);
			}
		}
		if (x.gradient)
			store_goal(l, goal, x.scale, s);
	}
}

/* T: of activations, L: of logits. a: the rows' activations. */
template <class T, class L>
static void launch_loss(struct dev *d, const struct lm_head *h, const struct logits *x,
	const void *a)
{
	auto target = target_kernel<T, L>;
	auto loss = x->wide ? loss_kernel<L, true> : loss_kernel<L, false>;
	cudaStream_t stream = cuda_of(d)->stream;
	unsigned grid = cuda_grid(d, x->rows, 1);
	unsigned few = (unsigned)(cuda_of(d)->sm_count * ROWS_PER_SM);

	LAUNCH(target, cuda_grid(d, x->rows, LM_WARPS), LM_THREADS, stream, *x,
		(const T *)a, (const T *)h->w, h->dim,
		lm_wide(h->dim, a, h->w, NULL, NULL));
	LAUNCH(loss, grid < few ? grid : few, LM_THREADS, stream, *x);
}

/* Computes the loss of `rows` rows from `row` on, and the gradients of their logits in scratch. */
static int gather(struct dev *d, const struct lm_head *h, const struct head_plan *plan,
	uint64_t row, uint64_t rows)
{
	uint64_t at = row * h->dim * lm_dtype_bytes(h->dtype);
	bool bf16 = h->dh && h->dtype == LM_DTYPE_BF16;
	struct logits x = { h->scratch, h->loss + row, h->target + row, rows, h->vocab,
		plan->stride, h->scale, h->dh != NULL,
		lm_wide(plan->stride, h->scratch, NULL, NULL, NULL) };
	struct lm_gemm g = {};

	g.form = LM_XWT;
	g.dtype = h->dtype;
	g.out = bf16 ? LM_DTYPE_BF16 : LM_DTYPE_F32;
	g.c = h->scratch;
	g.a = (const char *)h->h + at;
	g.b = h->w;
	g.m = rows, g.n = h->vocab, g.ldc = plan->stride;
	g.k = g.lda = g.ldb = h->dim;
	if (cuda_lm_gemm(d, &g) < 0)
		return -1;
	if (h->dtype == LM_DTYPE_F32)
		launch_loss<float, float>(d, h, &x, g.a);
	else if (h->dh)
		launch_loss<uint16_t, uint16_t>(d, h, &x, g.a);
	else
		launch_loss<uint16_t, float>(d, h, &x, g.a);
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
	if (!h->dw)
		return 0;
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

	if (!h->rows && h->dh && h->dw && h->fresh)
		CUDA_TRY(cudaMemsetAsync(h->dw, 0, h->vocab * h->dim * sizeof *h->dw,
			cuda_of(d)->stream));
	for (uint64_t row = 0; row < h->rows; row += plan.rows) {
		uint64_t n = h->rows - row < plan.rows ? h->rows - row : plan.rows;

		if (gather(d, h, &plan, row, n) < 0)
			return -1;
		if (h->dh &&
			multiply(d, h, row, n, (const char *)h->scratch, plan.stride) < 0)
			return -1;
	}
	return 0;
}
