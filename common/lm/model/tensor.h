/* tensor.h - a named array of a model file, and the number types that such files hold. libc
 * only.
 *
 * Shapes are row-major with the slowest dimension first, as in safetensors and PyTorch: a
 * matrix of a linear layer is [outputs, inputs]. (GGUF stores dimensions in reverse order; its
 * reader turns them.) */
#ifndef RNP_COMMON_LM_MODEL_TENSOR_H
#define RNP_COMMON_LM_MODEL_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/lm/weight.h"

#define LM_DIMS_MAX       8
#define LM_NAME_BYTES_MAX 256 /* terminator included; longer names are refused */
#define LM_QUANT_BLOCK    32  /* elements per block of Q8_0, Q4_0 and the like */
#define LM_SUPER_BLOCK    256 /* elements per block of Q4_K, Q5_K and Q6_K */
#define LM_Q8_0_BYTES     34
#define LM_Q4_0_BYTES     18

enum lm_type {
	LM_F32,
	LM_F16,
	LM_BF16,
	LM_Q8_0, /* blocks of 32: f16 scale, 32 int8 */
	/* blocks of 32: f16 scale, 16 bytes: low nibbles are elements 0..15, high ones 16..31 */
	LM_Q4_0,
	/* blocks as in kernels/lm/weight.h */
	LM_Q4_1,
	LM_Q5_0,
	LM_Q5_1,
	LM_Q4_K,
	LM_Q5_K,
	LM_Q6_K,
	LM_F64,
	LM_I8,
	LM_I16,
	LM_I32,
	LM_I64,
	LM_U8,
	LM_BOOL,
	LM_OTHER, /* a type that we can list but not compute with */
	LM_TYPES
};

/* A tensor borrows its data from the file that it was read from. */
struct lm_tensor {
	char name[LM_NAME_BYTES_MAX];
	enum lm_type type;
	char type_name[16]; /* as in the file: "BF16", "Q6_K" */
	uint32_t dims;      /* 0: a scalar */
	uint64_t shape[LM_DIMS_MAX];
	uint64_t count; /* elements: product of shape */
	uint64_t bytes;
	const void *data; /* aligned as in the file: possibly only to 1 byte */
};

/* Writes the bytes of tensor i, exactly its size, with io_part_write (common/base/io.h).
 * Writers of model files get their data this way, so that it need never be in memory at once.
 * Returns 0, or -1 with err_set(). */
struct io_part;
typedef int (*lm_fill_fn)(void *ctx, uint64_t i, struct io_part *out);

/* Returns the name of a type in lower case, as our options spell it: "f32", "q8_0". */
const char *lm_type_name(enum lm_type type);

/* Return the elements per block, and the bytes per block; 1 and the element size for plain
 * types; 0 for LM_OTHER. */
uint32_t lm_type_block(enum lm_type type);
uint32_t lm_type_block_bytes(enum lm_type type);

/* Computes the bytes of count elements in rows of whole blocks. Returns 0, or -1: not whole
 * blocks, or over 2^63. No err_set(). */
int lm_type_bytes(enum lm_type type, uint64_t count, uint64_t *bytes);

/* Whether models can be computed with weights of the type: lm_to_f32 supports it. */
bool lm_type_computes(enum lm_type type);

/* Returns the kernels' name of a type that lm_type_computes(). */
enum lm_weight lm_weight_of(enum lm_type type);

/* Whether lm_from_f32 supports the type. */
bool lm_type_converts(enum lm_type type);

/* Converts count elements from `from` (any alignment; count a multiple of the block) to f32,
 * as ggml rounds it. A type that lm_type_computes() refuses is a bug(). */
void lm_to_f32(float *to, const void *from, enum lm_type type, uint64_t count);

/* Converts back to F32, F16, BF16, Q8_0 or Q4_0, rounding to nearest even (for Q8_0 and Q4_0 with
 * the scale of llama.cpp's reference quantiser, so that its files and ours agree). */
void lm_from_f32(void *to, const float *from, enum lm_type type, uint64_t count);

#endif
