/* adapter.c - puts adapters on the device. */
#include "common/lm/infer/adapter.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/hw/device.h"

struct lm_adapter {
	struct dev *d;
	struct lm_delta *deltas; /* [layers][LM_ADAPTED] */
	void **owned;            /* device memory */
	size_t owned_count, owned_cap;
	uint32_t rank;
	uint64_t bytes;
};

static const float *keep(struct lm_adapter *a, const float *values, uint64_t count)
{
	const struct dev_ops *ops = a->d->ops;
	void *p = NULL;

	if (ops->alloc(a->d, &p, count * sizeof *values) < 0)
		return NULL;
	a->owned = xgrow(a->owned, &a->owned_cap, a->owned_count + 1, sizeof *a->owned);
	a->owned[a->owned_count++] = p;
	a->bytes += count * sizeof *values;
	return ops->put(a->d, p, values, count * sizeof *values) < 0 ? NULL : p;
}

/* B goes there times the scale. */
static int put_one(struct lm_adapter *a, const struct lm_config *c,
	const struct lm_low *low, uint32_t layer, enum lm_adapted which,
	const float *before)
{
	struct lm_delta *to = &a->deltas[(uint64_t)layer * LM_ADAPTED + which];
	uint64_t count = lm_lora_outputs(c, which) * low->rank;
	float *b = xmalloc(count * sizeof *b);

	for (uint64_t i = 0; i < count; i++)
		b[i] = low->scale * low->b[i];
	*to = (struct lm_delta){ .a = before ?
			before :
			keep(a, low->a, low->rank * lm_lora_inputs(c, which)),
		.b = keep(a, b, count),
		.rank = low->rank };
	free(b);
	return to->a && to->b ? 0 : device_failed(a->d);
}

/* Of a fused matrix several have the same A. */
static const float *same_inputs(const struct lm_adapter *a,
	const struct lm_adapter_file *f, uint32_t layer, int which)
{
	const struct lm_low *last = which ?
		lm_adapter_file_at(f, layer, (enum lm_adapted)(which - 1)) :
		NULL;

	if (!last || !last->rank ||
		last->a != lm_adapter_file_at(f, layer, (enum lm_adapted)which)->a)
		return NULL;
	return lm_adapter_at(a, layer, (enum lm_adapted)(which - 1))->a;
}

int lm_adapter_put(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const struct lm_adapter_file *f)
{
	struct lm_adapter *a = xcalloc(1, sizeof *a);
	int rc = 0;

	*out = NULL;
	a->d = d;
	a->rank = lm_adapter_file_rank(f);
	a->deltas = xcalloc((size_t)c->layers * LM_ADAPTED, sizeof *a->deltas);
	for (uint32_t l = 0; l < c->layers; l++)
		for (int w = 0; rc == 0 && w < LM_ADAPTED; w++) {
			const struct lm_low *low = lm_adapter_file_at(f, l,
				(enum lm_adapted)w);

			if (low->rank)
				rc = put_one(a, c, low, l, (enum lm_adapted)w,
					same_inputs(a, f, l, w));
		}
	if (rc < 0) {
		lm_adapter_close(a);
		return -1;
	}
	*out = a;
	return 0;
}

int lm_adapter_open(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *path)
{
	struct lm_adapter_file *f;
	int rc = lm_adapter_file_open(&f, c, path);

	*out = NULL;
	if (rc == 0)
		rc = lm_adapter_put(out, d, c, f);
	lm_adapter_file_close(f);
	return rc;
}

void lm_adapter_close(struct lm_adapter *a)
{
	if (!a)
		return;
	while (a->owned_count)
		a->d->ops->free(a->d, a->owned[--a->owned_count]);
	free(a->owned);
	free(a->deltas);
	free(a);
}

const struct lm_delta *lm_adapter_at(const struct lm_adapter *a, uint32_t layer,
	enum lm_adapted which)
{
	return &a->deltas[(uint64_t)layer * LM_ADAPTED + which];
}

uint32_t lm_adapter_rank(const struct lm_adapter *a)
{
	return a->rank;
}

uint64_t lm_adapter_bytes(const struct lm_adapter *a)
{
	return a->bytes;
}
