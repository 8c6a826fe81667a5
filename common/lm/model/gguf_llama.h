/* gguf_llama.h - the model and tokenizer that a GGUF file of a Llama model describes, checked.
 * Uses gguf.h, config.h.
 *
 * Keys are those of llama.cpp (gguf-py/gguf/constants.py there). */
#ifndef RNP_COMMON_LM_MODEL_GGUF_LLAMA_H
#define RNP_COMMON_LM_MODEL_GGUF_LLAMA_H

#include "common/lm/model/config.h"
#include "common/lm/model/gguf.h"

#define GGUF_NO_TOKEN       UINT32_MAX /* the id that means no special token */
#define GGUF_TEMPLATE_BYTES 65536      /* largest chat template */

/* Whether general.architecture is `name`. */
bool gguf_is_architecture(const struct gguf *g, const char *name);

/* Whether it has the keys that every model of its architecture, llama or qwen2, needs. An adapter
 * names the architecture that it is for, and has none of them. */
bool gguf_llama_is_complete(const struct gguf *g);

/* Reads the shape of a model of the architecture llama or qwen2, within the bounds of
 * lm_config_check. The vocabulary is that of the token embedding, or that of the metadata in a
 * file without tensors. rope is plain or linear, see gguf_llama_rope. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int gguf_llama_config(struct lm_config *c, const struct gguf *g);

/* Checks that the model is a Llama as layout.h describes it: refuses experts, other kinds of
 * scaling, heads that are rotated in part and attention that is not causal, and sets rope to Llama
 * 3.1's scaling when rope_freqs.weight matches it. Returns 0, or -1 with err_set(EX_DATAERR). */
int gguf_llama_rope(struct lm_config *c, const struct gguf *g);

/* Computes the head_dim / 2 factors of rope_freqs.weight for Llama 3.1's scaling (transformers,
 * modeling_rope_utils.py). */
void gguf_llama_factors(float *factors, const struct lm_rope *r, uint32_t head_dim);

/* Checks the tokenizer: every token is UTF-8 and unique, scores are finite, types are known,
 * merges have two parts and are present when the model needs them, special ids are within the
 * vocabulary or absent, chat templates have at most GGUF_TEMPLATE_BYTES. A file without a
 * tokenizer passes. Returns 0, or -1 with err_set(EX_DATAERR). */
int gguf_check_tokenizer(const struct gguf *g);

#endif
