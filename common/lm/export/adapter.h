/* adapter.h - writes an adapter (lora.h) as Hugging Face's PEFT saves it, and tells which model it
 * belongs to. Uses lora.h, model_file.h, safetensors.h. */
#ifndef RNP_COMMON_LM_EXPORT_ADAPTER_H
#define RNP_COMMON_LM_EXPORT_ADAPTER_H

#include "common/lm/model/lora.h"
#include "common/lm/model/model_file.h"

#define LM_BASE_BYTES 65 /* hex, terminator included */

/* Computes the digest of a model as a base of adapters: BLAKE2b-256 over the f32 values of all
 * tensors in the order of the layout, rows of q and k in Hugging Face's order. So the same numbers
 * have one digest in every file format, and a quantised model has its own. */
void lm_base_digest(char out[LM_BASE_BYTES], const struct model_file *f);

/* Reads tensor i of those that learn, whole. Returns 0, or -1 with err_set(). */
typedef int (*lm_factor_fn)(void *ctx, uint32_t i, float *to);

struct lm_adapter_export {
	struct lm_config config; /* of the base */
	struct lm_lora lora;
	const char *base_name; /* base_model_name_or_path, or NULL */
	const char *base;      /* the base's digest */
	lm_factor_fn read;
	void *ctx;
};

/* Writes adapter_model.safetensors (f32) and adapter_config.json into dir, which it creates. Each
 * is there whole or not at all, and the config last: a directory that lacks it is no adapter.
 * Returns 0, or -1 with err_set(): 73, 74, 77, and the errors of read; old files then remain. */
int lm_export_adapter(const char *dir, const struct lm_adapter_export *e);

#endif
