/* outer.c - the operations of kernels/grad/outer.h on the CPU: the team shares stretches of
 * elements. */
#include "kernels/grad/cpu/cpu.h"

#include <stdlib.h>

#include "kernels/dev/dev_cpu.h"

#define GRAIN 65536 /* elements */

const struct outer_kernels *outer_kernels(enum cpu_level level)
{
#ifdef __x86_64__
	if (level >= CPU_AVX512)
		return &outer_kernels_avx512;
	if (level >= CPU_AVX2)
		return &outer_kernels_avx2;
#endif
	(void)level;
	return &outer_kernels_ref;
}

void outer_cpu_choose(struct outer_cpu *out, enum cpu_level level)
{
	out->kernels = outer_kernels(level);
}

CPU_OPEN(outer)

/* The arguments of an operation: the arrays that it reads and writes, and its constants. */
struct stretch {
	const struct outer_kernels *k;
	float *x, *v, *buffer;
	const float *y, *z;
	double *sum;
	const double *d;
	double a;
	float scale;
	const struct outer_nesterov *nesterov;
	const struct outer_dn_step *dn;
};

#define PART(name, call)                                       \
	static void name(void *work, uint64_t at, uint64_t to) \
	{                                                      \
		const struct stretch *s = work;                \
		uint64_t n = to - at;                          \
                                                               \
		s->k->call;                                    \
	}

PART(delta_part, delta(s->x + at, s->y + at, s->z + at, n))
PART(merge_part, merge(s->x + at, s->y + at, s->a, n))
PART(add_part, add(s->x + at, s->y + at, s->scale, n))
PART(sum_part, sum(s->sum + at, s->y + at, s->a, n))
PART(mean_part, mean(s->x + at, s->d + at, n))
PART(nesterov_part, nesterov(s->x + at, s->v + at, s->d + at, s->nesterov, n))
PART(dn_part, dn(s->x + at, s->v + at, s->buffer + at, s->y + at, s->dn, n))

static int over(struct dev *d, uint64_t n, team_part_fn part, struct stretch s)
{
	s.k = cpu_of(d)->outer->kernels;
	return cpu_in_parts(d, n, GRAIN, part, &s);
}

static int cpu_delta(struct dev *d, float *out, const float *began, const float *ended,
	uint64_t n)
{
	return over(d, n, delta_part,
		(struct stretch){ .x = out, .y = began, .z = ended });
}

static int cpu_merge(struct dev *d, float *theta, const float *published, double a,
	uint64_t n)
{
	return over(d, n, merge_part,
		(struct stretch){ .x = theta, .y = published, .a = a });
}

static int cpu_add(struct dev *d, float *x, const float *y, float scale, uint64_t n)
{
	return over(d, n, add_part, (struct stretch){ .x = x, .y = y, .scale = scale });
}

static int cpu_sum(struct dev *d, double *sum, const float *delta, double w, uint64_t n)
{
	return over(d, n, sum_part, (struct stretch){ .sum = sum, .y = delta, .a = w });
}

static int cpu_mean(struct dev *d, float *theta, const double *sum, uint64_t n)
{
	return over(d, n, mean_part, (struct stretch){ .x = theta, .d = sum });
}

static int cpu_nesterov(struct dev *d, float *theta, float *v, const double *sum,
	const struct outer_nesterov *o, uint64_t n)
{
	return over(d, n, nesterov_part,
		(struct stretch){ .x = theta, .v = v, .d = sum, .nesterov = o });
}

static int cpu_dn(struct dev *d, float *theta, float *m, float *buffer, const float *g,
	const struct outer_dn_step *s, uint64_t n)
{
	return over(d, n, dn_part,
		(struct stretch){ .x = theta,
			.v = m,
			.buffer = buffer,
			.y = g,
			.dn = s });
}

CPU_TABLE(outer, OUTER_OPS);
