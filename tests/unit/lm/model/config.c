/* config.c - lm/config and lm/layout: what config.json says is checked before anybody
 * multiplies it; one list of tensors. */
#include "common/lm/model/config.h"
#include "common/lm/model/layout.h"

#include <math.h>
#include <stdlib.h>

#include "common/json/json.h"
#include "tests/unit/test.h"

/* Reads a config from text; -1 as lm_config_read. */
static int read_text(struct lm_config *c, const char *text, const char *generation)
{
	json_t *v = json_parse(text, strlen(text), JSON_DEPTH_MAX, "config.json");
	json_t *g = generation ?
		json_parse(generation, strlen(generation), JSON_DEPTH_MAX, "generation") :
		NULL;
	int rc = v ? lm_config_read(c, v, g, "config.json") : -1;

	json_decref(v);
	json_decref(g);
	return rc;
}

#define SIZES                                                             \
	"\"vocab_size\":100,\"hidden_size\":64,\"intermediate_size\":96," \
	"\"num_hidden_layers\":2,\"num_attention_heads\":4"
#define LLAMA(more) "{\"model_type\":\"llama\"," SIZES more "}"

static void check_presets(void)
{
	static const double millions[] = { 1, 10, 125, 350, 1100, 6740 };
	struct lm_config c;

	for (int i = 0; lm_preset_names[i]; i++) {
		double params;

		CHECK_I64(0, lm_config_preset(&c, lm_preset_names[i], 0));
		CHECK_I64(0, lm_config_check(&c, "preset"));
		params = (double)lm_config_params(&c) / 1e6;
		CHECK(params > 0.9 * millions[i] && params < 1.1 * millions[i]);
		CHECK(c.dim % 32 == 0 && c.hidden % 32 == 0 &&
			c.dim == c.heads * c.head_dim);
	}
	CHECK_I64(0, lm_config_preset(&c, "nano", 1000));
	CHECK_I64(1000, c.vocab);
	CHECK_FAILS(EX_USAGE, lm_config_preset(&c, "huge", 0));
}

/* 2 layers x (4 x 64 x 64 + 3 x 64 x 96 + 2 x 64) + 2 x 100 x 64 + 64, by hand */
static void check_params(void)
{
	struct lm_config c;

	CHECK_I64(0, read_text(&c, LLAMA(""), NULL));
	CHECK_I64(82752, (int64_t)lm_config_params(&c));
	/* 6 (2 (16384 + 18432) + 6400) + 12 x 2 x 64 x 5 */
	CHECK(lm_config_train_flop(&c, 10) == 463872);
	c.window = 5; /* 5 - 25 / 20 = 3.75 seen */
	CHECK(lm_config_train_flop(&c, 10) == 463872 - 1536 * 1.25);
	c.window = 0;
	c.tied = true;
	CHECK_I64(82752 - 6400, (int64_t)lm_config_params(&c));
	CHECK(lm_config_train_flop(&c, 10) == 463872);
	c.qkv_bias = true;
	c.kv_heads = 2;
	/* K and V are halved; biases are 64 + 2 x 32 a layer */
	CHECK_I64(82752 - 6400 - 2 * 2 * 32 * 64 + 2 * 128,
		(int64_t)lm_config_params(&c));
}

static void check_read(void)
{
	struct lm_config c;

	CHECK_I64(0, read_text(&c, LLAMA(""), NULL));
	CHECK_I64(4, c.kv_heads);
	CHECK_I64(16, c.head_dim);
	CHECK_I64(-1, c.bos);
	CHECK(c.rms_eps == 1e-6 && c.rope.base == 10000 && !c.tied && !c.qkv_bias);
	CHECK_I64(0,
		read_text(&c,
			LLAMA(",\"num_key_value_heads\":2,\"head_dim\":null,\"rope_theta\":5e5,"
			      "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
			      "\"low_freq_factor\":1,\"high_freq_factor\":4,"
			      "\"original_max_position_embeddings\":8192},\"bos_token_id\":1,"
			      "\"eos_token_id\":[2,3],\"tie_word_embeddings\":true"),
			"{\"eos_token_id\":[4,5,6]}"));
	CHECK_I64(LM_ROPE_LLAMA3, c.rope.kind);
	CHECK_I64(8192, c.rope.original_context);
	CHECK(c.rope.factor == 8 && c.rope.base == 5e5 && c.tied);
	CHECK_I64(3, c.eos_count);
	CHECK_I64(4, c.eos[0]);
	CHECK_I64(1, c.bos);
	CHECK_I64(0,
		read_text(&c,
			LLAMA(",\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\"}"),
			NULL));
	CHECK(c.rope.base == 1e6 && c.rope.kind == LM_ROPE_PLAIN);
	CHECK_I64(0,
		read_text(&c, "{\"model_type\":\"qwen2\",\"sliding_window\":5," SIZES "}",
			NULL));
	CHECK(c.qkv_bias && c.window == 0);
	CHECK_I64(0,
		read_text(&c,
			"{\"model_type\":\"mistral\",\"sliding_window\":5," SIZES "}",
			NULL));
	CHECK_I64(5, c.window);
	CHECK_I64(0, read_text(&c, LLAMA(",\"sliding_window\":5"), NULL));
	CHECK_I64(0, c.window);
}

static void check_refused(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"model_type\":\"gpt2\"," SIZES "}",
		LLAMA(",\"hidden_act\":\"gelu\""),
		LLAMA(",\"attention_bias\":true"),
		LLAMA(",\"num_key_value_heads\":3"),
		LLAMA(",\"num_key_value_heads\":0"),
		LLAMA(",\"head_dim\":15"),
		LLAMA(",\"head_dim\":-2"),
		LLAMA(",\"head_dim\":65538"),
		LLAMA(",\"rms_norm_eps\":0"),
		LLAMA(",\"rope_theta\":-1"),
		LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"),
		LLAMA(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2}"),
		LLAMA(",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
		LLAMA(",\"rope_scaling\":{\"type\":\"linear\"}"),
		LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}"),
		LLAMA(",\"rope_scaling\":7"),
		LLAMA(",\"eos_token_id\":100"),
		LLAMA(",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]"),
		LLAMA(",\"eos_token_id\":[\"x\"]"),
		LLAMA(",\"bos_token_id\":-7"),
		LLAMA(",\"quantization_config\":{}"),
		LLAMA(",\"max_position_embeddings\":1000000000000"),
		"{\"model_type\":\"mistral\",\"sliding_window\":-1," SIZES "}",
		"{\"model_type\":\"qwen2\",\"sliding_window\":5,\"use_sliding_window\":true,"
		"\"max_window_layers\":1," SIZES "}",
		"{\"model_type\":\"llama\",\"vocab_size\":100,\"hidden_size\":65,"
		"\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4}",
		"{\"model_type\":\"llama\",\"vocab_size\":100,\"hidden_size\":64,"
		"\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":0}",
	};
	struct lm_config c;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(EX_DATAERR, read_text(&c, bad[i], NULL));
		if (test_failures)
			fprintf(stderr, "bad config %zu\n", i);
	}
}

#define GEMMA3 "{\"model_type\":\"gemma3_text\",\"sliding_window\":512," SIZES

/* What files of other families leave out, and what they say in their own ways. */
static void check_families(void)
{
	static const char *const bad[] = {
		"{\"model_type\":\"gemma\",\"hidden_act\":\"silu\"," SIZES "}",
		"{\"model_type\":\"qwen3\",\"partial_rotary_factor\":0.5," SIZES "}",
		GEMMA3 ",\"use_bidirectional_attention\":true}",
		GEMMA3 ",\"layer_types\":[\"full_attention\"]}",
		GEMMA3
		",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":8}}}",
		GEMMA3 ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]}",
		"{\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1],"
		"\"short_factor\":[1]}," SIZES "}",
	};
	struct lm_config c;

	CHECK_I64(0,
		read_text(&c, "{\"model_type\":\"qwen3\",\"head_dim\":6," SIZES "}",
			NULL));
	CHECK(c.qk_norm && !c.qkv_bias && c.head_dim == 6 && !c.tied);
	CHECK_I64(0, read_text(&c, "{\"model_type\":\"gemma2\"," SIZES "}", NULL));
	CHECK(c.tied && c.gelu && c.scaled_embed && c.norms_from_1 && c.post_norms &&
		!c.qk_norm && c.head_dim == 256 && c.window == 4096 &&
		c.score_cap == 50 && c.logit_cap == 30);
	CHECK(lm_config_window(&c, 0) == 4096 && !lm_config_window(&c, 1));
	CHECK_FAILS(EX_DATAERR, lm_config_need_llama(&c, "trained"));
	CHECK_I64(0,
		read_text(&c,
			GEMMA3
			",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
			"\"factor\":8,\"rope_theta\":500000},\"sliding_attention\":{\"rope_theta\":"
			"20000}},\"query_pre_attn_scalar\":168}",
			NULL));
	CHECK(c.qk_norm && c.window == 512 && c.window_period == 6 && c.score_cap == 0 &&
		c.rope.base == 500000 && c.rope.local_base == 20000 &&
		c.rope.kind == LM_ROPE_LINEAR && c.query_scale == 1 / sqrt(168));
	CHECK_I64(0,
		read_text(&c,
			"{\"model_type\":\"phi3\",\"head_dim\":4,\"max_position_embeddings\":131072,"
			"\"original_max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"longrope\","
			"\"long_factor\":[1,2.5],\"short_factor\":[1,1.5]}," SIZES "}",
			NULL));
	/* Phi-3-mini-128k's published factor of attention */
	CHECK(c.fused && c.rope.kind == LM_ROPE_LONG && c.rope.original_context == 4096 &&
		fabs(c.rope.magnitude - 1.1902380714238083) < 1e-12 &&
		c.rope.long_factors[1] == 2.5f);
	/* as transformers 5 writes it: all at one place */
	CHECK_I64(0,
		read_text(&c,
			"{\"model_type\":\"phi3\",\"head_dim\":8,\"max_position_embeddings\":131072,"
			"\"rope_parameters\":{\"rope_type\":\"longrope\",\"rope_theta\":5000,"
			"\"partial_rotary_factor\":0.5,\"original_max_position_embeddings\":4096,"
			"\"long_factor\":[1,2.5],\"short_factor\":[1,1.5]}," SIZES "}",
			NULL));
	CHECK(c.rope.rotary == 4 && c.rope.base == 5000 &&
		c.rope.long_factors[1] == 2.5f);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, read_text(&c, bad[i], NULL));
}

/* What is written reads back as itself. */
static void check_write(void)
{
	static const char *const good[] = {
		LLAMA(",\"eos_token_id\":[2,3],\"bos_token_id\":1"),
		LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}"),
		LLAMA(",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"),
		LLAMA(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
		      "\"low_freq_factor\":1,\"high_freq_factor\":4,"
		      "\"original_max_position_embeddings\":8192}"),
		"{\"model_type\":\"mistral\",\"sliding_window\":5," SIZES "}",
		"{\"model_type\":\"qwen2\",\"eos_token_id\":3," SIZES "}",
		"{\"model_type\":\"qwen2\",\"sliding_window\":5,\"use_sliding_window\":true,"
		"\"max_window_layers\":0," SIZES "}",
	};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct lm_config a, b;
		json_t *v;

		memset(&a, 0, sizeof a);
		memset(&b, 0, sizeof b);
		CHECK_I64(0, read_text(&a, good[i], NULL));
		v = lm_config_write(&a, "float32");
		CHECK_I64(0, lm_config_read(&b, v, NULL, "again"));
		CHECK(a.window == b.window && a.qkv_bias == b.qkv_bias &&
			a.bos == b.bos && a.eos_count == b.eos_count &&
			a.eos[1] == b.eos[1] && a.rope.kind == b.rope.kind &&
			a.rope.factor == b.rope.factor && a.rope.base == b.rope.base &&
			a.rms_eps == b.rms_eps &&
			a.rope.high_freq_factor == b.rope.high_freq_factor &&
			lm_config_params(&a) == lm_config_params(&b));
		json_decref(v);
	}
}

/* Every tensor once, the index is the reverse of the place, and counts add up to the parameters. */
static void check_layout(const struct lm_config *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		struct lm_place p;

		lm_layout_at(c, i, &p);
		CHECK_I64(i, lm_layout_index(c, p.part, p.layer));
		CHECK(p.count == p.shape[0] * p.shape[1] &&
			p.dims == (p.shape[1] > 1 ? 2 : 1));
		sum += p.count;
	}
	CHECK(sum == lm_config_params(c));
	CHECK_I64(-1, lm_layout_index(c, LM_Q, c->layers));
	CHECK_I64(c->tied ? -1 : (int64_t)lm_layout_count(c) - 1,
		lm_layout_index(c, LM_OUTPUT, 0));
	CHECK_I64(c->qkv_bias ? 5 : -1, lm_layout_index(c, LM_Q_BIAS, 0));
}

static void check_names(void)
{
	char name[LM_NAME_BYTES_MAX];
	struct lm_config c;
	struct lm_place p;

	CHECK_I64(0, read_text(&c, LLAMA(""), NULL));
	lm_layout_at(&c, (uint32_t)lm_layout_index(&c, LM_UP, 1), &p);
	lm_layout_hf_name(name, &p);
	CHECK_TEXT("model.layers.1.mlp.up_proj.weight", name);
	lm_layout_gguf_name(name, &p);
	CHECK_TEXT("blk.1.ffn_up.weight", name);
	lm_layout_at(&c, lm_layout_count(&c) - 1, &p);
	lm_layout_hf_name(name, &p);
	CHECK_TEXT("lm_head.weight", name);
	lm_layout_gguf_name(name, &p);
	CHECK_TEXT("output.weight", name);
}

int main(void)
{
	struct lm_config c;

	check_presets();
	check_params();
	check_read();
	check_refused();
	check_families();
	check_write();
	for (int i = 0; i < 4; i++) {
		CHECK_I64(0, read_text(&c, LLAMA(",\"num_key_value_heads\":2"), NULL));
		c.tied = i & 1;
		c.qkv_bias = i & 2;
		check_layout(&c);
	}
	check_names();
	TEST_END();
}
