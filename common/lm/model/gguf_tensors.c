/* gguf_tensors.c - the table of tensors of a GGUF file, and where their data lies. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/ggml_types.h"
#include "common/lm/model/gguf_inside.h"
#include "common/base/mem.h"

#define INFO_BYTES_MIN 24 /* a tensor without name and dimensions */

static int set_type(const struct gguf *g, struct lm_tensor *t, uint32_t id)
{
	const struct ggml_type *type = ggml_type(id);
	uint64_t row = t->dims ? t->shape[t->dims - 1] : 1;

	if (!type)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' has the unknown type %" PRIu32, g->where,
			t->name, id);
	t->type = type->type;
	snprintf(t->type_name, sizeof t->type_name, "%s", type->name);
	if (row % type->block)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' has rows of %" PRIu64
			", not a multiple of %" PRIu32 " as %s needs",
			g->where, t->name, row, type->block, type->name);
	if (__builtin_mul_overflow(t->count / type->block, type->bytes, &t->bytes))
		return err_set(EX_DATAERR, "%s: tensor '%s' is too large", g->where,
			t->name);
	return 0;
}

/* Reads the dimensions, which the file stores fastest first. */
static int take_shape(struct gguf *g, struct lm_tensor *t)
{
	if (gguf_take_u32(g, &t->dims) < 0)
		return -1;
	if (t->dims > GGUF_DIMS_MAX)
		return err_set(EX_DATAERR, "%s: tensor '%s' has %" PRIu32 " dimensions",
			g->where, t->name, t->dims);
	t->count = 1;
	for (uint32_t i = t->dims; i-- > 0;) {
		if (gguf_take_u64(g, &t->shape[i]) < 0)
			return -1;
		if (t->shape[i] < 1)
			return err_set(EX_DATAERR, "%s: tensor '%s' has a dimension of 0",
				g->where, t->name);
		if (__builtin_mul_overflow(t->count, t->shape[i], &t->count) ||
			t->count > INT64_MAX)
			return err_set(EX_DATAERR, "%s: tensor '%s' is too large",
				g->where, t->name);
	}
	return 0;
}

static int take_tensor(struct gguf *g, struct lm_tensor *t, uint64_t *offset)
{
	const unsigned char *name;
	uint64_t bytes;
	uint32_t id;

	if (gguf_take_text(g, &name, &bytes) < 0)
		return -1;
	if (bytes < 1 || bytes >= LM_NAME_BYTES_MAX || !gguf_is_name(name, bytes))
		return err_set(EX_DATAERR,
			"%s: the tensor's name that ends at byte %" PRIu64
			" is empty, too long or not printable text",
			g->where, g->at);
	memcpy(t->name, name, (size_t)bytes);
	if (take_shape(g, t) < 0 || gguf_take_u32(g, &id) < 0 ||
		gguf_take_u64(g, offset) < 0)
		return -1;
	return set_type(g, t, id);
}

static int compare_tensors(const void *a, const void *b)
{
	const struct lm_tensor *t = *(const struct lm_tensor *const *)a;
	const struct lm_tensor *u = *(const struct lm_tensor *const *)b;

	return strcmp(t->name, u->name);
}

int gguf_take_tensors(struct gguf *g)
{
	if (g->tensor_count > (g->bytes - g->at) / INFO_BYTES_MIN)
		return gguf_truncated(g);
	g->tensors = xcalloc((size_t)g->tensor_count, sizeof *g->tensors);
	g->offsets = xcalloc((size_t)g->tensor_count, sizeof *g->offsets);
	g->by_name = xcalloc((size_t)g->tensor_count, sizeof *g->by_name);
	for (uint64_t i = 0; i < g->tensor_count; i++) {
		if (take_tensor(g, &g->tensors[i], &g->offsets[i]) < 0)
			return -1;
		g->by_name[i] = &g->tensors[i];
	}
	qsort(g->by_name, (size_t)g->tensor_count, sizeof *g->by_name, compare_tensors);
	for (uint64_t i = 1; i < g->tensor_count; i++)
		if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
			return err_set(EX_DATAERR, "%s: tensor '%s' stands there twice",
				g->where, g->by_name[i]->name);
	return 0;
}

/* Rounds n up to a multiple of the alignment. Returns 0, or -1: too large. */
static int align(const struct gguf *g, uint64_t *n)
{
	uint64_t mask = g->alignment - 1;

	if (__builtin_add_overflow(*n, mask, n))
		return -1;
	*n &= ~mask;
	return 0;
}

int gguf_place_data(struct gguf *g)
{
	uint64_t start = g->at, end = g->at, want = 0;

	if (align(g, &start) < 0)
		return gguf_truncated(g);
	for (uint64_t i = 0; i < g->tensor_count; i++) {
		struct lm_tensor *t = &g->tensors[i];

		if (g->offsets[i] != want)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' begins at %" PRIu64
				" of the data, not at %" PRIu64 " behind the one before",
				g->where, t->name, g->offsets[i], want);
		if (start > g->bytes || want > g->bytes - start ||
			t->bytes > g->bytes - start - want)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' ends behind the file's %" PRIu64
				" bytes",
				g->where, t->name, g->bytes);
		t->data = g->data + start + want;
		want += t->bytes;
		end = start + want;
		if (align(g, &want) < 0)
			return gguf_truncated(g);
	}
	start = end;
	if (align(g, &start) < 0 || (g->bytes != end && g->bytes != start))
		return err_set(EX_DATAERR,
			"%s: has %" PRIu64 " bytes, but what it holds ends at %" PRIu64,
			g->where, g->bytes, end);
	return 0;
}
