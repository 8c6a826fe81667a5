/* outer.cu - the operations of kernels/grad/outer.h on a GPU: each element alone, all of them
 * limited by memory. The formulas forbid fusing (kernels/grad/outer.h), so that -fmad changes
 * nothing. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/grad/ops.h"

#define THREADS 256

/* Defines the kernel of an operation on each of n elements i and the function that launches it.
 * `given`: the names of its arguments on the device; `...`: their declarations. */
#define ARGUMENTS(...) __VA_ARGS__
#define EACH(name, given, statement, ...)                                        \
	__global__ void outer_##name##_kernel(__VA_ARGS__, uint64_t n)           \
	{                                                                        \
		for (uint64_t i = GRID_FIRST; i < n; i += GRID_STRIDE)           \
			statement;                                               \
	}                                                                        \
	static int launch_##name(struct dev *d, __VA_ARGS__, uint64_t n)         \
	{                                                                        \
		LAUNCH(outer_##name##_kernel, cuda_grid(d, n, THREADS), THREADS, \
			cuda_of(d)->stream, given, n);                           \
		CUDA_TRY(cudaGetLastError());                                    \
		return 0;                                                        \
	}

EACH(delta, ARGUMENTS(out, began, ended), out[i] = began[i] - ended[i], float *out,
	const float *began, const float *ended)
EACH(merge, ARGUMENTS(theta, pub, a), theta[i] = outer_merged(theta[i], pub[i], a),
	float *theta, const float *pub, double a)
EACH(add, ARGUMENTS(x, y, scale), x[i] = outer_added(x[i], y[i], scale), float *x,
	const float *y, float scale)
EACH(sum, ARGUMENTS(sum, delta, w), sum[i] = outer_summed(sum[i], delta[i], w),
	double *sum, const float *delta, double w)
EACH(mean, ARGUMENTS(theta, sum), theta[i] = (float)OUTER_DSUB((double)theta[i], sum[i]),
	float *theta, const double *sum)
EACH(nesterov, ARGUMENTS(theta, v, sum, o),
	outer_nesterov_one(theta + i, v + i, sum[i], &o), float *theta, float *v,
	const double *sum, struct outer_nesterov o)
EACH(dn, ARGUMENTS(theta, m, buffer, g, s, share),
	outer_dn_one(theta + i, m + i, buffer + i, g[i], &s, share), float *theta,
	float *m, float *buffer, const float *g, struct outer_dn_step s, double share)

int cuda_outer_delta(struct dev *d, float *out, const float *began, const float *ended,
	uint64_t n)
{
	return launch_delta(d, out, began, ended, n);
}

int cuda_outer_merge(struct dev *d, float *theta, const float *pub, double a, uint64_t n)
{
	return launch_merge(d, theta, pub, a, n);
}

int cuda_outer_add(struct dev *d, float *x, const float *y, float scale, uint64_t n)
{
	return launch_add(d, x, y, scale, n);
}

int cuda_outer_sum(struct dev *d, double *sum, const float *delta, double w, uint64_t n)
{
	return launch_sum(d, sum, delta, w, n);
}

int cuda_outer_mean(struct dev *d, float *theta, const double *sum, uint64_t n)
{
	return launch_mean(d, theta, sum, n);
}

int cuda_outer_nesterov(struct dev *d, float *theta, float *v, const double *sum,
	const struct outer_nesterov *o, uint64_t n)
{
	return launch_nesterov(d, theta, v, sum, *o, n);
}

int cuda_outer_dn(struct dev *d, float *theta, float *m, float *buffer, const float *g,
	const struct outer_dn_step *s, uint64_t n)
{
	return launch_dn(d, theta, m, buffer, g, *s, outer_dn_share(s), n);
}
