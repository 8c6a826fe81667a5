/* schema.c - reading a schema's keywords, and joining what several schemas say about one value;
 * long because there are many keywords. */
#include "common/lm/grammar/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

#define ALTS_MAX  256
#define DEPTH_MAX 64

/* --- places ------------------------------------------------------------------------------------------ */

static bool find_place(const json_t *v, const json_t *what, char *path, size_t len,
	unsigned depth)
{
	const char *key;
	json_t *item;
	size_t i;

	if (v == what)
		return true;
	if (depth > 64 || len > 380)
		return false;
	json_object_foreach((json_t *)v, key, item) {
		int n = snprintf(path + len, 128, ".%.100s", key);

		if (find_place(item, what, path, len + (size_t)n, depth + 1))
			return true;
	}
	json_array_foreach(v, i, item) {
		int n = snprintf(path + len, 128, "[%zu]", i);

		if (find_place(item, what, path, len + (size_t)n, depth + 1))
			return true;
	}
	path[len] = '\0';
	return false;
}

int schema_refuse(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...)
{
	char text[256], path[640] = "schema";
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	find_place(s->root, at, path, strlen(path), 0);
	return err_set(EX_DATAERR, "%s%s%s: %s", path, keyword ? "." : "",
		keyword ? keyword : "", text);
}

void schema_release(struct schema *s)
{
	for (size_t i = 0; i < s->dfa_count; i++) {
		dfa_release(s->dfas[i].dfa);
		free(s->dfas[i].dfa);
	}
	free(s->dfas);
	json_decref(s->made);
	arena_release(&s->arena);
}

void pointers_add(struct schema *s, struct pointers *p, const void *value)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->at[i] == value)
			return;
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 4;
		const void **at = arena_alloc(&s->arena, cap * sizeof *at);

		if (p->n)
			memcpy(at, p->at, p->n * sizeof *at);
		p->at = at;
		p->cap = cap;
	}
	p->at[p->n++] = value;
}

static struct alt *alts_add(struct schema *s, struct alts *l, const struct alt *a)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		struct alt *at = arena_alloc(&s->arena, cap * sizeof *at);

		if (l->n)
			memcpy(at, l->at, l->n * sizeof *at);
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n] = *a;
	return &l->at[l->n++];
}

/* --- automata --------------------------------------------------------------------------------------- */

static struct lm_dfa **kept_dfa(struct schema *s, const void *of, int purpose)
{
	for (size_t i = 0; i < s->dfa_count; i++)
		if (s->dfas[i].of == of && s->dfas[i].purpose == purpose)
			return &s->dfas[i].dfa;
	s->dfas = xgrow(s->dfas, &s->dfas_cap, s->dfa_count + 1, sizeof *s->dfas);
	s->dfas[s->dfa_count].of = of;
	s->dfas[s->dfa_count].purpose = purpose;
	s->dfas[s->dfa_count].dfa = NULL;
	return &s->dfas[s->dfa_count++].dfa;
}

const struct lm_dfa *schema_pattern(struct schema *s, const json_t *where,
	const char *pattern, size_t len, const void *of)
{
	struct lm_dfa **kept = kept_dfa(s, of, 0), *d;

	if (*kept)
		return *kept;
	d = xcalloc(1, sizeof *d);
	if (dfa_regex(d, pattern, len, "pattern", &s->budget) < 0) {
		char why[ERR_TEXT_MAX];

		free(d);
		s->dfa_count--;
		snprintf(why, sizeof why, "%s", err_get()->text);
		schema_refuse(s, where, NULL, "%.200s", why);
		return NULL;
	}
	*kept = d;
	return d;
}

#define MONTHS                                                                              \
	"(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|" \
	"02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|"                  \
	"([02468][048]|[13579][26])00)-02-29)"
#define TIME \
	"([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?([zZ]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16   "[0-9a-fA-F]{1,4}"
#define LS32  "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                            \
	"((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 \
	"|((" H16 ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16        \
	")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16  \
	":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16          \
	":){0,6}" H16 ")?::)"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
#define UCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define UHOST "([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"

static const struct {
	const char *name, *pattern; /* NULL: known, and not supported */
} formats[] = {
	{ "date", "^" MONTHS "$" },
	{ "time", "^" TIME "$" },
	{ "date-time", "^" MONTHS "[tT]" TIME "$" },
	{ "uuid",
		"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
	{ "ipv4", "^" IPV4 "$" },
	{ "ipv6", "^" IPV6 "$" },
	{ "email", "^" ATOM "(\\." ATOM ")*@(" LABEL "\\.)+" LABEL "$" },
	{ "uri",
		"^[A-Za-z][A-Za-z0-9+.-]*:(//((" UHOST "|:)*@)?(" UHOST "|\\[" IPV6
		"\\])(:\\d*)?(/" UCHAR "*)*|/(" UCHAR "+(/" UCHAR "*)*)?|" UCHAR
		"+(/" UCHAR "*)*)(\\?(" UCHAR "|[/?])*)?(#(" UCHAR "|[/?])*)?$" },
	{ "duration", NULL },
	{ "hostname", NULL },
	{ "idn-email", NULL },
	{ "idn-hostname", NULL },
	{ "uri-reference", NULL },
	{ "iri", NULL },
	{ "iri-reference", NULL },
	{ "uri-template", NULL },
	{ "json-pointer", NULL },
	{ "relative-json-pointer", NULL },
	{ "regex", NULL },
};

static int add_format(struct schema *s, const json_t *schema, const json_t *v,
	struct alt *a)
{
	const char *name = json_string_value(v);

	if (!name)
		return schema_refuse(s, schema, "format", "must be a string");
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct lm_dfa *d;

		if (strcmp(formats[i].name, name) != 0)
			continue;
		if (!formats[i].pattern)
			return schema_refuse(s, schema, "format", "'%s' is not supported",
				name);
		d = schema_pattern(s, v, formats[i].pattern, strlen(formats[i].pattern),
			formats[i].pattern);
		if (!d)
			return -1;
		pointers_add(s, &a->dfas, d);
	}
	return 0; /* names that nobody defined constrain nothing */
}

int schema_number(struct schema *s, const struct alt *a, struct lm_dfa *out)
{
	return dfa_number(out, &a->number, &s->budget);
}

int schema_string(struct schema *s, const struct alt *a, struct lm_dfa *out)
{
	struct lm_dfa all;
	int rc;

	if (!a->dfas.n)
		return dfa_any(out, &s->budget);
	if (dfa_product(&all, (const struct lm_dfa *const *)(const void *)a->dfas.at,
		    a->dfas.n, true, &s->budget) < 0)
		return -1;
	if (!a->min && a->max == UINT64_MAX) {
		*out = all;
		return 0;
	}
	rc = dfa_length(out, &all, a->min, a->max, &s->budget);
	dfa_release(&all);
	return rc;
}

/* --- joining ---------------------------------------------------------------------------------------- */

static int join_numbers(struct lm_number *a, const struct lm_number *b)
{
	int c;

	a->whole |= b->whole;
	if (b->has_min) {
		c = a->has_min ? decimal_compare(&b->min, &a->min) : 1;
		if (c > 0) {
			a->min = b->min;
			a->min_excluded = b->min_excluded;
		} else if (c == 0) {
			a->min_excluded |= b->min_excluded;
		}
		a->has_min = true;
	}
	if (b->has_max) {
		c = a->has_max ? decimal_compare(&b->max, &a->max) : -1;
		if (c < 0) {
			a->max = b->max;
			a->max_excluded = b->max_excluded;
		} else if (c == 0) {
			a->max_excluded |= b->max_excluded;
		}
		a->has_max = true;
	}
	if (b->multiple && a->multiple) {
		uint64_t x = a->multiple, y = b->multiple;

		while (y) {
			uint64_t rest = x % y;

			x = y;
			y = rest;
		}
		if (__builtin_mul_overflow(a->multiple / x, b->multiple, &a->multiple))
			return err_set(EX_DATAERR, "multipleOf is too large");
	} else if (b->multiple) {
		a->multiple = b->multiple;
	}
	return 0;
}

static bool number_possible(const struct lm_number *n)
{
	int c = n->has_min && n->has_max ? decimal_compare(&n->min, &n->max) : -1;

	return c < 0 || (c == 0 && !n->min_excluded && !n->max_excluded);
}

/* Joins b into a. Returns 1, 0 when both exclude each other at a glance, or -1. */
static int join(struct schema *s, struct alt *a, const struct alt *b)
{
	if (a->type != b->type)
		return 0;
	/* lists are shared until they grow */
	a->dfas.cap = a->dfas.n;
	a->parts.cap = a->parts.n;
	a->names.cap = a->names.n;
	a->bools &= b->bools;
	if (b->min > a->min)
		a->min = b->min;
	if (b->max < a->max)
		a->max = b->max;
	for (size_t i = 0; i < b->dfas.n; i++)
		pointers_add(s, &a->dfas, b->dfas.at[i]);
	for (size_t i = 0; i < b->parts.n; i++)
		pointers_add(s, &a->parts, b->parts.at[i]);
	for (size_t i = 0; i < b->names.n; i++) {
		bool there = false;

		for (size_t j = 0; j < a->names.n; j++)
			there |= strcmp(a->names.at[j], b->names.at[i]) == 0;
		if (!there)
			pointers_add(s, &a->names, b->names.at[i]);
	}
	if (a->type == ALT_NUMBER && join_numbers(&a->number, &b->number) < 0)
		return -1;
	return a->type == ALT_BOOL    ? a->bools != 0 :
		a->type == ALT_NUMBER ? number_possible(&a->number) :
					a->min <= a->max;
}

static int join_all(struct schema *s, struct alts *a, const struct alts *b)
{
	struct alts out = { 0 };

	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++) {
			struct alt both = a->at[i];
			int rc = join(s, &both, &b->at[j]);

			if (rc < 0 || dfa_spend(&s->budget, 0, 64) < 0)
				return -1;
			if (!rc)
				continue;
			alts_add(s, &out, &both);
			if (out.n > ALTS_MAX)
				return schema_refuse(s, s->root, NULL,
					"anyOf and allOf make too many combinations");
		}
	*a = out;
	return 0;
}

static void full(struct schema *s, struct alts *out, unsigned types)
{
	*out = (struct alts){ 0 };
	for (unsigned t = 0; t < ALT_TYPES; t++)
		if (types >> t & 1) {
			struct alt a = { .type = (uint8_t)t,
				.bools = 3,
				.max = UINT64_MAX };

			alts_add(s, out, &a);
		}
}

#define ALL_TYPES ((1u << ALT_TYPES) - 1)

/* --- values of const and enum -------------------------------------------------------------------------- */

static int normalise(struct schema *s, const json_t *schema, struct alts *out);

static void decimal_text(const json_t *v, char text[64])
{
	if (json_is_integer(v))
		snprintf(text, 64, "%lld", (long long)json_integer_value(v));
	else
		for (int digits = 1; digits <= 17; digits++) {
			snprintf(text, 64, "%.*g", digits, json_real_value(v));
			if (strtod(text, NULL) == json_real_value(v))
				break;
		}
}

/* A schema that only this array or object satisfies. */
static json_t *made_schema(struct schema *s, const json_t *v)
{
	json_t *schema, *list, *item;
	const char *key;
	size_t i;

	for (i = 0; i < s->made_of.n; i++)
		if (s->made_of.at[i] == v)
			return json_array_get(s->made, i);
	pointers_add(s, &s->made_of, v);
	schema = json_object();
	list = json_array();
	if (!s->made)
		s->made = json_array();
	json_array_append_new(s->made, schema);
	if (json_is_array(v)) {
		json_object_set_new(schema, "type", json_string("array"));
		json_array_foreach(v, i, item) {
			json_t *one = json_object();

			json_object_set(one, "const", item);
			json_array_append_new(list, one);
		}
		if (json_array_size(v))
			json_object_set(schema, "prefixItems", list);
		json_decref(list);
		json_object_set_new(schema, "minItems",
			json_integer((json_int_t)json_array_size(v)));
		json_object_set_new(schema, "maxItems",
			json_integer((json_int_t)json_array_size(v)));
		return schema;
	}
	json_object_set_new(schema, "type", json_string("object"));
	json_object_set_new(schema, "required", list);
	json_object_set_new(schema, "additionalProperties", json_false());
	json_t *properties = json_object();

	json_object_set_new(schema, "properties", properties);
	json_object_foreach((json_t *)v, key, item) {
		json_t *one = json_object();

		json_object_set(one, "const", item);
		json_object_set_new(properties, key, one);
		json_array_append_new(list, json_string(key));
	}
	return schema;
}

static int add_value(struct schema *s, const json_t *v, struct alts *out)
{
	struct alt a = { .max = UINT64_MAX };
	char text[64];

	switch (json_typeof(v)) {
	case JSON_NULL:
		a.type = ALT_NULL;
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		a.type = ALT_BOOL;
		a.bools = json_is_true(v) ? 2 : 1;
		break;
	case JSON_INTEGER:
	case JSON_REAL:
		a.type = ALT_NUMBER;
		decimal_text(v, text);
		if (decimal_set(&a.number.min, text) < 0)
			return -1;
		a.number.max = a.number.min;
		a.number.has_min = a.number.has_max = true;
		break;
	case JSON_STRING:
		return 0; /* all of them together */
	default: {
		const json_t *schema = made_schema(s, v);
		struct alts more;

		if (normalise(s, schema, &more) < 0)
			return -1;
		for (size_t i = 0; i < more.n; i++)
			alts_add(s, out, &more.at[i]);
		return 0;
	}
	}
	alts_add(s, out, &a);
	return 0;
}

/* One of these values. */
static int values(struct schema *s, const json_t *const *v, size_t n, const void *of,
	struct alts *out)
{
	struct dfa_text *texts = arena_alloc(&s->arena, (n + 1) * sizeof *texts);
	struct alt a = { .type = ALT_STRING, .max = UINT64_MAX };
	struct lm_dfa **kept;
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (add_value(s, v[i], out) < 0)
			return -1;
		if (json_is_string(v[i]))
			texts[count++] = (struct dfa_text){ json_string_value(v[i]),
				json_string_length(v[i]) };
		if (out->n > 4 * ALTS_MAX)
			return schema_refuse(s, of, NULL,
				"too many values that are no strings");
	}
	if (!count)
		return 0;
	kept = kept_dfa(s, of, 1);
	if (!*kept) {
		struct lm_dfa *d = xcalloc(1, sizeof *d);

		if (dfa_texts(d, texts, count, &s->budget) < 0) {
			free(d);
			return -1;
		}
		*kept_dfa(s, of, 1) = d;
		kept = kept_dfa(s, of, 1);
	}
	pointers_add(s, &a.dfas, *kept);
	alts_add(s, out, &a);
	return 0;
}

/* --- keywords ------------------------------------------------------------------------------------------ */

static int read_types(struct schema *s, const json_t *schema, unsigned *types,
	bool *whole)
{
	static const struct {
		const char *name;
		unsigned types;
	} names[] = { { "null", 1 << ALT_NULL }, { "boolean", 1 << ALT_BOOL },
		{ "number", 1 << ALT_NUMBER }, { "integer", 1 << ALT_NUMBER },
		{ "string", 1 << ALT_STRING }, { "array", 1 << ALT_ARRAY },
		{ "object", 1 << ALT_OBJECT } };
	const json_t *v = json_object_get(schema, "type");
	bool number = false, integer = false;

	*types = ALL_TYPES;
	*whole = false;
	if (!v)
		return 0;
	*types = 0;
	for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
		const char *name = json_string_value(
			json_is_array(v) ? json_array_get(v, i) : v);
		size_t k = 0;

		while (name && k < 7 && strcmp(names[k].name, name) != 0)
			k++;
		if (!name || k == 7)
			return schema_refuse(s, schema, "type",
				"is none of JSON's types");
		*types |= names[k].types;
		number |= k == 2;
		integer |= k == 3;
	}
	*whole = integer && !number;
	return 0;
}

static int read_size(struct schema *s, const json_t *schema, const char *key,
	uint64_t *out)
{
	const json_t *v = json_object_get(schema, key);
	double f = json_number_value(v);

	if (!v)
		return 0;
	if (!json_is_number(v) || f < 0 || f != floor(f))
		return schema_refuse(s, schema, key, "must be a whole number from 0 on");
	*out = f > 4e9 ? UINT64_C(4000000000) : (uint64_t)f;
	return 0;
}

static int read_bound(struct schema *s, const json_t *schema, const char *key,
	bool excluded, bool max, struct lm_number *n)
{
	const json_t *v = json_object_get(schema, key);
	struct lm_number one = { 0 };
	char text[64];

	if (!v)
		return 0;
	if (!json_is_number(v))
		return schema_refuse(s, schema, key, "must be a number");
	decimal_text(v, text);
	if (decimal_set(max ? &one.max : &one.min, text) < 0)
		return schema_refuse(s, schema, key, "has too many digits");
	*(max ? &one.has_max : &one.has_min) = true;
	*(max ? &one.max_excluded : &one.min_excluded) = excluded;
	return join_numbers(n, &one);
}

static int read_numbers(struct schema *s, const json_t *schema, struct lm_number *n)
{
	const json_t *multiple = json_object_get(schema, "multipleOf");
	double f = json_number_value(multiple);

	if (read_bound(s, schema, "minimum", false, false, n) < 0 ||
		read_bound(s, schema, "maximum", false, true, n) < 0 ||
		read_bound(s, schema, "exclusiveMinimum", true, false, n) < 0 ||
		read_bound(s, schema, "exclusiveMaximum", true, true, n) < 0)
		return -1;
	if (!multiple)
		return 0;
	if (!json_is_number(multiple) || f <= 0)
		return schema_refuse(s, schema, "multipleOf", "must be a number above 0");
	if (f != floor(f) || f > 10000)
		return schema_refuse(s, schema, "multipleOf",
			"must be a whole number of at most 10,000");
	n->whole = true;
	n->multiple = (uint64_t)f;
	return 0;
}

static int read_strings(struct schema *s, const json_t *schema, struct alt *a)
{
	const json_t *pattern = json_object_get(schema, "pattern");
	const json_t *format = json_object_get(schema, "format");

	if (read_size(s, schema, "minLength", &a->min) < 0 ||
		read_size(s, schema, "maxLength", &a->max) < 0)
		return -1;
	if (pattern) {
		const struct lm_dfa *d;

		if (!json_is_string(pattern))
			return schema_refuse(s, schema, "pattern", "must be a string");
		d = schema_pattern(s, pattern, json_string_value(pattern),
			json_string_length(pattern), pattern);
		if (!d)
			return -1;
		pointers_add(s, &a->dfas, d);
	}
	return format ? add_format(s, schema, format, a) : 0;
}

static int is_schema(struct schema *s, const json_t *v, const json_t *in, const char *key)
{
	if (!json_is_object(v) && !json_is_boolean(v))
		return schema_refuse(s, in, key, "must be a schema");
	return 0;
}

static int read_arrays(struct schema *s, const json_t *schema, struct alt *a)
{
	const json_t *items = json_object_get(schema, "items"), *item;
	const json_t *prefix = json_object_get(schema, "prefixItems");
	size_t i;

	if (read_size(s, schema, "minItems", &a->min) < 0 ||
		read_size(s, schema, "maxItems", &a->max) < 0)
		return -1;
	if (!items && !prefix)
		return 0;
	if (items && !json_is_array(items) && is_schema(s, items, schema, "items") < 0)
		return -1;
	if (prefix && !json_is_array(prefix))
		return schema_refuse(s, schema, "prefixItems", "must be an array");
	json_array_foreach(json_is_array(items) ? items : prefix, i, item)
		if (is_schema(s, item, schema, "prefixItems") < 0)
			return -1;
	pointers_add(s, &a->parts, schema);
	return 0;
}

static int read_objects(struct schema *s, const json_t *schema, struct alt *a)
{
	static const char *const maps[] = { "properties", "patternProperties" };
	const json_t *required = json_object_get(schema, "required"), *item;
	const json_t *additional = json_object_get(schema, "additionalProperties");
	const char *key;
	json_t *v;
	size_t i;

	for (i = 0; i < 2; i++) {
		const json_t *map = json_object_get(schema, maps[i]);

		if (map && !json_is_object(map))
			return schema_refuse(s, schema, maps[i], "must be an object");
		json_object_foreach((json_t *)map, key, v) {
			if (is_schema(s, v, map, key) < 0)
				return -1;
			if (i && !schema_pattern(s, map, key, strlen(key), v))
				return -1;
		}
		if (json_object_size(map))
			pointers_add(s, &a->parts, schema);
	}
	if (additional) {
		if (is_schema(s, additional, schema, "additionalProperties") < 0)
			return -1;
		pointers_add(s, &a->parts, schema);
	}
	if (required && !json_is_array(required))
		return schema_refuse(s, schema, "required", "must be an array of names");
	json_array_foreach(required, i, item) {
		bool there = false;

		if (!json_is_string(item))
			return schema_refuse(s, schema, "required",
				"must be an array of names");
		for (size_t j = 0; j < a->names.n; j++)
			there |= strcmp(a->names.at[j], json_string_value(item)) == 0;
		if (!there)
			pointers_add(s, &a->names, json_string_value(item));
	}
	return 0;
}

/* Whether a keyword that we do not know constrains nothing. */
static bool harmless(const json_t *schema, const char *key, const json_t *v,
	const json_t *root)
{
	static const char *const notes[] = { "title", "description", "default",
		"examples", "example", "$schema", "$comment", "deprecated", "readOnly",
		"writeOnly", "$defs", "definitions", "$anchor", "contentEncoding",
		"contentMediaType", "contentSchema", "$vocabulary" };

	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
		if (strcmp(notes[i], key) == 0)
			return true;
	if (strcmp(key, "$id") == 0)
		return schema == root;
	if (strcmp(key, "uniqueItems") == 0)
		return json_is_false(v);
	if (strcmp(key, "minProperties") == 0)
		return json_is_number(v) && json_number_value(v) == 0;
	if (strcmp(key, "if") == 0)
		return !json_object_get(schema, "then") &&
			!json_object_get(schema, "else");
	if (strcmp(key, "then") == 0 || strcmp(key, "else") == 0)
		return !json_object_get(schema, "if");
	if (strcmp(key, "minContains") == 0 || strcmp(key, "maxContains") == 0)
		return !json_object_get(schema, "contains");
	if (strcmp(key, "unevaluatedProperties") == 0 ||
		strcmp(key, "unevaluatedItems") == 0 || strcmp(key, "propertyNames") == 0)
		return json_is_true(v) || (json_is_object(v) && !json_object_size(v));
	if (strcmp(key, "not") == 0)
		return json_is_false(v);
	if (strcmp(key, "dependentRequired") == 0 || strcmp(key, "dependentSchemas") == 0)
		return json_is_object(v) && !json_object_size(v);
	return strncmp(key, "x-", 2) == 0;
}

static int check_keywords(struct schema *s, const json_t *schema)
{
	static const char *const known[] = { "type", "enum", "const", "properties",
		"required", "additionalProperties", "patternProperties", "items",
		"prefixItems", "minItems", "maxItems", "minLength", "maxLength",
		"pattern", "format", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum", "multipleOf", "anyOf", "oneOf", "allOf", "$ref" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)schema, key, v) {
		size_t i = 0, n = sizeof known / sizeof *known;

		while (i < n && strcmp(known[i], key) != 0)
			i++;
		if (strcmp(key, "additionalItems") == 0 &&
			json_is_array(json_object_get(schema, "items")))
			continue;
		if (i == n && !harmless(schema, key, v, s->root))
			return schema_refuse(s, schema, key,
				"this keyword is not supported");
	}
	return 0;
}

/* --- references ------------------------------------------------------------------------------------------ */

static size_t unescape(const char *from, size_t len, char *to, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < cap; i++) {
		unsigned byte;

		if (from[i] == '~' && i + 1 < len &&
			(from[i + 1] == '0' || from[i + 1] == '1')) {
			to[n++] = from[++i] == '0' ? '~' : '/';
		} else if (from[i] == '%' && i + 2 < len &&
			sscanf(from + i + 1, "%2x", &byte) == 1 && byte) {
			to[n++] = (char)byte;
			i += 2;
		} else {
			to[n++] = from[i];
		}
	}
	to[n] = '\0';
	return n;
}

static const json_t *resolve(struct schema *s, const json_t *schema)
{
	const char *ref = json_string_value(json_object_get(schema, "$ref")), *p;
	const json_t *at = s->root;
	char token[256];

	if (!ref || ref[0] != '#' || (ref[1] && ref[1] != '/')) {
		schema_refuse(s, schema, "$ref", "must be '#' or begin with '#/'");
		return NULL;
	}
	for (p = ref + 1; *p == '/' && at;) {
		const char *end = strchrnul(p + 1, '/');

		unescape(p + 1, (size_t)(end - p - 1), token, sizeof token);
		at = json_is_array(at) ? json_array_get(at, strtoul(token, NULL, 10)) :
					 json_object_get(at, token);
		p = end;
	}
	if (!at || (!json_is_object(at) && !json_is_boolean(at))) {
		schema_refuse(s, schema, "$ref", "'%.100s' is no schema", ref);
		return NULL;
	}
	return at;
}

/* --- combining ---------------------------------------------------------------------------------------------- */

/* Whether nothing satisfies an alternative, as far as it is easily seen: 1, 0, or -1. */
static int impossible(struct schema *s, const struct alt *a, unsigned depth)
{
	struct lm_dfa d = { 0 };
	int rc = 0;

	if (a->type == ALT_NUMBER || (a->type == ALT_STRING && a->dfas.n)) {
		if ((a->type == ALT_NUMBER ? schema_number(s, a, &d) :
					     schema_string(s, a, &d)) < 0)
			return -1;
		rc = d.states == 0;
		dfa_release(&d);
		return rc;
	}
	if (depth > 3)
		return 0;
	for (size_t i = 0; a->type == ALT_OBJECT && i < a->names.n && !rc; i++) {
		struct pointers schemas = { 0 };
		struct alts alts;

		if (!schema_value(s, a, a->names.at[i], &schemas))
			return 1;
		if (schema_alts(s, &schemas, &alts) < 0)
			return -1;
		rc = 1;
		for (size_t k = 0; k < alts.n && rc == 1; k++)
			rc = impossible(s, &alts.at[k], depth + 1);
	}
	for (size_t i = 0; a->type == ALT_ARRAY && i < a->min && i < 4 && !rc; i++) {
		struct pointers schemas = { 0 };
		struct alts alts;

		if (!schema_item(s, a, i, &schemas))
			return 1;
		if (schema_alts(s, &schemas, &alts) < 0)
			return -1;
		rc = 1;
		for (size_t k = 0; k < alts.n && rc == 1; k++)
			rc = impossible(s, &alts.at[k], depth + 1);
	}
	return rc;
}

/* oneOf is anyOf where no two branches have a value in common. */
static int check_disjoint(struct schema *s, const json_t *schema, const struct alts *a,
	const struct alts *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++) {
			struct alt both = a->at[i];
			int rc = join(s, &both, &b->at[j]);

			if (rc > 0)
				rc = impossible(s, &both, 0) == 1 ? 0 : 1;
			if (rc < 0)
				return -1;
			if (rc)
				return schema_refuse(s, schema, "oneOf",
					"two branches may hold for the same value, which is not "
					"supported (anyOf is)");
		}
	return 0;
}

static int read_any(struct schema *s, const json_t *schema, const char *key,
	struct alts *out)
{
	const json_t *list = json_object_get(schema, key), *item;
	bool one = strcmp(key, "oneOf") == 0;
	struct alts any = { 0 }, *each;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || !json_array_size(list))
		return schema_refuse(s, schema, key, "must be an array of schemas");
	each = arena_alloc(&s->arena, json_array_size(list) * sizeof *each);
	json_array_foreach(list, i, item) {
		if (is_schema(s, item, schema, key) < 0 ||
			normalise(s, item, &each[i]) < 0)
			return -1;
		for (size_t k = 0; one && k < i; k++)
			if (check_disjoint(s, schema, &each[k], &each[i]) < 0)
				return -1;
		for (size_t k = 0; k < each[i].n; k++)
			alts_add(s, &any, &each[i].at[k]);
		if (any.n > 4 * ALTS_MAX)
			return schema_refuse(s, schema, key, "has too many branches");
	}
	return join_all(s, out, &any);
}

static int combine(struct schema *s, const json_t *schema, struct alts *out)
{
	const json_t *all = json_object_get(schema, "allOf"), *item;
	const json_t *one = json_object_get(schema, "const");
	const json_t *several = json_object_get(schema, "enum");
	struct alts more = { 0 };
	size_t i;

	if (one) {
		if (values(s, &one, 1, one, &more) < 0 || join_all(s, out, &more) < 0)
			return -1;
	}
	if (several) {
		const json_t **list = arena_alloc(&s->arena,
			(json_array_size(several) + 1) * sizeof *list);

		if (!json_is_array(several))
			return schema_refuse(s, schema, "enum", "must be an array");
		json_array_foreach(several, i, item)
			list[i] = item;
		more = (struct alts){ 0 };
		if (values(s, list, json_array_size(several), several, &more) < 0 ||
			join_all(s, out, &more) < 0)
			return -1;
	}
	if (json_object_get(schema, "$ref")) {
		const json_t *target = resolve(s, schema);

		if (!target || normalise(s, target, &more) < 0 ||
			join_all(s, out, &more) < 0)
			return -1;
	}
	if (all && !json_is_array(all))
		return schema_refuse(s, schema, "allOf", "must be an array of schemas");
	json_array_foreach(all, i, item)
		if (is_schema(s, item, schema, "allOf") < 0 ||
			normalise(s, item, &more) < 0 || join_all(s, out, &more) < 0)
			return -1;
	return read_any(s, schema, "anyOf", out) < 0 ? -1 :
						       read_any(s, schema, "oneOf", out);
}

static int read_schema(struct schema *s, const json_t *schema, struct alts *out)
{
	struct lm_number number = { 0 };
	unsigned types;
	bool whole;

	if (check_keywords(s, schema) < 0 || read_types(s, schema, &types, &whole) < 0 ||
		read_numbers(s, schema, &number) < 0)
		return -1;
	number.whole |= whole;
	full(s, out, types);
	for (size_t i = 0; i < out->n; i++) {
		struct alt *a = &out->at[i];
		int rc = 0;

		if (a->type == ALT_NUMBER)
			a->number = number;
		else if (a->type == ALT_STRING)
			rc = read_strings(s, schema, a);
		else if (a->type == ALT_ARRAY)
			rc = read_arrays(s, schema, a);
		else if (a->type == ALT_OBJECT)
			rc = read_objects(s, schema, a);
		if (rc < 0)
			return -1;
		if (a->min > a->max ||
			(a->type == ALT_NUMBER && !number_possible(&a->number))) {
			memmove(a, a + 1, (out->n - i - 1) * sizeof *a);
			out->n--;
			i--;
		}
	}
	return combine(s, schema, out);
}

/* The values that one schema allows. */
static int normalise(struct schema *s, const json_t *schema, struct alts *out)
{
	int rc;

	*out = (struct alts){ 0 };
	if (json_is_boolean(schema)) {
		full(s, out, json_is_true(schema) ? ALL_TYPES : 0);
		return 0;
	}
	for (size_t i = 0; i < s->busy.n; i++)
		if (s->busy.at[i] == schema)
			return schema_refuse(s, schema, NULL,
				"it refers to itself without end");
	if (s->busy.n > DEPTH_MAX)
		return schema_refuse(s, schema, NULL, "it nests too deep");
	if (dfa_spend(&s->budget, 0, 200) < 0)
		return -1;
	pointers_add(s, &s->busy, schema);
	rc = read_schema(s, schema, out);
	s->busy.n--;
	return rc;
}

int schema_alts(struct schema *s, const struct pointers *schemas, struct alts *out)
{
	struct pointers busy = s->busy;

	full(s, out, ALL_TYPES);
	/* a value within this one may be of the same schema again */
	s->busy = (struct pointers){ 0 };
	for (size_t i = 0; i < schemas->n; i++) {
		struct alts one;

		if (normalise(s, schemas->at[i], &one) < 0 || join_all(s, out, &one) < 0)
			return -1;
	}
	s->busy = busy;
	return 0;
}

/* --- what is in arrays and objects ------------------------------------------------------------------------- */

static bool add_schema(struct schema *s, struct pointers *out, const json_t *schema)
{
	if (json_is_false(schema))
		return false;
	if (schema && !json_is_true(schema))
		pointers_add(s, out, schema);
	return true;
}

bool schema_item(struct schema *s, const struct alt *a, size_t i, struct pointers *out)
{
	for (size_t k = 0; k < a->parts.n; k++) {
		const json_t *part = a->parts.at[k],
			     *items = json_object_get(part, "items");
		const json_t *prefix = json_object_get(part, "prefixItems");

		if (json_is_array(items)) { /* as before the draft of 2020 */
			prefix = items;
			items = json_object_get(part, "additionalItems");
		}
		if (!add_schema(s, out,
			    i < json_array_size(prefix) ? json_array_get(prefix, i) :
							  items))
			return false;
	}
	return true;
}

bool schema_value(struct schema *s, const struct alt *a, const char *key,
	struct pointers *out)
{
	for (size_t k = 0; k < a->parts.n; k++) {
		const json_t *part = a->parts.at[k];
		const json_t *patterns = json_object_get(part, "patternProperties");
		const json_t *own = json_object_get(json_object_get(part, "properties"),
			key);
		bool found = own != NULL;
		const char *pattern;
		json_t *v;

		if (own && !add_schema(s, out, own))
			return false;
		json_object_foreach((json_t *)patterns, pattern, v) {
			const struct lm_dfa *d = schema_pattern(s, patterns, pattern,
				strlen(pattern), v);

			if (!d || !dfa_accepts(d, key, strlen(key)))
				continue;
			found = true;
			if (!add_schema(s, out, v))
				return false;
		}
		if (!found &&
			!add_schema(s, out,
				json_object_get(part, "additionalProperties")))
			return false;
	}
	return true;
}
