/* matrices.c - fills matrices with small integers, multiplies them, and checks elements of the
 * product. */
#include "cmd/rnp-bench/suites/matrices.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/gpu.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "kernels/dev/half.h"

#define ROWS    63 /* not a power of two, so that no block of a product equals the next */
#define COLUMNS 64 /* elements of a row that are checked */

static int failed(const struct matrices *m)
{
	return device_failed(m->dev);
}

static void put(enum product_type type, void *p, size_t i, int v)
{
	switch (type) {
	case PRODUCT_F32:
		((float *)p)[i] = (float)v;
		break;
	case PRODUCT_BF16:
		((uint16_t *)p)[i] = bf16_from_f32((float)v);
		break;
	case PRODUCT_F16:
		((uint16_t *)p)[i] = f16_from_f32((float)v);
		break;
	case PRODUCT_F8:
		((uint8_t *)p)[i] = f8_from_f32((float)v);
		break;
	default:
		((int8_t *)p)[i] = (int8_t)v;
	}
}

/* Values of -128 .. 127 use all bits of a bf16, as real data does, while the sums of thousands
 * of products stay far below 2^24; f8 holds -8 .. 8. Rows repeat after a while, which makes
 * them no less random. */
static void fill(enum product_type type, void *p, uint64_t n, uint64_t stream)
{
	uint64_t first = n < ROWS ? n * n : ROWS * n, all = n * n;
	uint64_t bytes = product_element_bytes(type);
	struct rng rng;

	rng_seed(&rng, 1, stream);
	for (uint64_t i = 0; i < first; i++) {
		uint32_t r = rng_u32(&rng);

		put(type, p, i,
			type == PRODUCT_F8 ? (int)(r % 17) - 8 : (int)(r >> 24) - 128);
	}
	for (uint64_t i = first; i < all; i += first)
		memcpy((char *)p + i * bytes, p,
			(all - i < first ? all - i : first) * bytes);
}

static void *filled(struct matrices *m, uint64_t stream)
{
	const struct product *p = &m->product;
	uint64_t bytes = p->n * p->n * product_element_bytes(p->type);
	void *host, *out;

	if (m->dev->ops->alloc(m->dev, &out, bytes) < 0) {
		failed(m);
		return NULL;
	}
	host = xmalloc(bytes);
	fill(p->type, host, p->n, stream);
	if (m->dev->ops->put(m->dev, out, host, bytes) < 0) {
		failed(m);
		m->dev->ops->free(m->dev, out);
		out = NULL;
	}
	free(host);
	return out;
}

int matrices_open(struct matrices *m, struct dev *d, enum product_type type, uint64_t n)
{
	*m = (struct matrices)MATRICES_INIT;
	m->dev = d;
	m->product = (struct product){ .type = type,
		.m = n,
		.n = n,
		.k = n,
		.lda = n,
		.ldb = n,
		.ldc = n };
	m->product.a = m->a = filled(m, 1);
	if (m->a)
		m->product.b = m->b = filled(m, 2);
	if (m->b && d->ops->alloc(d, &m->c, n * n * 4) < 0)
		failed(m);
	m->product.c = m->c;
	if (m->a && m->b && m->c)
		return 0;
	matrices_close(m);
	return -1;
}

void matrices_close(struct matrices *m)
{
	if (m->dev && m->dev->ops) {
		m->dev->ops->free(m->dev, m->a);
		m->dev->ops->free(m->dev, m->b);
		m->dev->ops->free(m->dev, m->c);
	}
	*m = (struct matrices)MATRICES_INIT;
}

int matrices_step(struct matrices *m, int times)
{
	for (int i = 0; i < times; i++)
		if (m->dev->ops->bulk->product(m->dev, &m->product) < 0)
			return failed(m);
	return m->dev->ops->sync(m->dev) < 0 ? failed(m) : 0;
}

double matrices_work(const struct matrices *m)
{
	double n = (double)m->product.n;

	return 2 * n * n * n;
}

/* Computes one element with plain loops; a and b are rows on the host. */
static bool is_right(const struct product *p, const void *a, const void *b,
	const void *got)
{
	double bound = product_bound(p->type, p->k) * 64 * (double)p->k;
	struct product one = { p->type, NULL, a, b, 1, 1, p->k, p->k, p->k, 1 };
	float want, have;

	one.c = &want; /* int32 is as long */
	product_ref(&one);
	memcpy(&have, got, sizeof have);
	if (p->type == PRODUCT_F8)
		return fabs((double)want - have) <= bound;
	return memcmp(&want, got, sizeof want) == 0;
}

int matrices_check(struct matrices *m)
{
	const struct product *p = &m->product;
	uint64_t bytes = p->n * product_element_bytes(p->type), last = p->n - 1;
	char *a = xmalloc(bytes), *b = xmalloc(bytes), *c = xmalloc(p->n * 4);
	const struct dev_ops *ops = m->dev->ops;
	int rc = 0;

	if (ops->get(m->dev, a, (const char *)m->a + last * bytes, bytes) < 0 ||
		ops->get(m->dev, c, (const char *)m->c + last * p->n * 4, p->n * 4) < 0)
		rc = failed(m);
	for (uint64_t k = 0; k < COLUMNS && rc == 0; k++) {
		uint64_t j = k * last / (COLUMNS - 1);

		if (ops->get(m->dev, b, (const char *)m->b + j * bytes, bytes) < 0)
			rc = failed(m);
		else if (!is_right(p, a, b, c + j * 4))
			rc = dev_wrong(m->dev, "the matrix product of %s is wrong",
				product_type_names[p->type]);
	}
	free(a);
	free(b);
	free(c);
	return rc;
}
