/* schema.c - checks records against the JSON Schemas that are built in. */
#include "common/json/schema.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/suggest.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "common/base/address.h"

#define KINDS_MAX 256

/* made from common/json/schema/ by scripts/embed; both end with NULL */
extern const char *const schema_embedded_kinds[];
extern const char *const schema_embedded_texts[];

static int index_of(const char *kind)
{
	for (int i = 0; schema_embedded_kinds[i]; i++)
		if (strcmp(schema_embedded_kinds[i], kind) == 0)
			return i;
	return -1;
}

const char *schema_text(const char *kind)
{
	int i = index_of(kind);

	return i < 0 ? NULL : schema_embedded_texts[i];
}

const char *const *schema_kinds(void)
{
	return schema_embedded_kinds;
}

/* Takes out of a schema what is only for readers, at each level: half of its words. */
static void drop_annotations(json_t *schema)
{
	static const char *const words[] = { "$schema", "$id", "title", "description",
		"examples", "$comment" };
	json_t *items = json_object_get(schema, "items");
	json_t *others = json_object_get(schema, "additionalProperties"), *property;
	const char *name;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		json_object_del(schema, words[i]);
	json_object_foreach(json_object_get(schema, "properties"), name, property)
		drop_annotations(property);
	if (json_is_object(items))
		drop_annotations(items);
	if (json_is_object(others))
		drop_annotations(others);
}

/* Parsed on first use and cached: a program reads few kinds, many records. */
static const json_t *schema_of(int i)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static json_t *parsed[KINDS_MAX];
	json_t *schema;

	if (i >= KINDS_MAX)
		bug("more than %d record kinds", KINDS_MAX);
	pthread_mutex_lock(&lock);
	if (!parsed[i]) {
		parsed[i] = json_parse_object(schema_embedded_texts[i],
			strlen(schema_embedded_texts[i]), schema_embedded_kinds[i]);
		drop_annotations(parsed[i]);
	}
	schema = parsed[i];
	pthread_mutex_unlock(&lock);
	if (!schema)
		bug("schema: %s", err_get()->text);
	return schema;
}

/* position of a check: the path is a list that lives on the stack of the walk */
struct place {
	const struct place *up;
	const char *where;
	const char *key; /* or NULL: */
	size_t index;
};

static void path_text(struct buf *out, const struct place *p)
{
	if (!p->up)
		return;
	path_text(out, p->up);
	if (p->key)
		buf_addf(out, "%s%.60s", p->up->up ? "." : "", p->key);
	else
		buf_addf(out, "[%zu]", p->index);
}

static int fail(const struct place *p, const char *reason)
{
	struct buf path = BUF_INIT;

	path_text(&path, p);
	if (path.len)
		err_set(EX_DATAERR, "%s: %s: %s", p->where, path.data, reason);
	else
		err_set(EX_DATAERR, "%s: %s", p->where, reason);
	buf_release(&path);
	return -1;
}

static int fail_value(const struct place *p, const json_t *v, const char *reason,
	const json_t *than)
{
	struct buf text = BUF_INIT;
	int rc;

	json_write(&text, v);
	if (text.len > 60) {
		text.len = 57;
		text.data[57] = '\0';
		buf_adds(&text, "...");
	}
	buf_addf(&text, " %s", reason);
	if (than)
		json_write(&text, than);
	rc = fail(p, text.data);
	buf_release(&text);
	return rc;
}

static bool is_whole(const json_t *v)
{
	double d;

	/* beyond 2^53 a signature, which sees doubles, would cover its neighbours as well */
	d = json_number_value(v);
	if (fabs(d) > (double)JSON_SAFE_INTEGER_MAX)
		return false;
	return json_is_integer(v) || d == (double)(int64_t)d;
}

static bool has_type(const json_t *v, const char *type)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return strcmp(type, "object") == 0;
	case JSON_ARRAY:
		return strcmp(type, "array") == 0;
	case JSON_STRING:
		return strcmp(type, "string") == 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return strcmp(type, "number") == 0 ||
			(strcmp(type, "integer") == 0 && is_whole(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return strcmp(type, "boolean") == 0;
	default:
		return strcmp(type, "null") == 0;
	}
}

static int check_type(const json_t *types, const json_t *v, const struct place *p)
{
	struct buf text = BUF_INIT;
	const json_t *type;
	size_t i;
	int rc;

	if (json_is_string(types)) {
		if (has_type(v, json_string_value(types)))
			return 0;
		buf_addf(&text, "is not of type %s", json_string_value(types));
	} else {
		buf_adds(&text, "is not of type");
		json_array_foreach(types, i, type) {
			if (has_type(v, json_string_value(type))) {
				buf_release(&text);
				return 0;
			}
			buf_addf(&text, "%s %s", i ? " or" : "", json_string_value(type));
		}
	}
	rc = fail_value(p, v, text.data, NULL);
	buf_release(&text);
	return rc;
}

/* 1 and 1.0 are the same number to JSON Schema */
static bool same(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) == json_number_value(b);
	return json_equal(a, b);
}

/* Adds the value that v was meant to be to the error, as its hint. */
static void add_nearest(const json_t *values, const json_t *v)
{
	struct suggest near = { .wanted = json_string_value(v) };
	const json_t *value;
	size_t i;

	if (!near.wanted)
		return;
	json_array_foreach(values, i, value)
		if (json_is_string(value))
			suggest_offer(&near, json_string_value(value),
				json_string_length(value));
	if (near.best[0])
		err_hint("did you mean '%s'?", near.best);
}

static int check_enum(const json_t *values, const json_t *v, const struct place *p)
{
	const json_t *value;
	size_t i;

	json_array_foreach(values, i, value)
		if (same(value, v))
			return 0;
	fail_value(p, v, "is not one of ", values);
	add_nearest(values, v);
	return -1;
}

static bool is_sha256(const char *s)
{
	return strspn(s, "0123456789abcdef") == 64 && !s[64];
}

static bool is_country(const char *s)
{
	return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 2 && !s[2];
}

/* "17-22": 0 to 23, then 0 to 24 */
static bool is_hours(const char *s)
{
	int hour[2] = { 0, 0 };

	for (int i = 0; i < 2; i++, s++) {
		size_t digits = strspn(s, "0123456789");

		if (digits < 1 || digits > 2 || s[digits] != "-"[i])
			return false;
		for (; digits; digits--)
			hour[i] = hour[i] * 10 + *s++ - '0';
	}
	return hour[0] < 24 && hour[1] <= 24;
}

/* A device's own name. Names that begin with "cpu" mean the machine's CPU in a challenge. */
static bool is_uuid(const char *s)
{
	for (const char *c = s; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c > '~')
			return false;
	return strncasecmp(s, "cpu", 3) != 0;
}

/* Checks that no two items have the same text in that field; items without it do not count. */
static int check_distinct(const json_t *list, const char *key, const struct place *p)
{
	const json_t *item, *other;
	size_t i, k;

	json_array_foreach(list, i, item) {
		const char *text = json_string_value(json_object_get(item, key));
		struct place there = { p, p->where, NULL, i };
		struct place field = { &there, p->where, key, 0 };

		if (!text)
			continue;
		json_array_foreach(list, k, other) {
			const char *before = json_string_value(
				json_object_get(other, key));

			if (k == i)
				break;
			if (before && strcmp(before, text) == 0)
				return fail(&field, "is there twice");
		}
	}
	return 0;
}

static int check_format(const char *format, const json_t *v, const struct place *p)
{
	const char *text = json_string_value(v);
	unsigned char public_key[ADDRESS_BYTES];
	int64_t ms;

	if (json_is_array(v) && strcmp(format, "rnp-distinct-uuids") == 0)
		return check_distinct(v, "uuid", p);
	if (!text)
		return 0;
	if (strcmp(format, "date-time") == 0) {
		if (clock_parse(text, "", &ms) < 0)
			return fail_value(p, v, "is not an RFC 3339 time", NULL);
	} else if (strcmp(format, "rnp-address") == 0) {
		if (address_parse(text, "", public_key) < 0)
			return fail_value(p, v, "is not a base58 address", NULL);
	} else if (strcmp(format, "rnp-sha256") == 0) {
		if (!is_sha256(text))
			return fail_value(p, v, "is not a SHA-256 in lower-case hex",
				NULL);
	} else if (strcmp(format, "rnp-country") == 0) {
		if (!is_country(text))
			return fail_value(p, v, "is not two capital letters", NULL);
	} else if (strcmp(format, "rnp-hours") == 0) {
		if (!is_hours(text))
			return fail_value(p, v, "is not two hours of the day as 17-22",
				NULL);
	} else if (strcmp(format, "rnp-uuid") == 0) {
		if (!is_uuid(text))
			return fail_value(p, v, "cannot be a GPU's uuid", NULL);
	} else {
		bug("schema format '%s'", format);
	}
	return 0;
}

/* JSON Schema counts characters, not bytes */
static size_t characters(const json_t *string)
{
	return utf8_count(json_string_value(string), json_string_length(string));
}

static bool less(const json_t *a, const json_t *b)
{
	/* as integers if both are: doubles cannot tell 2^63 from its neighbours */
	if (json_is_integer(a) && json_is_integer(b))
		return json_integer_value(a) < json_integer_value(b);
	return json_number_value(a) < json_number_value(b);
}

static int check_bound(const char *word, const json_t *bound, const json_t *v,
	const struct place *p)
{
	size_t n = (size_t)json_integer_value(bound);

	if (strcmp(word, "minimum") == 0)
		return json_is_number(v) && less(v, bound) ?
			fail_value(p, v, "is less than ", bound) :
			0;
	if (strcmp(word, "maximum") == 0)
		return json_is_number(v) && less(bound, v) ?
			fail_value(p, v, "is more than ", bound) :
			0;
	if (strcmp(word, "minLength") == 0)
		return json_is_string(v) && characters(v) < n ?
			fail_value(p, v, "is shorter than ", bound) :
			0;
	if (strcmp(word, "maxLength") == 0)
		return json_is_string(v) && characters(v) > n ?
			fail_value(p, v, "is longer than ", bound) :
			0;
	if (strcmp(word, "minItems") == 0)
		return json_is_array(v) && json_array_size(v) < n ?
			fail(p, "has too few items") :
			0;
	if (strcmp(word, "maxItems") == 0)
		return json_is_array(v) && json_array_size(v) > n ?
			fail(p, "has too many items") :
			0;
	if (strcmp(word, "maxProperties") == 0)
		return json_is_object(v) && json_object_size(v) > n ?
			fail(p, "has too many fields") :
			0;
	bug("schema keyword '%s'", word);
}

static int check(const json_t *schema, const json_t *v, const struct place *p);

/* Refuses a field of a kind that has no others than its own: what a person wrote gets the nearest
 * name. */
static int fail_unknown(const struct place *p, const json_t *properties)
{
	struct suggest near = { .wanted = p->key };
	struct buf reason = BUF_INIT;
	const char *name;
	char words[100];
	json_t *unused;
	int rc;

	json_object_foreach((json_t *)properties, name, unused)
		suggest_offer(&near, name, strlen(name));
	buf_addf(&reason, "is not a field of this kind%s",
		suggest_text(&near, words, sizeof words));
	rc = fail(p, reason.data);
	buf_release(&reason);
	return rc;
}

/* Refuses the first field that the schema does not know, if it allows no others. */
static int check_known(const json_t *schema, const json_t *v, const struct place *p)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *key;
	json_t *item;

	if (!json_is_false(json_object_get(schema, "additionalProperties")))
		return 0;
	json_object_foreach((json_t *)v, key, item) {
		struct place there = { p, p->where, key, 0 };

		if (!json_object_get(properties, key))
			return fail_unknown(&there, properties);
	}
	return 0;
}

static int check_required(const json_t *schema, const json_t *v, const struct place *p)
{
	const json_t *name;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name) {
		struct place there = { p, p->where, json_string_value(name), 0 };

		if (!json_is_object(v) || json_object_get(v, there.key))
			continue;
		/* a mistyped name is there under another one */
		return check_known(schema, v, p) < 0 ? -1 : fail(&there, "is missing");
	}
	return 0;
}

static int check_properties(const json_t *schema, const json_t *v, const struct place *p)
{
	const json_t *properties = json_object_get(schema, "properties");
	const json_t *others = json_object_get(schema, "additionalProperties");
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return 0;
	json_object_foreach((json_t *)v, key, item) {
		struct place there = { p, p->where, key, 0 };
		const json_t *known = json_object_get(properties, key);

		if (!known)
			known = others;
		if (json_is_false(known))
			return fail_unknown(&there, properties);
		if (json_is_object(known) && check(known, item, &there) < 0)
			return -1;
	}
	return 0;
}

static int check_items(const json_t *schema, const json_t *v, const struct place *p)
{
	json_t *item;
	size_t i;

	if (!json_is_array(v))
		return 0;
	json_array_foreach((json_t *)v, i, item) {
		struct place there = { p, p->where, NULL, i };

		if (check(schema, item, &there) < 0)
			return -1;
	}
	return 0;
}

static int check_word(const char *word, const json_t *rule, const json_t *schema,
	const json_t *v, const struct place *p)
{
	if (strcmp(word, "type") == 0) /* checked first */
		return 0;
	if (strcmp(word, "const") == 0)
		return same(rule, v) ? 0 : fail_value(p, v, "is not ", rule);
	if (strcmp(word, "enum") == 0)
		return check_enum(rule, v, p);
	if (strcmp(word, "required") == 0)
		return check_required(schema, v, p);
	if (strcmp(word, "items") == 0)
		return check_items(rule, v, p);
	if (strcmp(word, "format") == 0)
		return check_format(json_string_value(rule), v, p);
	if (strcmp(word, "properties") == 0)
		return check_properties(schema, v, p);
	if (strcmp(word, "additionalProperties") == 0)
		/* done with properties; alone it makes an object a map */
		return json_object_get(schema, "properties") ?
			0 :
			check_properties(schema, v, p);
	return check_bound(word, rule, v, p);
}

static int check(const json_t *schema, const json_t *v, const struct place *p)
{
	const char *word;
	json_t *rule;

	/* the type first, so that the other keywords' messages make sense */
	rule = json_object_get(schema, "type");
	if (rule && check_type(rule, v, p) < 0)
		return -1;
	json_object_foreach((json_t *)schema, word, rule)
		if (check_word(word, rule, schema, v, p) < 0)
			return -1;
	return 0;
}

int schema_check(const json_t *record, const char *where, const char *kind)
{
	struct place top = { NULL, where, NULL, 0 };
	const char *own;
	int i;

	if (json_check_kind(record, where, kind) < 0)
		return -1;
	own = json_string_value(json_object_get(record, "kind"));
	i = index_of(own);
	if (i < 0)
		return err_set(EX_DATAERR, "%s: kind '%.40s' is not known", where, own);
	return check(schema_of(i), record, &top);
}
