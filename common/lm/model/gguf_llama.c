/* gguf_llama.c - the config, tensors and tokenizer of a Llama model in a GGUF file. */
#include "common/lm/model/gguf_llama.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define TOKEN_BYTES_MAX 4096

/* --- the model ---------------------------------------------------------------------------- */

bool gguf_is_architecture(const struct gguf *g, const char *name)
{
	const struct gguf_value *v = gguf_find(g, "general.architecture");

	return v && v->kind == GGUF_TEXT && v->bytes == strlen(name) &&
		memcmp(v->data, name, (size_t)v->bytes) == 0;
}

/* Properties of an architecture's models that a file does not state. */
static const struct architecture {
	const char *name;
	bool interleaved; /* q and k are permuted for adjacent pairs */
	bool gelu, scaled_embed, qk_norm, post_norms, fused;
	uint32_t window, window_period; /* where the file has no window */
	double local_base;
	/* the depth of the one model whose queries are scaled by dim / heads */
	uint32_t root_layers;
} architectures[] = {
	{ .name = "llama", .interleaved = true },
	{ .name = "qwen2" },
	{ .name = "qwen3", .qk_norm = true },
	{ .name = "gemma", .gelu = true, .scaled_embed = true },
	{ .name = "gemma2",
		.gelu = true,
		.scaled_embed = true,
		.post_norms = true,
		.window = 4096,
		.window_period = 2,
		.root_layers = 46 },
	{ .name = "gemma3",
		.gelu = true,
		.scaled_embed = true,
		.qk_norm = true,
		.post_norms = true,
		.window_period = 6,
		.local_base = 10000,
		.root_layers = 62 },
	{ .name = "phi3", .fused = true },
};

/* Returns NULL for others. */
static const struct architecture *architecture_of(const struct gguf *g)
{
	for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
		if (gguf_is_architecture(g, architectures[i].name))
			return &architectures[i];
	return NULL;
}

/* Builds the keys of one architecture: "llama." and the rest. */
struct keys {
	const struct gguf *g;
	const char *architecture;
	char key[80];
};

/* Keys without which there is no model. */
#define KEY_CONTEXT "context_length"
#define KEY_DIM     "embedding_length"
#define KEY_LAYERS  "block_count"
#define KEY_HIDDEN  "feed_forward_length"
#define KEY_HEADS   "attention.head_count"

static const char *key_of(struct keys *k, const char *rest)
{
	snprintf(k->key, sizeof k->key, "%s.%s", k->architecture, rest);
	return k->key;
}

static int get_u32(struct keys *k, const char *rest, uint32_t *out)
{
	uint64_t v = *out;

	if (gguf_get_u64(k->g, key_of(k, rest), UINT32_MAX, &v) < 0)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int need_u32(struct keys *k, const char *rest, uint32_t *out)
{
	if (!gguf_find(k->g, key_of(k, rest)))
		return err_set(EX_DATAERR, "%s: key '%s' is missing", gguf_where(k->g),
			k->key);
	return get_u32(k, rest, out);
}

static int get_f64(struct keys *k, const char *rest, double *out)
{
	return gguf_get_f64(k->g, key_of(k, rest), out);
}

/* Reads a special token's id; leaves *id unchanged when there is none. */
static int get_token(const struct gguf *g, const char *key, int64_t *id)
{
	uint64_t v = GGUF_NO_TOKEN;

	if (gguf_get_u64(g, key, UINT32_MAX, &v) < 0)
		return -1;
	if (v != GGUF_NO_TOKEN)
		*id = (int64_t)v;
	return 0;
}

static int read_tokens(struct lm_config *c, const struct gguf *g)
{
	static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
		"tokenizer.ggml.eot_token_id" };

	if (get_token(g, "tokenizer.ggml.bos_token_id", &c->bos) < 0)
		return -1;
	for (size_t i = 0; i < 2; i++) {
		int64_t id = -1;

		if (get_token(g, ends[i], &id) < 0)
			return -1;
		if (id >= 0 && (!c->eos_count || c->eos[0] != id))
			c->eos[c->eos_count++] = id;
	}
	return 0;
}

/* Takes the vocabulary from the embedding's rows, with which the list of tokens and vocab_size
 * must agree; without tensors, from the list or vocab_size. */
static int read_vocab(struct lm_config *c, struct keys *k)
{
	const struct lm_tensor *embed = gguf_find_tensor(k->g, "token_embd.weight");
	const struct gguf_value *tokens;
	uint32_t said = 0;
	uint64_t rows;

	if (gguf_get_array(k->g, "tokenizer.ggml.tokens", GGUF_TEXT, &tokens) < 0 ||
		get_u32(k, "vocab_size", &said) < 0)
		return -1;
	rows = embed && embed->dims == 2 ? embed->shape[0] :
		tokens                   ? tokens->count :
					   said;
	if (rows < 1 || rows > LM_VOCAB_MAX)
		return err_set(EX_DATAERR,
			"%s: a vocabulary of %" PRIu64 ", not within 1 and %u",
			gguf_where(k->g), rows, LM_VOCAB_MAX);
	c->vocab = (uint32_t)rows;
	if (embed && ((tokens && tokens->count != rows) || (said && said != rows)))
		return err_set(EX_DATAERR,
			"%s: token_embd.weight has %" PRIu64 " rows for %" PRIu64
			" tokens",
			gguf_where(k->g), rows,
			tokens && tokens->count != rows ? tokens->count : said);
	return 0;
}

static int read_heads(struct lm_config *c, struct keys *k)
{
	if (need_u32(k, KEY_HEADS, &c->heads) < 0)
		return -1;
	c->kv_heads = c->heads;
	c->head_dim = c->heads ? c->dim / c->heads : 0;
	return get_u32(k, "attention.head_count_kv", &c->kv_heads) < 0 ||
			get_u32(k, "attention.key_length", &c->head_dim) < 0 ?
		-1 :
		0;
}

/* Refuses heads whose values have another size than their keys, and keeps how much of them is
 * rotated. */
static int check_heads(struct lm_config *c, struct keys *k)
{
	uint32_t values = c->head_dim, rotary = c->head_dim;

	if (get_u32(k, "attention.value_length", &values) < 0 ||
		get_u32(k, "rope.dimension_count", &rotary) < 0)
		return -1;
	if (rotary != c->head_dim)
		c->rope.rotary = rotary;
	if (values != c->head_dim || rotary < 2 || rotary > c->head_dim || rotary % 2)
		return err_set(EX_DATAERR,
			"%s: heads of %" PRIu32 " with values of %" PRIu32 " and %" PRIu32
			" rotary dimensions",
			gguf_where(k->g), c->head_dim, values, rotary);
	return 0;
}

static bool text_is(const char *text, uint64_t bytes, const char *what)
{
	return bytes == strlen(what) && memcmp(text, what, (size_t)bytes) == 0;
}

static int read_rope(struct lm_config *c, struct keys *k)
{
	const char *kind = "none";
	uint64_t bytes = 4;

	/* a factor without a type means linear, as in llama.cpp */
	if (gguf_find(k->g, key_of(k, "rope.scaling.factor")))
		kind = "linear", bytes = 6;
	/* older files use the second name */
	if (get_f64(k, "rope.freq_base", &c->rope.base) < 0 ||
		gguf_get_text(k->g, key_of(k, "rope.scaling.type"), &kind, &bytes) < 0 ||
		get_f64(k, "rope.scale_linear", &c->rope.factor) < 0)
		return -1;
	if (gguf_find(k->g, key_of(k, "rope.scale_linear")) && c->rope.factor != 1)
		c->rope.kind = LM_ROPE_LINEAR;
	if (text_is(kind, bytes, "linear")) {
		c->rope.kind = LM_ROPE_LINEAR;
		if (get_f64(k, "rope.scaling.factor", &c->rope.factor) < 0)
			return -1;
	}
	return 0;
}

/* Reads what models beyond Llama's have. */
static int read_extras(struct lm_config *c, struct keys *k, const struct architecture *a)
{
	c->gelu = a->gelu;
	c->scaled_embed = a->scaled_embed;
	c->qk_norm = a->qk_norm;
	c->post_norms = a->post_norms;
	c->fused = a->fused;
	c->window_period = c->window ? a->window_period : 0;
	c->rope.local_base = c->window ? a->local_base : 0;
	if (a->root_layers && c->layers == a->root_layers && c->heads)
		c->query_scale = 1 / sqrt((double)c->dim / c->heads);
	return get_f64(k, "attn_logit_softcapping", &c->score_cap) < 0 ||
			get_f64(k, "final_logit_softcapping", &c->logit_cap) < 0 ?
		-1 :
		0;
}

bool gguf_llama_is_complete(const struct gguf *g)
{
	static const char *const needed[] = { KEY_CONTEXT, KEY_DIM, KEY_LAYERS,
		KEY_HIDDEN, KEY_HEADS };
	const struct architecture *a = architecture_of(g);
	struct keys k = { .g = g, .architecture = a ? a->name : "llama" };

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!gguf_find(g, key_of(&k, needed[i])))
			return false;
	return true;
}

int gguf_llama_config(struct lm_config *c, const struct gguf *g)
{
	const struct architecture *a = architecture_of(g);
	struct keys k = { .g = g, .architecture = a ? a->name : "llama" };

	*c = (struct lm_config){ .bos = -1, .rope = { .base = 10000, .factor = 1 } };
	if (!a)
		return err_set(EX_DATAERR,
			"%s: the architecture is not llama, qwen2, qwen3, gemma, gemma2, gemma3 or phi3",
			gguf_where(g));
	c->window = a->window;
	if (need_u32(&k, KEY_CONTEXT, &c->context) < 0 ||
		need_u32(&k, KEY_DIM, &c->dim) < 0 ||
		need_u32(&k, KEY_LAYERS, &c->layers) < 0 ||
		need_u32(&k, KEY_HIDDEN, &c->hidden) < 0 ||
		get_u32(&k, "attention.sliding_window", &c->window) < 0 ||
		get_f64(&k, "attention.layer_norm_rms_epsilon", &c->rms_eps) < 0 ||
		read_heads(c, &k) < 0 || read_rope(c, &k) < 0 || read_vocab(c, &k) < 0 ||
		read_tokens(c, g) < 0)
		return -1;
	c->rope.interleaved = a->interleaved;
	if (read_extras(c, &k, a) < 0)
		return -1;
	c->tied = !gguf_find_tensor(g, "output.weight");
	c->qkv_bias = gguf_find_tensor(g, "blk.0.attn_q.bias") != NULL;
	return lm_config_check(c, gguf_where(g));
}

void gguf_llama_factors(float *factors, const struct lm_rope *r, uint32_t head_dim)
{
	double low = r->original_context / r->low_freq_factor;
	double high = r->original_context / r->high_freq_factor;

	for (uint32_t i = 0; i < head_dim / 2; i++) {
		double wave = 2 * M_PI * pow(r->base, 2.0 * i / head_dim), smooth;

		smooth = (r->original_context / wave - r->low_freq_factor) /
			(r->high_freq_factor - r->low_freq_factor);
		factors[i] = (float)(wave < high ? 1 :
				wave > low       ? r->factor :
						   1 / ((1 - smooth) / r->factor + smooth));
	}
}

/* Recognises Llama 3.1's scaling. Llama 3.1's models and their successors use 1, 4 and 8192;
 * only the factor varies, and it is the last element of the tensor. */
static int read_factors(struct lm_config *c, const struct gguf *g)
{
	const struct lm_tensor *t = gguf_find_tensor(g, "rope_freqs.weight");
	uint32_t n = c->head_dim / 2;
	float *have, *want;
	int rc = 0;

	if (!t)
		return 0;
	if (t->type != LM_F32 || t->dims != 1 || t->count != n)
		return err_set(EX_DATAERR,
			"%s: rope_freqs.weight is not %" PRIu32 " numbers of f32",
			gguf_where(g), n);
	have = xcalloc(n, sizeof *have);
	want = xcalloc(n, sizeof *want);
	memcpy(have, t->data, n * sizeof *have);
	if (have[n - 1] != 1) {
		uint64_t original = 8192;

		rc = gguf_get_u64(g, "llama.rope.scaling.original_context_length",
			LM_CONTEXT_MAX, &original);
		c->rope.kind = LM_ROPE_LLAMA3;
		c->rope.factor = (double)have[n - 1];
		c->rope.low_freq_factor = 1;
		c->rope.high_freq_factor = 4;
		c->rope.original_context = (uint32_t)original;
	}
	if (rc == 0 && c->rope.kind == LM_ROPE_LLAMA3)
		rc = lm_config_check(c, gguf_where(g));
	if (rc == 0 && c->rope.kind == LM_ROPE_LLAMA3)
		gguf_llama_factors(want, &c->rope, c->head_dim);
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		float w = c->rope.kind == LM_ROPE_LLAMA3 ? want[i] : 1;

		if (!(fabsf(have[i] - w) <= 1e-4f * w))
			rc = err_set(EX_DATAERR,
				"%s: rope_freqs.weight is not Llama 3.1's scaling: number %" PRIu32
				" is %g, not %g",
				gguf_where(g), i, (double)have[i], (double)w);
	}
	free(have);
	free(want);
	return rc;
}

static int read_factor_tensor(float *to, uint32_t n, const struct gguf *g,
	const char *name)
{
	const struct lm_tensor *t = gguf_find_tensor(g, name);

	if (!t || t->type != LM_F32 || t->dims != 1 || t->count != n ||
		n > LM_ROPE_FACTORS_MAX)
		return err_set(EX_DATAERR, "%s: %s is not %" PRIu32 " numbers of f32",
			gguf_where(g), name, n);
	memcpy(to, t->data, n * sizeof *to);
	return 0;
}

/* Reads the factors of long contexts, and the magnitude that goes with them. */
static int read_long(struct lm_config *c, struct keys *k)
{
	uint32_t original = c->context;

	if (!gguf_find_tensor(k->g, "rope_factors_long.weight"))
		return 0;
	c->rope.kind = LM_ROPE_LONG;
	c->rope.rotary = lm_config_rotary(c);
	if (get_u32(k, "rope.scaling.original_context_length", &original) < 0 ||
		get_f64(k, "rope.scaling.attn_factor", &c->rope.magnitude) < 0 ||
		read_factor_tensor(c->rope.short_factors, c->rope.rotary / 2, k->g,
			"rope_factors_short.weight") < 0 ||
		read_factor_tensor(c->rope.long_factors, c->rope.rotary / 2, k->g,
			"rope_factors_long.weight") < 0)
		return -1;
	c->rope.original_context = original;
	return 0;
}

int gguf_llama_rope(struct lm_config *c, const struct gguf *g)
{
	const struct architecture *a = architecture_of(g);
	struct keys k = { .g = g, .architecture = a ? a->name : "llama" };
	bool causal = true;
	const char *kind = "none";
	uint32_t experts = 0;
	uint64_t bytes = 4;

	if (get_u32(&k, "expert_count", &experts) < 0 ||
		gguf_get_bool(g, key_of(&k, "attention.causal"), &causal) < 0 ||
		gguf_get_text(g, key_of(&k, "rope.scaling.type"), &kind, &bytes) < 0)
		return -1;
	if (experts)
		return err_set(EX_DATAERR,
			"%s: models of %" PRIu32 " experts are not read", gguf_where(g),
			experts);
	if (!causal)
		return err_set(EX_DATAERR, "%s: attention is not causal", gguf_where(g));
	if (!text_is(kind, bytes, "none") && !text_is(kind, bytes, "linear") &&
		!text_is(kind, bytes, "longrope"))
		return err_set(EX_DATAERR,
			"%s: rope scaling '%.*s' is not none or linear", gguf_where(g),
			(int)(bytes < 40 ? bytes : 40), kind);
	if (check_heads(c, &k) < 0 || read_factors(c, g) < 0 || read_long(c, &k) < 0)
		return -1;
	return lm_config_check(c, gguf_where(g));
}

/* --- the tokenizer ------------------------------------------------------------------------ */

struct token {
	const char *text;
	uint64_t bytes;
};

static int compare_tokens(const void *a, const void *b)
{
	const struct token *t = a, *u = b;
	uint64_t shorter = t->bytes < u->bytes ? t->bytes : u->bytes;
	int order = shorter ? memcmp(t->text, u->text, (size_t)shorter) : 0;

	return order ? order : (t->bytes > u->bytes) - (t->bytes < u->bytes);
}

static int check_tokens(const struct gguf *g, const struct gguf_value *tokens)
{
	const unsigned char *at = tokens->data;
	struct token *all;
	int rc = 0;

	if (tokens->count < 1 || tokens->count > LM_VOCAB_MAX)
		return err_set(EX_DATAERR, "%s: %" PRIu64 " tokens, not 1 to %u",
			gguf_where(g), tokens->count, LM_VOCAB_MAX);
	all = xcalloc((size_t)tokens->count, sizeof *all);
	for (uint64_t i = 0; rc == 0 && i < tokens->count; i++) {
		all[i].text = gguf_next_text(&at, &all[i].bytes);
		if (all[i].bytes > TOKEN_BYTES_MAX ||
			!utf8_valid(all[i].text, (size_t)all[i].bytes))
			rc = err_set(EX_DATAERR,
				"%s: token %" PRIu64 " is not UTF-8 of at most %d bytes",
				gguf_where(g), i, TOKEN_BYTES_MAX);
		else if (memchr(all[i].text, 0, (size_t)all[i].bytes))
			rc = err_set(EX_DATAERR, "%s: token %" PRIu64 " has a NUL",
				gguf_where(g), i);
	}
	if (rc == 0)
		qsort(all, (size_t)tokens->count, sizeof *all, compare_tokens);
	for (uint64_t i = 1; rc == 0 && i < tokens->count; i++)
		if (compare_tokens(&all[i - 1], &all[i]) == 0)
			rc = err_set(EX_DATAERR, "%s: token '%.*s' stands there twice",
				gguf_where(g),
				(int)(all[i].bytes < 80 ? all[i].bytes : 80),
				all[i].text);
	free(all);
	return rc;
}

/* Checks that there is one score and one type per token. */
static int check_scores(const struct gguf *g, uint64_t tokens)
{
	const struct gguf_value *scores, *types;

	if (gguf_get_array(g, "tokenizer.ggml.scores", GGUF_F32, &scores) < 0 ||
		gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_I32, &types) < 0)
		return -1;
	if ((scores && scores->count != tokens) || (types && types->count != tokens))
		return err_set(EX_DATAERR, "%s: %" PRIu64 " %s for %" PRIu64 " tokens",
			gguf_where(g),
			scores && scores->count != tokens ? scores->count : types->count,
			scores && scores->count != tokens ? "scores" : "token types",
			tokens);
	for (uint64_t i = 0; scores && i < tokens; i++)
		if (!isfinite(gguf_item_f64(scores, i)))
			return err_set(EX_DATAERR,
				"%s: the score of token %" PRIu64 " is not finite",
				gguf_where(g), i);
	for (uint64_t i = 0; types && i < tokens; i++)
		if (gguf_item_i64(types, i) < 0 || gguf_item_i64(types, i) > 6)
			return err_set(EX_DATAERR,
				"%s: the type of token %" PRIu64 " is %" PRId64
				", not 0 to 6",
				gguf_where(g), i, gguf_item_i64(types, i));
	return 0;
}

/* Checks that merges read "a b": a blank that is not the first byte, with something after it. */
static int check_merges(const struct gguf *g)
{
	const struct gguf_value *merges;
	const unsigned char *at;

	if (gguf_get_array(g, "tokenizer.ggml.merges", GGUF_TEXT, &merges) < 0)
		return -1;
	if (!merges) {
		const char *model = "";
		uint64_t bytes = 0;

		if (gguf_get_text(g, "tokenizer.ggml.model", &model, &bytes) < 0)
			return -1;
		return text_is(model, bytes, "gpt2") ?
			err_set(EX_DATAERR, "%s: key 'tokenizer.ggml.merges' is missing",
				gguf_where(g)) :
			0;
	}
	at = merges->data;
	for (uint64_t i = 0; i < merges->count; i++) {
		uint64_t bytes;
		const char *text = gguf_next_text(&at, &bytes), *blank = NULL;

		if (bytes > 2)
			blank = memchr(text + 1, ' ', (size_t)bytes - 2);
		if (!blank || !utf8_valid(text, (size_t)bytes))
			return err_set(EX_DATAERR,
				"%s: merge %" PRIu64
				" is not two texts with a blank between",
				gguf_where(g), i);
	}
	return 0;
}

static bool ends_with(const struct gguf_value *v, const char *end)
{
	size_t n = strlen(end);

	return v->key_bytes >= n && memcmp(v->key + v->key_bytes - n, end, n) == 0;
}

static bool begins_with(const struct gguf_value *v, const char *begin)
{
	size_t n = strlen(begin);

	return v->key_bytes >= n && memcmp(v->key, begin, n) == 0;
}

static int check_token_id(const struct gguf *g, const struct gguf_value *v,
	uint64_t tokens)
{
	uint32_t id = GGUF_NO_TOKEN;

	if (v->kind == GGUF_U32)
		memcpy(&id, v->data, sizeof id);
	if (v->kind != GGUF_U32 || (id != GGUF_NO_TOKEN && id >= tokens))
		return err_set(EX_DATAERR,
			"%s: key '%.*s' is no token of %" PRIu64 ", nor %" PRIu32
			" for none",
			gguf_where(g), (int)v->key_bytes, v->key, tokens, GGUF_NO_TOKEN);
	return 0;
}

static int check_template(const struct gguf *g, const struct gguf_value *v)
{
	if (v->kind != GGUF_TEXT || v->bytes > GGUF_TEMPLATE_BYTES ||
		!utf8_valid((const char *)v->data, (size_t)v->bytes))
		return err_set(EX_DATAERR,
			"%s: key '%.*s' is no UTF-8 text of at most %d bytes",
			gguf_where(g), (int)v->key_bytes, v->key, GGUF_TEMPLATE_BYTES);
	return 0;
}

/* "tokenizer.chat_templates" lists the NAMEs of the keys "tokenizer.chat_template.NAME". */
static int check_others(const struct gguf *g, uint64_t tokens)
{
	for (uint64_t i = 0; i < gguf_values(g); i++) {
		const struct gguf_value *v = gguf_value_at(g, i);

		if (begins_with(v, "tokenizer.ggml.") && ends_with(v, "_token_id") &&
			check_token_id(g, v, tokens) < 0)
			return -1;
		if (begins_with(v, "tokenizer.chat_template") &&
			!ends_with(v, "chat_templates") && check_template(g, v) < 0)
			return -1;
	}
	return 0;
}

int gguf_check_tokenizer(const struct gguf *g)
{
	const struct gguf_value *tokens;
	const char *text;
	uint64_t bytes, count;

	if (gguf_get_text(g, "tokenizer.ggml.model", &text, &bytes) < 0 ||
		gguf_get_text(g, "tokenizer.ggml.pre", &text, &bytes) < 0 ||
		gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_TEXT, &tokens) < 0)
		return -1;
	count = tokens ? tokens->count : 0;
	if (tokens &&
		(check_tokens(g, tokens) < 0 || check_scores(g, count) < 0 ||
			check_merges(g) < 0))
		return -1;
	return check_others(g, tokens ? count : LM_VOCAB_MAX);
}
