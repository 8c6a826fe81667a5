/* items.c - looking into a template's values: items, attributes and slices. */
#include <string.h>

#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/lm/template/value.h"

static int64_t whole(struct tpl_value v)
{
	return v.kind == TPL_INT ? v.i : v.b;
}

size_t tpl_next_char(const struct tpl_string *s, size_t at)
{
	do
		at++;
	while (at < s->len && (s->data[at] & 0xc0) == 0x80);
	return at;
}

size_t tpl_length(const struct tpl_string *s)
{
	return utf8_count(s->data, s->len);
}

int tpl_items(struct tpl_run *r, struct tpl_value v, struct tpl_list **out)
{
	struct tpl_list *l;

	switch (v.kind) {
	case TPL_LIST:
		*out = v.list;
		return 0;
	case TPL_UNDEFINED:
		*out = tpl_list_new(r, 0);
		return *out ? 0 : -1;
	case TPL_MAP:
		l = tpl_list_new(r, v.map->count);
		if (!l)
			return -1;
		for (size_t i = 0; i < v.map->count; i++)
			if (tpl_list_push(r, l, v.map->pairs[i].key) < 0)
				return -1;
		*out = l;
		return 0;
	case TPL_STRING:
		l = tpl_list_new(r, 0);
		if (!l)
			return -1;
		for (size_t at = 0, next; at < v.s->len; at = next) {
			struct tpl_value c;

			next = tpl_next_char(v.s, at);
			if (tpl_part(r, v.s, at, next, &c) < 0 ||
				tpl_list_push(r, l, c) < 0)
				return -1;
		}
		*out = l;
		return 0;
	default:
		return tpl_fail(r, "%s cannot be looped over", tpl_kind_name(v));
	}
}

static int loop_attribute(struct tpl_run *r, const struct tpl_loop *l, const char *name,
	struct tpl_value *out)
{
	const struct {
		const char *name;
		int64_t i;
	} numbers[] = { { "index", (int64_t)l->index + 1 },
		{ "index0", (int64_t)l->index }, { "length", (int64_t)l->count },
		{ "revindex", (int64_t)(l->count - l->index) },
		{ "revindex0", (int64_t)(l->count - l->index) - 1 }, { "depth", 1 },
		{ "depth0", 0 } };

	(void)r;
	if (strcmp(name, "first") == 0)
		*out = tpl_bool(l->index == 0);
	else if (strcmp(name, "last") == 0)
		*out = tpl_bool(l->index + 1 == l->count);
	else if (strcmp(name, "previtem") == 0 && l->index)
		*out = l->items[l->index - 1];
	else if (strcmp(name, "nextitem") == 0 && l->index + 1 < l->count)
		*out = l->items[l->index + 1];
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(name, numbers[i].name) == 0)
			*out = tpl_int(numbers[i].i, LM_FROM_TEMPLATE);
	return 0;
}

int tpl_attribute(struct tpl_run *r, struct tpl_value a, uint32_t name,
	struct tpl_value *out)
{
	const char *text = r->t->names[name];
	const struct tpl_value *found;

	*out = tpl_undefined(text);
	switch (a.kind) {
	case TPL_UNDEFINED:
		return tpl_fail(r, "'%s' of '%s', which is undefined", text,
			a.name ? a.name : "a value");
	case TPL_MAP:
	case TPL_NAMESPACE:
		found = tpl_map_get_text(r, a.map, text, r->t->name_lens[name]);
		if (found)
			*out = *found;
		return tpl_steps(r, 1);
	case TPL_LOOP:
		return loop_attribute(r, a.loop, text, out);
	default:
		return 0;
	}
}

/* Python's index: from the end when it is negative. False: there is none. */
static bool place(int64_t i, size_t count, size_t *out)
{
	if (i < 0)
		i += (int64_t)count;
	*out = (size_t)i;
	return i >= 0 && i < (int64_t)count;
}

int tpl_item(struct tpl_run *r, struct tpl_value a, struct tpl_value key,
	struct tpl_value *out)
{
	const struct tpl_value *found = NULL;
	size_t at, begin = 0;

	*out = tpl_undefined(NULL);
	if (a.kind == TPL_UNDEFINED)
		return tpl_fail(r, "an item of '%s', which is undefined",
			a.name ? a.name : "a value");
	if (a.kind == TPL_MAP) {
		found = tpl_map_get(r, a.map, key);
	} else if (a.kind == TPL_LIST && (key.kind == TPL_INT || key.kind == TPL_BOOL)) {
		if (place(whole(key), a.list->count, &at))
			found = &a.list->items[at];
	} else if (a.kind == TPL_STRING && key.kind == TPL_INT) {
		if (tpl_steps(r, a.s->len / 64) < 0)
			return -1;
		if (!place(key.i, tpl_length(a.s), &at))
			return 0;
		while (at--)
			begin = tpl_next_char(a.s, begin);
		return tpl_part(r, a.s, begin, tpl_next_char(a.s, begin), out);
	} else if (key.kind == TPL_STRING &&
		(a.kind == TPL_NAMESPACE || a.kind == TPL_LOOP)) {
		uint32_t name = tpl_find_name(r->t, key.s->data, key.s->len);

		return name == UINT32_MAX ? 0 : tpl_attribute(r, a, name, out);
	}
	if (found)
		*out = *found;
	return tpl_steps(r, 1);
}

/* Python's slice of count things: begin, end and step; a step of 0 is refused. */
static int bounds_of(struct tpl_run *r, const struct tpl_value *b, int64_t count,
	int64_t *begin, int64_t *end, int64_t *step)
{
	int64_t at[3];
	bool given[3];

	for (int i = 0; i < 3; i++) {
		given[i] = b[i].kind != TPL_NONE && b[i].kind != TPL_UNDEFINED;
		if (given[i] && b[i].kind != TPL_INT && b[i].kind != TPL_BOOL)
			return tpl_fail(r, "a slice has %s as a bound",
				tpl_kind_name(b[i]));
		at[i] = given[i] ? whole(b[i]) : 0;
	}
	*step = given[2] ? at[2] : 1;
	if (*step == 0 || *step < -INT32_MAX || *step > INT32_MAX)
		return tpl_fail(r, "a slice has a step of zero, or a very long one");
	for (int i = 0; i < 2; i++) {
		int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? count : count - 1;

		if (!given[i]) {
			at[i] = (i == 0) == (*step > 0) ? low : high;
			continue;
		}
		if (at[i] < 0)
			at[i] = at[i] < -count ? low : at[i] + count;
		else if (at[i] > high)
			at[i] = high;
	}
	*begin = at[0];
	*end = at[1];
	return 0;
}

int tpl_slice(struct tpl_run *r, struct tpl_value a, const struct tpl_value *bounds,
	struct tpl_value *out)
{
	struct tpl_list *items, *l;
	int64_t begin, end, step;
	size_t mark;

	if (a.kind == TPL_UNDEFINED || (a.kind != TPL_LIST && a.kind != TPL_STRING))
		return tpl_fail(r, "a slice of %s", tpl_kind_name(a));
	if (a.kind == TPL_STRING && bounds[2].kind == TPL_NONE) {
		size_t from = 0, to;

		if (tpl_steps(r, a.s->len / 64) < 0 ||
			bounds_of(r, bounds, (int64_t)tpl_length(a.s), &begin, &end,
				&step) < 0)
			return -1;
		for (int64_t i = 0; i < begin; i++)
			from = tpl_next_char(a.s, from);
		to = from;
		for (int64_t i = begin; i < end; i++)
			to = tpl_next_char(a.s, to);
		return tpl_part(r, a.s, from, to, out);
	}
	if (tpl_items(r, a, &items) < 0 ||
		bounds_of(r, bounds, (int64_t)items->count, &begin, &end, &step) < 0)
		return -1;
	if (a.kind == TPL_STRING) {
		mark = tpl_mark(r);
		for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
			const struct tpl_string *c = items->items[i].s;

			if (tpl_emit_string(r, c, 0, c->len) < 0)
				return -1;
		}
		return tpl_take(r, mark, out);
	}
	l = tpl_list_new(r, 0);
	if (!l)
		return -1;
	l->tuple = items->tuple;
	for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
		if (tpl_list_push(r, l, items->items[i]) < 0)
			return -1;
	*out = tpl_of_list(l);
	return 0;
}
