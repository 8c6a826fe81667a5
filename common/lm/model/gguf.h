/* gguf.h - GGUF files, versions 2 and 3: metadata and tensors, read and written. Uses tensor.h,
 * map.h.
 *
 * The format is that of ggml (docs/gguf.md there). A file is held to it strictly: every size
 * checked before use, keys and names once each, tensors in the order of their data without gap,
 * nothing behind the last but its padding. Nothing is copied: texts and numbers point into the
 * file, which is mapped. */
#ifndef RNP_COMMON_LM_MODEL_GGUF_H
#define RNP_COMMON_LM_MODEL_GGUF_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/lm/model/tensor.h"

#define GGUF_ALIGNMENT \
	32 /* of the data, where general.alignment does not say otherwise */
#define GGUF_DIMS_MAX 4
#define GGUF_NAME_MAX \
	64 /* terminator included: ggml's engines read no longer tensor names */
#define GGUF_DEPTH_MAX 8 /* arrays within arrays */

/* Numbers as in the file. */
enum gguf_kind {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_TEXT,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_KINDS
};

struct gguf_value {
	const char
		*key; /* key_bytes of UTF-8 without control characters; no terminator */
	uint64_t key_bytes;
	enum gguf_kind kind;
	enum gguf_kind item; /* of an array: what its items are */
	uint64_t count;      /* of an array: how many; else 1 */
	const unsigned char
		*data;  /* the number, the first byte of a text, the first item */
	uint64_t bytes; /* of the number, the text (no terminator), all items */
};

struct gguf;

/* Opens the file at path, or read one from memory (borrowed until close; where names it in errors).
 * Returns 0 and *out to be closed, or -1 with err_set(): 66 cannot be opened, 65 malformed. */
int gguf_open(struct gguf **out, const char *path);
int gguf_read(struct gguf **out, const void *data, uint64_t bytes, const char *where);
void gguf_close(struct gguf *g); /* NULL is fine */

/* True when the first bytes are those of a GGUF file of any version. */
bool gguf_is(const void *data, uint64_t bytes);

uint32_t gguf_version(const struct gguf *g);
uint32_t gguf_alignment(const struct gguf *g);
uint64_t gguf_bytes(const struct gguf *g); /* of the file */
const char *gguf_where(const struct gguf *g);

/* Metadata and tensors in the order of the file; shapes are turned: slowest dimension first. */
uint64_t gguf_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, uint64_t i);
uint64_t gguf_tensors(const struct gguf *g);
const struct lm_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);

/* By name; NULL: not there. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const struct lm_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* A value as what is wanted. An absent key leaves *out as it is and returns 0; another kind (any
 * whole number will do for u64 and i64, any number for f64) or a number out of range is -1 with
 * err_set(EX_DATAERR). A text is borrowed, without terminator. */
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t max, uint64_t *out);
int gguf_get_f64(const struct gguf *g, const char *key, double *out);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out);
int gguf_get_text(const struct gguf *g, const char *key, const char **text,
	uint64_t *bytes);

/* An array of items of that kind: *out is its value, NULL where the key is absent. */
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind item,
	const struct gguf_value **out);

/* The text at *at within an array of texts, and *at behind it. Start with at = v->data and call
 * v->count times at most. */
const char *gguf_next_text(const unsigned char **at, uint64_t *bytes);

/* Number i of an array of whole numbers (booleans count), or of any numbers. */
int64_t gguf_item_i64(const struct gguf_value *v, uint64_t i);
double gguf_item_f64(const struct gguf_value *v, uint64_t i);

const char *gguf_kind_name(enum gguf_kind kind); /* "u8" ... "text", "array" */

/* --- writing ------------------------------------------------------------------------------ */

/* Metadata to be written, in order. GGUF_META_INIT is empty and releasable. */
struct gguf_meta {
	struct buf bytes;
	uint64_t count;
	size_t array_at; /* where the open array has its count */
};
/* clang-format off */
#define GGUF_META_INIT { BUF_INIT, 0, 0 }
/* clang-format on */

void gguf_meta_release(struct gguf_meta *m);
void gguf_put_u32(struct gguf_meta *m, const char *key, uint32_t v);
void gguf_put_u64(struct gguf_meta *m, const char *key, uint64_t v);
void gguf_put_f32(struct gguf_meta *m, const char *key, float v);
void gguf_put_bool(struct gguf_meta *m, const char *key, bool v);
void gguf_put_text(struct gguf_meta *m, const char *key, const char *text,
	uint64_t bytes);
void gguf_put_i32s(struct gguf_meta *m, const char *key, const int32_t *v, uint64_t n);
void gguf_put_f32s(struct gguf_meta *m, const char *key, const float *v, uint64_t n);
/* An array of texts: begin, then one call a text. The next gguf_put ends it. */
void gguf_put_texts(struct gguf_meta *m, const char *key);
void gguf_add_text(struct gguf_meta *m, const char *text, uint64_t bytes);
/* A value as another file has it. */
void gguf_put_value(struct gguf_meta *m, const struct gguf_value *v);

/* Writes a file of version 3 at path, in pieces, appearing whole. Of each tensor name, type (one
 * that lm_to_f32 knows), dims and shape count; bytes and data do not. Returns 0, or -1 with
 * err_set(): 65 a name, a shape or rows that the format does not take, 73, 74, 77; the old file is
 * then untouched. */
int gguf_write(const char *path, const struct gguf_meta *m,
	const struct lm_tensor *tensors, uint64_t n, lm_fill_fn fill, void *ctx);

#endif
