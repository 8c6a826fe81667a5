/* gguf_write.c - writes a GGUF file from metadata and tensors, with data in pieces. */
#include "common/lm/model/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/lm/model/ggml_types.h"
#include "common/base/mem.h"

/* --- metadata ----------------------------------------------------------------------------- */

static void add_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof v);
}

static void add_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof v);
}

static void add_text(struct buf *b, const char *text, uint64_t bytes)
{
	add_u64(b, bytes);
	buf_add(b, text, (size_t)bytes);
}

static void put(struct gguf_meta *m, const char *key, enum gguf_kind kind)
{
	add_text(&m->bytes, key, strlen(key));
	add_u32(&m->bytes, kind);
	m->count++;
	m->array_at = 0;
}

static void put_array(struct gguf_meta *m, const char *key, enum gguf_kind item,
	uint64_t n)
{
	put(m, key, GGUF_ARRAY);
	add_u32(&m->bytes, item);
	add_u64(&m->bytes, n);
}

void gguf_meta_release(struct gguf_meta *m)
{
	buf_release(&m->bytes);
	*m = (struct gguf_meta)GGUF_META_INIT;
}

void gguf_put_u32(struct gguf_meta *m, const char *key, uint32_t v)
{
	put(m, key, GGUF_U32);
	add_u32(&m->bytes, v);
}

void gguf_put_u64(struct gguf_meta *m, const char *key, uint64_t v)
{
	put(m, key, GGUF_U64);
	add_u64(&m->bytes, v);
}

void gguf_put_f32(struct gguf_meta *m, const char *key, float v)
{
	put(m, key, GGUF_F32);
	buf_add(&m->bytes, &v, sizeof v);
}

void gguf_put_bool(struct gguf_meta *m, const char *key, bool v)
{
	put(m, key, GGUF_BOOL);
	buf_addc(&m->bytes, v);
}

void gguf_put_text(struct gguf_meta *m, const char *key, const char *text, uint64_t bytes)
{
	put(m, key, GGUF_TEXT);
	add_text(&m->bytes, text, bytes);
}

void gguf_put_i32s(struct gguf_meta *m, const char *key, const int32_t *v, uint64_t n)
{
	put_array(m, key, GGUF_I32, n);
	buf_add(&m->bytes, v, (size_t)n * sizeof *v);
}

void gguf_put_f32s(struct gguf_meta *m, const char *key, const float *v, uint64_t n)
{
	put_array(m, key, GGUF_F32, n);
	buf_add(&m->bytes, v, (size_t)n * sizeof *v);
}

void gguf_put_texts(struct gguf_meta *m, const char *key)
{
	put_array(m, key, GGUF_TEXT, 0);
	m->array_at = m->bytes.len - sizeof(uint64_t);
}

void gguf_add_text(struct gguf_meta *m, const char *text, uint64_t bytes)
{
	uint64_t n;

	if (!m->array_at)
		bug("no array of texts was begun");
	memcpy(&n, m->bytes.data + m->array_at, sizeof n);
	n++;
	memcpy(m->bytes.data + m->array_at, &n, sizeof n);
	add_text(&m->bytes, text, bytes);
}

void gguf_put_value(struct gguf_meta *m, const struct gguf_value *v)
{
	add_text(&m->bytes, v->key, v->key_bytes);
	add_u32(&m->bytes, v->kind);
	if (v->kind == GGUF_ARRAY) {
		add_u32(&m->bytes, v->item);
		add_u64(&m->bytes, v->count);
	}
	if (v->kind == GGUF_TEXT)
		add_u64(&m->bytes, v->bytes);
	buf_add(&m->bytes, v->data, (size_t)v->bytes);
	m->count++;
	m->array_at = 0;
}

/* --- the file ----------------------------------------------------------------------------- */

/* Writes name, dimensions (fastest first), type and offset; returns the size of the data in
 * bytes. */
static int add_info(struct buf *head, const struct lm_tensor *t, uint64_t offset,
	uint64_t *bytes)
{
	uint64_t row = t->dims ? t->shape[t->dims - 1] : 1;

	if (!t->name[0] || strlen(t->name) >= GGUF_NAME_MAX)
		return err_set(EX_DATAERR,
			"tensor '%s': GGUF takes names of 1 to %d bytes", t->name,
			GGUF_NAME_MAX - 1);
	if (t->dims > GGUF_DIMS_MAX)
		return err_set(EX_DATAERR,
			"tensor '%s': GGUF takes at most %d dimensions", t->name,
			GGUF_DIMS_MAX);
	if (row % lm_type_block(t->type) || lm_type_bytes(t->type, t->count, bytes) < 0)
		return err_set(EX_DATAERR,
			"tensor '%s': rows of %" PRIu64 " cannot be %s", t->name, row,
			lm_type_name(t->type));
	add_text(head, t->name, strlen(t->name));
	add_u32(head, t->dims);
	for (uint32_t i = t->dims; i-- > 0;)
		add_u64(head, t->shape[i]);
	add_u32(head, ggml_type_id(t->type));
	add_u64(head, offset);
	return 0;
}

static uint64_t padding(uint64_t bytes)
{
	return -bytes & (GGUF_ALIGNMENT - 1);
}

static int pad(struct io_part *out)
{
	static const char zeros[GGUF_ALIGNMENT];

	return io_part_write(out, zeros, (size_t)padding(out->written));
}

static int write_all(struct io_part *out, const struct buf *head, const uint64_t *bytes,
	uint64_t n, lm_fill_fn fill, void *ctx)
{
	if (io_part_write(out, head->data, head->len) < 0 || pad(out) < 0)
		return -1;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t before = out->written;

		if (fill(ctx, i, out) < 0)
			return -1;
		if (out->written - before != bytes[i])
			bug("tensor %" PRIu64 ": %" PRIu64 " bytes, not %" PRIu64, i,
				out->written - before, bytes[i]);
		if (pad(out) < 0)
			return -1;
	}
	return 0;
}

int gguf_write(const char *path, const struct gguf_meta *m,
	const struct lm_tensor *tensors, uint64_t n, lm_fill_fn fill, void *ctx)
{
	uint64_t *bytes = xcalloc((size_t)n, sizeof *bytes), offset = 0;
	struct buf head = BUF_INIT;
	struct io_part out = { 0 };
	int rc = -1;

	buf_adds(&head, "GGUF");
	add_u32(&head, 3);
	add_u64(&head, n);
	add_u64(&head, m->count);
	buf_add(&head, m->bytes.data, m->bytes.len);
	for (uint64_t i = 0; i < n; i++) {
		if (add_info(&head, &tensors[i], offset, &bytes[i]) < 0)
			goto out;
		offset += bytes[i] + padding(bytes[i]);
	}
	if (io_part_open(&out, path, 0644) < 0 ||
		write_all(&out, &head, bytes, n, fill, ctx) < 0)
		goto out;
	rc = io_part_close(&out);
out:
	io_part_drop(&out);
	buf_release(&head);
	free(bytes);
	return rc;
}
