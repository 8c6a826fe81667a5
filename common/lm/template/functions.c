/* functions.c - the functions that templates may call: range, namespace, dict, raise_exception,
 * strftime_now. */
#include <string.h>
#include <time.h>

#include "common/lm/template/value.h"

static const char *const functions[] = { "range", "namespace", "dict", "raise_exception",
	"strftime_now" };

int tpl_function_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (strlen(functions[i]) == len && memcmp(functions[i], name, len) == 0)
			return (int)i;
	return -1;
}

static int range(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
	int64_t begin = 0, end, step = 1;
	struct tpl_list *l = tpl_list_new(r, 0);

	if (!l || !a->count)
		return l ? tpl_fail(r, "range needs a number") : -1;
	if (tpl_arg_int(r, a, a->count > 1, "stop", 0, &end) < 0 ||
		(a->count > 1 && tpl_arg_int(r, a, 0, "start", 0, &begin) < 0) ||
		tpl_arg_int(r, a, 2, "step", 1, &step) < 0)
		return -1;
	if (step == 0 || step > INT32_MAX || step < -INT32_MAX || begin > INT64_MAX / 2 ||
		begin < INT64_MIN / 2 || end > INT64_MAX / 2 || end < INT64_MIN / 2)
		return tpl_fail(r, "range: a step of zero, or too large a number");
	for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
		if (tpl_list_push(r, l, tpl_int(i, LM_FROM_TEMPLATE)) < 0)
			return -1;
	*out = tpl_of_list(l);
	return 0;
}

/* namespace(...) and dict(...): a mapping's pairs, then arguments by name */
static int new_map(struct tpl_run *r, const struct tpl_args *a, enum tpl_kind kind,
	struct tpl_value *out)
{
	struct tpl_map *m = tpl_map_new(r, a->keyword_count);

	if (!m)
		return -1;
	if (a->count && a->positional[0].kind != TPL_MAP)
		return tpl_fail(r, "dict and namespace take a mapping, not %s",
			tpl_kind_name(a->positional[0]));
	for (size_t i = 0; a->count && i < a->positional[0].map->count; i++)
		if (tpl_map_put(r, m, a->positional[0].map->pairs[i].key,
			    a->positional[0].map->pairs[i].value) < 0)
			return -1;
	for (size_t i = 0; i < a->keyword_count; i++) {
		uint32_t name = a->keywords[i].name;
		struct tpl_value key;

		if (tpl_text(r, r->t->names[name], r->t->name_lens[name],
			    LM_FROM_TEMPLATE, true, &key) < 0 ||
			tpl_map_put(r, m, key, a->keywords[i].value) < 0)
			return -1;
	}
	*out = (struct tpl_value){ .kind = (uint8_t)kind, .map = m };
	return 0;
}

static int strftime_now(struct tpl_run *r, const struct tpl_args *a,
	struct tpl_value *out)
{
	char format[128], text[512];
	time_t now = (time_t)r->env->now_s;
	struct tm tm;
	size_t n;

	if (!a->count || a->positional[0].kind != TPL_STRING ||
		a->positional[0].s->len >= sizeof format)
		return tpl_fail(r, "strftime_now needs a format");
	memcpy(format, a->positional[0].s->data, a->positional[0].s->len);
	format[a->positional[0].s->len] = '\0';
	if (!gmtime_r(&now, &tm))
		return tpl_fail(r, "strftime_now: no such time");
	n = strftime(text, sizeof text, format, &tm);
	return tpl_text(r, text, n, LM_FROM_TEMPLATE, false, out);
}

int tpl_function(struct tpl_run *r, unsigned number, const struct tpl_args *a,
	struct tpl_value *out)
{
	const struct tpl_string *s;

	if (tpl_steps(r, 1) < 0)
		return -1;
	switch (number) {
	case 0:
		return range(r, a, out);
	case 1:
		return new_map(r, a, TPL_NAMESPACE, out);
	case 2:
		return new_map(r, a, TPL_MAP, out);
	case 3:
		if (!a->count || tpl_to_string(r, a->positional[0], &s) < 0)
			return tpl_fail(r, "the template refuses this conversation");
		return tpl_fail(r, "the template refuses this conversation: %.*s",
			s->len > 300 ? 300 : (int)s->len, s->data);
	default:
		return strftime_now(r, a, out);
	}
}
