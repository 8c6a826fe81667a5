/* ggml_types.h - the tensor types of ggml by their numbers in a GGUF file: name and size of each.
 * For gguf*.c only. */
#ifndef RNP_COMMON_LM_MODEL_GGML_TYPES_H
#define RNP_COMMON_LM_MODEL_GGML_TYPES_H

#include "common/lm/model/tensor.h"

struct ggml_type {
	const char *name;
	uint32_t block; /* elements */
	uint32_t bytes; /* of a block */
	enum lm_type type;
};

/* NULL: there is no such type, or it was never in a file. */
const struct ggml_type *ggml_type(uint32_t id);

/* The number of a type of ours, which has to be one that ggml has. */
uint32_t ggml_type_id(enum lm_type type);

#endif
