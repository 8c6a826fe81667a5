/* outer.h - the arithmetic of training over a network, element by element: what a worker sends,
 * what a coordinator makes of it, and how a worker applies the update that comes back. libc
 * only.
 *
 * A delta is a worker's initial parameters minus its final ones: steps subtract it. Arrays are
 * f32 and sums f64. Each formula is evaluated in the order given, every operation rounded to
 * f64 (delta and add: to f32) on its own, nothing is fused, and results are rounded to f32
 * once: every version has the same bits (a NaN may be another NaN). n: elements. Arrays of one
 * call do not overlap, and are aligned to an element. The formulas are from DiLoCo
 * (arXiv 2311.08105), SparseLoCo (2508.15706), Delayed Nesterov (2401.09135) and Streaming DiLoCo
 * (2501.18512). */
#ifndef RNP_KERNELS_GRAD_OUTER_H
#define RNP_KERNELS_GRAD_OUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/hd.h"

struct outer_nesterov {
	double rate, momentum;
};

/* The effect of an arriving delta in Delayed Nesterov, the same for all of its elements. */
struct outer_dn_step {
	double rate, beta, c;
	uint32_t members;
	bool closes; /* the delta is the last of its buffer */
};

/* --- the formulas --------------------------------------------------------------------------- */

/* Operations that no compiler may fuse. */
#ifdef __CUDA_ARCH__
#define OUTER_MUL(a, b)  __fmul_rn(a, b)
#define OUTER_ADD(a, b)  __fadd_rn(a, b)
#define OUTER_DMUL(a, b) __dmul_rn(a, b)
#define OUTER_DADD(a, b) __dadd_rn(a, b)
#define OUTER_DSUB(a, b) __dsub_rn(a, b)
#else
#define OUTER_MUL(a, b)  ((a) * (b))
#define OUTER_ADD(a, b)  ((a) + (b))
#define OUTER_DMUL(a, b) ((a) * (b))
#define OUTER_DADD(a, b) ((a) + (b))
#define OUTER_DSUB(a, b) ((a) - (b))
#endif

/* x + scale y, two roundings to f32 */
HD float outer_added(float x, float y, float scale)
{
	return OUTER_ADD(x, OUTER_MUL(scale, y));
}

/* sum + w delta */
HD double outer_summed(double sum, float delta, double w)
{
	return OUTER_DADD(sum, OUTER_DMUL(w, (double)delta));
}

/* a theta + (1 - a) published; a = 0 gives published, bit for bit */
HD float outer_merged(float theta, float published, double a)
{
	return a == 0 ? published :
			(float)OUTER_DADD(OUTER_DMUL(a, (double)theta),
				OUTER_DMUL(1 - a, (double)published));
}

/* v <- m v + d ;  theta <- theta - e (d + m v) */
HD void outer_nesterov_one(float *theta, float *v, double d,
	const struct outer_nesterov *o)
{
	double velocity = OUTER_DADD(OUTER_DMUL(o->momentum, (double)*v), d);
	double step = OUTER_DADD(d, OUTER_DMUL(o->momentum, velocity));

	*theta = (float)OUTER_DSUB((double)*theta, OUTER_DMUL(o->rate, step));
	*v = (float)velocity;
}

/* The fraction of the momentum that a step takes. */
HD double outer_dn_share(const struct outer_dn_step *s)
{
	double members = s->members;

	return s->closes ? OUTER_DADD(OUTER_DSUB(1.0, OUTER_DMUL(s->c, members)), s->c) :
			   s->c;
}

HD void outer_dn_one(float *theta, float *m, float *buffer, float g,
	const struct outer_dn_step *s, double share)
{
	double members = s->members, momentum = (double)*m, step;
	double sum = OUTER_DADD((double)*buffer, (double)g);

	if (s->closes)
		momentum = OUTER_DADD(OUTER_DMUL(s->beta, momentum), sum / members);
	step = OUTER_DADD(OUTER_DMUL(OUTER_DMUL(share, s->beta), momentum),
		(double)g / members);
	*theta = (float)OUTER_DSUB((double)*theta, OUTER_DMUL(s->rate, step));
	*m = (float)momentum;
	*buffer = s->closes ? 0 : (float)sum;
}

/* --- the kernels of a level, for one thread --------------------------------------------------- */

KERNELS_BEGIN

struct outer_kernels {
	/* out = began - ended */
	void (*delta)(float *out, const float *began, const float *ended, uint64_t n);
	/* theta <- a theta + (1 - a) published: a worker's parameters and the published ones */
	void (*merge)(float *theta, const float *published, double a, uint64_t n);
	/* x <- x + scale y; with scale 1 an update is applied to the published parameters */
	void (*add)(float *x, const float *y, float scale, uint64_t n);
	/* sum <- sum + w delta: once for each delta, in an order that is the same wherever a
	 * round is computed */
	void (*sum)(double *sum, const float *delta, double w, uint64_t n);
	/* theta <- theta - d, for mean, and for sparse with d the sum of what workers sent */
	void (*mean)(float *theta, const double *d, uint64_t n);
	/* v <- m v + d ;  theta <- theta - e (d + m v). v begins with zeros. */
	void (*nesterov)(float *theta, float *v, const double *d,
		const struct outer_nesterov *o, uint64_t n);
	/* D <- D + g. If the buffer closes: m <- b m + D/N ; theta <- theta - e ((1 - cN + c) b
	 * m + g/N) ; D <- 0. Else: theta <- theta - e (c b m + g/N). m and D (buffer) begin as
	 * zeros. */
	void (*dn)(float *theta, float *m, float *buffer, const float *g,
		const struct outer_dn_step *s, uint64_t n);
};

/* Returns the kernels of a level, which this CPU must have; CPU_REF is the reference. */
const struct outer_kernels *outer_kernels(enum cpu_level level);

extern const struct outer_kernels outer_kernels_ref, outer_kernels_avx2,
	outer_kernels_avx512;

KERNELS_END

#endif
