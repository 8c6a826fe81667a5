#include "common/lm/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/lm/ggml_types.h"
#include "common/lm/map.h"
#include "common/mem.h"
#include "common/utf8.h"

#define KEY_BYTES_MAX   65535
#define VALUE_BYTES_MIN 13 /* of a key of 1 byte, a kind and nothing */
#define INFO_BYTES_MIN  24 /* of a tensor without name and dimensions */

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

static const struct {
	const char *name;
	uint32_t bytes; /* 0: they vary */
} kinds[GGUF_KINDS] = {
	[GGUF_U8] = { "u8", 1 },
	[GGUF_I8] = { "i8", 1 },
	[GGUF_U16] = { "u16", 2 },
	[GGUF_I16] = { "i16", 2 },
	[GGUF_U32] = { "u32", 4 },
	[GGUF_I32] = { "i32", 4 },
	[GGUF_F32] = { "f32", 4 },
	[GGUF_BOOL] = { "bool", 1 },
	[GGUF_TEXT] = { "text", 0 },
	[GGUF_ARRAY] = { "array", 0 },
	[GGUF_U64] = { "u64", 8 },
	[GGUF_I64] = { "i64", 8 },
	[GGUF_F64] = { "f64", 8 },
};

const char *gguf_kind_name(enum gguf_kind kind)
{
	return kinds[kind].name;
}

/* --- pieces ------------------------------------------------------------------------------- */

static int truncated(const struct gguf *g)
{
	return err_set(EX_DATAERR,
		"%s: ends too early: something at byte %" PRIu64
		" needs more than %" PRIu64 " bytes",
		g->where, g->at, g->bytes);
}

/* The next n bytes, or NULL with the error. */
static const unsigned char *take(struct gguf *g, uint64_t n)
{
	const unsigned char *p = g->data + g->at;

	if (n > g->bytes - g->at) {
		truncated(g);
		return NULL;
	}
	g->at += n;
	return p;
}

static int take_u32(struct gguf *g, uint32_t *v)
{
	const unsigned char *p = take(g, sizeof *v);

	if (!p)
		return -1;
	memcpy(v, p, sizeof *v);
	return 0;
}

static int take_u64(struct gguf *g, uint64_t *v)
{
	const unsigned char *p = take(g, sizeof *v);

	if (!p)
		return -1;
	memcpy(v, p, sizeof *v);
	return 0;
}

static int take_text(struct gguf *g, const unsigned char **text, uint64_t *bytes)
{
	if (take_u64(g, bytes) < 0)
		return -1;
	*text = take(g, *bytes);
	return *text ? 0 : -1;
}

/* UTF-8 without control characters, so that it can be printed and compared. */
static bool is_name(const unsigned char *text, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (text[i] < ' ' || text[i] == 0x7f)
			return false;
	return utf8_valid((const char *)text, (size_t)bytes);
}

/* --- metadata ----------------------------------------------------------------------------- */

static int take_kind(struct gguf *g, const struct gguf_value *v, enum gguf_kind *kind)
{
	uint32_t id;

	if (take_u32(g, &id) < 0)
		return -1;
	if (id >= GGUF_KINDS)
		return err_set(EX_DATAERR,
			"%s: key '%.*s': there is no kind %" PRIu32 " of value", g->where,
			(int)v->key_bytes, v->key, id);
	*kind = (enum gguf_kind)id;
	return 0;
}

static int check_bools(const struct gguf *g, const struct gguf_value *v,
	const unsigned char *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (p[i] > 1)
			return err_set(EX_DATAERR,
				"%s: key '%.*s': a boolean is %d, not 0 or 1", g->where,
				(int)v->key_bytes, v->key, p[i]);
	return 0;
}

static int skip_items(struct gguf *g, const struct gguf_value *v, enum gguf_kind item,
	uint64_t count, int depth);

/* An array within: its kind, its count, its items. */
static int skip_array(struct gguf *g, const struct gguf_value *v, int depth)
{
	enum gguf_kind item;
	uint64_t count;

	if (depth >= GGUF_DEPTH_MAX)
		return err_set(EX_DATAERR,
			"%s: key '%.*s': arrays are nested deeper than %d", g->where,
			(int)v->key_bytes, v->key, GGUF_DEPTH_MAX);
	if (take_kind(g, v, &item) < 0 || take_u64(g, &count) < 0)
		return -1;
	return skip_items(g, v, item, count, depth + 1);
}

/* Every item takes at least a byte, so that a hostile count ends where the file does. */
static int skip_items(struct gguf *g, const struct gguf_value *v, enum gguf_kind item,
	uint64_t count, int depth)
{
	const unsigned char *p;
	uint64_t bytes;

	if (kinds[item].bytes) {
		if (__builtin_mul_overflow(count, kinds[item].bytes, &bytes))
			return truncated(g);
		p = take(g, bytes);
		if (!p)
			return -1;
		return item == GGUF_BOOL ? check_bools(g, v, p, count) : 0;
	}
	for (uint64_t i = 0; i < count; i++)
		if (item == GGUF_TEXT ? take_text(g, &p, &bytes) < 0 :
					skip_array(g, v, depth) < 0)
			return -1;
	return 0;
}

static int take_value(struct gguf *g, struct gguf_value *v)
{
	const unsigned char *key;

	*v = (struct gguf_value){ .count = 1 };
	if (take_text(g, &key, &v->key_bytes) < 0)
		return -1;
	if (v->key_bytes < 1 || v->key_bytes > KEY_BYTES_MAX ||
		!is_name(key, v->key_bytes))
		return err_set(EX_DATAERR,
			"%s: the key that ends at byte %" PRIu64
			" is empty, too long or not printable text",
			g->where, g->at);
	v->key = (const char *)key;
	if (take_kind(g, v, &v->kind) < 0)
		return -1;
	if (v->kind == GGUF_TEXT)
		return take_text(g, &v->data, &v->bytes);
	if (v->kind == GGUF_ARRAY) {
		if (take_kind(g, v, &v->item) < 0 || take_u64(g, &v->count) < 0)
			return -1;
		v->data = g->data + g->at;
		if (skip_items(g, v, v->item, v->count, 1) < 0)
			return -1;
		v->bytes = (uint64_t)(g->data + g->at - v->data);
		return 0;
	}
	v->bytes = kinds[v->kind].bytes;
	v->data = take(g, v->bytes);
	if (!v->data)
		return -1;
	return v->kind == GGUF_BOOL ? check_bools(g, v, v->data, 1) : 0;
}

static int compare_bytes(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
	uint64_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
	int order = shorter ? memcmp(a, b, (size_t)shorter) : 0;

	return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_values(const void *a, const void *b)
{
	const struct gguf_value *v = *(const struct gguf_value *const *)a;
	const struct gguf_value *w = *(const struct gguf_value *const *)b;

	return compare_bytes(v->key, v->key_bytes, w->key, w->key_bytes);
}

static int take_values(struct gguf *g)
{
	if (g->value_count > (g->bytes - g->at) / VALUE_BYTES_MIN)
		return truncated(g);
	g->values = xcalloc((size_t)g->value_count, sizeof *g->values);
	g->by_key = xcalloc((size_t)g->value_count, sizeof *g->by_key);
	for (uint64_t i = 0; i < g->value_count; i++) {
		if (take_value(g, &g->values[i]) < 0)
			return -1;
		g->by_key[i] = &g->values[i];
	}
	qsort(g->by_key, (size_t)g->value_count, sizeof *g->by_key, compare_values);
	for (uint64_t i = 1; i < g->value_count; i++)
		if (compare_values(&g->by_key[i - 1], &g->by_key[i]) == 0)
			return err_set(EX_DATAERR, "%s: key '%.*s' stands there twice",
				g->where, (int)g->by_key[i]->key_bytes,
				g->by_key[i]->key);
	return 0;
}

static int read_alignment(struct gguf *g)
{
	const struct gguf_value *v = gguf_find(g, "general.alignment");

	g->alignment = GGUF_ALIGNMENT;
	if (!v)
		return 0;
	if (v->kind != GGUF_U32)
		return err_set(EX_DATAERR, "%s: general.alignment is %s, not u32",
			g->where, kinds[v->kind].name);
	memcpy(&g->alignment, v->data, sizeof g->alignment);
	if (g->alignment < 8 || (g->alignment & (g->alignment - 1)))
		return err_set(EX_DATAERR,
			"%s: general.alignment %" PRIu32 " is no power of two from 8 on",
			g->where, g->alignment);
	return 0;
}

/* --- tensors ------------------------------------------------------------------------------ */

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

/* Dimensions, the fastest first in the file. */
static int take_shape(struct gguf *g, struct lm_tensor *t)
{
	if (take_u32(g, &t->dims) < 0)
		return -1;
	if (t->dims > GGUF_DIMS_MAX)
		return err_set(EX_DATAERR, "%s: tensor '%s' has %" PRIu32 " dimensions",
			g->where, t->name, t->dims);
	t->count = 1;
	for (uint32_t i = t->dims; i-- > 0;) {
		if (take_u64(g, &t->shape[i]) < 0)
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

	if (take_text(g, &name, &bytes) < 0)
		return -1;
	if (bytes < 1 || bytes >= LM_NAME_BYTES_MAX || !is_name(name, bytes))
		return err_set(EX_DATAERR,
			"%s: the tensor's name that ends at byte %" PRIu64
			" is empty, too long or not printable text",
			g->where, g->at);
	memcpy(t->name, name, (size_t)bytes);
	if (take_shape(g, t) < 0 || take_u32(g, &id) < 0 || take_u64(g, offset) < 0)
		return -1;
	return set_type(g, t, id);
}

static int compare_tensors(const void *a, const void *b)
{
	const struct lm_tensor *t = *(const struct lm_tensor *const *)a;
	const struct lm_tensor *u = *(const struct lm_tensor *const *)b;

	return strcmp(t->name, u->name);
}

static int take_tensors(struct gguf *g)
{
	if (g->tensor_count > (g->bytes - g->at) / INFO_BYTES_MIN)
		return truncated(g);
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

/* n rounded up to a multiple of the alignment. Returns 0, or -1: too large. */
static int align(const struct gguf *g, uint64_t *n)
{
	uint64_t mask = g->alignment - 1;

	if (__builtin_add_overflow(*n, mask, n))
		return -1;
	*n &= ~mask;
	return 0;
}

/* Where each tensor's data lies: one behind the other, padded to the alignment. The last one's padding may be absent. */
static int place_data(struct gguf *g)
{
	uint64_t start = g->at, end = g->at, want = 0;

	if (align(g, &start) < 0)
		return truncated(g);
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
			return truncated(g);
	}
	start = end;
	if (align(g, &start) < 0 || (g->bytes != end && g->bytes != start))
		return err_set(EX_DATAERR,
			"%s: has %" PRIu64 " bytes, but what it holds ends at %" PRIu64,
			g->where, g->bytes, end);
	return 0;
}

/* --- the whole file ----------------------------------------------------------------------- */

bool gguf_is(const void *data, uint64_t bytes)
{
	return bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static int take_header(struct gguf *g)
{
	const unsigned char *magic = take(g, 4);

	if (!magic)
		return -1;
	if (!gguf_is(magic, 4))
		return err_set(EX_DATAERR, "%s: does not begin with GGUF", g->where);
	if (take_u32(g, &g->version) < 0)
		return -1;
	if (!(g->version & 0xffff))
		return err_set(EX_DATAERR, "%s: big-endian GGUF is not read", g->where);
	if (g->version != 2 && g->version != 3)
		return err_set(EX_DATAERR, "%s: GGUF version %" PRIu32 " is not 2 or 3",
			g->where, g->version);
	if (take_u64(g, &g->tensor_count) < 0 || take_u64(g, &g->value_count) < 0)
		return -1;
	return 0;
}

/* data may be empty, but then not NULL */
static int read_all(struct gguf *g)
{
	if (take_header(g) < 0 || take_values(g) < 0 || read_alignment(g) < 0 ||
		take_tensors(g) < 0)
		return -1;
	return place_data(g);
}

static int finish(struct gguf **out, struct gguf *g, int rc)
{
	if (rc < 0) {
		gguf_close(g);
		g = NULL;
	}
	*out = g;
	return rc;
}

int gguf_read(struct gguf **out, const void *data, uint64_t bytes, const char *where)
{
	struct gguf *g = xcalloc(1, sizeof *g);

	g->where = xstrdup(where);
	g->data = bytes ? data : (const void *)"";
	g->bytes = bytes;
	return finish(out, g, read_all(g));
}

int gguf_open(struct gguf **out, const char *path)
{
	struct gguf *g = xcalloc(1, sizeof *g);
	int rc;

	g->where = xstrdup(path);
	rc = lm_map_open(&g->map, path);
	if (rc == 0) {
		g->data = g->map.data ? g->map.data : (const unsigned char *)"";
		g->bytes = g->map.bytes;
		rc = read_all(g);
	}
	return finish(out, g, rc);
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	lm_map_close(&g->map);
	free(g->values);
	free(g->tensors);
	free(g->offsets);
	free(g->by_key);
	free(g->by_name);
	free(g->where);
	free(g);
}

uint32_t gguf_version(const struct gguf *g)
{
	return g->version;
}

uint32_t gguf_alignment(const struct gguf *g)
{
	return g->alignment;
}

uint64_t gguf_bytes(const struct gguf *g)
{
	return g->bytes;
}

const char *gguf_where(const struct gguf *g)
{
	return g->where;
}

uint64_t gguf_values(const struct gguf *g)
{
	return g->value_count;
}

const struct gguf_value *gguf_value_at(const struct gguf *g, uint64_t i)
{
	return &g->values[i];
}

uint64_t gguf_tensors(const struct gguf *g)
{
	return g->tensor_count;
}

const struct lm_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i)
{
	return &g->tensors[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	uint64_t low = 0, high = g->value_count, n = strlen(key);

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		const struct gguf_value *v = g->by_key[mid];
		int order = compare_bytes(key, n, v->key, v->key_bytes);

		if (order == 0)
			return v;
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

const struct lm_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
	uint64_t low = 0, high = g->tensor_count;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		int order = strcmp(name, g->by_name[mid]->name);

		if (order == 0)
			return g->by_name[mid];
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

/* --- values as numbers and texts ---------------------------------------------------------- */

#define GET(type, p)                       \
	({                                 \
		type v_;                   \
		memcpy(&v_, p, sizeof v_); \
		v_;                        \
	})

/* A whole number; u64 beyond 2^63 is given as its bits, for gguf_get_u64 to tell apart. */
static int64_t whole(enum gguf_kind kind, const unsigned char *p)
{
	switch (kind) {
	case GGUF_U8:
	case GGUF_BOOL:
		return *p;
	case GGUF_I8:
		return (int8_t)*p;
	case GGUF_U16:
		return GET(uint16_t, p);
	case GGUF_I16:
		return GET(int16_t, p);
	case GGUF_U32:
		return GET(uint32_t, p);
	case GGUF_I32:
		return GET(int32_t, p);
	case GGUF_U64:
	case GGUF_I64:
		return GET(int64_t, p);
	default:
		bug("%s as a whole number", kinds[kind].name);
	}
}

static bool is_whole(enum gguf_kind kind)
{
	return kinds[kind].bytes && kind != GGUF_BOOL && kind != GGUF_F32 &&
		kind != GGUF_F64;
}

static int not_a(const struct gguf *g, const char *key, const char *what)
{
	return err_set(EX_DATAERR, "%s: key '%s' is not %s", g->where, key, what);
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t max, uint64_t *out)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n;

	if (!v)
		return 0;
	if (!is_whole(v->kind))
		return not_a(g, key, "a whole number");
	n = whole(v->kind, v->data);
	if ((n < 0 && v->kind != GGUF_U64) || (uint64_t)n > max)
		return err_set(EX_DATAERR, "%s: key '%s' is not within 0 and %" PRIu64,
			g->where, key, max);
	*out = (uint64_t)n;
	return 0;
}

int gguf_get_f64(const struct gguf *g, const char *key, double *out)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (!kinds[v->kind].bytes || v->kind == GGUF_BOOL)
		return not_a(g, key, "a number");
	if (v->kind == GGUF_F32)
		*out = (double)GET(float, v->data);
	else if (v->kind == GGUF_F64)
		*out = GET(double, v->data);
	else if (v->kind == GGUF_U64)
		*out = (double)GET(uint64_t, v->data);
	else
		*out = (double)whole(v->kind, v->data);
	return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->kind != GGUF_BOOL)
		return not_a(g, key, "a boolean");
	*out = *v->data;
	return 0;
}

int gguf_get_text(const struct gguf *g, const char *key, const char **text,
	uint64_t *bytes)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->kind != GGUF_TEXT)
		return not_a(g, key, "a text");
	*text = (const char *)v->data;
	*bytes = v->bytes;
	return 0;
}

int gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind item,
	const struct gguf_value **out)
{
	const struct gguf_value *v = gguf_find(g, key);

	*out = v;
	if (v && (v->kind != GGUF_ARRAY || v->item != item))
		return err_set(EX_DATAERR, "%s: key '%s' is not an array of %s", g->where,
			key, kinds[item].name);
	return 0;
}

const char *gguf_next_text(const unsigned char **at, uint64_t *bytes)
{
	const char *text;

	*bytes = GET(uint64_t, *at);
	text = (const char *)*at + sizeof *bytes;
	*at += sizeof *bytes + *bytes;
	return text;
}

int64_t gguf_item_i64(const struct gguf_value *v, uint64_t i)
{
	return whole(v->item, v->data + i * kinds[v->item].bytes);
}

double gguf_item_f64(const struct gguf_value *v, uint64_t i)
{
	const unsigned char *p = v->data + i * kinds[v->item].bytes;

	if (v->item == GGUF_F32)
		return (double)GET(float, p);
	if (v->item == GGUF_F64)
		return GET(double, p);
	return (double)whole(v->item, p);
}
