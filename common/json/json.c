/* json.c - reads and writes fields of JSON values, with their path in every error. */
#include "common/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/base/utf8.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/read.h"
#include "common/base/num.h"
#include "common/base/utf8.h"

/* Checks the nesting of brackets outside strings, so that a hostile depth never reaches the
 * parser's recursion. Malformed text is left to the parser. */
static bool deeper_than(const char *text, size_t len, int depth_max)
{
	bool in_string = false;
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > depth_max)
				return true;
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return false;
}

/* The first line of a record in several lines, as jq writes it, is one bracket. */
static char lone_bracket(const char *text, size_t len)
{
	size_t from = 0;

	while (from < len && strchr(" \t\r", text[from]))
		from++;
	while (len > from && strchr(" \t\r", text[len - 1]))
		len--;
	return len == from + 1 && strchr("{[", text[from]) ? text[from] : '\0';
}

/* jansson may tell the reason why a text of a stranger is refused that is no longer than this: it
 * takes memory without a bound. */
#define BOUNDED_BYTES_MAX 65536

static json_t *parse(const char *text, size_t len, int depth_max, const char *where,
	bool spelled, size_t most)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
	json_error_t error;
	size_t room = most, at;
	json_t *v = json_read_within(text, len, depth_max, spelled, &room, &at);

	if (v)
		return v;
	if (!room) {
		err_set(EX_DATAERR,
			"%s: its values take more than %zu bytes of memory (byte %zu)",
			where, most, at);
		return NULL;
	}
	if (!len) {
		err_set(EX_DATAERR, "%s: not JSON: it is empty", where);
		return NULL;
	}
	if (len >= 3 && memcmp(text, "\x1f\x8b\x08", 3) == 0) {
		err_set(EX_DATAERR, "%s: compressed with gzip: unpack it first", where);
		return NULL;
	}
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3; /* a byte order mark, as Windows' editors write it */
		len -= 3;
	}
	if (len >= 2 &&
		(memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
		err_set(EX_DATAERR, "%s: not JSON: UTF-16: save it as UTF-8", where);
		return NULL;
	}
	if (memchr(text, '\0', len)) {
		err_set(EX_DATAERR, "%s: not JSON: holds a NUL byte", where);
		return NULL;
	}
	if (lone_bracket(text, len)) {
		err_set(EX_DATAERR, "%s: only '%c': one record a line: jq -c %s", where,
			lone_bracket(text, len),
			lone_bracket(text, len) == '[' ? "'.[]'" : ".");
		return NULL;
	}
	if (deeper_than(text, len, depth_max)) {
		err_set(EX_DATAERR, "%s: nested deeper than %d", where, depth_max);
		return NULL;
	}
	if (most != SIZE_MAX && len > BOUNDED_BYTES_MAX) {
		err_set(EX_DATAERR, "%s: not JSON (byte %zu)", where, at);
		return NULL;
	}
	v = json_loadb(text, len, flags, &error);
	/* jansson refuses integers beyond 64 bits unless they are read as reals */
	if (!v && json_error_code(&error) == json_error_numeric_overflow)
		v = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &error);
	if (!v && json_error_code(&error) == json_error_null_character)
		err_set(EX_DATAERR, "%s: \\u0000 is not allowed (byte %d)", where,
			error.position);
	else if (!v)
		err_set(EX_DATAERR, "%s: not JSON: %s (byte %d)", where, error.text,
			error.position);
	return v;
}

json_t *json_parse(const char *text, size_t len, int depth_max, const char *where)
{
	return parse(text, len, depth_max, where, false, SIZE_MAX);
}

json_t *json_parse_spelled(const char *text, size_t len, int depth_max, const char *where)
{
	return parse(text, len, depth_max, where, true, SIZE_MAX);
}

json_t *json_parse_bounded(const char *text, size_t len, int depth_max, size_t most,
	const char *where)
{
	return parse(text, len, depth_max, where, true, most);
}

json_t *json_parse_object(const char *text, size_t len, const char *where)
{
	return json_parse_object_to(text, len, JSON_DEPTH_MAX, where);
}

json_t *json_parse_object_to(const char *text, size_t len, int depth_max,
	const char *where)
{
	json_t *v = json_parse(text, len, depth_max, where);

	if (v && !json_is_object(v)) {
		json_decref(v);
		err_set(EX_DATAERR, "%s: not a JSON object", where);
		return NULL;
	}
	return v;
}

/* Beyond 64 bits a real is written with an exponent, although ECMAScript writes digits up to
 * 10^21: digits would be read as an integer that does not fit, and jansson then reads every
 * integer of the text as a real, those beyond 2^53 with loss. */
static void write_real(struct buf *out, double v)
{
	char text[40];

	if (fabs(v) < 9223372036854775808.0 || fabs(v) >= 1e21) {
		canon_number(out, v);
		return;
	}
	for (int places = 0; places <= 16; places++) {
		snprintf(text, sizeof text, "%.*e", places, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_adds(out, text);
}

void json_write(struct buf *out, const json_t *v)
{
	const char *key;
	json_t *item;
	size_t i;

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		buf_addc(out, '{');
		json_object_foreach((json_t *)v, key, item) {
			if (out->data[out->len - 1] != '{')
				buf_addc(out, ',');
			canon_string(out, key, strlen(key));
			buf_addc(out, ':');
			json_write(out, item);
		}
		buf_addc(out, '}');
		break;
	case JSON_ARRAY:
		buf_addc(out, '[');
		json_array_foreach(v, i, item) {
			if (i)
				buf_addc(out, ',');
			json_write(out, item);
		}
		buf_addc(out, ']');
		break;
	case JSON_STRING:
		canon_string(out, json_string_value(v), json_string_length(v));
		break;
	case JSON_INTEGER:
		buf_add_i64(out, json_integer_value(v));
		break;
	case JSON_REAL:
		write_real(out, json_real_value(v));
		break;
	case JSON_TRUE:
		buf_adds(out, "true");
		break;
	case JSON_FALSE:
		buf_adds(out, "false");
		break;
	case JSON_NULL:
		buf_adds(out, "null");
		break;
	}
}

static int wrong(const char *where, const char *key, const json_t *v, const char *wanted)
{
	if (!v)
		return err_set(EX_DATAERR, "%s: field '%s' is missing", where, key);
	return err_set(EX_DATAERR, "%s: field '%s' is not %s", where, key, wanted);
}

int json_get_text(const json_t *obj, const char *where, const char *key, const char **out)
{
	const json_t *v = json_object_get(obj, key);

	if (!json_is_string(v))
		return wrong(where, key, v, "a string");
	*out = json_string_value(v);
	return 0;
}

int json_get_i64(const json_t *obj, const char *where, const char *key, int64_t min,
	int64_t max, int64_t *out)
{
	const json_t *v = json_object_get(obj, key);
	int64_t n;

	if (json_is_integer(v)) {
		n = json_integer_value(v);
		if (n > JSON_SAFE_INTEGER_MAX || n < -JSON_SAFE_INTEGER_MAX)
			return wrong(where, key, v,
				"exact: beyond 2^53 it has to be a decimal string");
	} else if (json_is_string(v)) {
		if (num_i64(json_string_value(v), key, INT64_MIN, INT64_MAX, &n) < 0)
			return wrong(where, key, v, "a whole number");
	} else if (json_is_real(v)) {
		double d = json_real_value(v);

		if (fabs(d) > JSON_SAFE_INTEGER_MAX || d != (double)(int64_t)d)
			return wrong(where, key, v, "a whole number");
		n = (int64_t)d;
	} else {
		return wrong(where, key, v, "a whole number");
	}
	if (n < min || n > max)
		return err_set(EX_DATAERR,
			"%s: field '%s' is %" PRId64 ", not between %" PRId64
			" and %" PRId64,
			where, key, n, min, max);
	*out = n;
	return 0;
}

int json_get_f64(const json_t *obj, const char *where, const char *key, double *out)
{
	const json_t *v = json_object_get(obj, key);

	if (!json_is_number(v))
		return wrong(where, key, v, "a number");
	*out = json_number_value(v);
	return 0;
}

int json_get_bool(const json_t *obj, const char *where, const char *key, bool *out)
{
	const json_t *v = json_object_get(obj, key);

	if (!json_is_boolean(v))
		return wrong(where, key, v, "true or false");
	*out = json_is_true(v);
	return 0;
}

int json_get_time(const json_t *obj, const char *where, const char *key, int64_t *ms)
{
	const json_t *v = json_object_get(obj, key);

	if (!json_is_string(v) || clock_parse(json_string_value(v), key, ms) < 0)
		return wrong(where, key, v, "an RFC 3339 time");
	return 0;
}

int json_get_object(const json_t *obj, const char *where, const char *key, json_t **out)
{
	json_t *v = json_object_get(obj, key);

	if (!json_is_object(v))
		return wrong(where, key, v, "an object");
	*out = v;
	return 0;
}

int json_get_array(const json_t *obj, const char *where, const char *key, json_t **out)
{
	json_t *v = json_object_get(obj, key);

	if (!json_is_array(v))
		return wrong(where, key, v, "an array");
	*out = v;
	return 0;
}

int json_opt_text(const json_t *obj, const char *where, const char *key, const char **out)
{
	return json_object_get(obj, key) ? json_get_text(obj, where, key, out) : 0;
}

int json_opt_i64(const json_t *obj, const char *where, const char *key, int64_t min,
	int64_t max, int64_t *out)
{
	return json_object_get(obj, key) ? json_get_i64(obj, where, key, min, max, out) :
					   0;
}

int json_opt_f64(const json_t *obj, const char *where, const char *key, double *out)
{
	return json_object_get(obj, key) ? json_get_f64(obj, where, key, out) : 0;
}

int json_opt_bool(const json_t *obj, const char *where, const char *key, bool *out)
{
	return json_object_get(obj, key) ? json_get_bool(obj, where, key, out) : 0;
}

int json_opt_time(const json_t *obj, const char *where, const char *key, int64_t *ms)
{
	return json_object_get(obj, key) ? json_get_time(obj, where, key, ms) : 0;
}

int json_check_kind(const json_t *record, const char *where, const char *kind)
{
	const char *got;
	int64_t v;

	if (!json_is_object(record))
		return err_set(EX_DATAERR, "%s: not a JSON object", where);
	if (json_get_text(record, where, "kind", &got) < 0)
		return -1;
	if (kind ? strcmp(got, kind) != 0 : strncmp(got, "rnp.", 4) != 0)
		return err_set(EX_DATAERR, "%s: kind '%.40s' is not %s", where, got,
			kind ? kind : "one of ours (rnp.*)");
	if (json_get_i64(record, where, "v", INT64_MIN, INT64_MAX, &v) < 0)
		return -1;
	if (v != 1)
		return err_set(EX_DATAERR,
			"%s: version %" PRId64 " of %.40s is not known here, only 1",
			where, v, got);
	return 0;
}

json_t *json_record(const char *kind)
{
	json_t *record = json_object();

	json_set_text(record, "kind", kind);
	json_set_i64(record, "v", 1);
	return record;
}

void json_set(json_t *obj, const char *key, json_t *takes_v)
{
	if (json_object_set_new(obj, key, takes_v) < 0)
		bug("field '%s' cannot be set", key);
}

void json_push(json_t *array, json_t *takes_v)
{
	if (json_array_append_new(array, takes_v) < 0)
		bug("cannot append to an array");
}

/* Makes a JSON string of any bytes: those that are not UTF-8 become U+FFFD. Texts come from
 * file names, devices and truncated messages. */
static json_t *string_of(const char *text)
{
	json_t *v = json_string(text);
	struct buf clean = BUF_INIT;

	if (v)
		return v;
	while (*text) {
		unsigned char lead = (unsigned char)*text;
		size_t n = strnlen(text,
			lead < 0x80         ? 1 :
				lead < 0xe0 ? 2 :
				lead < 0xf0 ? 3 :
					      4);

		v = json_stringn(text, n);
		if (v)
			buf_add(&clean, text, n);
		else
			buf_adds(&clean, "\xef\xbf\xbd");
		text += v ? n : 1;
		json_decref(v);
	}
	v = json_string(buf_text(&clean));
	buf_release(&clean);
	return v;
}

void json_set_text(json_t *obj, const char *key, const char *text)
{
	if (text)
		json_set(obj, key, string_of(text));
}

void json_set_i64(json_t *obj, const char *key, int64_t v)
{
	char text[24];

	if (v <= JSON_SAFE_INTEGER_MAX && v >= -JSON_SAFE_INTEGER_MAX) {
		json_set(obj, key, json_integer(v));
		return;
	}
	snprintf(text, sizeof text, "%" PRId64, v);
	json_set_text(obj, key, text);
}

void json_write_text(struct buf *out, const char *text)
{
	json_t *clean;

	if (utf8_valid(text, strlen(text))) {
		canon_string(out, text, strlen(text));
		return;
	}
	clean = string_of(text);
	json_write(out, clean);
	json_decref(clean);
}

void json_write_i64(struct buf *out, int64_t v)
{
	bool quoted = v > JSON_SAFE_INTEGER_MAX || v < -JSON_SAFE_INTEGER_MAX;

	if (quoted)
		buf_addc(out, '"');
	buf_add_i64(out, v);
	if (quoted)
		buf_addc(out, '"');
}

void json_set_f64(json_t *obj, const char *key, double v)
{
	json_set(obj, key, json_real(v));
}

void json_set_bool(json_t *obj, const char *key, bool v)
{
	json_set(obj, key, json_boolean(v));
}

void json_set_time(json_t *obj, const char *key, int64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	json_set_text(obj, key, text);
}

void json_push_text(json_t *array, const char *text)
{
	json_push(array, string_of(text));
}
