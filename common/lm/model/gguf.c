/* gguf.c - the GGUF container: header, metadata, tensors and their data. */
#include "common/lm/model/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/gguf_inside.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define KEY_BYTES_MAX   65535
#define VALUE_BYTES_MIN 13 /* a key of 1 byte, a kind and no value */

/* --- pieces ------------------------------------------------------------------------------- */

int gguf_truncated(const struct gguf *g)
{
	return err_set(EX_DATAERR,
		"%s: ends too early: something at byte %" PRIu64
		" needs more than %" PRIu64 " bytes",
		g->where, g->at, g->bytes);
}

/* Reads the next n bytes; NULL with the error. */
static const unsigned char *gguf_take(struct gguf *g, uint64_t n)
{
	const unsigned char *p = g->data + g->at;

	if (n > g->bytes - g->at) {
		gguf_truncated(g);
		return NULL;
	}
	g->at += n;
	return p;
}

int gguf_take_u32(struct gguf *g, uint32_t *v)
{
	const unsigned char *p = gguf_take(g, sizeof *v);

	if (!p)
		return -1;
	memcpy(v, p, sizeof *v);
	return 0;
}

int gguf_take_u64(struct gguf *g, uint64_t *v)
{
	const unsigned char *p = gguf_take(g, sizeof *v);

	if (!p)
		return -1;
	memcpy(v, p, sizeof *v);
	return 0;
}

int gguf_take_text(struct gguf *g, const unsigned char **text, uint64_t *bytes)
{
	if (gguf_take_u64(g, bytes) < 0)
		return -1;
	*text = gguf_take(g, *bytes);
	return *text ? 0 : -1;
}

bool gguf_is_name(const unsigned char *text, uint64_t bytes)
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

	if (gguf_take_u32(g, &id) < 0)
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

/* Skips a nested array: its kind, its count and its items. */
static int skip_array(struct gguf *g, const struct gguf_value *v, int depth)
{
	enum gguf_kind item;
	uint64_t count;

	if (depth >= GGUF_DEPTH_MAX)
		return err_set(EX_DATAERR,
			"%s: key '%.*s': arrays are nested deeper than %d", g->where,
			(int)v->key_bytes, v->key, GGUF_DEPTH_MAX);
	if (take_kind(g, v, &item) < 0 || gguf_take_u64(g, &count) < 0)
		return -1;
	return skip_items(g, v, item, count, depth + 1);
}

/* Every item takes at least a byte, so a hostile count stops at the end of the file. */
static int skip_items(struct gguf *g, const struct gguf_value *v, enum gguf_kind item,
	uint64_t count, int depth)
{
	const unsigned char *p;
	uint64_t bytes;

	if (gguf_kinds[item].bytes) {
		if (__builtin_mul_overflow(count, gguf_kinds[item].bytes, &bytes))
			return gguf_truncated(g);
		p = gguf_take(g, bytes);
		if (!p)
			return -1;
		return item == GGUF_BOOL ? check_bools(g, v, p, count) : 0;
	}
	for (uint64_t i = 0; i < count; i++)
		if (item == GGUF_TEXT ? gguf_take_text(g, &p, &bytes) < 0 :
					skip_array(g, v, depth) < 0)
			return -1;
	return 0;
}

static int take_value(struct gguf *g, struct gguf_value *v)
{
	const unsigned char *key;

	*v = (struct gguf_value){ .count = 1 };
	if (gguf_take_text(g, &key, &v->key_bytes) < 0)
		return -1;
	if (v->key_bytes < 1 || v->key_bytes > KEY_BYTES_MAX ||
		!gguf_is_name(key, v->key_bytes))
		return err_set(EX_DATAERR,
			"%s: the key that ends at byte %" PRIu64
			" is empty, too long or not printable text",
			g->where, g->at);
	v->key = (const char *)key;
	if (take_kind(g, v, &v->kind) < 0)
		return -1;
	if (v->kind == GGUF_TEXT)
		return gguf_take_text(g, &v->data, &v->bytes);
	if (v->kind == GGUF_ARRAY) {
		if (take_kind(g, v, &v->item) < 0 || gguf_take_u64(g, &v->count) < 0)
			return -1;
		v->data = g->data + g->at;
		if (skip_items(g, v, v->item, v->count, 1) < 0)
			return -1;
		v->bytes = (uint64_t)(g->data + g->at - v->data);
		return 0;
	}
	v->bytes = gguf_kinds[v->kind].bytes;
	v->data = gguf_take(g, v->bytes);
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
		return gguf_truncated(g);
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

/* general.architecture must be a text, even for callers that do not ask for it. */
static int check_architecture(const struct gguf *g)
{
	const struct gguf_value *v = gguf_find(g, "general.architecture");

	if (v && v->kind != GGUF_TEXT)
		return err_set(EX_DATAERR, "%s: general.architecture is %s, not a text",
			g->where, gguf_kind_name(v->kind));
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
			g->where, gguf_kinds[v->kind].name);
	memcpy(&g->alignment, v->data, sizeof g->alignment);
	if (g->alignment < 8 || (g->alignment & (g->alignment - 1)))
		return err_set(EX_DATAERR,
			"%s: general.alignment %" PRIu32 " is no power of two from 8 on",
			g->where, g->alignment);
	return 0;
}

/* --- the whole file ----------------------------------------------------------------------- */

bool gguf_is(const void *data, uint64_t bytes)
{
	return bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static int take_header(struct gguf *g)
{
	const unsigned char *magic = gguf_take(g, 4);

	if (!magic)
		return -1;
	if (!gguf_is(magic, 4))
		return err_set(EX_DATAERR, "%s: does not begin with GGUF", g->where);
	if (gguf_take_u32(g, &g->version) < 0)
		return -1;
	if (!(g->version & 0xffff))
		return err_set(EX_DATAERR, "%s: big-endian GGUF is not read", g->where);
	if (g->version != 2 && g->version != 3)
		return err_set(EX_DATAERR, "%s: GGUF version %" PRIu32 " is not 2 or 3",
			g->where, g->version);
	if (gguf_take_u64(g, &g->tensor_count) < 0 ||
		gguf_take_u64(g, &g->value_count) < 0)
		return -1;
	return 0;
}

/* Reads the whole file; the mapped data may be empty, but its pointer must not be NULL. */
static int read_all(struct gguf *g)
{
	if (take_header(g) < 0 || take_values(g) < 0 || check_architecture(g) < 0 ||
		read_alignment(g) < 0 || gguf_take_tensors(g) < 0)
		return -1;
	return gguf_place_data(g);
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
