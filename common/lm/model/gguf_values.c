/* gguf_values.c - values of a GGUF file as numbers and texts. */
#include <inttypes.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/gguf_inside.h"

const struct gguf_kind_info gguf_kinds[GGUF_KINDS] = {
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
	return gguf_kinds[kind].name;
}

#define GET(type, p)                       \
	({                                 \
		type v_;                   \
		memcpy(&v_, p, sizeof v_); \
		v_;                        \
	})

/* Reads an integer; a u64 beyond 2^63 is returned as its bits, for gguf_get_u64 to tell apart. */
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
		bug("%s as a whole number", gguf_kinds[kind].name);
	}
}

static bool is_whole(enum gguf_kind kind)
{
	return gguf_kinds[kind].bytes && kind != GGUF_BOOL && kind != GGUF_F32 &&
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
	if (!gguf_kinds[v->kind].bytes || v->kind == GGUF_BOOL)
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
			key, gguf_kinds[item].name);
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
	return whole(v->item, v->data + i * gguf_kinds[v->item].bytes);
}

double gguf_item_f64(const struct gguf_value *v, uint64_t i)
{
	const unsigned char *p = v->data + i * gguf_kinds[v->item].bytes;

	if (v->item == GGUF_F32)
		return (double)GET(float, p);
	if (v->item == GGUF_F64)
		return GET(double, p);
	return (double)whole(v->item, p);
}
