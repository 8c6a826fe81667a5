/* roof.c - timed products of growing size. */
#include "cmd/rnp-train/roof.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "kernels/bulk/ops.h"
#include "kernels/dev/half.h"

#define SIZE_MIN   256
#define SIZE_HOST  2048
#define SIZE_GPU   8192 /* below, a large GPU waits for launches more than it multiplies */
#define IN_A_ROW   10   /* of a GPU, between two events */
#define LONG_NS    50000000 /* a product that takes so long is large enough */
#define MEASURE_NS 200000000

struct roof {
	struct dev *d;
	struct product p;
	uint64_t largest, count; /* side; numbers that A has room for */
	double best;             /* FLOP/s so far */
};

/* Random numbers in [-1, 1): with zeros a chip draws less power and runs faster than with data.
 * One block of them is repeated. */
static int fill_random(struct roof *r, void *a, size_t element)
{
	const struct dev_ops *ops = r->d->ops;
	static uint32_t bits[SIZE_MIN * SIZE_MIN];
	uint64_t block = (uint64_t)SIZE_MIN * SIZE_MIN * element,
		 all = r->count * element;
	struct philox p = { .seed = 1 };

	philox_fill_ref(bits, sizeof bits, &p);
	for (size_t i = 0; i < SIZE_MIN * SIZE_MIN; i++) {
		float x = (float)(int32_t)bits[i] * 0x1p-31f;

		if (element == 2)
			((uint16_t *)bits)[i] = bf16_from_f32(x);
		else
			memcpy(&bits[i], &x, sizeof x);
	}
	for (uint64_t at = 0; at < all; at += block)
		if (ops->put(r->d, (char *)a + at, bits,
			    all - at < block ? all - at : block) < 0)
			return -1;
	return 0;
}

/* Times products of n x n: *ns of each. */
static int time_product(struct roof *r, uint64_t n, int times, int64_t *ns)
{
	const struct dev_ops *ops = r->d->ops;
	double rate;

	r->p.m = r->p.n = r->p.k = r->p.lda = r->p.ldb = r->p.ldc = n;
	if (ops->timer_start(r->d) < 0)
		return -1;
	for (int i = 0; i < times; i++)
		if (ops->bulk->product(r->d, &r->p) < 0)
			return -1;
	if (ops->timer_stop(r->d, ns) < 0)
		return -1;
	*ns /= times;
	rate = *ns > 0 ? 2e9 * (double)(n * n * n) / (double)*ns : 0;
	if (rate > r->best)
		r->best = rate;
	return 0;
}

/* A device that is slow gets smaller products. */
static int time_products(struct roof *r)
{
	uint64_t n = SIZE_MIN / 2;
	int64_t until, ns = 0;
	int rc, times;

	do {
		n *= 2;
		/* the first of a size loads a library, or makes its code */
		rc = time_product(r, n, 1, &ns) < 0 || time_product(r, n, 1, &ns) < 0 ?
			-1 :
			0;
	} while (rc == 0 && n < r->largest && ns < LONG_NS);
	times = !r->d->is_host && ns < LONG_NS / IN_A_ROW ? IN_A_ROW : 1;
	until = clock_mono_ns() + MEASURE_NS;
	do
		rc = rc < 0 ? -1 : time_product(r, n, times, &ns);
	while (rc == 0 && clock_mono_ns() < until);
	return rc;
}

/* Room for A, which is B too, and C; a GPU that has little left gets less. */
static int allocate(struct roof *r, size_t element, void **a, void **c)
{
	const struct dev_ops *ops = r->d->ops;

	for (r->largest = r->d->is_host ? SIZE_HOST : SIZE_GPU;; r->largest /= 2) {
		r->count = r->largest * r->largest;
		if (ops->alloc(r->d, a, r->count * element) == 0 &&
			ops->alloc(r->d, c, r->count * 4) == 0)
			return 0;
		ops->free(r->d, *a);
		*a = NULL;
		if (r->largest <= SIZE_HOST)
			return -1;
	}
}

int roof_measure(struct dev *d, enum lm_dtype dtype, double *flop_per_s)
{
	bool f32 = dtype == LM_DTYPE_F32;
	struct roof r = { .d = d, .p = { .type = f32 ? PRODUCT_F32 : PRODUCT_BF16 } };
	void *a = NULL, *c = NULL;
	int rc = -1;

	if (allocate(&r, f32 ? 4 : 2, &a, &c) < 0 || fill_random(&r, a, f32 ? 4 : 2) < 0)
		goto out;
	r.p.a = r.p.b = a;
	r.p.c = c;
	rc = time_products(&r);
	*flop_per_s = r.best;
out:
	d->ops->free(d, a);
	d->ops->free(d, c);
	return rc < 0 ? device_failed(d) : 0;
}
