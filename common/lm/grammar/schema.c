/* schema.c - a schema's references and combinations, and what is in its arrays and objects. */
#include "common/lm/grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/grammar/schema_parts.h"

#define DEPTH_MAX 64

/* --- places ------------------------------------------------------------------------------- */

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

/* Writes the place of a schema, or of a keyword in it: "schema.items.not". */
static void place_of(struct schema *s, const json_t *at, const char *keyword,
	char path[768])
{
	strcpy(path, "schema");
	find_place(s->root, at, path, strlen(path), 0);
	if (keyword)
		snprintf(path + strlen(path), 768 - strlen(path), ".%s", keyword);
}

static int refuse(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, va_list args)
{
	char text[256], path[768];

	vsnprintf(text, sizeof text, fmt, args);
	place_of(s, at, keyword, path);
	return err_set(EX_DATAERR, "%s: %s", path, text);
}

int schema_refuse(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...)
{
	va_list args;
	int rc;

	va_start(args, fmt);
	rc = refuse(s, at, keyword, fmt, args);
	va_end(args);
	return rc;
}

int schema_leave_out(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...)
{
	size_t n = s->left_count < LEFT_MAX ? s->left_count : LEFT_MAX;
	va_list args;
	int rc = 0;

	va_start(args, fmt);
	if (!s->leaves_out)
		rc = refuse(s, at, keyword, fmt, args);
	va_end(args);
	if (rc < 0)
		return -1;
	/* a schema is read as often as something refers to it */
	for (size_t i = 0; i < n; i++)
		if (s->left[i].at == at && s->left[i].keyword == keyword)
			return 0;
	if (s->left_count < LEFT_MAX)
		s->left[s->left_count] = (struct left_out){ at, keyword };
	s->left_count++;
	return dfa_spend(&s->budget, 0, LEFT_MAX);
}

void schema_tell_left_out(struct schema *s, struct buf *out)
{
	size_t n = s->left_count < LEFT_MAX ? s->left_count : LEFT_MAX;
	char path[768];

	for (size_t i = 0; i < n; i++) {
		place_of(s, s->left[i].at, s->left[i].keyword, path);
		buf_addf(out, "%s%s", out->len ? ", " : "", path);
	}
	if (s->left_count > LEFT_MAX)
		buf_adds(out, ", ...");
	s->left_count = 0;
}

void schema_release(struct schema *s)
{
	for (size_t i = 0; i < s->dfa_count; i++) {
		if (s->dfas[i].dfa) /* else it was being made when an error came */
			dfa_release(s->dfas[i].dfa);
		free(s->dfas[i].dfa);
	}
	free(s->dfas);
	json_decref(s->made);
	arena_release(&s->arena);
}

json_t *schema_keyword(const json_t *schema, const char *key)
{
	json_t *v = json_object_get(schema, key);

	return json_is_null(v) && strcmp(key, "const") != 0 ? NULL : v;
}

/* --- references --------------------------------------------------------------------------- */

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

/* Returns what follows the schema's own address in a reference, which may name its last part alone:
 * "" or "#...". Any other reference is returned as it is. */
static const char *without_own_id(const struct schema *s, const char *ref)
{
	const char *id = json_string_value(json_object_get(s->root, "$id")), *last;
	size_t n = strcspn(ref, "#"), len;

	if (!id)
		id = json_string_value(json_object_get(s->root, "id")); /* draft 4 */
	if (!id || !n)
		return ref;
	len = strcspn(id, "#");
	last = memrchr(id, '/', len);
	last = last ? last + 1 : id;
	if ((n == len && memcmp(id, ref, n) == 0) ||
		(n == len - (size_t)(last - id) && memcmp(last, ref, n) == 0))
		return ref + n;
	return ref;
}

/* Finds the schema of an anchor; until the draft of 2019 an $id named it, "#name". */
static const json_t *find_anchor(struct schema *s, const json_t *v, const char *name,
	unsigned depth)
{
	const char *anchor = json_string_value(json_object_get(v, "$anchor")), *key;
	const char *id = json_string_value(json_object_get(v, "$id"));
	const json_t *found = NULL;
	json_t *item;
	size_t i;

	if (dfa_spend(&s->budget, 0, 1) < 0 || depth > DEPTH_MAX)
		return NULL;
	if ((anchor && strcmp(anchor, name) == 0) ||
		(id && *id == '#' && strcmp(id + 1, name) == 0))
		return v;
	json_object_foreach((json_t *)v, key, item)
		if (!found)
			found = find_anchor(s, item, name, depth + 1);
	json_array_foreach(v, i, item)
		if (!found)
			found = find_anchor(s, item, name, depth + 1);
	return found;
}

static const json_t *resolve(struct schema *s, const json_t *schema)
{
	const char *ref = json_string_value(schema_keyword(schema, "$ref")), *p;
	const json_t *at = s->root;
	char token[256];

	if (ref && dfa_spend(&s->budget, 0, strlen(ref)) < 0)
		return NULL;
	p = ref ? without_own_id(s, ref) : NULL;
	if (!p || (*p && *p != '#')) {
		schema_refuse(s, schema, "$ref",
			"must lead to a place in this schema: '#', '#/...' or '#ANCHOR'");
		return NULL;
	}
	p += *p == '#';
	if (*p && *p != '/')
		at = find_anchor(s, s->root, p, 0);
	while (*p == '/' && at) {
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

/* --- combining ---------------------------------------------------------------------------- */

/* Whether nothing satisfies an alternative, as far as it is easily seen: 1, 0, or -1. */
static int impossible(struct schema *s, const struct alt *a, unsigned depth)
{
	struct lm_dfa d = { 0 };
	int rc = 0;

	if (schema_one_dfa(a))
		return schema_one_dfa(a)->states == 0;
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
	if (dfa_spend(&s->budget, 0, 1) < 0)
		return -1;
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++) {
			struct alt both = a->at[i];
			int rc = alt_join(s, &both, &b->at[j]);

			if (rc > 0)
				rc = impossible(s, &both, 0) == 1 ? 0 : 1;
			if (rc < 0)
				return -1;
			if (rc)
				return schema_leave_out(s, schema, "oneOf",
					"two branches may hold for the same value, which is not "
					"supported (anyOf is)");
		}
	return 0;
}

static int read_any(struct schema *s, const json_t *schema, const char *key,
	struct alts *out)
{
	const json_t *list = schema_keyword(schema, key), *item;
	bool one = strcmp(key, "oneOf") == 0;
	struct alts any = { 0 }, *each;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || !json_array_size(list))
		return schema_refuse(s, schema, key, "must be an array of schemas");
	if (dfa_hold(&s->budget, json_array_size(list) * sizeof *each / 4) < 0)
		return -1;
	each = arena_alloc(&s->arena, json_array_size(list) * sizeof *each);
	json_array_foreach(list, i, item) {
		if (schema_is(s, item, schema, key) < 0 ||
			schema_normalise(s, item, &each[i]) < 0)
			return -1;
		for (size_t k = 0; one && k < i; k++)
			if (check_disjoint(s, schema, &each[k], &each[i]) < 0)
				return -1;
		for (size_t k = 0; k < each[i].n; k++)
			alts_add(s, &any, &each[i].at[k]);
		if (any.n > 4 * ALTS_MAX)
			return schema_refuse(s, schema, key, "has too many branches");
	}
	return alts_join(s, out, &any);
}

static int combine(struct schema *s, const json_t *schema, struct alts *out)
{
	const json_t *all = schema_keyword(schema, "allOf"), *item;
	const json_t *one = schema_keyword(schema, "const");
	const json_t *several = schema_keyword(schema, "enum");
	struct alts more = { 0 };
	size_t i;

	if (one) {
		if (schema_values(s, &one, 1, one, &more) < 0 ||
			alts_join(s, out, &more) < 0)
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
		if (schema_values(s, list, json_array_size(several), several, &more) <
				0 ||
			alts_join(s, out, &more) < 0)
			return -1;
	}
	if (schema_keyword(schema, "$ref")) {
		const json_t *target = resolve(s, schema);

		if (!target || schema_normalise(s, target, &more) < 0 ||
			alts_join(s, out, &more) < 0)
			return -1;
	}
	if (all && !json_is_array(all))
		return schema_refuse(s, schema, "allOf", "must be an array of schemas");
	json_array_foreach(all, i, item)
		if (schema_is(s, item, schema, "allOf") < 0 ||
			schema_normalise(s, item, &more) < 0 ||
			alts_join(s, out, &more) < 0)
			return -1;
	return read_any(s, schema, "anyOf", out) < 0 ? -1 :
						       read_any(s, schema, "oneOf", out);
}

int schema_normalise(struct schema *s, const json_t *schema, struct alts *out)
{
	int rc;

	*out = (struct alts){ 0 };
	if (dfa_spend(&s->budget, 0, 20) < 0)
		return -1;
	if (json_is_boolean(schema)) {
		alts_full(s, out, json_is_true(schema) ? ALL_TYPES : 0);
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
	rc = schema_keywords(s, schema, out) < 0 ? -1 : combine(s, schema, out);
	s->busy.n--;
	return rc;
}

int schema_alts(struct schema *s, const struct pointers *schemas, struct alts *out)
{
	struct pointers busy = s->busy;

	alts_full(s, out, ALL_TYPES);
	/* a value within this one may be of the same schema again */
	s->busy = (struct pointers){ 0 };
	for (size_t i = 0; i < schemas->n; i++) {
		struct alts one;

		if (schema_normalise(s, schemas->at[i], &one) < 0 ||
			alts_join(s, out, &one) < 0)
			return -1;
	}
	s->busy = busy;
	return 0;
}

/* --- what is in arrays and objects -------------------------------------------------------- */

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
			     *items = schema_keyword(part, "items");
		const json_t *prefix = schema_keyword(part, "prefixItems");

		if (json_is_array(items)) { /* as before the draft of 2020 */
			prefix = items;
			items = schema_keyword(part, "additionalItems");
		}
		if (!add_schema(s, out,
			    i < json_array_size(prefix) ? json_array_get(prefix, i) :
							  items))
			return false;
	}
	return true;
}

/* The automaton of what a string of this alternative may be, its length included. */
static int names_of(struct schema *s, const struct alt *a, struct lm_dfa *out)
{
	struct lm_dfa any;
	int rc;

	if (a->dfas.n)
		return schema_string(s, a, out);
	if (dfa_any(&any, &s->budget) < 0)
		return -1;
	rc = dfa_length(out, &any, a->min, a->max, &s->budget);
	dfa_release(&any);
	return rc;
}

/* Unites what the strings of these alternatives may be, into *out. Returns 1, 0 when they may be
 * anything, or -1. */
static int unite_names(struct schema *s, const struct alts *alts, struct lm_dfa *out)
{
	struct lm_dfa *each = xcalloc(alts->n + 1, sizeof *each);
	const struct lm_dfa **of = xcalloc(alts->n + 1, sizeof *of);
	size_t n = 0;
	int rc = 1;

	for (size_t i = 0; i < alts->n && rc == 1; i++) {
		const struct alt *a = &alts->at[i];

		if (a->type != ALT_STRING)
			continue;
		if (!a->dfas.n && !a->min && a->max == UINT64_MAX)
			rc = 0;
		else if (names_of(s, a, &each[n]) < 0)
			rc = -1;
		else
			of[n] = &each[n], n++;
	}
	if (rc == 1 &&
		(n ? dfa_product(out, of, n, false, &s->budget) :
		     dfa_texts(out, NULL, 0, &s->budget)) < 0)
		rc = -1;
	for (size_t i = 0; i < n; i++)
		dfa_release(&each[i]);
	free(each);
	free(of);
	return rc;
}

int schema_names(struct schema *s, const json_t *part, const struct lm_dfa **out)
{
	const json_t *names = schema_keyword(part, "propertyNames");
	struct lm_dfa **kept, all = { 0 };
	struct pointers set = { 0 };
	struct alts alts;
	int rc;

	*out = NULL;
	if (!names || json_is_true(names))
		return 0;
	kept = schema_kept(s, names, 2);
	if (*kept) {
		*out = *kept;
		return 0;
	}
	s->dfa_count--;
	for (size_t i = 0; i < s->naming.n; i++)
		if (s->naming.at[i] == names)
			return schema_refuse(s, names, NULL,
				"it refers to itself without end");
	if (s->naming.n > DEPTH_MAX)
		return schema_refuse(s, names, NULL, "it nests too deep");
	if (json_is_object(names))
		pointers_add(s, &set, names);
	pointers_add(s, &s->naming, names);
	rc = schema_alts(s, &set, &alts);
	s->naming.n--;
	if (rc < 0)
		return -1;
	if (json_is_false(names))
		alts.n = 0;
	rc = unite_names(s, &alts, &all);
	if (rc <= 0)
		return rc;
	kept = schema_kept(s, names, 2);
	*kept = xmalloc(sizeof **kept);
	**kept = all;
	*out = *kept;
	return 0;
}

bool schema_value(struct schema *s, const struct alt *a, const char *key,
	struct pointers *out)
{
	for (size_t k = 0; k < a->parts.n; k++) {
		const struct lm_dfa *names;

		dfa_use(&s->budget, strlen(key) / 8 + 4, 0);
		/* without an error: compiling the object has made it before */
		if (schema_names(s, a->parts.at[k], &names) == 0 && names &&
			!dfa_accepts(names, key, strlen(key)))
			return false;
		const json_t *part = a->parts.at[k];
		const json_t *patterns = schema_keyword(part, "patternProperties");
		const json_t *own = json_object_get(schema_keyword(part, "properties"),
			key);
		bool found = own != NULL;
		const char *pattern;
		json_t *v;

		if (own && !add_schema(s, out, own))
			return false;
		json_object_foreach((json_t *)patterns, pattern, v) {
			const struct lm_dfa *d;

			dfa_use(&s->budget, strlen(key) / 8 + 4, 0);
			if (!s->budget.steps) /* what is spent next fails */
				return false;
			d = schema_pattern(s, patterns, pattern, strlen(pattern), v);
			if (!d || !dfa_accepts(d, key, strlen(key)))
				continue;
			found = true;
			if (!add_schema(s, out, v))
				return false;
		}
		if (!found &&
			!add_schema(s, out, schema_keyword(part, "additionalProperties")))
			return false;
	}
	return true;
}
