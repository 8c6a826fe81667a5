/* gguf_llama.h - what a GGUF file of a Llama says about the model and its tokenizer, checked. Uses
 * gguf.h, config.h.
 *
 * Keys are those of llama.cpp (gguf-py/gguf/constants.py there). */
#ifndef RNP_COMMON_LM_MODEL_GGUF_LLAMA_H
#define RNP_COMMON_LM_MODEL_GGUF_LLAMA_H

#include "common/lm/model/config.h"
#include "common/lm/model/gguf.h"

#define GGUF_NO_TOKEN       UINT32_MAX /* a special token's id that means: none */
#define GGUF_TEMPLATE_BYTES 65536      /* of a chat template, at most */

/* general.architecture is `name`. */
bool gguf_is_architecture(const struct gguf *g, const char *name);

/* The shape of a model of the architecture llama or qwen2, all bounds of lm_config_check held. The
 * vocabulary is that of the token embedding, else (a file without tensors) what the metadata says.
 * rope is plain or linear, see gguf_llama_rope. Returns 0, or -1 with err_set(EX_DATAERR). */
int gguf_llama_config(struct lm_config *c, const struct gguf *g);

/* Whether it is a Llama as layout.h has it: refuses experts, other kinds of scaling, attention that
 * is not causal, and sets rope to Llama 3.1's scaling where rope_freqs.weight is that. Returns 0,
 * or -1 with err_set(EX_DATAERR). */
int gguf_llama_rope(struct lm_config *c, const struct gguf *g);

/* The factors of rope_freqs.weight for Llama 3.1's scaling: head_dim / 2 of them (transformers,
 * modeling_rope_utils.py). */
void gguf_llama_factors(float *factors, const struct lm_rope *r, uint32_t head_dim);

/* The tokenizer: every token UTF-8 and there once, scores finite, types known, merges of two parts
 * and there where the model needs them, special ids within the vocabulary or none, chat templates
 * of at most GGUF_TEMPLATE_BYTES. A file without one is fine. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int gguf_check_tokenizer(const struct gguf *g);

#endif
