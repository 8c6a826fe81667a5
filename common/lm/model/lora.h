/* lora.h - which matrices of a model a low-rank adapter (LoRA, arXiv 2106.09685) adds to, and the
 * tensors that learn: those of an adapter, or of the whole model. Uses layout.h.
 *
 * An adapted matrix W [out, in] computes W x + scale B (A x), with A [rank, in] and B [out, rank].
 * The scale is alpha / rank, or with rslora (arXiv 2312.03732) alpha / sqrt(rank). */
#ifndef RNP_COMMON_LM_MODEL_LORA_H
#define RNP_COMMON_LM_MODEL_LORA_H

#include "common/lm/model/layout.h"

#define LM_LORA_RANK_MAX 1024

/* The matrices of a layer that can be adapted. */
enum lm_adapted {
	LM_ADAPTED_Q,
	LM_ADAPTED_K,
	LM_ADAPTED_V,
	LM_ADAPTED_O,
	LM_ADAPTED_GATE,
	LM_ADAPTED_UP,
	LM_ADAPTED_DOWN,
	LM_ADAPTED
};

struct lm_lora {
	uint32_t rank; /* 0: there is no adapter, and the whole model learns */
	double alpha;
	bool rslora;
	/* [layers of the model], borrowed: bit 1 << enum lm_adapted for each matrix that is
	 * adapted. NULL: all of them in every layer. */
	const uint8_t *targets;
};

/* Returns the scale of B A. */
double lm_lora_scale(const struct lm_lora *l);

/* Returns the matrices of a layer that are adapted, as bits; 0 without an adapter. */
unsigned lm_lora_targets(const struct lm_lora *l, uint32_t layer);

/* Return the rows and columns of a matrix, also where it is part of a fused one. */
uint64_t lm_lora_outputs(const struct lm_config *c, enum lm_adapted which);
uint64_t lm_lora_inputs(const struct lm_config *c, enum lm_adapted which);

/* Returns the place of a matrix in the layout, and writes its name as PEFT has it:
 * "model.layers.3.self_attn.q_proj". */
enum lm_part lm_lora_part(enum lm_adapted which);
void lm_lora_name(char name[LM_NAME_BYTES_MAX], const struct lm_config *c,
	enum lm_adapted which, uint32_t layer);

/* Chooses the matrices whose names match a POSIX extended regular expression as a whole, as PEFT's
 * target_modules does: names are like "model.layers.3.self_attn.q_proj". Without a dot in it, it
 * is held against the last word alone ("q_proj|v_proj"). Returns 0 and *targets [layers], to be
 * freed, or -1 with err_set(): 64 it is no such expression, or matches nothing. */
int lm_lora_choose(uint8_t **targets, const struct lm_config *c, const char *regex);

/* --- what learns --------------------------------------------------------------------------- */

/* Writes the name of a place's matrix as PEFT has it: Hugging Face's without ".weight". */
void lm_lora_module(char name[LM_NAME_BYTES_MAX], const struct lm_place *place);

/* Of a tensor that learns: what it is to its place in the layout. */
enum lm_factor { LM_FACTOR_WHOLE, LM_FACTOR_A, LM_FACTOR_B };

struct lm_learned {
	enum lm_factor factor;
	/* part and layer are those of the matrix; dims, shape and count those of the tensor */
	struct lm_place place;
};

/* Return the number of tensors that learn, and the i-th of them: all of the layout in its order;
 * or of an adapter all A, layer by layer in the order of enum lm_adapted, then all B. */
uint32_t lm_learned_count(const struct lm_config *c, const struct lm_lora *l);
void lm_learned_at(const struct lm_config *c, const struct lm_lora *l, uint32_t i,
	struct lm_learned *out);

/* Returns the index of a factor of a matrix, or -1 if it is not adapted. */
int64_t lm_learned_index(const struct lm_config *c, const struct lm_lora *l,
	enum lm_factor factor, enum lm_adapted which, uint32_t layer);

/* Returns the number of parameters that learn. */
uint64_t lm_learned_params(const struct lm_config *c, const struct lm_lora *l);

/* Returns the floating-point operations that training needs per token of a sequence of so many
 * positions: lm_config_train_flop, of which the gradients of frozen matrices are left out. */
double lm_learned_train_flop(const struct lm_config *c, const struct lm_lora *l,
	uint32_t positions);

/* Writes Hugging Face's name, for factors that of PEFT:
 * "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight". */
void lm_learned_name(char name[LM_NAME_BYTES_MAX], const struct lm_learned *t);

/* Makes elements from .. from + count of the i-th tensor, which depend on seed and position alone:
 * of the whole model those of init.h; A is uniform in +-1 / sqrt(in), B is 0. */
void lm_learned_init(float *to, const struct lm_config *c, const struct lm_lora *l,
	uint64_t seed, uint32_t i, uint64_t from, uint64_t count);

#endif
