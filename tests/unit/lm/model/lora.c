/* lora.c - the tensors of an adapter: their order, names and first values, and which are chosen. */
#include "common/lm/model/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base/mem.h"
#include "tests/unit/test.h"

static const struct lm_config config = { .vocab = 40,
	.dim = 24,
	.hidden = 40,
	.layers = 3,
	.heads = 4,
	.kv_heads = 2,
	.head_dim = 8,
	.context = 16,
	.rms_eps = 1e-5,
	.rope = { .kind = LM_ROPE_PLAIN, .base = 100, .factor = 1 },
	.bos = -1 };

/* Indices, places and numbers agree with one another, whatever is chosen. */
static void check_order(const struct lm_lora *l)
{
	uint32_t n = lm_learned_count(&config, l), seen = 0;
	uint64_t params = 0;

	for (int f = LM_FACTOR_A; f <= LM_FACTOR_B; f++)
		for (uint32_t layer = 0; layer < config.layers; layer++)
			for (int w = 0; w < LM_ADAPTED; w++) {
				int64_t i = lm_learned_index(&config, l,
					(enum lm_factor)f, (enum lm_adapted)w, layer);
				struct lm_learned t;

				if (!(lm_lora_targets(l, layer) >> w & 1)) {
					CHECK_I64(-1, i);
					continue;
				}
				CHECK_I64(seen++, i);
				lm_learned_at(&config, l, (uint32_t)i, &t);
				CHECK(t.factor == (enum lm_factor)f &&
					t.place.layer == layer &&
					t.place.part == lm_lora_part((enum lm_adapted)w));
				CHECK(t.place.shape[f == LM_FACTOR_A ? 0 : 1] == l->rank);
				params += t.place.count;
			}
	CHECK_I64(n, seen);
	CHECK_I64((int64_t)lm_learned_params(&config, l), (int64_t)params);
}

static void check_names(void)
{
	struct lm_lora l = { .rank = 2, .alpha = 4 };
	char name[LM_NAME_BYTES_MAX];
	struct lm_learned t;

	CHECK(lm_lora_scale(&l) == 2);
	l.rslora = true;
	CHECK(fabs(lm_lora_scale(&l) - 4 / sqrt(2)) < 1e-15);
	lm_learned_at(&config, &l, 0, &t);
	lm_learned_name(name, &t);
	CHECK(strcmp(name,
		      "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight") ==
		0);
	lm_learned_at(&config, &l, lm_learned_count(&config, &l) - 1, &t);
	lm_learned_name(name, &t);
	CHECK(strcmp(name,
		      "base_model.model.model.layers.2.mlp.down_proj.lora_B.weight") ==
		0);
	/* without an adapter: the layout */
	l.rank = 0;
	CHECK_I64(lm_layout_count(&config), lm_learned_count(&config, &l));
	CHECK_I64((int64_t)lm_config_params(&config),
		(int64_t)lm_learned_params(&config, &l));
}

static void check_choice(void)
{
	struct lm_lora l = { .rank = 3, .alpha = 3 };
	uint8_t *bits;

	CHECK(lm_lora_choose(&bits, &config, "q_proj|v_proj") == 0);
	for (uint32_t i = 0; i < config.layers; i++)
		CHECK_I64(1 << LM_ADAPTED_Q | 1 << LM_ADAPTED_V, bits[i]);
	l.targets = bits;
	check_order(&l);
	free(bits);
	CHECK(lm_lora_choose(&bits, &config, "model\\.layers\\.[02]\\.mlp\\..*") == 0);
	CHECK_I64(7 << LM_ADAPTED_GATE, bits[0]);
	CHECK_I64(0, bits[1]);
	l.targets = bits;
	check_order(&l);
	free(bits);
	/* as a whole, not a part */
	CHECK(lm_lora_choose(&bits, &config, "q_pro") == -1 && !bits);
	CHECK_I64(EX_USAGE, err_get()->code);
	CHECK(lm_lora_choose(&bits, &config, "[") == -1 && !bits);
	err_clear();
}

/* The values of a place are the same wherever reading begins. */
static void check_init(void)
{
	struct lm_lora l = { .rank = 4, .alpha = 8 };
	float whole[4 * 24], part[4 * 24];
	double largest = 0, bound = 1 / sqrt(24);
	uint32_t last = lm_learned_count(&config, &l) - 1;

	lm_learned_init(whole, &config, &l, 9, 0, 0, 4 * 24);
	for (uint64_t from = 0; from < 7; from++) {
		lm_learned_init(part, &config, &l, 9, 0, from, 4 * 24 - from);
		CHECK(memcmp(part, whole + from, (4 * 24 - from) * sizeof *part) == 0);
	}
	for (int i = 0; i < 4 * 24; i++)
		largest = fmax(largest, fabs((double)whole[i]));
	CHECK(largest <= bound && largest > 0.8 * bound);
	lm_learned_init(part, &config, &l, 10, 0, 0, 4 * 24);
	CHECK(memcmp(part, whole, sizeof whole) != 0);
	lm_learned_init(part, &config, &l, 9, last, 0, 24);
	for (int i = 0; i < 24; i++)
		CHECK(part[i] == 0);
}

int main(void)
{
	check_order(&(struct lm_lora){ .rank = 5, .alpha = 5 });
	check_names();
	check_choice();
	check_init();
	TEST_END();
}
