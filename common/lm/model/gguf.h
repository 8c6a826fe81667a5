/* gguf.h - reading and writing of GGUF files, versions 2 and 3: metadata and tensors. Uses
 * tensor.h, map.h.
 *
 * The format is ggml's (docs/gguf.md there). Files are checked strictly: every size before it
 * is used, keys and names must be unique, tensors must lie in the order of their data without
 * gaps, and nothing but padding may follow the last one. Nothing is copied: texts and numbers
 * point into the mapped file. */
#ifndef RNP_COMMON_LM_MODEL_GGUF_H
#define RNP_COMMON_LM_MODEL_GGUF_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/lm/model/tensor.h"

/* of the data, where general.alignment does not say otherwise */
#define GGUF_ALIGNMENT 32
#define GGUF_DIMS_MAX  4
/* terminator included: ggml's engines read no longer tensor names */
#define GGUF_NAME_MAX  64
#define GGUF_DEPTH_MAX 8 /* depth of nested arrays */

/* Values are the numbers in the file. */
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
	/* key_bytes of UTF-8 without control characters; no terminator */
	const char *key;
	uint64_t key_bytes;
	enum gguf_kind kind;
	enum gguf_kind item; /* kind of an array's items */
	uint64_t count;      /* number of an array's items; else 1 */
	/* the number, the first byte of a text, the first item */
	const unsigned char *data;
	uint64_t bytes; /* size of the number, the text (no terminator) or all items */
};

struct gguf;

/* Opens the file at path, or reads one from memory (borrowed until close; where names it in
 * errors), as tests and fuzzers do with damaged ones. Returns 0 and *out, which the caller closes,
 * or -1 with err_set(): 66 cannot be opened, 65 malformed. */
int gguf_open(struct gguf **out, const char *path);
int gguf_read(struct gguf **out, const void *data, uint64_t bytes, const char *where);
void gguf_close(struct gguf *g); /* NULL is allowed */

/* Whether the first bytes are those of a GGUF file of any version. */
bool gguf_is(const void *data, uint64_t bytes);

uint32_t gguf_version(const struct gguf *g);
uint32_t gguf_alignment(const struct gguf *g);
uint64_t gguf_bytes(const struct gguf *g); /* size of the file */
const char *gguf_where(const struct gguf *g);

/* Return metadata and tensors in file order; shapes are reversed, with the slowest dimension
 * first. */
uint64_t gguf_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, uint64_t i);
uint64_t gguf_tensors(const struct gguf *g);
const struct lm_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);

/* Look up by name; NULL: not found. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const struct lm_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Read a value as the requested type. An absent key leaves *out unchanged and returns 0. A
 * value of another kind (u64 and i64 accept any integer, f64 any number) or out of range is -1
 * with err_set(EX_DATAERR). A text is borrowed and has no terminator. */
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t max, uint64_t *out);
int gguf_get_f64(const struct gguf *g, const char *key, double *out);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out);
int gguf_get_text(const struct gguf *g, const char *key, const char **text,
	uint64_t *bytes);

/* Looks up an array whose items are of that kind: *out is its value, or NULL when the key is
 * absent. */
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind item,
	const struct gguf_value **out);

/* Returns the text at *at within an array of texts, and advances *at past it. Start with at =
 * v->data and call at most v->count times. */
const char *gguf_next_text(const unsigned char **at, uint64_t *bytes);

/* Return item i of an array of integers (booleans count), or of any numbers. */
int64_t gguf_item_i64(const struct gguf_value *v, uint64_t i);
double gguf_item_f64(const struct gguf_value *v, uint64_t i);

const char *gguf_kind_name(enum gguf_kind kind); /* "u8" ... "text", "array" */

/* --- writing ------------------------------------------------------------------------------ */

/* Metadata to be written, in order. GGUF_META_INIT is empty and may be released. */
struct gguf_meta {
	struct buf bytes;
	uint64_t count;
	size_t array_at; /* offset of the open array's count */
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
/* Write an array of texts: gguf_put_texts begins it, and each gguf_add_text adds one. The next
 * gguf_put ends it. */
void gguf_put_texts(struct gguf_meta *m, const char *key);
void gguf_add_text(struct gguf_meta *m, const char *text, uint64_t bytes);
/* Copies a value from another file. */
void gguf_put_value(struct gguf_meta *m, const struct gguf_value *v);

/* Writes a file of version 3 at path, in pieces, which appears only when it is complete. Of
 * each tensor, name, type (one that lm_to_f32 supports), dims and shape are used; bytes and
 * data are ignored. Returns 0, or -1 with err_set(): 65 a name, a shape or rows that the format
 * does not allow, 73, 74, 77; an old file then remains untouched. */
int gguf_write(const char *path, const struct gguf_meta *m,
	const struct lm_tensor *tensors, uint64_t n, lm_fill_fn fill, void *ctx);

#endif
