/* ggml_types.h - ggml's tensor types by their numbers in a GGUF file: the name and block size
 * of each. For gguf*.c only. */
#ifndef RNP_COMMON_LM_MODEL_GGML_TYPES_H
#define RNP_COMMON_LM_MODEL_GGML_TYPES_H

#include "common/lm/model/tensor.h"

struct ggml_type {
	const char *name;
	uint32_t block; /* elements per block */
	uint32_t bytes; /* bytes per block */
	enum lm_type type;
};

/* Returns NULL when there is no such type, or when it never appeared in files. */
const struct ggml_type *ggml_type(uint32_t id);

/* Returns the ggml number of one of our types, which must exist in ggml. */
uint32_t ggml_type_id(enum lm_type type);

#endif
