/* swiglu.cu - SwiGLU, its gradient, and with the products of its inputs where cuBLASLt makes those;
 * in the products' own kernels they are in swiglu_sm90a.cu and swiglu_tensor.cu. Packs of eight as
 * in rows.cu. Contraction (-fmad) changes them within the bounds of ops.h. */
#include "kernels/lm/cuda/cuda.cuh"

template <class T> __global__ void swiglu_kernel(struct lm_swiglu s, bool wide)
{
	uint64_t packs = (s.hidden + LM_PACK - 1) / LM_PACK, all = s.rows * packs;

	for (uint64_t n = GRID_FIRST; n < all; n += GRID_STRIDE) {
		uint64_t r = n / packs, i = n % packs * LM_PACK;
		const T *x = (const T *)s.x + r * 2 * s.hidden + i;
		unsigned count = lm_count(i, s.hidden);
		float g[LM_PACK], u[LM_PACK];

		lm_load(g, x, count, wide);
		lm_load(u, x + s.hidden, count, wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++)
			u[k] = lm_gated(g[k], u[k], s.gelu);
		lm_store((T *)s.y + r * s.hidden + i, u, count, wide);
	}
}

/* Whether SwiGLU is better a kernel of its own, which passes its bytes at the memory's rate, behind
 * a product of cuBLASLt: on an H200 that makes 800 TFLOP/s, swiglu_sm90a.cu 428 and
 * swiglu_tensor.cu 236. */
static bool gates_apart(struct dev *d)
{
	return cuda_of(d)->wgmma && cuda_of(d)->lt;
}

int cuda_lm_swiglu(struct dev *d, const struct lm_swiglu *s)
{
	uint64_t n = s->rows * lm_packs(s->hidden);
	struct lm_gemm g = lm_swiglu_inputs(s);

	if (!n)
		return 0;
	if (s->in) {
		int rc = gates_apart(d) ? 1 : cuda_lm_swiglu_product(d, s);

		if (rc <= 0)
			return rc;
		rc = cuda_lm_gemm(d, &g);
		if (rc < 0 || !s->y)
			return rc;
	}
	LM_LAUNCH(s->dtype, swiglu_kernel, cuda_grid(d, n, LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *s, lm_wide(s->hidden, s->x, s->y, NULL, NULL));
	return lm_started(d);
}

/* A thread reads everything it overwrites before it writes, so dx may be x. */
template <class T> __global__ void swiglu_back_kernel(struct lm_swiglu_back s, bool wide)
{
	uint64_t packs = (s.hidden + LM_PACK - 1) / LM_PACK, all = s.rows * packs;

	for (uint64_t n = GRID_FIRST; n < all; n += GRID_STRIDE) {
		uint64_t r = n / packs, i = n % packs * LM_PACK;
		uint64_t at = r * 2 * s.hidden + i;
		unsigned count = lm_count(i, s.hidden);
		float g[LM_PACK], u[LM_PACK], y[LM_PACK];

		lm_load(g, (const T *)s.x + at, count, wide);
		lm_load(u, (const T *)s.x + at + s.hidden, count, wide);
		lm_load(y, (const T *)s.dy + r * s.hidden + i, count, wide);
		UNROLL
		for (int k = 0; k < LM_PACK; k++) {
			float sig = 1 / (1 + expf(-g[k])), gate = g[k] * sig;
			float up = u[k], dy = y[k];

			y[k] = gate * up;
			u[k] = dy * gate;
			g[k] = dy * up * sig * (1 + g[k] * (1 - sig));
		}
		lm_store((T *)s.dx + at, g, count, wide);
		lm_store((T *)s.dx + at + s.hidden, u, count, wide);
		if (s.y)
			lm_store((T *)s.y + r * s.hidden + i, y, count, wide);
	}
}

int cuda_lm_swiglu_back(struct dev *d, const struct lm_swiglu_back *s)
{
	uint64_t n = s->rows * lm_packs(s->hidden);
	struct lm_gemm g = lm_swiglu_product(s);

	if (!n)
		return 0;
	if (s->dout) {
		int rc = gates_apart(d) ? 1 : cuda_lm_swiglu_back_product(d, s);

		if (rc <= 0)
			return rc;
		if (cuda_lm_gemm(d, &g) < 0)
			return -1;
	}
	LM_LAUNCH(s->dtype, swiglu_back_kernel, cuda_grid(d, n, LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *s, lm_wide(s->hidden, s->dx, s->y, s->x, s->dy));
	return lm_started(d);
}
