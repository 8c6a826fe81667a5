/* gguf_inside.h - what the files that read GGUF share: gguf.c reads the metadata and the file
 * as a whole, gguf_tensors.c the table of tensors, gguf_values.c values as numbers and texts.
 * Private to common/lm/model/gguf*.c. */
#ifndef RNP_COMMON_LM_MODEL_GGUF_INSIDE_H
#define RNP_COMMON_LM_MODEL_GGUF_INSIDE_H

#include "common/lm/model/gguf.h"
#include "common/base/map.h"

struct gguf {
	char *where;
	struct lm_map map; /* unused when the memory is borrowed */
	const unsigned char *data;
	uint64_t bytes, at; /* at: read position */
	uint32_t version, alignment;
	struct gguf_value *values;
	struct lm_tensor *tensors;
	uint64_t *offsets; /* offsets of the tensors' data, as in the file */
	uint64_t value_count, tensor_count;
	/* sorted by name, for look-ups */
	const struct gguf_value **by_key;
	const struct lm_tensor **by_name;
};

struct gguf_kind_info {
	const char *name;
	uint32_t bytes; /* 0: variable */
};
extern const struct gguf_kind_info gguf_kinds[GGUF_KINDS];

/* Reports that the file ends early: returns -1 with EX_DATAERR. */
int gguf_truncated(const struct gguf *g);

/* Read the next number, and the next text, which is borrowed. */
int gguf_take_u32(struct gguf *g, uint32_t *v);
int gguf_take_u64(struct gguf *g, uint64_t *v);
int gguf_take_text(struct gguf *g, const unsigned char **text, uint64_t *bytes);

/* Whether a text is UTF-8 without control characters, so that it can be printed and compared. */
bool gguf_is_name(const unsigned char *text, uint64_t bytes);

/* Reads the table of tensors, which follows the metadata; names must be unique. */
int gguf_take_tensors(struct gguf *g);

/* Computes where each tensor's data lies: one after the other, padded to the alignment. The
 * padding of the last one may be missing. */
int gguf_place_data(struct gguf *g);

#endif
