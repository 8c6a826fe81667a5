/* adamw.cu - the optimiser on a GPU. Its four arrays are read and written once, 16 bytes at a
 * time: memory bandwidth alone decides its speed. Contraction (-fmad) rounds m, v and p less often,
 * within the bound of ops.h; squares of f32 are exact in f64, with it or without. */
#include "kernels/lm/cuda/cuda.cuh"

/* One block of LM_SQUARES_BLOCK numbers for each thread block: thread t adds its packs in
 * order, then the threads' sums are added in pairs. Sums are f64, so that neither large nor
 * small gradients are lost. */
__global__ void squares_kernel(struct lm_squares s, uint64_t parts, bool wide)
{
	SHARED(double, sum, LM_WARPS);

	for (uint64_t b = blockIdx.x; b < parts; b += gridDim.x) {
		uint64_t first = b * LM_SQUARES_BLOCK, end = first + LM_SQUARES_BLOCK;
		double mine = 0;

		end = end < s.n ? end : s.n;
		for (uint64_t i = first + threadIdx.x * LM_PACK; i < end;
			i += LM_THREADS * LM_PACK) {
			unsigned n = lm_count(i, end);
			float g[LM_PACK];

			lm_load(g, s.g + i, n, wide && n == LM_PACK);
			for (int k = 0; k < LM_PACK; k++)
				mine += (double)g[k] * g[k];
		}
		mine = lm_warp_sum(mine);
		__syncthreads(); /* until the sums of the previous block are read */
		if (threadIdx.x % 32 == 0)
			sum[threadIdx.x / 32] = mine;
		__syncthreads();
		if (threadIdx.x == 0) {
			for (int w = 1; w < LM_WARPS; w++)
				mine += sum[w];
			s.part[b] = mine;
		}
	}
}

int cuda_lm_squares(struct dev *d, const struct lm_squares *s)
{
	uint64_t parts = (s->n + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK;

	if (!parts)
		return 0;
	LAUNCH(squares_kernel, cuda_grid(d, parts, 1), LM_THREADS, cuda_of(d)->stream, *s,
		parts, lm_wide(LM_PACK, s->g, NULL, NULL, NULL));
	return lm_started(d);
}

/* Runs in one thread block. */
__global__ void clip_kernel(struct lm_clip c)
{
	SHARED(double, sum, LM_WARPS);
	double mine = 0;

	UNROLL_16
	for (uint64_t b = threadIdx.x; b < c.parts; b += LM_THREADS)
		mine += c.part[b];
	mine = lm_warp_sum(mine);
	if (threadIdx.x % 32 == 0)
		sum[threadIdx.x / 32] = mine;
	__syncthreads();
	if (threadIdx.x == 0) {
		struct lm_rates *r = c.rates;

		for (int w = 1; w < LM_WARPS; w++)
			mine += sum[w];
		r->norm = (float)(r->unit * sqrt(mine));
		r->scale = r->unit;
		if (r->clip > 0 && r->norm > r->clip)
			r->scale = r->unit * r->clip / r->norm;
	}
}

int cuda_lm_clip(struct dev *d, const struct lm_clip *c)
{
	LAUNCH(clip_kernel, 1, LM_THREADS, cuda_of(d)->stream, *c);
	return lm_started(d);
}

__global__ void adamw_kernel(struct lm_adamw a, bool wide)
{
	const struct lm_rates r = *a.rates;
	float keep = 1 - r.lr * a.decay, rate = r.lr * r.correct1;
	float rest1 = 1 - a.beta1, rest2 = 1 - a.beta2;

	if (!(fabsf(r.norm) <= 3.402823466e38f)) /* not finite */
		return;
	for (uint64_t i = GRID_FIRST * LM_PACK; i < a.n; i += GRID_STRIDE * LM_PACK) {
		unsigned n = lm_count(i, a.n);
		float p[LM_PACK], m[LM_PACK], v[LM_PACK], g[LM_PACK];
		bool w = wide && n == LM_PACK;
		/* the same for all of a pack, as that does not cross a multiple of it */
		float left = a.spared && a.spared[i / LM_SPARED] ? 1 : keep;

		lm_load(g, a.g + i, n, w);
		lm_load(p, a.p + i, n, w);
		lm_load(m, a.m + i, n, w);
		lm_load(v, a.v + i, n, w);
		UNROLL
		for (int k = 0; k < LM_PACK; k++) {
			float scaled = r.scale * g[k];

			m[k] += rest1 * (scaled - m[k]);
			v[k] = a.beta2 * v[k] + rest2 * scaled * scaled;
			p[k] = p[k] * left -
				rate * m[k] / (sqrtf(r.correct2 * v[k]) + a.eps);
		}
		lm_store(a.p + i, p, n, w);
		lm_store(a.m + i, m, n, w);
		lm_store(a.v + i, v, n, w);
		if (a.copy)
			lm_store(a.copy + i, p, n, w);
	}
}

int cuda_lm_adamw(struct dev *d, const struct lm_adamw *a)
{
	bool wide = lm_wide(LM_PACK, a->p, a->m, a->v, a->g) &&
		lm_wide(LM_PACK, a->copy, NULL, NULL, NULL);

	if (!a->n)
		return 0;
	LAUNCH(adamw_kernel, cuda_grid(d, lm_packs(a->n), LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *a, wide);
	return lm_started(d);
}
