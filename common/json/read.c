/* read.c - parses JSON text from strangers into jansson values, with limits. */
#include "common/json/read.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "common/json/text.h"

#define NUMBER_BYTES_MAX 64 /* longer ones go through the heap */

struct reader {
	struct json_text t;
	int depth;          /* levels that may still be opened */
	bool spelled;       /* 1.0 is no integer */
	size_t room;        /* memory that values may still take; SIZE_MAX: any */
	struct buf scratch; /* a string without its escapes */
};

/* A string, which points into the text or into scratch; valid until the next one. */
struct span {
	const char *data;
	size_t len;
};

/* --- strings ----------------------------------------------------------------------------- */

/* Not 0 if one of eight bytes ends a run of plain ASCII: a quote, a backslash, a control
 * character or a byte beyond ASCII. */
static uint64_t marks(uint64_t w)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
	uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';

	return (w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) & highs;
}

/* Advances to the first quote, backslash or control character. Bytes beyond ASCII count as
 * plain, and *ascii is false then. */
static void skip_plain(struct reader *r, bool *ascii)
{
	while (r->t.at < r->t.end) {
		unsigned char c;
		uint64_t eight;

		if (r->t.end - r->t.at >= 8) {
			memcpy(&eight, r->t.at, 8);
			if (!marks(eight)) {
				r->t.at += 8;
				continue;
			}
		}
		c = (unsigned char)*r->t.at;
		if (c == '"' || c == '\\' || c < 0x20)
			return;
		if (c >= 0x80)
			*ascii = false;
		r->t.at++;
	}
}

static bool read_hex4(struct reader *r, uint32_t *out)
{
	if (r->t.end - r->t.at < 4)
		return false;
	*out = 0;
	for (int i = 0; i < 4; i++) {
		char c = *r->t.at++;
		int v = c >= '0' && c <= '9' ? c - '0' :
			c >= 'a' && c <= 'f' ? c - 'a' + 10 :
			c >= 'A' && c <= 'F' ? c - 'A' + 10 :
					       -1;

		if (v < 0)
			return false;
		*out = *out << 4 | (uint32_t)v;
	}
	return true;
}

static void add_utf8(struct buf *out, uint32_t c)
{
	if (c < 0x80) {
		buf_addc(out, (char)c);
	} else if (c < 0x800) {
		buf_addc(out, (char)(0xc0 | c >> 6));
		buf_addc(out, (char)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		buf_addc(out, (char)(0xe0 | c >> 12));
		buf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_addc(out, (char)(0x80 | (c & 0x3f)));
	} else {
		buf_addc(out, (char)(0xf0 | c >> 18));
		buf_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
		buf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_addc(out, (char)(0x80 | (c & 0x3f)));
	}
}

/* Reads what follows the `u` of \u: one escape, or for a surrogate pair two of them. NUL and
 * lone surrogates are refused. */
static bool read_unicode(struct reader *r)
{
	uint32_t c, low;

	if (!read_hex4(r, &c) || !c || (c >= 0xdc00 && c <= 0xdfff))
		return false;
	if (c >= 0xd800 && c <= 0xdbff) {
		if (!json_text_take(&r->t, '\\') || !json_text_take(&r->t, 'u') ||
			!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	add_utf8(&r->scratch, c);
	return true;
}

static bool read_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c;

	if (r->t.at == r->t.end)
		return false;
	c = *r->t.at++;
	if (c == 'u')
		return read_unicode(r);
	found = c ? strchr(from, c) : NULL;
	if (!found)
		return false;
	buf_addc(&r->scratch, to[found - from]);
	return true;
}

/* Reads a string, r->t.at at its opening quote. */
static bool read_string(struct reader *r, struct span *out)
{
	bool ascii = true, escaped = false;
	const char *start;

	if (!json_text_take(&r->t, '"'))
		return false;
	buf_reset(&r->scratch);
	for (start = r->t.at;; start = r->t.at) {
		skip_plain(r, &ascii);
		if (r->t.at == r->t.end)
			return false;
		if (*r->t.at == '"' && !escaped)
			break;
		buf_add(&r->scratch, start, (size_t)(r->t.at - start));
		escaped = true;
		if (*r->t.at == '"')
			break;
		if (!json_text_take(&r->t, '\\') || !read_escape(r))
			return false;
	}
	*out = escaped ? (struct span){ r->scratch.data, r->scratch.len } :
			 (struct span){ start, (size_t)(r->t.at - start) };
	r->t.at++;
	return ascii || utf8_valid(out->data, out->len);
}

/* --- numbers ----------------------------------------------------------------------------- */

static bool small_integer(const char *s, const char *end, int64_t *out)
{
	bool negative = *s == '-';
	int64_t v = 0;

	s += negative;
	if (end - s > 18)
		return false;
	for (; s < end; s++)
		v = v * 10 + (*s - '0');
	*out = negative ? -v : v;
	return true;
}

static json_t *number_of(const char *text, bool whole, bool spelled)
{
	char *end;
	double d;

	if (whole) {
		long long v;

		errno = 0;
		v = strtoll(text, &end, 10);
		if (errno != ERANGE)
			return json_integer(v);
	}
	d = strtod(text, &end); /* underflow is 0, overflow is refused */
	if (!spelled && *end == '\0' && fabs(d) <= (double)JSON_SAFE_INTEGER_MAX &&
		d == (double)(int64_t)d)
		return json_integer((int64_t)d);
	return *end == '\0' && isfinite(d) ? json_real(d) : NULL;
}

static json_t *read_number(struct reader *r)
{
	const char *start = r->t.at;
	char few[NUMBER_BYTES_MAX];
	struct json_digits digits;
	bool whole;
	size_t len;
	int64_t v;

	if (!json_text_number(&r->t, &digits))
		return NULL;
	whole = !digits.fraction && !digits.exponent;
	if (whole && small_integer(start, r->t.at, &v))
		return json_integer(v);
	len = (size_t)(r->t.at - start);
	if (len < sizeof few) {
		memcpy(few, start, len);
		few[len] = '\0';
		return number_of(few, whole, r->spelled);
	}
	buf_reset(&r->scratch);
	buf_add(&r->scratch, start, len);
	return number_of(r->scratch.data, whole, r->spelled);
}

/* --- values ------------------------------------------------------------------------------ */

static json_t *read_value(struct reader *r);

/* What values take, with their places in what they are in, as measured with glibc. */
#define OBJECT_BYTES 320
#define ARRAY_BYTES  160
#define FIELD_BYTES  112
#define STRING_BYTES 80
#define NUMBER_BYTES 48
#define WORD_BYTES   24

/* Takes memory for a value. */
static bool take(struct reader *r, size_t bytes)
{
	if (r->room == SIZE_MAX)
		return true;
	r->room = bytes < r->room ? r->room - bytes : 0;
	return r->room > 0;
}

static bool read_field(struct reader *r, json_t *obj)
{
	struct span key;
	char few[128], *name;
	json_t *v;
	bool ok = false;

	json_text_space(&r->t);
	if (!read_string(r, &key) || !take(r, FIELD_BYTES + key.len) ||
		json_object_getn(obj, key.data, key.len))
		return false; /* not a string, or a duplicate key */
	/* reading the value may use scratch */
	name = key.len <= sizeof few ? few : malloc(key.len);
	if (!name)
		return false;
	memcpy(name, key.data, key.len);
	json_text_space(&r->t);
	if (json_text_take(&r->t, ':') && (v = read_value(r)))
		ok = json_object_setn_new_nocheck(obj, name, key.len, v) == 0;
	if (name != few)
		free(name);
	return ok;
}

static bool read_item(struct reader *r, json_t *array)
{
	json_t *v = read_value(r);

	return v && json_array_append_new(array, v) == 0;
}

/* Reads the contents of the brackets, r->t.at after the opening one; takes v. */
static json_t *read_inside(struct reader *r, json_t *v, char close,
	bool (*read_one)(struct reader *, json_t *))
{
	bool ok = v && r->depth-- > 0;

	json_text_space(&r->t);
	if (ok && json_text_take(&r->t, close)) {
		r->depth++;
		return v;
	}
	do
		ok = ok && read_one(r, v), json_text_space(&r->t);
	while (ok && json_text_take(&r->t, ','));
	if (ok && json_text_take(&r->t, close)) {
		r->depth++;
		return v;
	}
	json_decref(v);
	return NULL;
}

static json_t *read_value(struct reader *r)
{
	struct span s;

	json_text_space(&r->t);
	if (r->t.at == r->t.end)
		return NULL;
	switch (*r->t.at) {
	case '{':
		r->t.at++;
		return !take(r, OBJECT_BYTES) ?
			NULL :
			read_inside(r, json_object(), '}', read_field);
	case '[':
		r->t.at++;
		return !take(r, ARRAY_BYTES) ?
			NULL :
			read_inside(r, json_array(), ']', read_item);
	case '"':
		return read_string(r, &s) && take(r, STRING_BYTES + s.len) ?
			json_stringn_nocheck(s.data, s.len) :
			NULL;
	case 't':
		return take(r, WORD_BYTES) && json_text_word(&r->t, "true") ?
			json_true() :
			NULL;
	case 'f':
		return take(r, WORD_BYTES) && json_text_word(&r->t, "false") ?
			json_false() :
			NULL;
	case 'n':
		return take(r, WORD_BYTES) && json_text_word(&r->t, "null") ?
			json_null() :
			NULL;
	default:
		return take(r, NUMBER_BYTES) ? read_number(r) : NULL;
	}
}

json_t *json_read(const char *text, size_t len, int depth_max, bool spelled)
{
	size_t room = SIZE_MAX, at;

	return json_read_within(text, len, depth_max, spelled, &room, &at);
}

json_t *json_read_within(const char *text, size_t len, int depth_max, bool spelled,
	size_t *room, size_t *at)
{
	struct reader r = { .t = { text, text + len },
		.depth = depth_max,
		.spelled = spelled,
		.room = *room };
	json_t *v = read_value(&r);

	json_text_space(&r.t);
	if (v && r.t.at != r.t.end) {
		json_decref(v);
		v = NULL;
	}
	buf_release(&r.scratch);
	*room = r.room;
	*at = (size_t)(r.t.at - text);
	return v;
}
