/* fuzz_adapter.c - fuzz target: a stranger's LoRA adapter: adapter_config.json, a byte 0, and
 * adapter_model.safetensors, for a small model of each layout.
 *
 * It checks that a refused adapter gives exit code 65 and a message, and that what is accepted
 * changes a matrix, with finite numbers that can all be read. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/infer/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static const uint64_t inputs[LM_ADAPTED] = { 8, 8, 8, 8, 8, 8, 12 };
static const uint64_t outputs[LM_ADAPTED] = { 8, 4, 4, 8, 12, 12, 8 };

static void check(const struct lm_adapter *a, uint32_t layers)
{
	uint32_t changed = 0;

	for (uint32_t i = 0; i < layers * LM_ADAPTED; i++) {
		enum lm_adapted which = (enum lm_adapted)(i % LM_ADAPTED);
		const struct lm_delta *d = lm_adapter_at(a, i / LM_ADAPTED, which);

		if (!d->a)
			continue;
		changed++;
		must(d->rank && d->rank <= lm_adapter_rank(a));
		for (uint64_t k = 0; k < inputs[which] * d->rank; k++)
			must(isfinite(d->a[k]));
		/* the scale may make a number infinite, but each must be there */
		for (uint64_t k = 0; k < outputs[which] * d->rank; k++)
			must(!isnan(d->b[k]));
	}
	must(changed && lm_adapter_bytes(a));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	struct dev d = DEV_INIT;
	size_t config = end ? (size_t)(end - data) : size;

	if (!end || dev_open(&d, "cpu") < 0)
		return 0;
	for (int fused = 0; fused < 2; fused++) {
		struct lm_config c = { .dim = 8,
			.hidden = 12,
			.layers = 2,
			.heads = 2,
			.kv_heads = 1,
			.head_dim = 4,
			.vocab = 16,
			.context = 8,
			.fused = fused,
			.rope.interleaved = !fused };
		struct lm_adapter *a;

		if (lm_adapter_read(&a, &d, &c, (const char *)data, config, end + 1,
			    size - config - 1, "fuzz") == 0) {
			check(a, c.layers);
		} else {
			must(!a && err_get()->code == EX_DATAERR && err_get()->text[0]);
			err_clear();
		}
		lm_adapter_close(a);
	}
	dev_close(&d);
	return 0;
}
