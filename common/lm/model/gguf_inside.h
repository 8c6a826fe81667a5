/* gguf_inside.h - what the files that read GGUF share: gguf.c the metadata and the whole,
 * gguf_tensors.c the table of tensors, gguf_values.c values as numbers and texts. Private to
 * common/lm/gguf*.c. */
#ifndef RNP_COMMON_LM_MODEL_GGUF_INSIDE_H
#define RNP_COMMON_LM_MODEL_GGUF_INSIDE_H

#include "common/lm/model/gguf.h"
#include "common/base/map.h"

struct gguf {
	char *where;
	struct lm_map map; /* not of memory that is borrowed */
	const unsigned char *data;
	uint64_t bytes, at; /* at: how far it is read */
	uint32_t version, alignment;
	struct gguf_value *values;
	struct lm_tensor *tensors;
	uint64_t *offsets; /* of the tensors' data, as the file says */
	uint64_t value_count, tensor_count;
	/* in the order of their names, for looking up */
	const struct gguf_value **by_key;
	const struct lm_tensor **by_name;
};

struct gguf_kind_info {
	const char *name;
	uint32_t bytes; /* 0: they vary */
};
extern const struct gguf_kind_info gguf_kinds[GGUF_KINDS];

/* The file ends before what is read next: -1 with EX_DATAERR. */
int gguf_truncated(const struct gguf *g);

/* The next n bytes, or NULL with the error; the next number; the next text, which is borrowed. */
const unsigned char *gguf_take(struct gguf *g, uint64_t n);
int gguf_take_u32(struct gguf *g, uint32_t *v);
int gguf_take_u64(struct gguf *g, uint64_t *v);
int gguf_take_text(struct gguf *g, const unsigned char **text, uint64_t *bytes);

/* UTF-8 without control characters, so that it can be printed and compared. */
bool gguf_is_name(const unsigned char *text, uint64_t bytes);

/* The table of tensors, which stands behind the metadata; each name once. */
int gguf_take_tensors(struct gguf *g);

/* Where each tensor's data lies: one behind the other, padded to the alignment. The last one's
 * padding may be absent. */
int gguf_place_data(struct gguf *g);

#endif
