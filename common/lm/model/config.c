/* config.c - model presets, and reading and writing of config.json.
 * long because every family says the same things in words of its own */
#include "common/lm/model/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

/* --- presets ------------------------------------------------------------------------------ */

/* Shapes of well-known models: small and medium have GPT-2's widths and depths (the hidden
 * layer of SwiGLU is 8/3 of the width, so that the parameter counts agree), 1b is TinyLlama, 7b
 * is Llama 2. All row lengths are multiples of 32, so that every matrix can be quantised. */
static const struct preset {
	const char *name;
	uint32_t vocab, dim, hidden, layers, heads, kv_heads, context;
	bool tied;
} presets[] = {
	{ "nano", 512, 128, 352, 5, 4, 4, 256, true },           /* 1.07M */
	{ "mini", 512, 384, 1024, 6, 6, 6, 512, true },          /* 10.8M */
	{ "small", 50304, 768, 2048, 12, 12, 12, 1024, true },   /* 124M */
	{ "medium", 50304, 1024, 2816, 24, 16, 16, 1024, true }, /* 360M */
	{ "1b", 32000, 2048, 5632, 22, 32, 4, 2048, false },     /* 1.10B */
	{ "7b", 32000, 4096, 11008, 32, 32, 32, 4096, false },   /* 6.74B */
};

const char *const lm_preset_names[] = { "nano", "mini", "small", "medium", "1b", "7b",
	NULL };

static void set_defaults(struct lm_config *c)
{
	*c = (struct lm_config){ .bos = -1 };
	c->rms_eps = 1e-6;
	c->rope.base = 10000;
	c->rope.factor = 1;
}

int lm_config_preset(struct lm_config *c, const char *preset, uint32_t vocab)
{
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
		const struct preset *p = &presets[i];

		if (strcmp(p->name, preset))
			continue;
		set_defaults(c);
		c->vocab = vocab ? vocab : p->vocab;
		c->dim = p->dim;
		c->hidden = p->hidden;
		c->layers = p->layers;
		c->heads = p->heads;
		c->kv_heads = p->kv_heads;
		c->head_dim = p->dim / p->heads;
		c->context = p->context;
		c->rms_eps = 1e-5;
		c->tied = p->tied;
		return 0;
	}
	return err_set(EX_USAGE,
		"there is no preset '%.40s': nano, mini, small, medium, 1b or 7b",
		preset);
}

/* --- config.json -------------------------------------------------------------------------- */

/* Returns a field, or NULL when it is absent or null, as transformers treats it. */
static json_t *field(const json_t *config, const char *key)
{
	json_t *v = json_object_get(config, key);

	return json_is_null(v) ? NULL : v;
}

static int get_u32(const json_t *config, const char *where, const char *key, uint32_t max,
	uint32_t *out)
{
	json_int_t v;

	if (!json_is_integer(field(config, key)))
		return err_set(EX_DATAERR, "%s: field '%s' is %s", where, key,
			field(config, key) ? "not a whole number" : "missing");
	v = json_integer_value(field(config, key));
	if (v < 0 || v > max)
		return err_set(EX_DATAERR, "%s: field '%s' is not within 0 and %" PRIu32,
			where, key, max);
	*out = (uint32_t)v;
	return 0;
}

static int opt_u32(const json_t *config, const char *where, const char *key, uint32_t max,
	uint32_t *out)
{
	return field(config, key) ? get_u32(config, where, key, max, out) : 0;
}

static int opt_f64(const json_t *config, const char *where, const char *key, double *out)
{
	return field(config, key) ? json_get_f64(config, where, key, out) : 0;
}

static int opt_bool(const json_t *config, const char *where, const char *key, bool *out)
{
	return field(config, key) ? json_get_bool(config, where, key, out) : 0;
}

/* What config.json does not say of the models of a family. */
static const struct family {
	const char *name;
	bool qkv_bias, qk_norm, post_norms, fused;
	bool gemma;             /* GELU, scaled embeddings, norms less 1, tied */
	uint32_t window_period; /* where there is a window */
} families[] = {
	{ .name = "llama" },
	{ .name = "mistral" },
	{ .name = "qwen2", .qkv_bias = true },
	{ .name = "qwen3", .qk_norm = true },
	{ .name = "gemma", .gemma = true },
	{ .name = "gemma2", .gemma = true, .post_norms = true, .window_period = 2 },
	{ .name = "gemma3_text",
		.gemma = true,
		.qk_norm = true,
		.post_norms = true,
		.window_period = 6 },
	{ .name = "phi3", .fused = true },
};

static const struct family *family_of(const char *model)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(model, families[i].name) == 0)
			return &families[i];
	return NULL;
}

/* Gemma's files say gelu, and mean its approximation by tanh. */
static bool is_activation(const struct family *f, const char *act)
{
	if (f->gemma)
		return strcmp(act, "gelu") == 0 || strcmp(act, "gelu_pytorch_tanh") == 0;
	return strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0;
}

/* Reads the part of each head that is rotated: transformers 5 has it among rope_parameters. */
static int read_rotary_part(const json_t *config, const char *where, double *part)
{
	const json_t *newer = field(config, "rope_parameters");

	*part = 1;
	return opt_f64(config, where, "partial_rotary_factor", part) < 0 ?
		-1 :
		opt_f64(newer, where, "partial_rotary_factor", part);
}

/* Refuses settings that would make the model compute something that we do not implement. */
static int refuse_others(const json_t *config, const char *where, const char *model)
{
	static const char *const flags[] = { "attention_bias", "mlp_bias",
		"use_bidirectional_attention" };
	const struct family *f = family_of(model);
	const char *act, *act_2;
	double part;
	bool flag;

	if (!f)
		return err_set(EX_DATAERR,
			"%s: model_type '%.40s' is not llama, mistral, qwen2, qwen3, gemma, gemma2, "
			"gemma3_text or phi3",
			where, model);
	act = act_2 = f->gemma ? "gelu" : "silu";
	if ((field(config, "hidden_act") &&
		    json_get_text(config, where, "hidden_act", &act) < 0) ||
		(field(config, "hidden_activation") &&
			json_get_text(config, where, "hidden_activation", &act_2) < 0) ||
		read_rotary_part(config, where, &part) < 0)
		return -1;
	if (!is_activation(f, act) || !is_activation(f, act_2))
		return err_set(EX_DATAERR, "%s: hidden_act '%.40s' is not %s", where,
			is_activation(f, act) ? act_2 : act, f->gemma ? "gelu" : "silu");
	if (part != 1 && !f->fused)
		return err_set(EX_DATAERR, "%s: partial_rotary_factor is not 1", where);
	if (field(config, "quantization_config"))
		return err_set(EX_DATAERR,
			"%s: quantised safetensors (quantization_config) are not read",
			where);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		flag = false;
		if (opt_bool(config, where, flags[i], &flag) < 0)
			return -1;
		if (flag)
			return err_set(EX_DATAERR, "%s: models with %s are not read",
				where, flags[i]);
	}
	return 0;
}

static int read_sizes(struct lm_config *c, const json_t *config, const char *where,
	bool gemma)
{
	if (get_u32(config, where, "vocab_size", LM_VOCAB_MAX, &c->vocab) < 0 ||
		get_u32(config, where, "hidden_size", LM_DIM_MAX, &c->dim) < 0 ||
		get_u32(config, where, "intermediate_size", LM_HIDDEN_MAX, &c->hidden) <
			0 ||
		get_u32(config, where, "num_hidden_layers", LM_LAYERS_MAX, &c->layers) <
			0 ||
		get_u32(config, where, "num_attention_heads", LM_HEADS_MAX, &c->heads) <
			0)
		return -1;
	c->kv_heads = c->heads;
	c->context = 2048;
	if (c->heads)
		c->head_dim = c->dim / c->heads;
	if (gemma)
		c->head_dim = 256; /* transformers' default */
	if (!gemma && !field(config, "head_dim") && c->heads && c->dim % c->heads)
		return err_set(EX_DATAERR,
			"%s: hidden_size %" PRIu32
			" is not a multiple of num_attention_heads %" PRIu32,
			where, c->dim, c->heads);
	return opt_u32(config, where, "num_key_value_heads", LM_HEADS_MAX, &c->kv_heads) <
				0 ||
			opt_u32(config, where, "head_dim", LM_DIM_MAX, &c->head_dim) <
				0 ||
			opt_u32(config, where, "max_position_embeddings", LM_CONTEXT_MAX,
				&c->context) < 0 ||
			opt_f64(config, where, "rms_norm_eps", &c->rms_eps) < 0 ||
			opt_bool(config, where, "tie_word_embeddings", &c->tied) < 0 ?
		-1 :
		0;
}

/* Holds a list of the layers' kinds against window and period. */
static int check_layer_types(const struct lm_config *c, const json_t *config,
	const char *where)
{
	json_t *types = field(config, "layer_types"), *one;
	size_t i;

	if (types && json_array_size(types) != c->layers)
		return err_set(EX_DATAERR, "%s: layer_types is not of %" PRIu32 " layers",
			where, c->layers);
	json_array_foreach(types, i, one) {
		const char *type = json_string_value(one);
		bool sliding = lm_config_window(c, (uint32_t)i) != 0;

		if (!type ||
			strcmp(type, sliding ? "sliding_attention" : "full_attention"))
			return err_set(EX_DATAERR,
				"%s: layer_types: layer %zu is not of %s", where, i,
				sliding ? "sliding_attention" : "full_attention");
	}
	return 0;
}

/* llama and gemma have no window, mistral and phi3 have one when the key is present, qwen2 and
 * qwen3 have the key but use it only on request, and then from layer max_window_layers on;
 * gemma2 and gemma3 have one in all layers but every second or sixth. */
static int read_window(struct lm_config *c, const json_t *config, const char *where,
	const char *model)
{
	bool qwen = strncmp(model, "qwen", 4) == 0, use = !qwen;
	const struct family *f = family_of(model);
	uint32_t first = 28; /* transformers' default */

	if (strcmp(model, "llama") == 0 || strcmp(model, "gemma") == 0)
		return 0;
	if (f->window_period)
		c->window = 4096; /* transformers' default */
	if (opt_u32(config, where, "sliding_window", LM_CONTEXT_MAX, &c->window) < 0 ||
		opt_bool(config, where, "use_sliding_window", &use) < 0)
		return -1;
	if (!use)
		c->window = 0;
	if (c->window)
		c->window_period = f->window_period;
	if (c->window_period &&
		(opt_u32(config, where, "sliding_window_pattern", LM_LAYERS_MAX,
			 &c->window_period) < 0 ||
			check_layer_types(c, config, where) < 0))
		return -1;
	if (!c->window || !qwen)
		return 0;
	if (opt_u32(config, where, "max_window_layers", UINT32_MAX, &first) < 0)
		return -1;
	if (first >= c->layers)
		c->window = 0;
	else if (first > 0)
		return err_set(EX_DATAERR,
			"%s: a sliding window in some layers only is not read", where);
	return 0;
}

static int read_factors(float *to, const json_t *scaling, const char *where,
	const char *key, uint32_t n)
{
	json_t *list = field(scaling, key), *v;
	size_t i;

	if (json_array_size(list) != n || n > LM_ROPE_FACTORS_MAX)
		return err_set(EX_DATAERR, "%s: %s is not %" PRIu32 " numbers", where,
			key, n);
	json_array_foreach(list, i, v) {
		if (!json_is_number(v))
			return err_set(EX_DATAERR, "%s: %s[%zu] is not a number", where,
				key, i);
		to[i] = (float)json_number_value(v);
	}
	return 0;
}

/* Phi 3's scaling: factors for each pair, and cosines and sines that grow with the context
 * (LongRoPE, arXiv 2402.13753, section 4). */
static int read_long(struct lm_config *c, const json_t *scaling, const json_t *config,
	const char *where)
{
	struct lm_rope *r = &c->rope;
	double longer;

	r->kind = LM_ROPE_LONG;
	r->rotary = lm_config_rotary(c);
	r->original_context = c->context;
	if (opt_u32(config, where, "original_max_position_embeddings", LM_CONTEXT_MAX,
		    &r->original_context) < 0 ||
		opt_u32(scaling, where, "original_max_position_embeddings",
			LM_CONTEXT_MAX, &r->original_context) < 0 ||
		read_factors(r->short_factors, scaling, where, "short_factor",
			r->rotary / 2) < 0 ||
		read_factors(r->long_factors, scaling, where, "long_factor",
			r->rotary / 2) < 0)
		return -1;
	if (r->original_context < 2)
		return err_set(EX_DATAERR, "%s: the original context is %" PRIu32, where,
			r->original_context);
	longer = (double)c->context / r->original_context;
	if (longer > 1)
		r->magnitude = sqrt(1 + log(longer) / log(r->original_context));
	return opt_f64(scaling, where, "attention_factor", &r->magnitude);
}

/* Reads the kind of scaling and its parameters; scaling is rope_scaling, or rope_parameters in
 * newer files. */
static int read_scaling(struct lm_config *c, const json_t *scaling, const json_t *config,
	const char *where)
{
	const char *kind = "default";
	struct lm_rope *r = &c->rope;

	if (!json_is_object(scaling))
		return err_set(EX_DATAERR, "%s: rope_scaling is not an object", where);
	if ((field(scaling, "type") &&
		    json_get_text(scaling, where, "type", &kind) < 0) ||
		(field(scaling, "rope_type") &&
			json_get_text(scaling, where, "rope_type", &kind) < 0) ||
		opt_f64(scaling, where, "rope_theta", &r->base) < 0)
		return -1;
	if (strcmp(kind, "default") == 0)
		return 0;
	if (strcmp(kind, "longrope") == 0 || strcmp(kind, "su") == 0)
		return read_long(c, scaling, config, where);
	if (strcmp(kind, "linear") == 0)
		r->kind = LM_ROPE_LINEAR;
	else if (strcmp(kind, "dynamic") == 0)
		r->kind = LM_ROPE_NTK;
	else if (strcmp(kind, "llama3") == 0)
		r->kind = LM_ROPE_LLAMA3;
	else
		return err_set(EX_DATAERR,
			"%s: rope_scaling '%.40s' is not default, linear, dynamic, longrope or llama3",
			where, kind);
	r->original_context = c->context;
	if (json_get_f64(scaling, where, "factor", &r->factor) < 0 ||
		opt_u32(config, where, "original_max_position_embeddings", LM_CONTEXT_MAX,
			&r->original_context) < 0 ||
		opt_u32(scaling, where, "original_max_position_embeddings",
			LM_CONTEXT_MAX, &r->original_context) < 0)
		return -1;
	if (r->kind != LM_ROPE_LLAMA3)
		return 0;
	if (json_get_f64(scaling, where, "low_freq_factor", &r->low_freq_factor) < 0)
		return -1;
	return json_get_f64(scaling, where, "high_freq_factor", &r->high_freq_factor);
}

/* Reads eos_token_id, one id or an array of ids; the key may be absent. */
static int read_eos(struct lm_config *c, const json_t *from, const char *where)
{
	json_t *v = field(from, "eos_token_id");
	size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;

	if (!v)
		return 0;
	if (n > LM_EOS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d of eos_token_id", where,
			LM_EOS_MAX);
	c->eos_count = 0;
	for (size_t i = 0; i < n; i++) {
		json_t *id = json_is_array(v) ? json_array_get(v, i) : v;

		if (!json_is_integer(id))
			return err_set(EX_DATAERR,
				"%s: eos_token_id is not a whole number", where);
		c->eos[c->eos_count++] = json_integer_value(id);
	}
	return 0;
}

static int read_ids(struct lm_config *c, const json_t *from, const char *where)
{
	json_t *bos = field(from, "bos_token_id");

	if (bos && !json_is_integer(bos))
		return err_set(EX_DATAERR, "%s: bos_token_id is not a whole number",
			where);
	if (bos)
		c->bos = json_integer_value(bos);
	return read_eos(c, from, where);
}

/* Reads a soft cap: null is none, an absent key gemma2's. */
static int read_cap(const json_t *config, const char *where, const char *key,
	double without, double *out)
{
	*out = json_object_get(config, key) ? 0 : without;
	return opt_f64(config, where, key, out);
}

/* Reads what models beyond Llama's have. */
static int read_extras(struct lm_config *c, const json_t *config, const char *where,
	const struct family *f)
{
	bool second = strcmp(f->name, "gemma2") == 0;
	double scalar = 0, part;

	c->qkv_bias = f->qkv_bias;
	c->qk_norm = f->qk_norm;
	c->post_norms = f->post_norms;
	c->fused = f->fused;
	c->gelu = c->scaled_embed = c->norms_from_1 = f->gemma;
	if (opt_f64(config, where, "query_pre_attn_scalar", &scalar) < 0 ||
		read_rotary_part(config, where, &part) < 0)
		return -1;
	if (f->post_norms && scalar > 0 && scalar != c->head_dim)
		c->query_scale = 1 / sqrt(scalar);
	if (part > 0 && part < 1)
		c->rope.rotary = (uint32_t)(part * c->head_dim);
	else if (part != 1)
		return err_set(EX_DATAERR, "%s: partial_rotary_factor is %g", where,
			part);
	if (f->post_norms &&
		(read_cap(config, where, "attn_logit_softcapping", second ? 50 : 0,
			 &c->score_cap) < 0 ||
			read_cap(config, where, "final_logit_softcapping",
				second ? 30 : 0, &c->logit_cap) < 0))
		return -1;
	if (strcmp(f->name, "gemma3_text"))
		return 0;
	c->rope.local_base = 10000;
	return opt_f64(config, where, "rope_local_base_freq", &c->rope.local_base);
}

/* Reads the base of layers with a window, which have no scaling of their own. */
static int read_local_rope(struct lm_config *c, const json_t *local, const char *where)
{
	const char *kind = "default";

	if (!local)
		return 0;
	if (opt_f64(local, where, "rope_theta", &c->rope.local_base) < 0 ||
		(field(local, "rope_type") &&
			json_get_text(local, where, "rope_type", &kind) < 0))
		return -1;
	return strcmp(kind, "default") == 0 ?
		0 :
		err_set(EX_DATAERR,
			"%s: rope_parameters.sliding_attention '%.40s' is not default",
			where, kind);
}

/* Newer files of gemma3 have parameters for each kind of layer. */
static int read_rope(struct lm_config *c, const json_t *config, const char *where)
{
	json_t *scaling = field(config, "rope_parameters");

	if (read_local_rope(c, field(scaling, "sliding_attention"), where) < 0)
		return -1;
	if (!scaling)
		scaling = field(config, "rope_scaling");
	if (field(scaling, "full_attention"))
		scaling = field(scaling, "full_attention");
	return scaling ? read_scaling(c, scaling, config, where) : 0;
}

int lm_config_read(struct lm_config *c, const json_t *config, const json_t *generation,
	const char *where)
{
	const char *model;

	set_defaults(c);
	if (!json_is_object(config) || (generation && !json_is_object(generation)))
		return err_set(EX_DATAERR, "%s: not a JSON object", where);
	if (json_get_text(config, where, "model_type", &model) < 0 ||
		refuse_others(config, where, model) < 0)
		return -1;
	c->tied = family_of(model)->gemma;
	if (strcmp(model, "gemma3_text") == 0)
		c->rope.base = 1000000;
	if (read_sizes(c, config, where, c->tied) < 0 ||
		read_window(c, config, where, model) < 0 ||
		opt_f64(config, where, "rope_theta", &c->rope.base) < 0 ||
		read_extras(c, config, where, family_of(model)) < 0 ||
		read_rope(c, config, where) < 0 || read_ids(c, config, where) < 0 ||
		(generation && read_ids(c, generation, where) < 0))
		return -1;
	return lm_config_check(c, where);
}

static json_t *write_scaling(const struct lm_rope *r)
{
	static const char *const kinds[] = { [LM_ROPE_LINEAR] = "linear",
		[LM_ROPE_NTK] = "dynamic",
		[LM_ROPE_LLAMA3] = "llama3" };
	json_t *s = json_object();

	json_set_text(s, "rope_type", kinds[r->kind]);
	if (r->kind != LM_ROPE_LLAMA3) /* older readers know only this name */
		json_set_text(s, "type", kinds[r->kind]);
	json_set_f64(s, "factor", r->factor);
	if (r->kind == LM_ROPE_LLAMA3) {
		json_set_f64(s, "low_freq_factor", r->low_freq_factor);
		json_set_f64(s, "high_freq_factor", r->high_freq_factor);
	}
	if (r->kind != LM_ROPE_LINEAR)
		json_set_i64(s, "original_max_position_embeddings", r->original_context);
	return s;
}

/* In config.json llama has no bias and no window, so the model's name follows from its
 * features. */
static void write_family(json_t *v, const struct lm_config *c)
{
	const char *model = c->qkv_bias ? "qwen2" : c->window ? "mistral" : "llama";
	json_t *names = json_array();

	json_push_text(names,
		c->qkv_bias       ? "Qwen2ForCausalLM" :
			c->window ? "MistralForCausalLM" :
				    "LlamaForCausalLM");
	json_set(v, "architectures", names);
	json_set_text(v, "model_type", model);
	if (c->window)
		json_set_i64(v, "sliding_window", c->window);
	if (c->qkv_bias) {
		json_set_bool(v, "use_sliding_window", c->window != 0);
		json_set_i64(v, "max_window_layers", c->window ? 0 : c->layers);
	} else if (!c->window) {
		json_set_bool(v, "attention_bias", false);
		json_set_bool(v, "mlp_bias", false);
	}
}

json_t *lm_config_write(const struct lm_config *c, const char *dtype)
{
	json_t *v = json_object(), *ids;

	write_family(v, c);
	json_set_text(v, "torch_dtype", dtype);
	json_set_text(v, "hidden_act", "silu");
	json_set_i64(v, "vocab_size", c->vocab);
	json_set_i64(v, "hidden_size", c->dim);
	json_set_i64(v, "intermediate_size", c->hidden);
	json_set_i64(v, "num_hidden_layers", c->layers);
	json_set_i64(v, "num_attention_heads", c->heads);
	json_set_i64(v, "num_key_value_heads", c->kv_heads);
	json_set_i64(v, "head_dim", c->head_dim);
	json_set_i64(v, "max_position_embeddings", c->context);
	json_set_f64(v, "rms_norm_eps", c->rms_eps);
	json_set_f64(v, "rope_theta", c->rope.base);
	if (c->rope.kind != LM_ROPE_PLAIN)
		json_set(v, "rope_scaling", write_scaling(&c->rope));
	json_set_bool(v, "tie_word_embeddings", c->tied);
	if (c->bos >= 0)
		json_set_i64(v, "bos_token_id", c->bos);
	if (c->eos_count == 1)
		json_set_i64(v, "eos_token_id", c->eos[0]);
	if (c->eos_count > 1) {
		ids = json_array();
		for (uint32_t i = 0; i < c->eos_count; i++)
			json_push(ids, json_integer(c->eos[i]));
		json_set(v, "eos_token_id", ids);
	}
	return v;
}

/* --- what a model has --------------------------------------------------------------------- */

uint32_t lm_config_window(const struct lm_config *c, uint32_t layer)
{
	bool full = c->window_period && layer % c->window_period == c->window_period - 1;

	return full ? 0 : c->window;
}

uint32_t lm_config_rotary(const struct lm_config *c)
{
	return c->rope.rotary ? c->rope.rotary : c->head_dim;
}

int lm_config_need_llama(const struct lm_config *c, const char *what)
{
	if (c->window_period || c->qk_norm || c->post_norms || c->fused || c->gelu ||
		c->scaled_embed || c->norms_from_1 || c->query_scale > 0 ||
		c->score_cap > 0 || c->logit_cap > 0 || c->rope.rotary ||
		c->rope.local_base > 0 || c->rope.magnitude > 0 ||
		c->rope.kind == LM_ROPE_LONG)
		return err_set(EX_DATAERR,
			"models of this architecture can be served, but not %s", what);
	return 0;
}

/* --- checks and sums ---------------------------------------------------------------------- */

static int check_size(const char *where, const char *what, uint64_t v, uint64_t max)
{
	if (v < 1 || v > max)
		return err_set(EX_DATAERR,
			"%s: %s is %" PRIu64 ", not within 1 and %" PRIu64, where, what,
			v, max);
	return 0;
}

static int check_rope(const struct lm_rope *r, const char *where)
{
	if (!(r->base >= 1) || !isfinite(r->base))
		return err_set(EX_DATAERR, "%s: rope base %g is not a number from 1 on",
			where, r->base);
	if (r->kind == LM_ROPE_PLAIN)
		return 0;
	if (!(r->factor >= 1) || !isfinite(r->factor))
		return err_set(EX_DATAERR, "%s: rope factor %g is not a number from 1 on",
			where, r->factor);
	if (r->kind == LM_ROPE_LINEAR)
		return 0;
	if (check_size(where, "the original context", r->original_context,
		    LM_CONTEXT_MAX) < 0)
		return -1;
	for (uint32_t i = 0; r->kind == LM_ROPE_LONG && i < r->rotary / 2; i++)
		if (!(r->short_factors[i] > 0 && r->long_factors[i] > 0) ||
			!isfinite(r->short_factors[i]) || !isfinite(r->long_factors[i]))
			return err_set(EX_DATAERR,
				"%s: rope factor %" PRIu32 " is not above 0", where, i);
	if (r->kind == LM_ROPE_LLAMA3 &&
		!(r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor &&
			isfinite(r->high_freq_factor)))
		return err_set(EX_DATAERR,
			"%s: rope frequency factors %g and %g are not in order", where,
			r->low_freq_factor, r->high_freq_factor);
	return 0;
}

static int check_id(const char *where, const char *what, int64_t id, uint32_t vocab)
{
	if (id < 0 || id >= vocab)
		return err_set(EX_DATAERR,
			"%s: %s token %" PRId64 " is not in the vocabulary of %" PRIu32,
			where, what, id, vocab);
	return 0;
}

/* Checks the numbers that models beyond Llama's have. */
static int check_extras(const struct lm_config *c, const char *where)
{
	const struct {
		const char *what;
		double v;
	} all[] = { { "the base of local rotary positions", c->rope.local_base },
		{ "the magnitude of rotary positions", c->rope.magnitude },
		{ "the scale of queries", c->query_scale },
		{ "the soft cap of scores", c->score_cap },
		{ "the soft cap of logits", c->logit_cap } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!(all[i].v >= 0 && all[i].v < 1e9))
			return err_set(EX_DATAERR, "%s: %s is %g", where, all[i].what,
				all[i].v);
	if (c->window_period > LM_LAYERS_MAX)
		return err_set(EX_DATAERR,
			"%s: every %" PRIu32 "th layer sees everything", where,
			c->window_period);
	return 0;
}

int lm_config_check(const struct lm_config *c, const char *where)
{
	if (check_size(where, "the vocabulary", c->vocab, LM_VOCAB_MAX) < 0 ||
		check_size(where, "the width", c->dim, LM_DIM_MAX) < 0 ||
		check_size(where, "the hidden width", c->hidden, LM_HIDDEN_MAX) < 0 ||
		check_size(where, "the number of layers", c->layers, LM_LAYERS_MAX) < 0 ||
		check_size(where, "the number of heads", c->heads, LM_HEADS_MAX) < 0 ||
		check_size(where, "the number of key and value heads", c->kv_heads,
			c->heads) < 0 ||
		check_size(where, "the width of a head", c->head_dim, LM_DIM_MAX) < 0 ||
		check_size(where, "the context", c->context, LM_CONTEXT_MAX) < 0)
		return -1;
	if (c->heads % c->kv_heads)
		return err_set(EX_DATAERR,
			"%s: %" PRIu32 " heads are not a multiple of %" PRIu32
			" key and value heads",
			where, c->heads, c->kv_heads);
	if (c->head_dim % 2)
		return err_set(EX_DATAERR, "%s: the width of a head, %" PRIu32 ", is odd",
			where, c->head_dim);
	if ((uint64_t)c->heads * c->head_dim > LM_HIDDEN_MAX)
		return err_set(EX_DATAERR,
			"%s: %" PRIu32 " heads of %" PRIu32 " are too wide", where,
			c->heads, c->head_dim);
	if (c->window > LM_CONTEXT_MAX)
		return err_set(EX_DATAERR, "%s: the sliding window is over %u", where,
			LM_CONTEXT_MAX);
	if (!(c->rms_eps > 0 && c->rms_eps < 1))
		return err_set(EX_DATAERR,
			"%s: the norm's epsilon %g is not within 0 and 1", where,
			c->rms_eps);
	if (c->rope.rotary % 2 || c->rope.rotary > c->head_dim ||
		(c->rope.kind == LM_ROPE_LONG &&
			(c->rope.rotary < 2 || c->rope.rotary / 2 > LM_ROPE_FACTORS_MAX)))
		return err_set(EX_DATAERR,
			"%s: %" PRIu32 " rotary dimensions of heads of %" PRIu32, where,
			c->rope.rotary, c->head_dim);
	if (check_rope(&c->rope, where) < 0 || check_extras(c, where) < 0)
		return -1;
	if (c->bos != -1 && check_id(where, "first", c->bos, c->vocab) < 0)
		return -1;
	if (c->eos_count > LM_EOS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d last tokens", where,
			LM_EOS_MAX);
	for (uint32_t i = 0; i < c->eos_count; i++)
		if (check_id(where, "last", c->eos[i], c->vocab) < 0)
			return -1;
	return 0;
}

/* Returns the number of parameters of a layer's matrices. */
static uint64_t layer_matrices(const struct lm_config *c)
{
	uint64_t q = (uint64_t)c->heads * c->head_dim,
		 kv = (uint64_t)c->kv_heads * c->head_dim;

	return 2 * q * c->dim + 2 * kv * c->dim + 3 * (uint64_t)c->hidden * c->dim;
}

uint64_t lm_config_params(const struct lm_config *c)
{
	uint64_t embed = (uint64_t)c->vocab * c->dim;
	uint64_t bias = (c->heads + 2 * (uint64_t)c->kv_heads) * c->head_dim;
	uint64_t layer = layer_matrices(c) + 2 * (uint64_t)c->dim +
		(c->qkv_bias ? bias : 0) + (c->qk_norm ? 2 * (uint64_t)c->head_dim : 0) +
		(c->post_norms ? 2 * (uint64_t)c->dim : 0);

	return embed * (c->tied ? 1 : 2) + c->layers * layer + c->dim;
}

double lm_config_train_flop(const struct lm_config *c, uint32_t positions)
{
	double matrices = (double)c->layers * (double)layer_matrices(c) +
		(double)c->vocab * c->dim;
	/* average number of positions that a token attends to */
	double seen = positions / 2.0;

	if (c->window && c->window < positions)
		seen = c->window - (double)c->window * c->window / (2.0 * positions);
	return 6 * matrices + 12.0 * c->layers * c->heads * c->head_dim * seen;
}
