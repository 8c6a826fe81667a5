/* layout.h - the matrices of a model of the Llama family, their shapes, and their names in each
 * file format. Uses config.h and tensor.h.
 *
 * Reading, checking, initialisation, training, export and memory planning share this one list. */
#ifndef RNP_COMMON_LM_MODEL_LAYOUT_H
#define RNP_COMMON_LM_MODEL_LAYOUT_H

#include "common/lm/model/config.h"
#include "common/lm/model/tensor.h"

enum lm_part {
	LM_EMBED,     /* [vocab, dim] */
	LM_ATTN_NORM, /* [dim] */
	LM_Q,         /* [heads * head_dim, dim] */
	LM_K,         /* [kv_heads * head_dim, dim] */
	LM_V,         /* [kv_heads * head_dim, dim] */
	LM_Q_BIAS,    /* [heads * head_dim], only with qkv_bias; K and V likewise */
	LM_K_BIAS,
	LM_V_BIAS,
	LM_QKV,    /* with fused, in the place of Q, K and V: their rows in this order */
	LM_Q_NORM, /* [head_dim], only with qk_norm; K likewise */
	LM_K_NORM,
	LM_O,              /* [dim, heads * head_dim] */
	LM_ATTN_POST_NORM, /* [dim], only with post_norms */
	LM_FFN_NORM,       /* [dim] */
	LM_GATE,           /* [hidden, dim] */
	LM_UP,             /* [hidden, dim] */
	LM_GATE_UP,        /* with fused, in their place: gate's rows, then up's */
	LM_DOWN,           /* [dim, hidden] */
	LM_FFN_POST_NORM,  /* [dim], only with post_norms */
	LM_OUT_NORM,       /* [dim] */
	LM_OUTPUT,         /* [vocab, dim], absent when tied */
	LM_PARTS
};

struct lm_place {
	enum lm_part part;
	uint32_t layer;  /* 0 for tensors outside the layers */
	uint32_t dims;   /* 1 or 2 */
	bool post_norms; /* of the config */
	uint64_t shape[2];
	uint64_t count;
};

/* Return the number of tensors of a checked config, and the i-th of them: the embedding, then
 * layer by layer in the order of enum lm_part, the last norm, the output. */
uint32_t lm_layout_count(const struct lm_config *c);
void lm_layout_at(const struct lm_config *c, uint32_t i, struct lm_place *place);

/* Returns the index of a part, or -1 when the config does not have it. */
int64_t lm_layout_index(const struct lm_config *c, enum lm_part part, uint32_t layer);

/* Returns the row of a model's tensor that is row `row` of Hugging Face's: where rotary pairs are
 * adjacent, the rows of each head of q and k lie in another order. */
uint64_t lm_layout_from_hf(const struct lm_config *c, enum lm_part part, uint64_t row);

/* Write Hugging Face's name ("model.layers.3.mlp.up_proj.weight") and GGUF's
 * ("blk.3.ffn_up.weight"). */
void lm_layout_hf_name(char name[LM_NAME_BYTES_MAX], const struct lm_place *place);
void lm_layout_gguf_name(char name[LM_NAME_BYTES_MAX], const struct lm_place *place);

#endif
