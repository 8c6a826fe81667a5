/* schema_keywords.c - reads the keywords of one schema that do not name other schemas to join
 * with. */
#include "common/lm/grammar/schema_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

/* --- values of const and enum ------------------------------------------------------------- */

#define DECIMAL_STEPS 100 /* to write one */

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

	dfa_use(&s->budget, s->made_of.n / 8, 0);
	for (i = 0; i < s->made_of.n; i++)
		if (s->made_of.at[i] == v)
			return json_array_get(s->made, i);
	dfa_use(&s->budget, 100,
		MADE_WORDS * (3 + json_array_size(v) + json_object_size(v)));
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
		if (dfa_spend(&s->budget, 0, DECIMAL_STEPS) < 0)
			return -1;
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

		if (schema_normalise(s, schema, &more) < 0)
			return -1;
		for (size_t i = 0; i < more.n; i++)
			alts_add(s, out, &more.at[i]);
		return 0;
	}
	}
	alts_add(s, out, &a);
	return 0;
}

int schema_values(struct schema *s, const json_t *const *v, size_t n, const void *of,
	struct alts *out)
{
	struct alt a = { .type = ALT_STRING, .max = UINT64_MAX };
	struct dfa_text *texts;
	struct lm_dfa **kept;
	size_t count = 0;

	if (dfa_spend(&s->budget, 0, n) < 0 || dfa_hold(&s->budget, 6 * n) < 0)
		return -1;
	texts = arena_alloc(&s->arena, (n + 1) * sizeof *texts);
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
	kept = schema_kept(s, of, 1);
	if (!*kept) {
		struct lm_dfa *d = xcalloc(1, sizeof *d);

		if (dfa_texts(d, texts, count, &s->budget) < 0) {
			free(d);
			return -1;
		}
		*schema_kept(s, of, 1) = d;
		kept = schema_kept(s, of, 1);
	}
	pointers_add(s, &a.dfas, *kept);
	alts_add(s, out, &a);
	return 0;
}

/* --- keywords ----------------------------------------------------------------------------- */

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
	const json_t *v = schema_keyword(schema, "type");
	bool number = false, integer = false;

	*types = ALL_TYPES;
	*whole = false;
	if (!v)
		return 0;
	*types = 0;
	if (dfa_spend(&s->budget, 0, json_array_size(v)) < 0)
		return -1;
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
	if (json_is_true(schema_keyword(schema, "nullable"))) /* OpenAPI 3.0's word */
		*types |= 1 << ALT_NULL;
	return 0;
}

static int read_size(struct schema *s, const json_t *schema, const char *key,
	uint64_t *out)
{
	const json_t *v = schema_keyword(schema, key);
	double f = json_number_value(v);

	if (!v)
		return 0;
	if (!json_is_number(v) || f < 0 || f != floor(f))
		return schema_refuse(s, schema, key, "must be a whole number from 0 on");
	*out = f > 4e9 ? UINT64_C(4000000000) : (uint64_t)f;
	return 0;
}

/* What is written without a bound is smaller than this: 64 digits and an exponent of two. */
#define BOUND_FAR 1e164
/* Bounds beyond this are held as this, which allows less. */
#define BOUND_NEAR      1e55
#define BOUND_NEAR_TEXT "1e55"

static int read_bound(struct schema *s, const json_t *schema, const char *key,
	bool excluded, bool max, struct lm_number *n)
{
	const json_t *v = schema_keyword(schema, key);
	struct lm_number one = { 0 };
	double outward = max ? json_number_value(v) : -json_number_value(v);
	char text[64];

	if (!v || outward >= BOUND_FAR)
		return 0;
	if (!json_is_number(v))
		return schema_refuse(s, schema, key, "must be a number");
	decimal_text(v, text);
	if (outward > BOUND_NEAR)
		snprintf(text, sizeof text, "%s" BOUND_NEAR_TEXT, max ? "" : "-");
	if (decimal_set(max ? &one.max : &one.min, text) < 0)
		return schema_refuse(s, schema, key, "has too many digits");
	*(max ? &one.has_max : &one.has_min) = true;
	*(max ? &one.max_excluded : &one.min_excluded) = excluded;
	return numbers_join(n, &one);
}

static int read_multiple(struct schema *s, const json_t *schema, struct lm_number *n)
{
	const json_t *v = schema_keyword(schema, "multipleOf");
	struct lm_decimal d = { 0 };
	uint64_t multiple = 0;
	char text[64];

	if (!v)
		return 0;
	if (!json_is_number(v) || json_number_value(v) <= 0)
		return schema_refuse(s, schema, "multipleOf", "must be a number above 0");
	decimal_text(v, text);
	if (decimal_set(&d, text) < 0)
		multiple = UINT64_MAX;
	for (uint32_t i = 0; i < d.whole_len + d.part_len && multiple <= 10000; i++)
		multiple = multiple * 10 + (uint64_t)(d.digits[i] - '0');
	if (multiple > 10000 || d.part_len > DFA_PLACES_MAX)
		return schema_leave_out(s, schema, "multipleOf",
			"has more than 10,000 of its last digit, or more than %d digits behind its point",
			DFA_PLACES_MAX);
	n->whole = !d.part_len;
	n->multiple = multiple;
	n->places = d.part_len;
	return 0;
}

/* One of the two words for a bound that is not itself allowed: a number of its own, or as in draft
 * 4 a flag beside the other one. */
static int read_bounds(struct schema *s, const json_t *schema, bool max,
	struct lm_number *n)
{
	const char *plain = max ? "maximum" : "minimum";
	const char *exclusive = max ? "exclusiveMaximum" : "exclusiveMinimum";
	const json_t *v = schema_keyword(schema, exclusive);

	if (read_bound(s, schema, plain, json_is_true(v), max, n) < 0)
		return -1;
	return json_is_boolean(v) ? 0 : read_bound(s, schema, exclusive, true, max, n);
}

static int read_numbers(struct schema *s, const json_t *schema, struct lm_number *n)
{
	return read_bounds(s, schema, false, n) < 0 ||
			read_bounds(s, schema, true, n) < 0 ?
		-1 :
		read_multiple(s, schema, n);
}

static int read_strings(struct schema *s, const json_t *schema, struct alt *a)
{
	const json_t *pattern = schema_keyword(schema, "pattern");
	const json_t *format = schema_keyword(schema, "format");

	if (read_size(s, schema, "minLength", &a->min) < 0 ||
		read_size(s, schema, "maxLength", &a->max) < 0)
		return -1;
	if (pattern) {
		const struct lm_dfa *d;

		if (!json_is_string(pattern))
			return schema_refuse(s, schema, "pattern", "must be a string");
		d = schema_pattern(s, pattern, json_string_value(pattern),
			json_string_length(pattern), pattern);
		if (!d &&
			(!s->leaves_out ||
				schema_leave_out(s, pattern, NULL, "%s", "") < 0))
			return -1;
		if (d)
			pointers_add(s, &a->dfas, d);
	}
	return format ? schema_format(s, schema, format, a) : 0;
}

int schema_is(struct schema *s, const json_t *v, const json_t *in, const char *key)
{
	if (!json_is_object(v) && !json_is_boolean(v))
		return schema_refuse(s, in, key, "must be a schema");
	return 0;
}

static int read_arrays(struct schema *s, const json_t *schema, struct alt *a)
{
	const json_t *items = schema_keyword(schema, "items"), *item;
	const json_t *prefix = schema_keyword(schema, "prefixItems");
	size_t i;

	if (read_size(s, schema, "minItems", &a->min) < 0 ||
		read_size(s, schema, "maxItems", &a->max) < 0)
		return -1;
	if (json_is_true(schema_keyword(schema, "uniqueItems")))
		a->unique = schema;
	if (!items && !prefix)
		return 0;
	if (items && !json_is_array(items) && schema_is(s, items, schema, "items") < 0)
		return -1;
	if (prefix && !json_is_array(prefix))
		return schema_refuse(s, schema, "prefixItems", "must be an array");
	if (dfa_spend(&s->budget, 0, json_array_size(items) + json_array_size(prefix)) <
		0)
		return -1;
	json_array_foreach(json_is_array(items) ? items : prefix, i, item)
		if (schema_is(s, item, schema, "prefixItems") < 0)
			return -1;
	pointers_add(s, &a->parts, schema);
	return 0;
}

static int read_objects(struct schema *s, const json_t *schema, struct alt *a)
{
	static const char *const maps[] = { "properties", "patternProperties" };
	const json_t *required = schema_keyword(schema, "required"), *item;
	const json_t *additional = schema_keyword(schema, "additionalProperties");
	const char *key;
	json_t *v;
	size_t i;

	if (read_size(s, schema, "minProperties", &a->min) < 0 ||
		read_size(s, schema, "maxProperties", &a->max) < 0)
		return -1;
	if (a->min > 1)
		a->sized = schema;
	for (i = 0; i < 2; i++) {
		const json_t *map = schema_keyword(schema, maps[i]);

		if (map && !json_is_object(map))
			return schema_refuse(s, schema, maps[i], "must be an object");
		if (dfa_spend(&s->budget, 0, json_object_size(map)) < 0)
			return -1;
		json_object_foreach((json_t *)map, key, v) {
			if (schema_is(s, v, map, key) < 0)
				return -1;
			if (i && !schema_pattern(s, map, key, strlen(key), v))
				return -1;
		}
		if (json_object_size(map))
			pointers_add(s, &a->parts, schema);
	}
	if (additional) {
		if (schema_is(s, additional, schema, "additionalProperties") < 0)
			return -1;
		pointers_add(s, &a->parts, schema);
	}
	if (schema_keyword(schema, "propertyNames")) {
		const struct lm_dfa *names;

		if (schema_is(s, schema_keyword(schema, "propertyNames"), schema,
			    "propertyNames") < 0 ||
			schema_names(s, schema, &names) < 0)
			return -1;
		if (names)
			pointers_add(s, &a->parts, schema);
	}
	if (required && !json_is_array(required))
		return schema_refuse(s, schema, "required", "must be an array of names");
	json_array_foreach(required, i, item) {
		bool there = false;

		if (!json_is_string(item))
			return schema_refuse(s, schema, "required",
				"must be an array of names");
		if (dfa_spend(&s->budget, 0, a->names.n / 4 + 1) < 0)
			return -1;
		for (size_t j = 0; j < a->names.n; j++)
			there |= strcmp(a->names.at[j], json_string_value(item)) == 0;
		if (!there)
			pointers_add(s, &a->names, json_string_value(item));
	}
	return 0;
}

/* Whether this use of a keyword that is not supported constrains nothing. */
static bool harmless(const json_t *schema, const char *key, const json_t *v,
	const json_t *root)
{
	if (strcmp(key, "$id") == 0) /* "#name" is an anchor of drafts 6 and 7 */
		return schema == root ||
			(json_is_string(v) && *json_string_value(v) == '#');
	if (strcmp(key, "if") == 0)
		return !schema_keyword(schema, "then") && !schema_keyword(schema, "else");
	if (strcmp(key, "then") == 0 || strcmp(key, "else") == 0)
		return !schema_keyword(schema, "if");
	if (strcmp(key, "minContains") == 0 || strcmp(key, "maxContains") == 0)
		return !schema_keyword(schema, "contains");
	if (strcmp(key, "unevaluatedProperties") == 0 ||
		strcmp(key, "unevaluatedItems") == 0)
		return json_is_true(v) || (json_is_object(v) && !json_object_size(v));
	if (strcmp(key, "not") == 0) /* of all values: it is read */
		return !json_is_object(v) || !json_object_size(v);
	if (strcmp(key, "dependentRequired") == 0 ||
		strcmp(key, "dependentSchemas") == 0 || strcmp(key, "dependencies") == 0)
		return json_is_object(v) && !json_object_size(v);
	if (strcmp(key, "additionalItems") == 0)
		return true; /* says something beside an array of items, and is read there */
	return false;
}

/* Words that constrain a value and are not supported, of all drafts from 4 on. Every other word
 * that we do not know is a note, as the standard says: programs write their own. */
static int check_keywords(struct schema *s, const json_t *schema)
{
	static const char *const constrain[] = { "$id", "if", "then", "else", "contains",
		"minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems",
		"not", "dependentRequired", "dependentSchemas", "dependencies",
		"$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy" };

	for (size_t i = 0; i < sizeof constrain / sizeof *constrain; i++) {
		const json_t *v = schema_keyword(schema, constrain[i]);

		if (v && !harmless(schema, constrain[i], v, s->root) &&
			schema_leave_out(s, schema, constrain[i],
				"this keyword is not supported") < 0)
			return -1;
	}
	return 0;
}

/* --- one schema --------------------------------------------------------------------------- */

/* {"not": {}} is how programs write a branch that nothing satisfies. */
static bool allows_nothing(const json_t *schema)
{
	const json_t *not = schema_keyword(schema, "not");

	return json_is_true(not ) || (json_is_object(not ) && !json_object_size(not ));
}

int schema_keywords(struct schema *s, const json_t *schema, struct alts *out)
{
	struct lm_number number = { 0 };
	unsigned types;
	bool whole;

	if (check_keywords(s, schema) < 0 || read_types(s, schema, &types, &whole) < 0 ||
		read_numbers(s, schema, &number) < 0)
		return -1;
	number.whole |= whole;
	alts_full(s, out, allows_nothing(schema) ? 0 : types);
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
		if (!alt_possible(a)) {
			memmove(a, a + 1, (out->n - i - 1) * sizeof *a);
			out->n--;
			i--;
		}
	}
	return 0;
}
