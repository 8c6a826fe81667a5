/* layout.c - the list of a model's tensors, and their names. */
#include "common/lm/model/layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/err.h"

enum where { BEFORE, IN_LAYER, AFTER };

static const struct {
	enum where where;
	const char *hf,
		*gguf; /* names within a layer, after "model.layers.N." and "blk.N." */
} parts[LM_PARTS] = {
	[LM_EMBED] = { BEFORE, "model.embed_tokens.weight", "token_embd.weight" },
	[LM_ATTN_NORM] = { IN_LAYER, "input_layernorm.weight", "attn_norm.weight" },
	[LM_Q] = { IN_LAYER, "self_attn.q_proj.weight", "attn_q.weight" },
	[LM_K] = { IN_LAYER, "self_attn.k_proj.weight", "attn_k.weight" },
	[LM_V] = { IN_LAYER, "self_attn.v_proj.weight", "attn_v.weight" },
	[LM_Q_BIAS] = { IN_LAYER, "self_attn.q_proj.bias", "attn_q.bias" },
	[LM_K_BIAS] = { IN_LAYER, "self_attn.k_proj.bias", "attn_k.bias" },
	[LM_V_BIAS] = { IN_LAYER, "self_attn.v_proj.bias", "attn_v.bias" },
	[LM_QKV] = { IN_LAYER, "self_attn.qkv_proj.weight", "attn_qkv.weight" },
	[LM_Q_NORM] = { IN_LAYER, "self_attn.q_norm.weight", "attn_q_norm.weight" },
	[LM_K_NORM] = { IN_LAYER, "self_attn.k_norm.weight", "attn_k_norm.weight" },
	[LM_O] = { IN_LAYER, "self_attn.o_proj.weight", "attn_output.weight" },
	[LM_ATTN_POST_NORM] = { IN_LAYER, "post_attention_layernorm.weight",
		"post_attention_norm.weight" },
	[LM_FFN_NORM] = { IN_LAYER, "post_attention_layernorm.weight",
		"ffn_norm.weight" },
	[LM_GATE] = { IN_LAYER, "mlp.gate_proj.weight", "ffn_gate.weight" },
	[LM_UP] = { IN_LAYER, "mlp.up_proj.weight", "ffn_up.weight" },
	[LM_DOWN] = { IN_LAYER, "mlp.down_proj.weight", "ffn_down.weight" },
	[LM_GATE_UP] = { IN_LAYER, "mlp.gate_up_proj.weight", "ffn_up.weight" },
	[LM_FFN_POST_NORM] = { IN_LAYER, "post_feedforward_layernorm.weight",
		"post_ffw_norm.weight" },
	[LM_OUT_NORM] = { AFTER, "model.norm.weight", "output_norm.weight" },
	[LM_OUTPUT] = { AFTER, "lm_head.weight", "output.weight" },
};

/* Whether a layer has the part. */
static bool has(const struct lm_config *c, enum lm_part part)
{
	switch (part) {
	case LM_Q_BIAS:
	case LM_K_BIAS:
	case LM_V_BIAS:
		return c->qkv_bias;
	case LM_Q:
	case LM_K:
	case LM_V:
	case LM_GATE:
	case LM_UP:
		return !c->fused;
	case LM_QKV:
	case LM_GATE_UP:
		return c->fused;
	case LM_Q_NORM:
	case LM_K_NORM:
		return c->qk_norm;
	case LM_ATTN_POST_NORM:
	case LM_FFN_POST_NORM:
		return c->post_norms;
	default:
		return true;
	}
}

/* Returns how many parts of a layer come before `part`. */
static uint32_t place_of(const struct lm_config *c, enum lm_part part)
{
	uint32_t n = 0;

	for (int p = LM_ATTN_NORM; p < (int)part; p++)
		n += has(c, (enum lm_part)p);
	return n;
}

static uint32_t per_layer(const struct lm_config *c)
{
	return place_of(c, LM_OUT_NORM);
}

uint32_t lm_layout_count(const struct lm_config *c)
{
	return 1 + c->layers * per_layer(c) + 1 + !c->tied;
}

/* Returns the k-th part of a layer. */
static enum lm_part part_at(const struct lm_config *c, uint32_t k)
{
	int part = LM_ATTN_NORM;

	while (!has(c, (enum lm_part)part) || k-- > 0)
		part++;
	return (enum lm_part)part;
}

static void set_shape(const struct lm_config *c, struct lm_place *p)
{
	uint64_t q = (uint64_t)c->heads * c->head_dim,
		 kv = (uint64_t)c->kv_heads * c->head_dim;
	uint64_t rows = 0, columns = 0;

	switch (p->part) {
	case LM_EMBED:
	case LM_OUTPUT:
		rows = c->vocab, columns = c->dim;
		break;
	case LM_ATTN_NORM:
	case LM_ATTN_POST_NORM:
	case LM_FFN_NORM:
	case LM_FFN_POST_NORM:
	case LM_OUT_NORM:
		rows = c->dim;
		break;
	case LM_Q:
		rows = q, columns = c->dim;
		break;
	case LM_K:
	case LM_V:
		rows = kv, columns = c->dim;
		break;
	case LM_QKV:
		rows = q + 2 * kv, columns = c->dim;
		break;
	case LM_Q_NORM:
	case LM_K_NORM:
		rows = c->head_dim;
		break;
	case LM_Q_BIAS:
		rows = q;
		break;
	case LM_K_BIAS:
	case LM_V_BIAS:
		rows = kv;
		break;
	case LM_O:
		rows = c->dim, columns = q;
		break;
	case LM_GATE:
	case LM_UP:
		rows = c->hidden, columns = c->dim;
		break;
	case LM_GATE_UP:
		rows = 2 * (uint64_t)c->hidden, columns = c->dim;
		break;
	case LM_DOWN:
		rows = c->dim, columns = c->hidden;
		break;
	case LM_PARTS:
		bug("no such part");
	}
	p->dims = columns ? 2 : 1;
	p->shape[0] = rows;
	p->shape[1] = columns ? columns : 1;
	p->count = rows * p->shape[1];
}

void lm_layout_at(const struct lm_config *c, uint32_t i, struct lm_place *place)
{
	uint32_t n = per_layer(c), in_layers = c->layers * n;

	if (i >= lm_layout_count(c))
		bug("tensor %" PRIu32 " of %" PRIu32, i, lm_layout_count(c));
	*place = (struct lm_place){ .part = LM_EMBED };
	if (i > in_layers) {
		place->part = i == in_layers + 1 ? LM_OUT_NORM : LM_OUTPUT;
	} else if (i > 0) {
		place->layer = (i - 1) / n;
		place->part = part_at(c, (i - 1) % n);
	}
	place->post_norms = c->post_norms;
	set_shape(c, place);
}

int64_t lm_layout_index(const struct lm_config *c, enum lm_part part, uint32_t layer)
{
	uint32_t n = per_layer(c);

	switch (parts[part].where) {
	case BEFORE:
		return 0;
	case IN_LAYER:
		if (layer >= c->layers || !has(c, part))
			return -1;
		return 1 + (int64_t)layer * n + place_of(c, part);
	case AFTER:
		break;
	}
	if (part == LM_OUTPUT && c->tied)
		return -1;
	return 1 + (int64_t)c->layers * n + (part == LM_OUTPUT);
}

uint64_t lm_layout_from_hf(const struct lm_config *c, enum lm_part part, uint64_t row)
{
	uint64_t d = c->head_dim, k = row % d;
	bool rotary = part == LM_Q || part == LM_K || part == LM_Q_BIAS ||
		part == LM_K_BIAS;

	if (!rotary || !c->rope.interleaved)
		return row;
	return row - k + (k < d / 2 ? 2 * k : 2 * (k - d / 2) + 1);
}

void lm_layout_hf_name(char name[LM_NAME_BYTES_MAX], const struct lm_place *place)
{
	const char *within = parts[place->part].hf;

	/* where there are norms after attention, they have the name of that before feed-forward */
	if (place->part == LM_FFN_NORM && place->post_norms)
		within = "pre_feedforward_layernorm.weight";
	if (parts[place->part].where == IN_LAYER)
		snprintf(name, LM_NAME_BYTES_MAX, "model.layers.%" PRIu32 ".%s",
			place->layer, within);
	else
		snprintf(name, LM_NAME_BYTES_MAX, "%s", within);
}

void lm_layout_gguf_name(char name[LM_NAME_BYTES_MAX], const struct lm_place *place)
{
	if (parts[place->part].where == IN_LAYER)
		snprintf(name, LM_NAME_BYTES_MAX, "blk.%" PRIu32 ".%s", place->layer,
			parts[place->part].gguf);
	else
		snprintf(name, LM_NAME_BYTES_MAX, "%s", parts[place->part].gguf);
}
