/* methods.c - the methods of strings, mappings, loops and lists; long because there are many short
 * ones. */
#include <string.h>

#include "common/lm/template/value.h"

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* The length of white space that begins (or ends) at a place: Unicode's, as Python strips it. */
static size_t space_at(const struct tpl_string *s, size_t at)
{
	static const char *const wide[] = { "\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80",
		"\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
		"\xe3\x80\x80" };

	if (is_space(s->data[at]))
		return 1;
	if (!(s->data[at] & 0x80))
		return 0;
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
		size_t len = strlen(wide[i]);

		if (s->len - at >= len && memcmp(s->data + at, wide[i], len) == 0)
			return len;
	}
	/* U+2000 to U+200A */
	if (s->len - at >= 3 && memcmp(s->data + at, "\xe2\x80", 2) == 0 &&
		(unsigned char)s->data[at + 2] <= 0x8a)
		return 3;
	return 0;
}

static size_t strippable(const struct tpl_string *s, size_t at, size_t len,
	const struct tpl_string *chars)
{
	if (!chars)
		return space_at(s, at) == len ? len : 0;
	return len && memmem(chars->data, chars->len, s->data + at, len) ? len : 0;
}

int tpl_strip(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_string *chars, bool left, bool right, struct tpl_value *out)
{
	size_t begin = 0, end = s->len;

	while (left && begin < end) {
		size_t len = tpl_next_char(s, begin) - begin;

		if (!strippable(s, begin, len, chars))
			break;
		begin += len;
	}
	while (right && end > begin) {
		size_t at = end - 1;

		while (at > begin && (s->data[at] & 0xc0) == 0x80)
			at--;
		if (!strippable(s, at, end - at, chars))
			break;
		end = at;
	}
	if (tpl_steps(r,
		    (begin + s->len - end) / 64 * (chars ? chars->len / 16 + 1 : 1)) < 0)
		return -1;
	return tpl_part(r, s, begin, end, out);
}

int tpl_replace(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_string *from, const struct tpl_string *to, int64_t max,
	struct tpl_value *out)
{
	size_t mark = tpl_mark(r), done = 0;

	if (tpl_steps(r, s->len / 64) < 0)
		return -1;
	while (max-- != 0 && done <= s->len) {
		size_t at, next;

		if (from->len) {
			const char *found = done < s->len ?
				memmem(s->data + done, s->len - done, from->data,
					from->len) :
				NULL;
			if (!found)
				break;
			at = (size_t)(found - s->data);
			next = at + from->len;
			if (tpl_emit_string(r, s, done, at) < 0 ||
				tpl_emit_string(r, to, 0, to->len) < 0)
				return -1;
		} else { /* between all characters */
			next = done < s->len ? tpl_next_char(s, done) : done + 1;
			if (tpl_emit_string(r, to, 0, to->len) < 0 ||
				(done < s->len && tpl_emit_string(r, s, done, next) < 0))
				return -1;
		}
		done = next;
		if (tpl_steps(r, 1) < 0)
			return -1;
	}
	if (done < s->len && tpl_emit_string(r, s, done, s->len) < 0)
		return -1;
	return tpl_take(r, mark, out);
}

/* Latin, Greek and Cyrillic letters of two bytes; others have no case here. */
static unsigned change_case(unsigned c, bool upper)
{
	if (c < 0x80)
		return upper ? (c >= 'a' && c <= 'z' ? c - 32 : c) :
			       (c >= 'A' && c <= 'Z' ? c + 32 : c);
	if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
		(c >= 0x410 && c <= 0x42f))
		return upper ? c : c + 32;
	if ((c >= 0xe0 && c <= 0xfe && c != 0xf7) ||
		(c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
		return upper ? c - 32 : c;
	if ((c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) ||
		(c >= 0x14a && c <= 0x177))
		return upper ? c & ~1u : c | 1u;
	if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e))
		return upper ? (c % 2 ? c : c - 1) : (c % 2 ? c + 1 : c);
	if (c >= 0x400 && c <= 0x40f)
		return upper ? c : c + 80;
	if (c >= 0x450 && c <= 0x45f)
		return upper ? c - 80 : c;
	return c;
}

int tpl_case(struct tpl_run *r, const struct tpl_string *s, enum tpl_case to,
	struct tpl_value *out)
{
	size_t mark = tpl_mark(r);
	bool begins = true;

	if (tpl_emit_string(r, s, 0, s->len) < 0 || tpl_steps(r, s->len / 64) < 0)
		return -1;
	for (size_t i = 0, next; i < s->len; i = next) {
		unsigned char *at = (unsigned char *)r->out->text.data + mark + i;
		bool upper = to == TPL_UPPER || (to != TPL_LOWER && begins);

		next = tpl_next_char(s, i);
		if (next - i == 1) {
			unsigned char c = *at;

			*at = (unsigned char)change_case(c, upper);
			begins = to == TPL_TITLE &&
				(is_space((char)c) || strchr("-([{<", c));
		} else {
			begins = false;
			if (next - i == 2) {
				unsigned c = change_case((at[0] & 31u) << 6 |
						(at[1] & 63u),
					upper);

				at[0] = (unsigned char)(0xc0 | c >> 6);
				at[1] = (unsigned char)(0x80 | (c & 63));
			}
		}
	}
	return tpl_take(r, mark, out);
}

/* --- methods ------------------------------------------------------------------------------ */

enum method {
	M_STRIP,
	M_LSTRIP,
	M_RSTRIP,
	M_SPLIT,
	M_RSPLIT,
	M_SPLITLINES,
	M_PARTITION,
	M_STARTSWITH,
	M_ENDSWITH,
	M_REPLACE,
	M_UPPER,
	M_LOWER,
	M_TITLE,
	M_CAPITALIZE,
	M_FIND,
	M_RFIND,
	M_INDEX,
	M_COUNT,
	M_JOIN,
	M_REMOVEPREFIX,
	M_REMOVESUFFIX,
	M_ISDIGIT,
	M_ISALPHA,
	M_ISALNUM,
	M_ISSPACE,
	M_ISUPPER,
	M_ISLOWER,
	M_ITEMS,
	M_KEYS,
	M_VALUES,
	M_GET,
	M_CYCLE,
	M_CHANGED,
	M_CHANGES /* append, pop and others, which the sandbox refuses */
};

static const struct {
	const char *name;
	enum method method;
} methods[] = { { "strip", M_STRIP }, { "lstrip", M_LSTRIP }, { "rstrip", M_RSTRIP },
	{ "split", M_SPLIT }, { "rsplit", M_RSPLIT }, { "splitlines", M_SPLITLINES },
	{ "partition", M_PARTITION }, { "startswith", M_STARTSWITH },
	{ "endswith", M_ENDSWITH }, { "replace", M_REPLACE }, { "upper", M_UPPER },
	{ "lower", M_LOWER }, { "title", M_TITLE }, { "capitalize", M_CAPITALIZE },
	{ "find", M_FIND }, { "rfind", M_RFIND }, { "index", M_INDEX },
	{ "count", M_COUNT }, { "join", M_JOIN }, { "removeprefix", M_REMOVEPREFIX },
	{ "removesuffix", M_REMOVESUFFIX }, { "isdigit", M_ISDIGIT },
	{ "isalpha", M_ISALPHA }, { "isalnum", M_ISALNUM }, { "isspace", M_ISSPACE },
	{ "isupper", M_ISUPPER }, { "islower", M_ISLOWER }, { "isnumeric", M_ISDIGIT },
	{ "isdecimal", M_ISDIGIT }, { "items", M_ITEMS }, { "keys", M_KEYS },
	{ "values", M_VALUES }, { "get", M_GET }, { "cycle", M_CYCLE },
	{ "changed", M_CHANGED }, { "append", M_CHANGES }, { "pop", M_CHANGES },
	{ "extend", M_CHANGES }, { "insert", M_CHANGES }, { "update", M_CHANGES },
	{ "remove", M_CHANGES }, { "clear", M_CHANGES }, { "setdefault", M_CHANGES },
	{ "reverse", M_CHANGES }, { "sort", M_CHANGES } };

int tpl_method_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (strlen(methods[i].name) == len &&
			memcmp(methods[i].name, name, len) == 0)
			return (int)i;
	return -1;
}

static int push_part(struct tpl_run *r, struct tpl_list *l, const struct tpl_string *s,
	size_t begin, size_t end)
{
	struct tpl_value part;

	return tpl_part(r, s, begin, end, &part) < 0 ? -1 : tpl_list_push(r, l, part);
}

/* split without a separator: at white space, without empty parts */
static int split_words(struct tpl_run *r, const struct tpl_string *s, int64_t max,
	struct tpl_list *l)
{
	size_t at = 0, begin;

	for (;;) {
		while (at < s->len && space_at(s, at))
			at += space_at(s, at);
		if (at >= s->len)
			return 0;
		if (max-- == 0) {
			size_t end = s->len;

			while (end > at && is_space(s->data[end - 1]))
				end--;
			return push_part(r, l, s, at, end);
		}
		begin = at;
		while (at < s->len && !space_at(s, at))
			at = tpl_next_char(s, at);
		if (push_part(r, l, s, begin, at) < 0)
			return -1;
	}
}

static int split(struct tpl_run *r, const struct tpl_string *s, const struct tpl_args *a,
	bool from_right, struct tpl_value *out)
{
	const struct tpl_value *by = tpl_arg(r, a, 0, "sep");
	struct tpl_list *l = tpl_list_new(r, 2);
	size_t begin = 0, n = 0, skip = 0;
	int64_t max;

	if (!l || tpl_arg_int(r, a, 1, "maxsplit", -1, &max) < 0 ||
		tpl_steps(r, s->len / 64) < 0)
		return -1;
	*out = tpl_of_list(l);
	if (!by || by->kind == TPL_NONE) {
		if (from_right && max >= 0)
			return tpl_fail(r, "rsplit needs a separator");
		return split_words(r, s, max, l);
	}
	if (by->kind != TPL_STRING || !by->s->len)
		return tpl_fail(r, "split: the separator is empty, or no string");
	if (from_right && max >= 0) { /* the first ones are not split at */
		for (const char *p = s->data; s->len &&
			(p = memmem(p, (size_t)(s->data + s->len - p), by->s->data,
				 by->s->len));
			p += by->s->len)
			n++;
		skip = n > (size_t)max ? n - (size_t)max : 0;
		max = -1;
	}
	for (size_t at = 0; at < s->len && max;) {
		const char *found = memmem(s->data + at, s->len - at, by->s->data,
			by->s->len);

		if (!found)
			break;
		at = (size_t)(found - s->data) + by->s->len;
		if (skip) {
			skip--;
			continue;
		}
		if (push_part(r, l, s, begin, at - by->s->len) < 0)
			return -1;
		begin = at;
		max -= max > 0;
	}
	return push_part(r, l, s, begin, s->len);
}

static int splitlines(struct tpl_run *r, const struct tpl_string *s,
	struct tpl_value *out)
{
	struct tpl_list *l = tpl_list_new(r, 2);
	size_t begin = 0;

	if (!l)
		return -1;
	for (size_t i = 0; i < s->len; i++) {
		if (s->data[i] != '\n' && s->data[i] != '\r')
			continue;
		if (push_part(r, l, s, begin, i) < 0)
			return -1;
		if (s->data[i] == '\r' && i + 1 < s->len && s->data[i + 1] == '\n')
			i++;
		begin = i + 1;
	}
	*out = tpl_of_list(l);
	return begin < s->len ? push_part(r, l, s, begin, s->len) : 0;
}

static int affix(struct tpl_run *r, const struct tpl_string *s, const struct tpl_value *v,
	bool end)
{
	if (v && v->kind == TPL_LIST) {
		for (size_t i = 0; i < v->list->count; i++)
			if (v->list->items[i].kind == TPL_STRING &&
				affix(r, s, &v->list->items[i], end) > 0)
				return 1;
		return tpl_steps(r, v->list->count);
	}
	if (!v || v->kind != TPL_STRING)
		return tpl_fail(r, "startswith and endswith need a string");
	return v->s->len <= s->len &&
		(!v->s->len ||
			memcmp(s->data + (end ? s->len - v->s->len : 0), v->s->data,
				v->s->len) == 0);
}

/* Where text begins in s, in characters, or -1. */
static int find(struct tpl_run *r, const struct tpl_string *s, const struct tpl_value *v,
	bool last, int64_t *out)
{
	const char *found = NULL, *p = s->data;

	*out = -1;
	if (!v || v->kind != TPL_STRING)
		return tpl_fail(r, "find needs a string");
	if (tpl_steps(r, s->len / 64) < 0)
		return -1;
	if (!s->len || !v->s->len) {
		*out = v->s->len ? -1 : last ? (int64_t)tpl_length(s) : 0;
		return 0;
	}
	while ((p = memmem(p, (size_t)(s->data + s->len - p), v->s->data, v->s->len))) {
		found = p++;
		if (!last)
			break;
	}
	if (found) {
		struct tpl_string before = { .data = s->data,
			.len = (size_t)(found - s->data) };

		*out = (int64_t)tpl_length(&before);
	}
	return 0;
}

static bool all(const struct tpl_string *s, enum method m)
{
	for (size_t i = 0; i < s->len; i++) {
		char c = s->data[i];
		bool digit = c >= '0' && c <= '9';
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c & 0x80);

		if (m == M_ISDIGIT             ? !digit :
				m == M_ISALPHA ? !letter :
				m == M_ISALNUM ? !letter && !digit :
						 !is_space(c))
			return false;
	}
	return s->len > 0;
}

static int remove_affix(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_value *v, bool end, struct tpl_value *out)
{
	int is = affix(r, s, v, end);

	if (is < 0)
		return -1;
	if (!is || v->kind != TPL_STRING)
		return tpl_part(r, s, 0, s->len, out);
	return end ? tpl_part(r, s, 0, s->len - v->s->len, out) :
		     tpl_part(r, s, v->s->len, s->len, out);
}

static int partition(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_value *v, struct tpl_value *out)
{
	struct tpl_list *l = tpl_list_new(r, 3);
	const char *found;
	size_t at, len;

	if (!v || v->kind != TPL_STRING || !v->s->len)
		return tpl_fail(r, "partition needs a separator");
	found = s->len ? memmem(s->data, s->len, v->s->data, v->s->len) : NULL;
	at = found ? (size_t)(found - s->data) : s->len;
	len = found ? v->s->len : 0;
	if (!l || push_part(r, l, s, 0, at) < 0 || push_part(r, l, s, at, at + len) < 0 ||
		push_part(r, l, s, at + len, s->len) < 0)
		return -1;
	l->tuple = true;
	*out = tpl_of_list(l);
	return 0;
}

static int count(struct tpl_run *r, const struct tpl_string *s, const struct tpl_value *v,
	int64_t *out)
{
	const char *p = s->data;

	*out = 0;
	if (!v || v->kind != TPL_STRING || !v->s->len)
		return tpl_fail(r, "count needs a string");
	while (s->len &&
		(p = memmem(p, (size_t)(s->data + s->len - p), v->s->data, v->s->len))) {
		p += v->s->len;
		++*out;
	}
	return tpl_steps(r, s->len / 64);
}

static int text_method(struct tpl_run *r, enum method m, const struct tpl_string *s,
	const struct tpl_args *a, struct tpl_value *out)
{
	const struct tpl_value *v = tpl_arg(r, a, 0, NULL), *to = tpl_arg(r, a, 1, NULL);
	struct tpl_value self = { .kind = TPL_STRING, .s = s };
	int64_t n = 0;
	int is;

	switch (m) {
	case M_STRIP:
	case M_LSTRIP:
	case M_RSTRIP:
		if (v && v->kind != TPL_STRING && v->kind != TPL_NONE)
			return tpl_fail(r, "strip: %s as characters", tpl_kind_name(*v));
		return tpl_strip(r, s, v && v->kind == TPL_STRING ? v->s : NULL,
			m != M_RSTRIP, m != M_LSTRIP, out);
	case M_SPLIT:
	case M_RSPLIT:
		return split(r, s, a, m == M_RSPLIT, out);
	case M_SPLITLINES:
		return splitlines(r, s, out);
	case M_PARTITION:
		return partition(r, s, v, out);
	case M_STARTSWITH:
	case M_ENDSWITH:
		is = affix(r, s, v, m == M_ENDSWITH);
		*out = tpl_bool(is > 0);
		return is < 0 ? -1 : 0;
	case M_REPLACE:
		if (!v || !to || v->kind != TPL_STRING || to->kind != TPL_STRING)
			return tpl_fail(r, "replace needs two strings");
		if (tpl_arg_int(r, a, 2, "count", -1, &n) < 0)
			return -1;
		return tpl_replace(r, s, v->s, to->s, n, out);
	case M_UPPER:
		return tpl_case(r, s, TPL_UPPER, out);
	case M_LOWER:
		return tpl_case(r, s, TPL_LOWER, out);
	case M_TITLE:
		return tpl_case(r, s, TPL_TITLE, out);
	case M_CAPITALIZE:
		return tpl_case(r, s, TPL_CAPITAL, out);
	case M_FIND:
	case M_RFIND:
	case M_INDEX:
		if (find(r, s, v, m == M_RFIND, &n) < 0)
			return -1;
		if (m == M_INDEX && n < 0)
			return tpl_fail(r, "index: there is no such text");
		break;
	case M_COUNT:
		if (count(r, s, v, &n) < 0)
			return -1;
		break;
	case M_JOIN: {
		struct tpl_args by = { .positional = &self, .count = 1 };

		return tpl_filter(r, (unsigned)tpl_filter_find("join", 4),
			v ? *v : tpl_undefined("join"), &by, out);
	}
	case M_REMOVEPREFIX:
	case M_REMOVESUFFIX:
		return remove_affix(r, s, v, m == M_REMOVESUFFIX, out);
	case M_ISDIGIT:
	case M_ISALPHA:
	case M_ISALNUM:
	case M_ISSPACE:
		*out = tpl_bool(all(s, m));
		return tpl_steps(r, s->len / 64);
	case M_ISUPPER:
	case M_ISLOWER: {
		struct tpl_args none = { 0 };

		is = tpl_test(r,
			(unsigned)(m == M_ISUPPER ? tpl_test_find("upper", 5) :
						    tpl_test_find("lower", 5)),
			self, &none);
		*out = tpl_bool(is > 0);
		return is < 0 ? -1 : 0;
	}
	default:
		return tpl_fail(r, "a string has no such method");
	}
	*out = tpl_int(n, LM_FROM_TEMPLATE);
	return 0;
}

static int map_method(struct tpl_run *r, enum method m, struct tpl_value on,
	const struct tpl_args *a, struct tpl_value *out)
{
	const struct tpl_value *key = tpl_arg(r, a, 0, NULL),
			       *unless = tpl_arg(r, a, 1, NULL);
	struct tpl_args none = { 0 };
	const struct tpl_value *found;
	struct tpl_list *l;

	switch (m) {
	case M_ITEMS:
		return tpl_filter(r, (unsigned)tpl_filter_find("items", 5), on, &none,
			out);
	case M_KEYS:
		if (tpl_items(r, on, &l) < 0)
			return -1;
		*out = tpl_of_list(l);
		return 0;
	case M_VALUES:
		l = tpl_list_new(r, on.map->count);
		if (!l)
			return -1;
		for (size_t i = 0; i < on.map->count; i++)
			if (tpl_list_push(r, l, on.map->pairs[i].value) < 0)
				return -1;
		*out = tpl_of_list(l);
		return 0;
	case M_GET:
		if (!key)
			return tpl_fail(r, "get needs a key");
		found = tpl_map_get(r, on.map, *key);
		*out = found ? *found : unless ? *unless : tpl_none();
		return tpl_steps(r, 1);
	default:
		return tpl_fail(r, "a mapping has no such method");
	}
}

static int loop_method(struct tpl_run *r, enum method m, struct tpl_loop *loop,
	const struct tpl_args *a, struct tpl_value *out)
{
	int same;

	if (m == M_CYCLE) {
		if (!a->count)
			return tpl_fail(r, "cycle needs values");
		*out = a->positional[loop->index % a->count];
		return 0;
	}
	if (m != M_CHANGED || a->count != 1)
		return tpl_fail(r, "a loop has no such method");
	same = loop->has_changed ? tpl_equal(r, loop->changed, a->positional[0]) : 0;
	loop->changed = a->positional[0];
	loop->has_changed = true;
	*out = tpl_bool(!same);
	return same < 0 ? -1 : 0;
}

static int list_method(struct tpl_run *r, enum method m, const struct tpl_list *l,
	struct tpl_value item, struct tpl_value *out)
{
	int64_t n = m == M_COUNT ? 0 : -1;

	for (size_t i = 0; i < l->count && (m == M_COUNT || n < 0); i++) {
		int same = tpl_equal(r, l->items[i], item);

		if (same < 0)
			return -1;
		if (same)
			n = m == M_COUNT ? n + 1 : (int64_t)i;
	}
	if (n < 0)
		return tpl_fail(r, "index: there is no such item");
	*out = tpl_int(n, LM_FROM_TEMPLATE);
	return 0;
}

int tpl_method(struct tpl_run *r, unsigned number, struct tpl_value on,
	const struct tpl_args *a, struct tpl_value *out)
{
	enum method m = methods[number].method;

	if (tpl_steps(r, 1) < 0)
		return -1;
	if (on.kind == TPL_UNDEFINED)
		return tpl_fail(r, "'%s' of '%s', which is undefined",
			methods[number].name, on.name ? on.name : "a value");
	if (m == M_CHANGES)
		return tpl_fail(r, "'%s' would change a value, which templates may not",
			methods[number].name);
	if (on.kind == TPL_STRING && m < M_ITEMS)
		return text_method(r, m, on.s, a, out);
	if (on.kind == TPL_MAP && m >= M_ITEMS)
		return map_method(r, m, on, a, out);
	if (on.kind == TPL_LOOP)
		return loop_method(r, m, on.loop, a, out);
	if (on.kind == TPL_LIST && (m == M_COUNT || m == M_INDEX) && a->count == 1)
		return list_method(r, m, on.list, a->positional[0], out);
	return tpl_fail(r, "%s has no method '%s'", tpl_kind_name(on),
		methods[number].name);
}
