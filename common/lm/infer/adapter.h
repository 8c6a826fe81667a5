/* adapter.h - the matrices of an adapter (common/lm/model/adapter.h) in a device's memory. Uses
 * lora.h, the table of a device. */
#ifndef RNP_COMMON_LM_INFER_ADAPTER_H
#define RNP_COMMON_LM_INFER_ADAPTER_H

#include "common/lm/model/adapter.h"
#include "kernels/dev/dev.h"

/* What an adapter adds to one matrix, f32 in device memory; b contains the scale. a NULL:
 * nothing. */
struct lm_delta {
	const float *a; /* [rank][inputs] */
	const float *b; /* [outputs][rank] */
	uint32_t rank;
};

struct lm_adapter;

/* Puts what was read for a model with this config on d, which is borrowed until close. Returns 0
 * and *out to be closed, or -1 with err_set(): the device's error. */
int lm_adapter_put(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const struct lm_adapter_file *f);

/* The same of a directory or file, with the errors of lm_adapter_file_open. */
int lm_adapter_open(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *path);
void lm_adapter_close(struct lm_adapter *a); /* NULL is fine */

const struct lm_delta *lm_adapter_at(const struct lm_adapter *a, uint32_t layer,
	enum lm_adapted which);
uint32_t lm_adapter_rank(const struct lm_adapter *a);  /* the largest of its matrices */
uint64_t lm_adapter_bytes(const struct lm_adapter *a); /* of device memory */

#endif
