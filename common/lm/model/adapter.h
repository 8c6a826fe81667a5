/* adapter.h - reads low-rank adapters (lora.h), as Hugging Face's PEFT or llama.cpp's converter
 * write them. Uses lora.h, gguf.h, safetensors.h, json.
 *
 * The keys of PEFT's config that change what an adapter computes are honoured, or refused by name;
 * so are keys that we do not know, since each release of PEFT has new ones. */
#ifndef RNP_COMMON_LM_MODEL_ADAPTER_H
#define RNP_COMMON_LM_MODEL_ADAPTER_H

#include "common/lm/model/lora.h"

/* What an adapter adds to one matrix: scale B (A x). rank 0: nothing. */
struct lm_low {
	uint32_t rank;
	float scale;
	const float *a; /* [rank][inputs] */
	const float *b; /* [outputs][rank], rows in the order of the model's matrix */
};

struct lm_adapter_file;

/* Reads the adapter of a model with this config: a directory with adapter_config.json and
 * adapter_model.safetensors, or a GGUF file. Returns 0 and *out to be closed, or -1 with err_set():
 * 66 a file cannot be opened; 65 it is malformed, does not belong to the model, or needs what is
 * not supported. Sizes are checked against the model before memory is taken. */
int lm_adapter_file_open(struct lm_adapter_file **out, const struct lm_config *c,
	const char *path);

/* The same from memory; where names it in errors. */
int lm_adapter_file_peft(struct lm_adapter_file **out, const struct lm_config *c,
	const char *config, size_t config_bytes, const void *tensors,
	uint64_t tensors_bytes, const char *where);
int lm_adapter_file_gguf(struct lm_adapter_file **out, const struct lm_config *c,
	const void *data, uint64_t bytes, const char *where);
void lm_adapter_file_close(struct lm_adapter_file *f); /* NULL is fine */

const struct lm_low *lm_adapter_file_at(const struct lm_adapter_file *f, uint32_t layer,
	enum lm_adapted which);
uint32_t lm_adapter_file_rank(const struct lm_adapter_file *f); /* the largest */

/* The digest of the model that it was trained on, as hex (rnp_base), or NULL. */
const char *lm_adapter_file_base(const struct lm_adapter_file *f);

#endif
