/* roof.c - timed products of growing size, then many of the largest. */
#include "common/hw/roof.h"

#include <string.h>

#include "common/base/err.h"
#include "common/hw/device.h"
#include "kernels/bulk/ops.h"
#include "kernels/dev/half.h"

#define SIZE_MIN   256
#define SIZE_HOST  2048
#define SIZE_GPU   8192 /* below, a large GPU waits for launches more than it multiplies */
#define IN_A_ROW   64   /* at most, between two readings of the clock */
#define LONG_NS    50000000 /* a product that takes so long is large enough */
#define BATCH_NS   20000000 /* long compared with starting the team, or a launch */
#define MEASURE_MS 1000

struct roof {
	struct dev *d;
	struct product p;
	uint64_t largest, count; /* side; numbers that A has room for */
	uint64_t n;              /* the side that is measured */
	int times;               /* products of a batch */
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

	r->p.m = r->p.n = r->p.k = r->p.lda = r->p.ldb = r->p.ldc = n;
	if (ops->timer_start(r->d) < 0)
		return device_failed(r->d);
	for (int i = 0; i < times; i++)
		if (ops->bulk->product(r->d, &r->p) < 0)
			return device_failed(r->d);
	if (ops->timer_stop(r->d, ns) < 0)
		return device_failed(r->d);
	*ns = *ns > times ? *ns / times : 1;
	return 0;
}

/* A device that is slow gets smaller products. */
static int grow(struct roof *r)
{
	int64_t ns = 0;

	r->n = SIZE_MIN / 2;
	do {
		r->n *= 2;
		/* the first of a size loads a library, or makes its code */
		if (time_product(r, r->n, 1, &ns) < 0 ||
			time_product(r, r->n, 1, &ns) < 0)
			return -1;
	} while (r->n < r->largest && ns < LONG_NS);
	r->times = ns * IN_A_ROW < BATCH_NS ? IN_A_ROW : (int)(BATCH_NS / ns) + 1;
	return 0;
}

static int batch(void *ctx, double *rate)
{
	struct roof *r = ctx;
	double n = (double)r->n;
	int64_t ns;

	if (time_product(r, r->n, r->times, &ns) < 0)
		return -1;
	*rate = 2e9 * n * n * n / (double)ns;
	return 0;
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

static void name(struct figure *f, const struct dev *d, enum product_type type)
{
	static const char *const tests
		[] = { [PRODUCT_F32] = "matmul_f32", [PRODUCT_BF16] = "matmul_bf16" };

	figure_init(f, d, "roof", tests[type], "FLOP/s");
}

int roof_of(struct figure *out, struct dev *d, enum product_type type, bool again)
{
	struct roof r = { .d = d, .p = { .type = type } };
	size_t element = product_element_bytes(type);
	void *a = NULL, *c = NULL;
	double known = again ? out->best : 0;
	int rc = -1;

	name(out, d, type);
	if (!again && figure_kept(out))
		return 0;
	out->best = known;
	if (allocate(&r, element, &a, &c) < 0 || fill_random(&r, a, element) < 0) {
		device_failed(d);
		goto out;
	}
	r.p.a = r.p.b = a;
	r.p.c = c;
	rc = grow(&r);
	if (rc == 0)
		rc = figure_measure(out, batch, &r, MEASURE_MS);
out:
	d->ops->free(d, a);
	d->ops->free(d, c);
	return rc;
}

void roof_offer(const struct dev *d, enum product_type type, const double *rates,
	size_t n)
{
	struct figure f;

	if (type != PRODUCT_F32 && type != PRODUCT_BF16)
		return;
	name(&f, d, type);
	figure_offer(&f, rates, n);
}
