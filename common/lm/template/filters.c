/* filters.c - the filters that templates may use: long because there are many short ones, and one
 * table names them all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/template/value.h"

/* --- arguments ---------------------------------------------------------------------------- */

const struct tpl_value *tpl_arg(const struct tpl_run *r, const struct tpl_args *a,
	size_t at, const char *name)
{
	if (at < a->count)
		return &a->positional[at];
	for (size_t i = 0; name && i < a->keyword_count; i++)
		if (strcmp(r->t->names[a->keywords[i].name], name) == 0)
			return &a->keywords[i].value;
	return NULL;
}

int tpl_arg_int(struct tpl_run *r, const struct tpl_args *a, size_t at, const char *name,
	int64_t unless, int64_t *out)
{
	const struct tpl_value *v = tpl_arg(r, a, at, name);

	*out = unless;
	if (!v || v->kind == TPL_NONE)
		return 0;
	if (v->kind != TPL_INT && v->kind != TPL_BOOL)
		return tpl_fail(r, "'%s' is %s", name, tpl_kind_name(*v));
	*out = v->kind == TPL_INT ? v->i : v->b;
	return 0;
}

static bool tpl_arg_true(const struct tpl_run *r, const struct tpl_args *a, size_t at,
	const char *name, bool unless)
{
	const struct tpl_value *v = tpl_arg(r, a, at, name);

	return v ? tpl_true(*v) : unless;
}

typedef int (*filter_fn)(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out);

/* --- text --------------------------------------------------------------------------------- */

static int f_string(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_string *s;

	(void)a;
	if (tpl_to_string(r, v, &s) < 0)
		return -1;
	*out = (struct tpl_value){ .kind = TPL_STRING, .s = s };
	return 0;
}

static int cased(struct tpl_run *r, struct tpl_value v, enum tpl_case to,
	struct tpl_value *out)
{
	const struct tpl_string *s;

	return tpl_to_string(r, v, &s) < 0 ? -1 : tpl_case(r, s, to, out);
}

static int f_upper(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	(void)a;
	return cased(r, v, TPL_UPPER, out);
}

static int f_lower(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	(void)a;
	return cased(r, v, TPL_LOWER, out);
}

static int f_capitalize(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	(void)a;
	return cased(r, v, TPL_CAPITAL, out);
}

static int f_title(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	(void)a;
	return cased(r, v, TPL_TITLE, out);
}

static int f_trim(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *chars = tpl_arg(r, a, 0, "chars");
	const struct tpl_string *s;

	if (chars && chars->kind != TPL_STRING && chars->kind != TPL_NONE)
		return tpl_fail(r, "trim: %s as characters", tpl_kind_name(*chars));
	if (tpl_to_string(r, v, &s) < 0)
		return -1;
	return tpl_strip(r, s, chars && chars->kind == TPL_STRING ? chars->s : NULL, true,
		true, out);
}

static int f_replace(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *from = tpl_arg(r, a, 0, "old"),
			       *to = tpl_arg(r, a, 1, "new");
	const struct tpl_string *s;
	int64_t max;

	if (!from || !to || from->kind != TPL_STRING || to->kind != TPL_STRING)
		return tpl_fail(r, "replace needs two strings");
	if (tpl_to_string(r, v, &s) < 0 || tpl_arg_int(r, a, 2, "count", -1, &max) < 0)
		return -1;
	return tpl_replace(r, s, from->s, to->s, max, out);
}

static int f_indent(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *width = tpl_arg(r, a, 0, "width");
	bool first = tpl_arg_true(r, a, 1, "first", false);
	bool blank = tpl_arg_true(r, a, 2, "blank", false);
	size_t mark = tpl_mark(r), begin = 0;
	struct tpl_value pad;
	const struct tpl_string *s;

	if (width && width->kind == TPL_STRING) {
		pad = *width;
	} else {
		int64_t n;
		size_t here = tpl_mark(r);

		if (tpl_arg_int(r, a, 0, "width", 4, &n) < 0)
			return -1;
		for (int64_t i = 0; i < n; i++)
			if (tpl_steps(r, 1) < 0 ||
				tpl_emit(r, " ", 1, LM_FROM_TEMPLATE) < 0)
				return -1;
		if (tpl_take(r, here, &pad) < 0)
			return -1;
	}
	if (tpl_to_string(r, v, &s) < 0)
		return -1;
	while (begin <= s->len) {
		const char *line = begin < s->len ?
			memchr(s->data + begin, '\n', s->len - begin) :
			NULL;
		size_t end = line ? (size_t)(line - s->data) + 1 : s->len;
		bool empty = begin == end || s->data[begin] == '\n';

		if ((begin ? !empty || blank : first) &&
			tpl_emit_string(r, pad.s, 0, pad.s->len) < 0)
			return -1;
		if (tpl_steps(r, 1) < 0 || tpl_emit_string(r, s, begin, end) < 0)
			return -1;
		if (!line)
			break;
		begin = end;
	}
	return tpl_take(r, mark, out);
}

int tpl_escape(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
	static const char from[] = "&<>\"'",
			  *const to[] = { "&amp;", "&lt;", "&gt;", "&#34;", "&#39;" };
	size_t mark = tpl_mark(r), done = 0;

	for (size_t i = 0; i < s->len; i++) {
		const char *known = s->data[i] ? strchr(from, s->data[i]) : NULL;
		const char *text = known ? to[known - from] : NULL;

		if (!text)
			continue;
		if (tpl_emit_string(r, s, done, i) < 0 ||
			tpl_emit(r, text, strlen(text), LM_FROM_INPUT) < 0)
			return -1;
		done = i + 1;
	}
	if (tpl_emit_string(r, s, done, s->len) < 0 || tpl_take(r, mark, out) < 0)
		return -1;
	((struct tpl_string *)out->s)->safe = true;
	return 0;
}

static int f_forceescape(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_string *s;

	(void)a;
	return tpl_to_string(r, v, &s) < 0 ? -1 : tpl_escape(r, s, out);
}

static int f_escape(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	if (v.kind != TPL_STRING || !v.s->safe)
		return f_forceescape(r, v, a, out);
	*out = v;
	return 0;
}

static int f_safe(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_string *s;
	struct tpl_string *copy = tpl_alloc(r, sizeof *copy);

	(void)a;
	if (!copy || tpl_to_string(r, v, &s) < 0)
		return -1;
	*copy = *s;
	copy->safe = true;
	*out = (struct tpl_value){ .kind = TPL_STRING, .s = copy };
	return 0;
}

static int f_tojson(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *indent = tpl_arg(r, a, 1, "indent");
	const struct tpl_value *ascii = tpl_arg(r, a, 0, "ensure_ascii");
	const struct tpl_value *separators = tpl_arg(r, a, 2, "separators");
	struct tpl_json_style style = { .indent = -1,
		.item = ", ",
		.item_len = 2,
		.colon = ": ",
		.colon_len = 2,
		.sorted = tpl_arg_true(r, a, 3, "sort_keys", false) };
	size_t mark = tpl_mark(r);

	/* tojson(4) is Jinja's own tojson(indent=4) */
	if (a->count == 1 && ascii->kind == TPL_INT) {
		indent = ascii;
		ascii = NULL;
	}
	style.ascii = ascii && tpl_true(*ascii);
	if (indent && indent->kind == TPL_INT) {
		if (indent->i > 64)
			return tpl_fail(r, "tojson: an indent of more than 64");
		style.indent = indent->i < 0 ? 0 : (int)indent->i;
		style.item_len = 1;
	}
	if (separators && separators->kind == TPL_LIST && separators->list->count == 2 &&
		separators->list->items[0].kind == TPL_STRING &&
		separators->list->items[1].kind == TPL_STRING) {
		style.item = separators->list->items[0].s->data;
		style.item_len = separators->list->items[0].s->len;
		style.colon = separators->list->items[1].s->data;
		style.colon_len = separators->list->items[1].s->len;
	}
	return tpl_emit_json(r, v, &style, 0) < 0 ? -1 : tpl_take(r, mark, out);
}

/* --- numbers ------------------------------------------------------------------------------ */

static int f_int(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	char text[64], *end;
	int64_t unless;
	double f;

	if (tpl_arg_int(r, a, 0, "default", 0, &unless) < 0)
		return -1;
	*out = tpl_int(unless, LM_FROM_TEMPLATE);
	if (tpl_is_number(v)) {
		f = tpl_number(v);
		if (v.kind != TPL_FLOAT)
			*out = tpl_int(v.kind == TPL_INT ? v.i : v.b, v.origin);
		else if (f > -9e18 && f < 9e18)
			*out = tpl_int((int64_t)f, v.origin);
		return 0;
	}
	if (v.kind != TPL_STRING || v.s->len >= sizeof text || !v.s->len)
		return 0;
	memcpy(text, v.s->data, v.s->len);
	text[v.s->len] = '\0';
	f = strtod(text, &end);
	while (*end == ' ' || *end == '\n' || *end == '\t')
		end++;
	if (end != text && !*end && f > -9e18 && f < 9e18 && !strpbrk(text, "xXnN"))
		*out = tpl_int(strpbrk(text, ".eE") ? (int64_t)f :
						      strtoll(text, NULL, 10),
			tpl_origin(v));
	return 0;
}

static int f_float(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *unless = tpl_arg(r, a, 0, "default");
	char text[64], *end;
	double f;

	*out = unless ? *unless : tpl_float(0, LM_FROM_TEMPLATE);
	if (tpl_is_number(v)) {
		*out = tpl_float(tpl_number(v), v.origin);
		return 0;
	}
	if (v.kind != TPL_STRING || v.s->len >= sizeof text || !v.s->len)
		return 0;
	memcpy(text, v.s->data, v.s->len);
	text[v.s->len] = '\0';
	f = strtod(text, &end);
	if (end != text && !*end && !strpbrk(text, "xX"))
		*out = tpl_float(f, tpl_origin(v));
	return 0;
}

static int f_abs(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	(void)a;
	if (!tpl_is_number(v))
		return tpl_fail(r, "abs of %s", tpl_kind_name(v));
	if (v.kind == TPL_FLOAT)
		*out = tpl_float(fabs(v.f), v.origin);
	else if (tpl_number(v) < 0)
		return tpl_binary(r, OP_SUB, tpl_int(0, v.origin), v, out);
	else
		*out = v;
	return 0;
}

static int f_round(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *how = tpl_arg(r, a, 1, "method");
	int64_t digits;
	double scale, f;

	if (!tpl_is_number(v))
		return tpl_fail(r, "round of %s", tpl_kind_name(v));
	if (tpl_arg_int(r, a, 0, "precision", 0, &digits) < 0)
		return -1;
	if (digits < -15 || digits > 15)
		return tpl_fail(r, "round: a precision beyond 15");
	if (v.kind != TPL_FLOAT && digits >= 0 && !how) {
		*out = v;
		return 0;
	}
	scale = pow(10, (double)digits);
	f = tpl_number(v) * scale;
	f = how && tpl_is(*how, "ceil")      ? ceil(f) :
		how && tpl_is(*how, "floor") ? floor(f) :
					       nearbyint(f);
	*out = tpl_float(f / scale, v.origin);
	return 0;
}

/* --- lists -------------------------------------------------------------------------------- */

static int f_length(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	size_t n;

	(void)a;
	switch (v.kind) {
	case TPL_STRING:
		if (tpl_steps(r, v.s->len / 64) < 0)
			return -1;
		n = tpl_length(v.s);
		break;
	case TPL_LIST:
		n = v.list->count;
		break;
	case TPL_MAP:
		n = v.map->count;
		break;
	case TPL_UNDEFINED:
		n = 0;
		break;
	default:
		return tpl_fail(r, "length of %s", tpl_kind_name(v));
	}
	*out = tpl_int((int64_t)n, LM_FROM_TEMPLATE);
	return 0;
}

static int f_default(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *unless = tpl_arg(r, a, 0, "default_value");
	bool falsy = tpl_arg_true(r, a, 1, "boolean", false);

	*out = v;
	if (v.kind == TPL_UNDEFINED || (falsy && !tpl_true(v))) {
		if (unless)
			*out = *unless;
		else
			return tpl_text(r, "", 0, LM_FROM_TEMPLATE, true, out);
	}
	return 0;
}

/* A list of its own: filters never change what they get. */
static int list_copy(struct tpl_run *r, struct tpl_value v, struct tpl_list **out)
{
	struct tpl_list *items, *l;

	if (tpl_items(r, v, &items) < 0)
		return -1;
	l = tpl_list_new(r, items->count);
	if (!l || tpl_steps(r, items->count) < 0)
		return -1;
	if (items->count)
		memcpy(l->items, items->items, items->count * sizeof *l->items);
	l->count = items->count;
	*out = l;
	return 0;
}

static int f_list(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct tpl_list *l;

	(void)a;
	if (list_copy(r, v, &l) < 0)
		return -1;
	*out = tpl_of_list(l);
	return 0;
}

static int f_reverse(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value back[3] = { tpl_none(), tpl_none(),
		tpl_int(-1, LM_FROM_TEMPLATE) };
	struct tpl_list *l;

	(void)a;
	if (v.kind == TPL_STRING)
		return tpl_slice(r, v, back, out);
	return list_copy(r, v, &l) < 0 ? -1 : tpl_slice(r, tpl_of_list(l), back, out);
}

static int f_first(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct tpl_list *items;

	(void)a;
	if (tpl_items(r, v, &items) < 0)
		return -1;
	*out = items->count ? items->items[0] : tpl_undefined("first");
	return 0;
}

static int f_last(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct tpl_list *items;

	(void)a;
	if (tpl_items(r, v, &items) < 0)
		return -1;
	*out = items->count ? items->items[items->count - 1] : tpl_undefined("last");
	return 0;
}

/* A value's attribute "a.b.0", or an item by number. */
static int attribute(struct tpl_run *r, struct tpl_value v, struct tpl_value path,
	struct tpl_value *out)
{
	size_t begin = 0;

	*out = v;
	if (path.kind == TPL_INT)
		return tpl_item(r, v, path, out);
	if (path.kind != TPL_STRING)
		return tpl_fail(r, "%s as an attribute", tpl_kind_name(path));
	while (begin <= path.s->len) {
		const char *dot = begin < path.s->len ?
			memchr(path.s->data + begin, '.', path.s->len - begin) :
			NULL;
		size_t end = dot ? (size_t)(dot - path.s->data) : path.s->len;
		struct tpl_value key, number;

		if (out->kind == TPL_UNDEFINED && begin)
			return 0;
		if (tpl_part(r, path.s, begin, end, &key) < 0)
			return -1;
		if (end > begin && path.s->data[begin] >= '0' &&
			path.s->data[begin] <= '9') {
			struct tpl_args none = { 0 };

			if (f_int(r, key, &none, &number) < 0)
				return -1;
			key = number;
		}
		if (tpl_item(r, *out, key, out) < 0)
			return -1;
		begin = end + 1;
	}
	return 0;
}

static int f_join(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *by = tpl_arg(r, a, 0, "d"),
			       *path = tpl_arg(r, a, 1, "attribute");
	size_t mark = tpl_mark(r);
	struct tpl_list *items;

	if (tpl_items(r, v, &items) < 0)
		return -1;
	for (size_t i = 0; i < items->count; i++) {
		struct tpl_value item = items->items[i];

		if (path && path->kind != TPL_NONE &&
			attribute(r, item, *path, &item) < 0)
			return -1;
		if (tpl_steps(r, 1) < 0 || (i && by && tpl_emit_value(r, *by) < 0) ||
			tpl_emit_value(r, item) < 0)
			return -1;
	}
	return tpl_take(r, mark, out);
}

static int f_items(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct tpl_list *l = tpl_list_new(r, 0);

	(void)a;
	if (!l)
		return -1;
	if (v.kind != TPL_MAP && v.kind != TPL_UNDEFINED)
		return tpl_fail(r, "items of %s", tpl_kind_name(v));
	for (size_t i = 0; v.kind == TPL_MAP && i < v.map->count; i++) {
		struct tpl_list *pair = tpl_list_new(r, 2);

		if (!pair || tpl_list_push(r, pair, v.map->pairs[i].key) < 0 ||
			tpl_list_push(r, pair, v.map->pairs[i].value) < 0 ||
			tpl_list_push(r, l, tpl_of_list(pair)) < 0)
			return -1;
		pair->tuple = true;
	}
	*out = tpl_of_list(l);
	return 0;
}

/* --- sorting: a merge sort, for comparing may fail ---------------------------------------- */

struct sorting {
	struct tpl_run *r;
	const struct tpl_value *path; /* or NULL */
	bool reverse, fold;           /* fold: upper and lower case are the same */
	size_t by; /* of pairs: the item that counts, 0 or 1; 2: no pairs */
};

static int sort_key(const struct sorting *s, struct tpl_value v, struct tpl_value *out)
{
	*out = s->by < 2 ? v.list->items[s->by] : v;
	if (s->path && attribute(s->r, *out, *s->path, out) < 0)
		return -1;
	return s->fold && out->kind == TPL_STRING ?
		tpl_case(s->r, out->s, TPL_LOWER, out) :
		0;
}

static int merge_sort(const struct sorting *s, struct tpl_value *v,
	struct tpl_value *keys, size_t n, struct tpl_value *space)
{
	size_t half = n / 2, i = 0, j = half, k = 0;

	if (n < 2)
		return 0;
	if (merge_sort(s, v, keys, half, space) < 0 ||
		merge_sort(s, v + half, keys + half, n - half, space) < 0 ||
		tpl_steps(s->r, n) < 0)
		return -1;
	while (i < half || j < n) {
		int order = i == half ? 1 : -1;

		if (i < half && j < n && tpl_order(s->r, keys[i], keys[j], &order) < 0)
			return -1;
		if (i < half && j < n && s->reverse)
			order = -order;
		space[k] = order <= 0 ? v[i] : v[j];
		space[n + k++] = order <= 0 ? keys[i] : keys[j];
		*(order <= 0 ? &i : &j) += 1;
	}
	memcpy(v, space, n * sizeof *v);
	memcpy(keys, space + n, n * sizeof *keys);
	return 0;
}

static int sort(const struct sorting *s, struct tpl_list *l)
{
	struct tpl_value *keys = tpl_alloc(s->r, l->count * sizeof *keys);
	struct tpl_value *space = tpl_alloc(s->r, 2 * l->count * sizeof *space);

	if (!keys || !space)
		return -1;
	for (size_t i = 0; i < l->count; i++)
		if (sort_key(s, l->items[i], &keys[i]) < 0)
			return -1;
	return merge_sort(s, l->items, keys, l->count, space);
}

static int f_sort(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct sorting s = { .r = r,
		.path = tpl_arg(r, a, 2, "attribute"),
		.reverse = tpl_arg_true(r, a, 0, "reverse", false),
		.fold = !tpl_arg_true(r, a, 1, "case_sensitive", false),
		.by = 2 };
	struct tpl_list *l;

	if (s.path && s.path->kind == TPL_NONE)
		s.path = NULL;
	if (list_copy(r, v, &l) < 0 || sort(&s, l) < 0)
		return -1;
	*out = tpl_of_list(l);
	return 0;
}

static int f_dictsort(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *by = tpl_arg(r, a, 1, "by");
	struct sorting s = { .r = r,
		.reverse = tpl_arg_true(r, a, 2, "reverse", false),
		.fold = !tpl_arg_true(r, a, 0, "case_sensitive", false),
		.by = by && tpl_is(*by, "value") };

	if (v.kind != TPL_MAP)
		return tpl_fail(r, "dictsort of %s", tpl_kind_name(v));
	return f_items(r, v, a, out) < 0 ? -1 : sort(&s, out->list);
}

static int f_unique(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	struct sorting s = { .r = r,
		.path = tpl_arg(r, a, 1, "attribute"),
		.fold = !tpl_arg_true(r, a, 0, "case_sensitive", false),
		.by = 2 };
	struct tpl_list *items, *seen = tpl_list_new(r, 0), *l = tpl_list_new(r, 0);

	if (!seen || !l || tpl_items(r, v, &items) < 0)
		return -1;
	for (size_t i = 0; i < items->count; i++) {
		struct tpl_value key;
		int there;

		if (sort_key(&s, items->items[i], &key) < 0)
			return -1;
		there = tpl_contains(r, tpl_of_list(seen), key);
		if (there < 0 ||
			(!there &&
				(tpl_list_push(r, seen, key) < 0 ||
					tpl_list_push(r, l, items->items[i]) < 0)))
			return -1;
	}
	*out = tpl_of_list(l);
	return 0;
}

static int extreme(struct tpl_run *r, struct tpl_value v, int sign,
	const struct tpl_args *a, struct tpl_value *out)
{
	struct sorting s = { .r = r,
		.path = tpl_arg(r, a, 1, "attribute"),
		.fold = !tpl_arg_true(r, a, 0, "case_sensitive", false),
		.by = 2 };
	struct tpl_value best, key;
	struct tpl_list *items;
	int order;

	if (tpl_items(r, v, &items) < 0)
		return -1;
	*out = tpl_undefined("the least or greatest of nothing");
	for (size_t i = 0; i < items->count; i++) {
		if (sort_key(&s, items->items[i], &key) < 0)
			return -1;
		if (i && tpl_order(r, key, best, &order) < 0)
			return -1;
		if (!i || order * sign > 0) {
			best = key;
			*out = items->items[i];
		}
	}
	return 0;
}

static int f_min(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return extreme(r, v, -1, a, out);
}

static int f_max(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return extreme(r, v, 1, a, out);
}

static int f_sum(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *path = tpl_arg(r, a, 0, "attribute");
	const struct tpl_value *start = tpl_arg(r, a, 1, "start");
	struct tpl_list *items;

	if (tpl_items(r, v, &items) < 0)
		return -1;
	*out = start ? *start : tpl_int(0, LM_FROM_TEMPLATE);
	for (size_t i = 0; i < items->count; i++) {
		struct tpl_value item = items->items[i];

		if (path && path->kind != TPL_NONE &&
			attribute(r, item, *path, &item) < 0)
			return -1;
		if (tpl_binary(r, OP_ADD, *out, item, out) < 0)
			return -1;
	}
	return 0;
}

/* select and its kin: by_attribute: the first argument says of what; then a test and what it
 * takes */
static int choose(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	bool by_attribute, bool keep, struct tpl_value *out)
{
	struct tpl_list *items, *l = tpl_list_new(r, 0);
	size_t at = by_attribute;
	struct tpl_args rest = *a;
	int test = -1;

	*out = tpl_of_list(l);
	if (!l || !tpl_true(v)) /* also none */
		return l ? 0 : -1;
	if (tpl_items(r, v, &items) < 0)
		return -1;
	if (by_attribute && !a->count)
		return tpl_fail(r, "selectattr needs the name of an attribute");
	if (a->count > at) {
		const struct tpl_value *name = &a->positional[at];

		if (name->kind == TPL_STRING)
			test = tpl_test_find(name->s->data, name->s->len);
		if (test < 0)
			return tpl_fail(r, "select needs a test that we know");
		rest.positional += at + 1;
		rest.count -= at + 1;
	}
	for (size_t i = 0; i < items->count; i++) {
		struct tpl_value item = items->items[i];
		int is;

		if (by_attribute && attribute(r, item, a->positional[0], &item) < 0)
			return -1;
		is = test < 0 ? tpl_true(item) : tpl_test(r, (unsigned)test, item, &rest);
		if (is < 0 ||
			((is > 0) == keep && tpl_list_push(r, l, items->items[i]) < 0))
			return -1;
	}
	*out = tpl_of_list(l);
	return 0;
}

static int f_select(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return choose(r, v, a, false, true, out);
}

static int f_reject(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return choose(r, v, a, false, false, out);
}

static int f_selectattr(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return choose(r, v, a, true, true, out);
}

static int f_rejectattr(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	return choose(r, v, a, true, false, out);
}

static int f_map(struct tpl_run *r, struct tpl_value v, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_value *path = tpl_arg(r, a, a->count, "attribute");
	const struct tpl_value *unless = tpl_arg(r, a, a->count, "default");
	struct tpl_list *items, *l = tpl_list_new(r, 0);
	struct tpl_args rest = *a;
	int filter = -1;

	*out = tpl_of_list(l);
	if (!l || !tpl_true(v)) /* also none */
		return l ? 0 : -1;
	if (tpl_items(r, v, &items) < 0)
		return -1;
	if (!path) {
		if (a->count && a->positional[0].kind == TPL_STRING)
			filter = tpl_filter_find(a->positional[0].s->data,
				a->positional[0].s->len);
		if (filter < 0)
			return tpl_fail(r,
				"map needs an attribute, or a filter that we know");
		rest.positional++;
		rest.count--;
	}
	if (++r->calls > LM_TEMPLATE_NESTING_MAX)
		return tpl_fail(r, "filters nest too deep");
	for (size_t i = 0; i < items->count; i++) {
		struct tpl_value item = items->items[i];

		if (path ? attribute(r, item, *path, &item) < 0 :
			   tpl_filter(r, (unsigned)filter, item, &rest, &item) < 0)
			return -1;
		if (path && unless && item.kind == TPL_UNDEFINED)
			item = *unless;
		if (tpl_list_push(r, l, item) < 0)
			return -1;
	}
	r->calls--;
	*out = tpl_of_list(l);
	return 0;
}

static const struct {
	const char *name;
	filter_fn fn;
} filters[] = { { "abs", f_abs }, { "capitalize", f_capitalize }, { "count", f_length },
	{ "d", f_default }, { "default", f_default }, { "dictsort", f_dictsort },
	{ "e", f_escape }, { "escape", f_escape }, { "first", f_first },
	{ "float", f_float }, { "forceescape", f_forceescape }, { "indent", f_indent },
	{ "int", f_int }, { "items", f_items }, { "join", f_join }, { "last", f_last },
	{ "length", f_length }, { "list", f_list }, { "lower", f_lower },
	{ "map", f_map }, { "max", f_max }, { "min", f_min }, { "reject", f_reject },
	{ "rejectattr", f_rejectattr }, { "replace", f_replace },
	{ "reverse", f_reverse }, { "round", f_round }, { "safe", f_safe },
	{ "select", f_select }, { "selectattr", f_selectattr }, { "sort", f_sort },
	{ "string", f_string }, { "sum", f_sum }, { "title", f_title },
	{ "tojson", f_tojson }, { "trim", f_trim }, { "unique", f_unique },
	{ "upper", f_upper } };

int tpl_filter_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
		if (strlen(filters[i].name) == len &&
			memcmp(filters[i].name, name, len) == 0)
			return (int)i;
	return -1;
}

int tpl_filter(struct tpl_run *r, unsigned number, struct tpl_value v,
	const struct tpl_args *a, struct tpl_value *out)
{
	if (tpl_steps(r, 1) < 0)
		return -1;
	return filters[number].fn(r, v, a, out);
}
