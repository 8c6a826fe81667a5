/* check_outer.c - compares every version of outer with its reference, bit by bit: results that a
 * call writes side by side are one output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kcheck.h"

struct arguments {
	const float *x, *y, *z, *g; /* on the device */
	const double *d;
	uint64_t n;
	double a;
	struct outer_nesterov nesterov;
	struct outer_dn_step dn;
};

/* The arrays that an operation changes begin with what the inputs hold. */
static int begin(struct dev *d, float *out, const struct arguments *a, int arrays)
{
	const float *from[] = { a->x, a->y, a->z };

	for (int i = 0; i < arrays; i++)
		if (d->ops->copy(d, out + (uint64_t)i * a->n, from[i], a->n * 4) < 0)
			return -1;
	return 0;
}

static int run_delta(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->outer->delta(d, out, a->x, a->y, a->n);
}

static int run_merge(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return begin(d, out, a, 1) < 0 ? -1 :
					 d->ops->outer->merge(d, out, a->y, a->a, a->n);
}

static int run_add(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return begin(d, out, a, 1) < 0 ?
		-1 :
		d->ops->outer->add(d, out, a->y, (float)a->a, a->n);
}

static int run_sum(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->copy(d, out, a->d, a->n * 8) < 0 ?
		-1 :
		d->ops->outer->sum(d, out, a->x, a->a, a->n);
}

static int run_mean(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return begin(d, out, a, 1) < 0 ? -1 : d->ops->outer->mean(d, out, a->d, a->n);
}

static int run_nesterov(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	float *theta = out;

	return begin(d, out, a, 2) < 0 ?
		-1 :
		d->ops->outer->nesterov(d, theta, theta + a->n, a->d, &a->nesterov, a->n);
}

static int run_dn(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	float *theta = out;

	return begin(d, out, a, 3) < 0 ? -1 :
					 d->ops->outer->dn(d, theta, theta + a->n,
						 theta + 2 * a->n, a->g, &a->dn, a->n);
}

/* Numbers of every size, some of which the others' roundings swallow, zeros of both signs, and
 * infinities; with NaN it would not be said which one comes back. */
static float value_of(const uint32_t *words, uint64_t i)
{
	uint32_t w = words[i];
	float f = half_float_of_bits((w & 0x80ffffff) | (100 + (w >> 24) % 50) << 23);

	return w % 29 == 0  ? half_float_of_bits(w & 0x80000000) :
		w % 31 == 0 ? half_float_of_bits((w & 0x80000000) | 0x7f7fffff) :
			      f;
}

struct check {
	struct kcheck *k;
	struct kcase c;
	struct arguments a; /* what the device is given */
	uint64_t n;
	float *x, *y, *z, *g, *want; /* host; want: [3 n] */
	double *d, *sums;
};

/* Runs a case whose output is `want`, of so many bytes. */
static void run(struct check *t, const char *name, kcheck_run_fn fn, const void *want,
	uint64_t bytes, double moved)
{
	t->a.x = kcheck_put(t->k, t->x, t->n * 4, 4);
	t->a.y = kcheck_put(t->k, t->y, t->n * 4, 8);
	t->a.z = kcheck_put(t->k, t->z, t->n * 4, 12);
	t->a.g = kcheck_put(t->k, t->g, t->n * 4, 4);
	t->a.d = kcheck_put(t->k, t->d, t->n * 8, 8);
	t->c = (struct kcase){ .run = fn,
		.arguments = &t->a,
		.want = want,
		.out_bytes = bytes,
		.offset = bytes == t->n * 8 ? 8 : 4,
		.work = moved * (double)t->n,
		.unit = "B" };
	snprintf(t->c.label, sizeof t->c.label, "%s %llu", name,
		(unsigned long long)t->n);
	kcheck_case(t->k, &t->c);
}

/* Sets the beginning of the expected output to the inputs. */
static float *expect(struct check *t)
{
	memcpy(t->want, t->x, t->n * 4);
	memcpy(t->want + t->n, t->y, t->n * 4);
	memcpy(t->want + 2 * t->n, t->z, t->n * 4);
	return t->want;
}

static void workers(struct check *t)
{
	const struct outer_kernels *ref = outer_kernels(CPU_REF);
	uint64_t n = t->n;

	ref->delta(t->want, t->x, t->y, n);
	run(t, "delta", run_delta, t->want, n * 4, 12);
	for (int i = 0; i < 3; i++) {
		t->a.a = (double[]){ 0, 0.5, 0.3 }[i];
		ref->merge(expect(t), t->y, t->a.a, n);
		run(t, i ? "merge" : "merge, a is 0", run_merge, t->want, n * 4, 12);
		t->a.a = (double[]){ 1, -1, 0.1 }[i];
		ref->add(expect(t), t->y, (float)t->a.a, n);
		run(t, "add", run_add, t->want, n * 4, 12);
	}
}

static void coordinators(struct check *t)
{
	const struct outer_kernels *ref = outer_kernels(CPU_REF);
	uint64_t n = t->n;

	t->a.a = 1.0 / 3;
	memcpy(t->sums, t->d, n * 8);
	ref->sum(t->sums, t->x, t->a.a, n);
	run(t, "sum", run_sum, t->sums, n * 8, 20);
	ref->mean(expect(t), t->d, n);
	run(t, "mean", run_mean, t->want, n * 4, 16);
	t->a.nesterov = (struct outer_nesterov){ 0.7, 0.9 };
	ref->nesterov(expect(t), t->want + n, t->d, &t->a.nesterov, n);
	run(t, "nesterov", run_nesterov, t->want, n * 8, 24);
	for (int closes = 0; closes < 2; closes++) {
		t->a.dn = (struct outer_dn_step){ 0.7, 0.9, 0.1, 3, closes };
		ref->dn(expect(t), t->want + n, t->want + 2 * n, t->g, &t->a.dn, n);
		run(t, closes ? "dn, the last of a buffer" : "dn", run_dn, t->want,
			n * 12, 28);
	}
}

static void one(struct kcheck *k, uint64_t n)
{
	struct check t = { .k = k, .n = n, .a.n = n };
	float *all = malloc(n * 7 * 4);
	double *sums = malloc(n * 2 * 8);
	uint32_t *words = malloc(n * 5 * 4);

	kcheck_random(words, n * 5 * 4, n);
	t.x = all, t.y = all + n, t.z = all + 2 * n, t.g = all + 3 * n;
	t.want = all + 4 * n;
	t.d = sums, t.sums = sums + n;
	for (uint64_t i = 0; i < 4 * n; i++)
		all[i] = value_of(words, i);
	for (uint64_t i = 0; i < n; i++)
		t.d[i] = (double)value_of(words, 4 * n + i) * (1 + 0x1p-40);
	workers(&t);
	coordinators(&t);
	free(all), free(sums), free(words);
}

void check_outer(struct kcheck *k)
{
	static const uint64_t lengths[] = { 1, 7, 255, 1000, 4099, 65536 * 2 + 3 };

	if (k->bench) {
		one(k, 16 << 20);
		return;
	}
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths - k->slow; i++)
		one(k, lengths[i]);
}
