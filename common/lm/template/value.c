/* value.c - making and comparing a template's values. */
#include "common/lm/template/value.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/base/err.h"

int tpl_fail(struct tpl_run *r, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	return err_set(EX_DATAERR, "%s:%d: %s", r->t->where, r->line, text);
}

int tpl_steps(struct tpl_run *r, size_t n)
{
	r->steps += (int64_t)n;
	if (r->steps > LM_TEMPLATE_STEPS_MAX)
		return tpl_fail(r, "the template takes more than %d steps",
			LM_TEMPLATE_STEPS_MAX);
	return 0;
}

void *tpl_alloc(struct tpl_run *r, size_t bytes)
{
	if (bytes > LM_TEMPLATE_MEMORY_MAX - r->memory) {
		tpl_fail(r, "the template needs more than %zu bytes of memory",
			LM_TEMPLATE_MEMORY_MAX);
		return NULL;
	}
	r->memory += bytes + 16;
	if (r->memory > LM_TEMPLATE_MEMORY_MAX)
		r->memory = LM_TEMPLATE_MEMORY_MAX;
	return arena_alloc(&r->arena, bytes);
}

/* --- making ----------------------------------------------------------------------------------- */

struct tpl_value tpl_undefined(const char *name)
{
	return (struct tpl_value){ .kind = TPL_UNDEFINED, .name = name };
}

struct tpl_value tpl_none(void)
{
	return (struct tpl_value){ .kind = TPL_NONE, .origin = LM_FROM_TEMPLATE };
}

struct tpl_value tpl_bool(bool b)
{
	return (struct tpl_value){ .kind = TPL_BOOL, .origin = LM_FROM_TEMPLATE, .b = b };
}

struct tpl_value tpl_int(int64_t i, int origin)
{
	return (struct tpl_value){ .kind = TPL_INT, .origin = (uint8_t)origin, .i = i };
}

struct tpl_value tpl_float(double f, int origin)
{
	return (struct tpl_value){ .kind = TPL_FLOAT, .origin = (uint8_t)origin, .f = f };
}

static struct tpl_string *new_string(struct tpl_run *r, size_t extra,
	struct tpl_value *out)
{
	struct tpl_string *s = tpl_alloc(r, sizeof *s + extra);

	*out = (struct tpl_value){ .kind = TPL_STRING, .s = s };
	return s;
}

int tpl_text(struct tpl_run *r, const char *data, size_t len, int origin, bool borrow,
	struct tpl_value *out)
{
	struct tpl_string *s = new_string(r, borrow ? 0 : len, out);

	if (!s)
		return -1;
	s->len = len;
	s->origin = (char)origin;
	s->data = data;
	if (!borrow) {
		if (len)
			memcpy(s + 1, data, len);
		s->data = (char *)(s + 1);
	}
	return 0;
}

int tpl_part(struct tpl_run *r, const struct tpl_string *s, size_t begin, size_t end,
	struct tpl_value *out)
{
	struct tpl_string *part;

	if (begin == 0 && end == s->len) {
		*out = (struct tpl_value){ .kind = TPL_STRING, .s = s };
		return 0;
	}
	part = new_string(r, 0, out);
	if (!part)
		return -1;
	*part = (struct tpl_string){ s->data + begin, end - begin,
		s->from ? s->from + begin : NULL, s->origin, s->safe };
	return 0;
}

size_t tpl_mark(const struct tpl_run *r)
{
	return r->out->text.len;
}

/* Makes space for len more bytes, and counts them. */
static int grow(struct tpl_run *r, size_t len)
{
	if (r->out->text.len - r->out_base + len > LM_TEMPLATE_OUT_MAX)
		return tpl_fail(r, "the template makes more than %zu bytes",
			LM_TEMPLATE_OUT_MAX);
	return tpl_steps(r, len / 256);
}

int tpl_emit(struct tpl_run *r, const char *data, size_t len, int origin)
{
	if (!len)
		return 0;
	if (grow(r, len) < 0)
		return -1;
	buf_add(&r->out->text, data, len);
	memset(buf_reserve(&r->out->from, len), origin, len);
	r->out->from.len += len;
	return 0;
}

int tpl_emit_string(struct tpl_run *r, const struct tpl_string *s, size_t begin,
	size_t end)
{
	if (!s->from)
		return tpl_emit(r, s->data + begin, end - begin, s->origin);
	if (grow(r, end - begin) < 0)
		return -1;
	buf_add(&r->out->text, s->data + begin, end - begin);
	buf_add(&r->out->from, s->from + begin, end - begin);
	return 0;
}

static void tpl_drop(struct tpl_run *r, size_t mark)
{
	r->out->text.len = r->out->from.len = mark;
	if (r->out->text.data)
		r->out->text.data[mark] = '\0';
}

int tpl_take(struct tpl_run *r, size_t mark, struct tpl_value *out)
{
	size_t len = r->out->text.len - mark;
	const char *from = len ? r->out->from.data + mark : NULL;
	int other = len && from[0] == LM_FROM_INPUT ? LM_FROM_TEMPLATE : LM_FROM_INPUT;
	bool mixed = len && memchr(from, other, len);
	struct tpl_string *s = new_string(r, mixed ? 2 * len : len, out);
	char *data;

	if (!s)
		return -1;
	data = (char *)(s + 1);
	*s = (struct tpl_string){ .data = data,
		.len = len,
		.origin = len ? from[0] : LM_FROM_TEMPLATE };
	if (len)
		memcpy(data, r->out->text.data + mark, len);
	if (mixed)
		s->from = memcpy(data + len, from, len);
	tpl_drop(r, mark);
	return 0;
}

struct tpl_list *tpl_list_new(struct tpl_run *r, size_t cap)
{
	struct tpl_list *l = tpl_alloc(r, sizeof *l);

	if (!l)
		return NULL;
	l->items = tpl_alloc(r, cap * sizeof *l->items);
	l->cap = cap;
	return l->items ? l : NULL;
}

int tpl_list_push(struct tpl_run *r, struct tpl_list *l, struct tpl_value v)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 4;
		struct tpl_value *items = tpl_alloc(r, cap * sizeof *items);

		if (!items)
			return -1;
		if (l->count)
			memcpy(items, l->items, l->count * sizeof *items);
		l->items = items;
		l->cap = cap;
	}
	l->items[l->count++] = v;
	return tpl_steps(r, 1);
}

struct tpl_value tpl_of_list(struct tpl_list *l)
{
	return (struct tpl_value){ .kind = TPL_LIST, .list = l };
}

struct tpl_map *tpl_map_new(struct tpl_run *r, size_t cap)
{
	struct tpl_map *m = tpl_alloc(r, sizeof *m);

	if (!m)
		return NULL;
	m->pairs = tpl_alloc(r, cap * sizeof *m->pairs);
	m->cap = cap;
	return m->pairs ? m : NULL;
}

const struct tpl_value *tpl_map_get(struct tpl_run *r, const struct tpl_map *m,
	struct tpl_value key)
{
	if (key.kind == TPL_STRING)
		return tpl_map_get_text(r, m, key.s->data, key.s->len);
	for (size_t i = 0; i < m->count; i++)
		if (m->pairs[i].key.kind == key.kind &&
			tpl_equal(r, m->pairs[i].key, key) > 0)
			return &m->pairs[i].value;
	return NULL;
}

const struct tpl_value *tpl_map_get_text(struct tpl_run *r, const struct tpl_map *m,
	const char *key, size_t len)
{
	/* the caller's next step finds out when this was too much */
	r->steps += (int64_t)(m->count / 8);
	for (size_t i = 0; i < m->count; i++) {
		const struct tpl_value *k = &m->pairs[i].key;

		if (k->kind == TPL_STRING && k->s->len == len &&
			memcmp(k->s->data, key, len) == 0)
			return &m->pairs[i].value;
	}
	return NULL;
}

static int map_add(struct tpl_run *r, struct tpl_map *m, struct tpl_value key,
	struct tpl_value v)
{
	if (m->count == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 4;
		struct tpl_pair *pairs = tpl_alloc(r, cap * sizeof *pairs);

		if (!pairs)
			return -1;
		if (m->count)
			memcpy(pairs, m->pairs, m->count * sizeof *pairs);
		m->pairs = pairs;
		m->cap = cap;
	}
	m->pairs[m->count++] = (struct tpl_pair){ key, v };
	return tpl_steps(r, 1);
}

int tpl_map_put(struct tpl_run *r, struct tpl_map *m, struct tpl_value key,
	struct tpl_value v)
{
	struct tpl_value *there = (struct tpl_value *)tpl_map_get(r, m, key);

	if (!there)
		return map_add(r, m, key, v);
	*there = v;
	return 0;
}

static int from_object(struct tpl_run *r, const json_t *v, int origin, unsigned depth,
	struct tpl_value *out)
{
	struct tpl_map *m = tpl_map_new(r, json_object_size(v));
	const char *key;
	json_t *field;

	if (!m)
		return -1;
	json_object_foreach((json_t *)v, key, field) {
		struct tpl_value k, f;

		if (tpl_text(r, key, strlen(key), origin, true, &k) < 0 ||
			tpl_from_json(r, field, origin, depth + 1, &f) < 0 ||
			map_add(r, m, k, f) < 0)
			return -1;
	}
	*out = (struct tpl_value){ .kind = TPL_MAP, .map = m };
	return 0;
}

int tpl_from_json(struct tpl_run *r, const json_t *v, int origin, unsigned depth,
	struct tpl_value *out)
{
	if (depth > LM_TEMPLATE_NESTING_MAX)
		return tpl_fail(r, "the conversation nests deeper than %d",
			LM_TEMPLATE_NESTING_MAX);
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return from_object(r, v, origin, depth, out);
	case JSON_ARRAY: {
		struct tpl_list *l = tpl_list_new(r, json_array_size(v));

		if (!l)
			return -1;
		for (size_t i = 0; i < json_array_size(v); i++) {
			struct tpl_value item;

			if (tpl_from_json(r, json_array_get(v, i), origin, depth + 1,
				    &item) < 0 ||
				tpl_list_push(r, l, item) < 0)
				return -1;
		}
		*out = tpl_of_list(l);
		return 0;
	}
	case JSON_STRING:
		return tpl_text(r, json_string_value(v), json_string_length(v), origin,
			true, out);
	case JSON_INTEGER:
		*out = tpl_int(json_integer_value(v), origin);
		return 0;
	case JSON_REAL:
		*out = tpl_float(json_real_value(v), origin);
		return 0;
	case JSON_NULL:
		*out = tpl_none();
		break;
	default:
		*out = tpl_bool(json_is_true(v));
	}
	out->origin = (uint8_t)origin;
	return 0;
}

/* --- comparing -------------------------------------------------------------------------------- */

const char *tpl_kind_name(struct tpl_value v)
{
	static const char *const names[] = { "an undefined value", "none", "a boolean",
		"an integer", "a float", "a string", "a list", "a mapping", "a namespace",
		"a loop", "a function", "a macro" };

	return names[v.kind];
}

bool tpl_true(struct tpl_value v)
{
	switch (v.kind) {
	case TPL_UNDEFINED:
	case TPL_NONE:
		return false;
	case TPL_BOOL:
		return v.b;
	case TPL_INT:
		return v.i != 0;
	case TPL_FLOAT:
		return v.f != 0;
	case TPL_STRING:
		return v.s->len > 0;
	case TPL_LIST:
		return v.list->count > 0;
	case TPL_MAP:
		return v.map->count > 0;
	default:
		return true;
	}
}

bool tpl_is_number(struct tpl_value v)
{
	return v.kind == TPL_BOOL || v.kind == TPL_INT || v.kind == TPL_FLOAT;
}

double tpl_number(struct tpl_value v)
{
	return v.kind == TPL_FLOAT ? v.f : v.kind == TPL_INT ? (double)v.i : v.b;
}

static int64_t whole(struct tpl_value v)
{
	return v.kind == TPL_INT ? v.i : v.b;
}

bool tpl_is(struct tpl_value v, const char *text)
{
	return v.kind == TPL_STRING && v.s->len == strlen(text) &&
		memcmp(v.s->data, text, v.s->len) == 0;
}

int tpl_origin(struct tpl_value v)
{
	if (v.kind != TPL_STRING)
		return v.origin;
	return v.s->from && memchr(v.s->from, LM_FROM_INPUT, v.s->len) ? LM_FROM_INPUT :
		v.s->from ? LM_FROM_TEMPLATE :
			    v.s->origin;
}

static int equal(struct tpl_run *r, struct tpl_value a, struct tpl_value b,
	unsigned depth)
{
	if (depth > LM_TEMPLATE_NESTING_MAX || tpl_steps(r, 1) < 0)
		return tpl_fail(r, "values nest too deep to be compared");
	if (tpl_is_number(a) && tpl_is_number(b)) {
		if (a.kind != TPL_FLOAT && b.kind != TPL_FLOAT)
			return whole(a) == whole(b);
		return tpl_number(a) == tpl_number(b);
	}
	if (a.kind != b.kind)
		return 0;
	switch (a.kind) {
	case TPL_UNDEFINED:
	case TPL_NONE:
		return 1;
	case TPL_STRING:
		return a.s->len == b.s->len &&
			(!a.s->len || memcmp(a.s->data, b.s->data, a.s->len) == 0);
	case TPL_LIST:
		if (a.list->count != b.list->count || a.list->tuple != b.list->tuple)
			return 0;
		for (size_t i = 0; i < a.list->count; i++) {
			int same = equal(r, a.list->items[i], b.list->items[i],
				depth + 1);

			if (same <= 0)
				return same;
		}
		return 1;
	case TPL_MAP:
		if (a.map->count != b.map->count)
			return 0;
		for (size_t i = 0; i < a.map->count; i++) {
			const struct tpl_value *v = tpl_map_get(r, b.map,
				a.map->pairs[i].key);
			int same = v ? equal(r, a.map->pairs[i].value, *v, depth + 1) : 0;

			if (same <= 0)
				return same;
		}
		return 1;
	case TPL_FUNCTION:
		return a.i == b.i;
	default:
		return a.map == b.map;
	}
}

int tpl_equal(struct tpl_run *r, struct tpl_value a, struct tpl_value b)
{
	return equal(r, a, b, 0);
}

int tpl_order(struct tpl_run *r, struct tpl_value a, struct tpl_value b, int *out)
{
	if (tpl_is_number(a) && tpl_is_number(b)) {
		double x = tpl_number(a), y = tpl_number(b);

		if (a.kind != TPL_FLOAT && b.kind != TPL_FLOAT)
			*out = (whole(a) > whole(b)) - (whole(a) < whole(b));
		else
			*out = (x > y) - (x < y);
		return 0;
	}
	if (a.kind == TPL_STRING && b.kind == TPL_STRING) {
		size_t min = a.s->len < b.s->len ? a.s->len : b.s->len;
		int c = min ? memcmp(a.s->data, b.s->data, min) : 0;

		*out = c ? c : (a.s->len > b.s->len) - (a.s->len < b.s->len);
		return tpl_steps(r, min / 256);
	}
	if (a.kind == TPL_LIST && b.kind == TPL_LIST) {
		for (size_t i = 0; i < a.list->count && i < b.list->count; i++) {
			int same = tpl_equal(r, a.list->items[i], b.list->items[i]);

			if (same < 0)
				return -1;
			if (!same && a.list->items[i].kind == TPL_LIST)
				return tpl_fail(r, "lists of lists are not compared");
			if (!same)
				return tpl_order(r, a.list->items[i], b.list->items[i],
					out);
		}
		*out = (a.list->count > b.list->count) - (a.list->count < b.list->count);
		return 0;
	}
	return tpl_fail(r, "%s is not compared with %s", tpl_kind_name(a),
		tpl_kind_name(b));
}

int tpl_contains(struct tpl_run *r, struct tpl_value container, struct tpl_value item)
{
	switch (container.kind) {
	case TPL_STRING:
		if (item.kind != TPL_STRING)
			return tpl_fail(r, "%s is looked for in a string",
				tpl_kind_name(item));
		if (tpl_steps(r, container.s->len / 64) < 0)
			return -1;
		return !item.s->len ||
			memmem(container.s->data, container.s->len, item.s->data,
				item.s->len) != NULL;
	case TPL_LIST:
		for (size_t i = 0; i < container.list->count; i++) {
			int same = tpl_equal(r, container.list->items[i], item);

			if (same)
				return same;
		}
		return 0;
	case TPL_MAP:
		return tpl_map_get(r, container.map, item) != NULL;
	case TPL_UNDEFINED:
		return 0;
	default:
		return tpl_fail(r, "%s has nothing in it", tpl_kind_name(container));
	}
}
