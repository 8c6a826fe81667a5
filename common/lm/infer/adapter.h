/* adapter.h - low-rank adapters of a model (LoRA, arXiv 2106.09685), as Hugging Face's PEFT saves
 * them. Uses layout.h, safetensors.h, the table of a device.
 *
 * An adapted matrix computes W x + scale B (A x), with A [rank, inputs] and B [outputs, rank] of
 * the adapter, and scale alpha / rank, or with use_rslora alpha / sqrt(rank). The matrices of
 * attention and of the feed-forward part can be adapted, in any choice of layers. */
#ifndef RNP_COMMON_LM_INFER_ADAPTER_H
#define RNP_COMMON_LM_INFER_ADAPTER_H

#include "common/lm/model/lora.h"
#include "kernels/dev/dev.h"

/* What an adapter adds to one matrix, f32 in device memory; b contains the scale. a NULL:
 * nothing. */
struct lm_delta {
	const float *a; /* [rank][inputs] */
	const float *b; /* [outputs][rank] */
	uint32_t rank;
};

struct lm_adapter;

/* Loads adapter_config.json and adapter_model.safetensors of a directory for a model with this
 * config. d is borrowed until close. Returns 0 and *out to be closed, or -1 with err_set(): 66
 * a file cannot be opened; 65 it is malformed, does not belong to the model, or needs what is not
 * supported (DoRA, trained biases, ranks by pattern, whole modules); the device's error. */
int lm_adapter_open(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *dir);

/* The same from memory; where names it in errors. */
int lm_adapter_read(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *config, size_t config_bytes, const void *tensors,
	uint64_t tensors_bytes, const char *where);
void lm_adapter_close(struct lm_adapter *a); /* NULL is fine */

const struct lm_delta *lm_adapter_at(const struct lm_adapter *a, uint32_t layer,
	enum lm_adapted which);
uint32_t lm_adapter_rank(const struct lm_adapter *a);  /* the largest of its matrices */
uint64_t lm_adapter_bytes(const struct lm_adapter *a); /* of device memory */

#endif
