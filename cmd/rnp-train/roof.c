/* roof.c - timed products of growing size. */
#include "cmd/rnp-train/roof.h"

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "kernels/bulk/ops.h"

#define SIZE_MIN   256
#define SIZE_MAX_N 2048
#define LONG_NS    50000000 /* a product that takes so long is large enough */
#define MEASURE_NS 200000000

struct roof {
	struct dev *d;
	struct product p;
	double best; /* FLOP/s so far */
};

/* Times one product of n x n. */
static int time_product(struct roof *r, uint64_t n, int64_t *ns)
{
	const struct dev_ops *ops = r->d->ops;
	double rate;

	r->p.m = r->p.n = r->p.k = r->p.lda = r->p.ldb = r->p.ldc = n;
	if (ops->timer_start(r->d) < 0 || ops->bulk->product(r->d, &r->p) < 0 ||
		ops->timer_stop(r->d, ns) < 0)
		return -1;
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
	int rc;

	do {
		n *= 2;
		/* the first of a size loads a library, or makes its code */
		rc = time_product(r, n, &ns) < 0 || time_product(r, n, &ns) < 0 ? -1 : 0;
	} while (rc == 0 && n < SIZE_MAX_N && ns < LONG_NS);
	until = clock_mono_ns() + MEASURE_NS;
	do
		rc = rc < 0 ? -1 : time_product(r, n, &ns);
	while (rc == 0 && clock_mono_ns() < until);
	return rc;
}

int roof_measure(struct dev *d, enum lm_dtype dtype, double *flop_per_s)
{
	const struct dev_ops *ops = d->ops;
	bool f32 = dtype == LM_DTYPE_F32;
	uint64_t count = (uint64_t)SIZE_MAX_N * SIZE_MAX_N, bytes = count * (f32 ? 4 : 2);
	struct roof r = { .d = d, .p = { .type = f32 ? PRODUCT_F32 : PRODUCT_BF16 } };
	void *a = NULL, *c = NULL;
	int rc = -1;

	if (ops->alloc(d, &a, bytes) < 0 || ops->alloc(d, &c, count * 4) < 0 ||
		ops->fill(d, a, 0, bytes / 4) < 0)
		goto out;
	r.p.a = r.p.b = a;
	r.p.c = c;
	rc = time_products(&r);
	*flop_per_s = r.best;
out:
	ops->free(d, a);
	ops->free(d, c);
	return rc < 0 ? device_failed(d) : 0;
}
