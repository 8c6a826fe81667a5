/* show.c - a template's values as text: Python's str() and repr(), and JSON. */
#include "common/lm/template/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

/* Python's repr of a float: the fewest digits that read back as the same number. */
static int emit_float(struct tpl_run *r, double f, int origin)
{
	char text[40], out[64], *e;
	int digits, exponent, n = 0;

	if (isnan(f) || isinf(f)) {
		const char *name = isnan(f) ? "nan" : f < 0 ? "-inf" : "inf";

		return tpl_emit(r, name, strlen(name), origin);
	}
	for (digits = 1; digits < 17; digits++) {
		snprintf(text, sizeof text, "%.*e", digits - 1, f);
		if (strtod(text, NULL) == f)
			break;
	}
	snprintf(text, sizeof text, "%.*e", digits - 1, f);
	e = strchr(text, 'e');
	exponent = atoi(e + 1);
	if (exponent >= -4 && exponent < 16) {
		int after = digits - 1 - exponent;

		n = snprintf(out, sizeof out, "%.*f", after < 1 ? 1 : after, f);
	} else {
		n = snprintf(out, sizeof out, "%.*se%c%02d", (int)(e - text), text,
			exponent < 0 ? '-' : '+', abs(exponent));
	}
	return tpl_emit(r, out, (size_t)n, origin);
}

static int emit_number(struct tpl_run *r, struct tpl_value v)
{
	char text[32];
	int n;

	if (v.kind == TPL_FLOAT)
		return emit_float(r, v.f, v.origin);
	n = snprintf(text, sizeof text, "%lld", (long long)v.i);
	return tpl_emit(r, text, (size_t)n, v.origin);
}

static int emit_word(struct tpl_run *r, struct tpl_value v, const char *word)
{
	return tpl_emit(r, word, strlen(word), v.origin);
}

int tpl_emit_value(struct tpl_run *r, struct tpl_value v)
{
	switch (v.kind) {
	case TPL_UNDEFINED:
		return 0;
	case TPL_STRING:
		return tpl_emit_string(r, v.s, 0, v.s->len);
	default:
		return tpl_emit_repr(r, v, 0);
	}
}

static int input(struct tpl_run *r, const char *text)
{
	return tpl_emit(r, text, strlen(text), LM_FROM_INPUT);
}

/* Quotes as Python does: 'a', or "it's". */
static int repr_string(struct tpl_run *r, const struct tpl_string *s)
{
	bool single = s->len && memchr(s->data, '\'', s->len);
	bool twice = s->len && memchr(s->data, '"', s->len);
	char quote = single && !twice ? '"' : '\'';
	size_t done = 0;

	if (tpl_emit(r, &quote, 1, LM_FROM_INPUT) < 0)
		return -1;
	for (size_t i = 0; i <= s->len; i++) {
		unsigned char c = i < s->len ? (unsigned char)s->data[i] : 0;
		char text[8] = "";

		if (i < s->len && c != '\\' && c != (unsigned char)quote && c >= 0x20 &&
			c != 0x7f)
			continue;
		if (tpl_emit_string(r, s, done, i) < 0)
			return -1;
		done = i + 1;
		if (i == s->len)
			break;
		if (c == '\n' || c == '\r' || c == '\t')
			snprintf(text, sizeof text, "\\%c",
				c == '\n'         ? 'n' :
					c == '\r' ? 'r' :
						    't');
		else if (c < 0x20 || c == 0x7f)
			snprintf(text, sizeof text, "\\x%02x", c);
		else
			snprintf(text, sizeof text, "\\%c", c);
		if (input(r, text) < 0)
			return -1;
	}
	return tpl_emit(r, &quote, 1, LM_FROM_INPUT);
}

static int repr_list(struct tpl_run *r, const struct tpl_list *l, unsigned depth)
{
	if (input(r, l->tuple ? "(" : "[") < 0)
		return -1;
	for (size_t i = 0; i < l->count; i++)
		if ((i && input(r, ", ") < 0) ||
			tpl_emit_repr(r, l->items[i], depth + 1) < 0)
			return -1;
	return input(r, l->tuple ? l->count == 1 ? ",)" : ")" : "]");
}

static int repr_map(struct tpl_run *r, const struct tpl_map *m, unsigned depth)
{
	if (input(r, "{") < 0)
		return -1;
	for (size_t i = 0; i < m->count; i++)
		if ((i && input(r, ", ") < 0) ||
			tpl_emit_repr(r, m->pairs[i].key, depth + 1) < 0 ||
			input(r, ": ") < 0 ||
			tpl_emit_repr(r, m->pairs[i].value, depth + 1) < 0)
			return -1;
	return input(r, "}");
}

int tpl_emit_repr(struct tpl_run *r, struct tpl_value v, unsigned depth)
{
	if (depth > LM_TEMPLATE_NESTING_MAX)
		return tpl_fail(r, "a value nests too deep to be shown");
	if (tpl_steps(r, 1) < 0)
		return -1;
	switch (v.kind) {
	case TPL_UNDEFINED:
		return input(r, "Undefined");
	case TPL_NONE:
		return emit_word(r, v, "None");
	case TPL_BOOL:
		return emit_word(r, v, v.b ? "True" : "False");
	case TPL_INT:
	case TPL_FLOAT:
		return emit_number(r, v);
	case TPL_STRING:
		return repr_string(r, v.s);
	case TPL_LIST:
		return repr_list(r, v.list, depth);
	case TPL_MAP:
		return repr_map(r, v.map, depth);
	default:
		return tpl_fail(r, "%s has no text", tpl_kind_name(v));
	}
}

int tpl_to_string(struct tpl_run *r, struct tpl_value v, const struct tpl_string **out)
{
	size_t mark = tpl_mark(r);
	struct tpl_value s;

	if (v.kind == TPL_STRING) {
		*out = v.s;
		return 0;
	}
	if (tpl_emit_value(r, v) < 0 || tpl_take(r, mark, &s) < 0)
		return -1;
	*out = s.s;
	return 0;
}

/* --- JSON --------------------------------------------------------------------------------- */

static unsigned code_point(const char *s, size_t *len)
{
	unsigned char c = (unsigned char)*s;

	*len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	switch (*len) {
	case 1:
		return c;
	case 2:
		return (c & 31u) << 6 | (s[1] & 63u);
	case 3:
		return (c & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
	default:
		return (c & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 |
			(s[3] & 63u);
	}
}

/* The replacement of a character; 0 if it stays as it is. */
static int json_escape(const char *s, bool ascii, char *text, size_t *len)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
	unsigned c = (unsigned char)*s;
	const char *known = c ? strchr(from, (int)c) : NULL;

	*len = 1;
	if (known)
		return snprintf(text, 16, "\\%c", to[known - from]);
	if (c < 0x20)
		return snprintf(text, 16, "\\u%04x", c);
	if (c < 0x80 || !ascii)
		return 0;
	c = code_point(s, len);
	if (c < 0x10000)
		return snprintf(text, 16, "\\u%04x", c);
	c -= 0x10000;
	return snprintf(text, 16, "\\u%04x\\u%04x", 0xd800 + (c >> 10),
		0xdc00 + (c & 1023));
}

static int json_text(struct tpl_run *r, const struct tpl_string *s, bool ascii)
{
	size_t done = 0, len;

	if (input(r, "\"") < 0)
		return -1;
	for (size_t i = 0; i < s->len; i += len) {
		char text[16];
		int n = json_escape(s->data + i, ascii, text, &len);

		if (!n)
			continue;
		if (tpl_emit_string(r, s, done, i) < 0 ||
			tpl_emit(r, text, (size_t)n, LM_FROM_INPUT) < 0)
			return -1;
		done = i + len;
	}
	return tpl_emit_string(r, s, done, s->len) < 0 ? -1 : input(r, "\"");
}

static int json_line(struct tpl_run *r, const struct tpl_json_style *style,
	unsigned depth)
{
	if (style->indent < 0)
		return 0;
	if (input(r, "\n") < 0)
		return -1;
	for (unsigned i = 0; i < depth * (unsigned)style->indent; i++)
		if (input(r, " ") < 0)
			return -1;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct tpl_string *x = (*(const struct tpl_pair *const *)a)->key.s;
	const struct tpl_string *y = (*(const struct tpl_pair *const *)b)->key.s;
	size_t min = x->len < y->len ? x->len : y->len;
	int c = min ? memcmp(x->data, y->data, min) : 0;

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int json_key(struct tpl_run *r, struct tpl_value key, bool ascii)
{
	size_t mark = tpl_mark(r);
	struct tpl_value text;

	if (key.kind == TPL_STRING)
		return json_text(r, key.s, ascii);
	if (key.kind != TPL_INT && key.kind != TPL_FLOAT)
		return tpl_fail(r, "tojson: %s as a key", tpl_kind_name(key));
	if (emit_number(r, key) < 0 || tpl_take(r, mark, &text) < 0)
		return -1;
	return json_text(r, text.s, ascii);
}

static int json_map(struct tpl_run *r, const struct tpl_map *m,
	const struct tpl_json_style *style, unsigned depth)
{
	const struct tpl_pair **order;

	if (!m->count)
		return input(r, "{}");
	order = tpl_alloc(r, m->count * sizeof *order);
	if (!order || input(r, "{") < 0)
		return -1;
	for (size_t i = 0; i < m->count; i++) {
		order[i] = &m->pairs[i];
		if (style->sorted && m->pairs[i].key.kind != TPL_STRING)
			return tpl_fail(r,
				"tojson: sort_keys needs keys that are strings");
	}
	if (style->sorted)
		qsort(order, m->count, sizeof *order, by_key);
	for (size_t i = 0; i < m->count; i++)
		if ((i && tpl_emit(r, style->item, style->item_len, LM_FROM_INPUT) < 0) ||
			json_line(r, style, depth + 1) < 0 ||
			json_key(r, order[i]->key, style->ascii) < 0 ||
			tpl_emit(r, style->colon, style->colon_len, LM_FROM_INPUT) < 0 ||
			tpl_emit_json(r, order[i]->value, style, depth + 1) < 0)
			return -1;
	return json_line(r, style, depth) < 0 ? -1 : input(r, "}");
}

static int json_list(struct tpl_run *r, const struct tpl_list *l,
	const struct tpl_json_style *style, unsigned depth)
{
	if (!l->count)
		return input(r, "[]");
	if (input(r, "[") < 0)
		return -1;
	for (size_t i = 0; i < l->count; i++)
		if ((i && tpl_emit(r, style->item, style->item_len, LM_FROM_INPUT) < 0) ||
			json_line(r, style, depth + 1) < 0 ||
			tpl_emit_json(r, l->items[i], style, depth + 1) < 0)
			return -1;
	return json_line(r, style, depth) < 0 ? -1 : input(r, "]");
}

int tpl_emit_json(struct tpl_run *r, struct tpl_value v,
	const struct tpl_json_style *style, unsigned depth)
{
	if (depth > LM_TEMPLATE_NESTING_MAX)
		return tpl_fail(r, "tojson: a value nests too deep");
	if (tpl_steps(r, 1) < 0)
		return -1;
	switch (v.kind) {
	case TPL_NONE:
		return emit_word(r, v, "null");
	case TPL_BOOL:
		return emit_word(r, v, v.b ? "true" : "false");
	case TPL_FLOAT:
		if (isnan(v.f) || isinf(v.f))
			return emit_word(r, v,
				isnan(v.f)      ? "NaN" :
					v.f < 0 ? "-Infinity" :
						  "Infinity");
		return emit_number(r, v);
	case TPL_INT:
		return emit_number(r, v);
	case TPL_STRING:
		return json_text(r, v.s, style->ascii);
	case TPL_LIST:
		return json_list(r, v.list, style, depth);
	case TPL_MAP:
		return json_map(r, v.map, style, depth);
	default:
		return tpl_fail(r, "tojson: %s is not JSON", tpl_kind_name(v));
	}
}
