/* fuzz_lmconfig.c - fuzz target: a config.json from strangers, and after a line feed a
 * generation_config.json.
 *
 * It checks that a refused file gives exit code 65 and a message; that an accepted
 * configuration is within all bounds, has tensors that add up to its number of parameters, and
 * one of the Llama family reads back as itself after it is written. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/model/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_layout(const struct lm_config *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		char hf[LM_NAME_BYTES_MAX], gguf[LM_NAME_BYTES_MAX];
		struct lm_place p;

		lm_layout_at(c, i, &p);
		must(lm_layout_index(c, p.part, p.layer) == i && p.count > 0);
		lm_layout_hf_name(hf, &p);
		lm_layout_gguf_name(gguf, &p);
		must(hf[0] && gguf[0]);
		sum += p.count;
	}
	must(sum == lm_config_params(c));
	must(isfinite(lm_config_train_flop(c, c->context)));
}

static void check_again(const struct lm_config *c)
{
	json_t *v = lm_config_write(c, "bfloat16");
	struct lm_config again;

	must(lm_config_read(&again, v, NULL, "again") == 0);
	must(again.vocab == c->vocab && again.window == c->window &&
		again.eos_count == c->eos_count && again.bos == c->bos &&
		again.rope.kind == c->rope.kind && again.rope.base == c->rope.base &&
		again.rms_eps == c->rms_eps && again.tied == c->tied &&
		lm_config_params(&again) == lm_config_params(c));
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *line = size ? memchr(text, '\n', size) : NULL;
	size_t n = line ? (size_t)(line - text) : size;
	json_t *config = json_parse(text, n, JSON_DEPTH_MAX, "config");
	json_t *generation = line ?
		json_parse(line + 1, size - n - 1, JSON_DEPTH_MAX, "generation") :
		NULL;
	struct lm_config c;

	if (config && lm_config_read(&c, config, generation, "fuzz") == 0) {
		must(lm_config_check(&c, "fuzz") == 0);
		check_layout(&c);
		/* others are read only */
		if (lm_config_need_llama(&c, "written") == 0)
			check_again(&c);
		err_clear();
	} else {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	}
	json_decref(config);
	json_decref(generation);
	return 0;
}
