/* fuzz_adapter.c - fuzz target: a stranger's LoRA adapter: a GGUF file, or adapter_config.json, a
 * byte 0, and adapter_model.safetensors, for a small model of each layout.
 *
 * It checks that a refused adapter gives exit code 65 and a message, and that what is accepted
 * changes a matrix, with finite numbers that can all be read. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/adapter.h"
#include "common/lm/model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check(const struct lm_adapter_file *f, const struct lm_config *c)
{
	uint32_t changed = 0;

	for (uint32_t i = 0; i < c->layers * LM_ADAPTED; i++) {
		enum lm_adapted which = (enum lm_adapted)(i % LM_ADAPTED);
		const struct lm_low *low = lm_adapter_file_at(f, i / LM_ADAPTED, which);

		if (!low->rank)
			continue;
		changed++;
		must(low->rank <= lm_adapter_file_rank(f) && isfinite(low->scale));
		for (uint64_t k = 0; k < lm_lora_inputs(c, which) * low->rank; k++)
			must(isfinite(low->a[k]));
		for (uint64_t k = 0; k < lm_lora_outputs(c, which) * low->rank; k++)
			must(isfinite(low->b[k]));
	}
	must(changed);
}

static int read_one(struct lm_adapter_file **f, const struct lm_config *c,
	const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, 0, size);
	size_t config = end ? (size_t)(end - data) : size;

	if (gguf_is(data, size))
		return lm_adapter_file_gguf(f, c, data, size, "fuzz");
	return lm_adapter_file_peft(f, c, (const char *)data, config,
		end ? end + 1 : data + size, end ? size - config - 1 : 0, "fuzz");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int fused = 0; size && fused < 2; fused++) {
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
		struct lm_adapter_file *f;

		if (read_one(&f, &c, data, size) == 0) {
			check(f, &c);
		} else {
			must(!f && err_get()->code == EX_DATAERR && err_get()->text[0]);
			err_clear();
		}
		lm_adapter_file_close(f);
	}
	return 0;
}
