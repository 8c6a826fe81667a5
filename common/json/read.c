/* json_read.c - parses JSON text from strangers into jansson values, with limits. */
#include "common/json/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

#define NUMBER_BYTES_MAX 64 /* longer ones go through the heap */

/* `end` is never read: the text need not end with a NUL. */
struct reader {
	const char *at, *end;
	int depth;          /* levels that may still be opened */
	bool spelled;       /* 1.0 is no integer */
	struct buf scratch; /* a string without its escapes */
};

/* A string, which points into the text or into scratch; valid until the next one. */
struct span {
	const char *data;
	size_t len;
};

static void skip_space(struct reader *r)
{
	while (r->at < r->end &&
		(*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
}

static bool take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

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
 * plain, and *wide reports them. */
static void skip_plain(struct reader *r, bool *ascii)
{
	while (r->at < r->end) {
		unsigned char c;
		uint64_t eight;

		if (r->end - r->at >= 8) {
			memcpy(&eight, r->at, 8);
			if (!marks(eight)) {
				r->at += 8;
				continue;
			}
		}
		c = (unsigned char)*r->at;
		if (c == '"' || c == '\\' || c < 0x20)
			return;
		if (c >= 0x80)
			*ascii = false;
		r->at++;
	}
}

static bool read_hex4(struct reader *r, uint32_t *out)
{
	if (r->end - r->at < 4)
		return false;
	*out = 0;
	for (int i = 0; i < 4; i++) {
		char c = *r->at++;
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
		if (!take(r, '\\') || !take(r, 'u') || !read_hex4(r, &low) ||
			low < 0xdc00 || low > 0xdfff)
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

	if (r->at == r->end)
		return false;
	c = *r->at++;
	if (c == 'u')
		return read_unicode(r);
	found = c ? strchr(from, c) : NULL;
	if (!found)
		return false;
	buf_addc(&r->scratch, to[found - from]);
	return true;
}

/* Reads a string, r->at at its opening quote. */
static bool read_string(struct reader *r, struct span *out)
{
	bool ascii = true, escaped = false;
	const char *start;

	if (!take(r, '"'))
		return false;
	buf_reset(&r->scratch);
	for (start = r->at;; start = r->at) {
		skip_plain(r, &ascii);
		if (r->at == r->end)
			return false;
		if (*r->at == '"' && !escaped)
			break;
		buf_add(&r->scratch, start, (size_t)(r->at - start));
		escaped = true;
		if (*r->at == '"')
			break;
		if (!take(r, '\\') || !read_escape(r))
			return false;
	}
	*out = escaped ? (struct span){ r->scratch.data, r->scratch.len } :
			 (struct span){ start, (size_t)(r->at - start) };
	r->at++;
	return ascii || utf8_valid(out->data, out->len);
}

/* --- numbers ----------------------------------------------------------------------------- */

static size_t skip_digits(struct reader *r)
{
	const char *start = r->at;

	while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
		r->at++;
	return (size_t)(r->at - start);
}

/* Skips a number by JSON's grammar. */
static bool skip_number(struct reader *r, bool *whole)
{
	const char *start;

	take(r, '-');
	start = r->at;
	if (!skip_digits(r) || (*start == '0' && r->at - start > 1))
		return false;
	*whole = true;
	if (take(r, '.')) {
		*whole = false;
		if (!skip_digits(r))
			return false;
	}
	if (take(r, 'e') || take(r, 'E')) {
		*whole = false;
		if (!take(r, '-'))
			take(r, '+');
		if (!skip_digits(r))
			return false;
	}
	return true;
}

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
	const char *start = r->at;
	char few[NUMBER_BYTES_MAX];
	bool whole;
	size_t len;
	int64_t v;

	if (!skip_number(r, &whole))
		return NULL;
	if (whole && small_integer(start, r->at, &v))
		return json_integer(v);
	len = (size_t)(r->at - start);
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

static bool read_field(struct reader *r, json_t *obj)
{
	struct span key;
	char few[128], *name;
	json_t *v;
	bool ok = false;

	skip_space(r);
	if (!read_string(r, &key) || json_object_getn(obj, key.data, key.len))
		return false; /* not a string, or a duplicate key */
	/* reading the value may use scratch */
	name = key.len <= sizeof few ? few : malloc(key.len);
	if (!name)
		return false;
	memcpy(name, key.data, key.len);
	skip_space(r);
	if (take(r, ':') && (v = read_value(r)))
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

/* Reads the contents of the brackets, r->at after the opening one; takes v. */
static json_t *read_inside(struct reader *r, json_t *v, char close,
	bool (*read_one)(struct reader *, json_t *))
{
	bool ok = v && r->depth-- > 0;

	skip_space(r);
	if (ok && take(r, close)) {
		r->depth++;
		return v;
	}
	do
		ok = ok && read_one(r, v), skip_space(r);
	while (ok && take(r, ','));
	if (ok && take(r, close)) {
		r->depth++;
		return v;
	}
	json_decref(v);
	return NULL;
}

static json_t *read_word(struct reader *r, const char *word, json_t *takes_v)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
		return NULL;
	r->at += n;
	return takes_v;
}

static json_t *read_value(struct reader *r)
{
	struct span s;

	skip_space(r);
	if (r->at == r->end)
		return NULL;
	switch (*r->at) {
	case '{':
		r->at++;
		return read_inside(r, json_object(), '}', read_field);
	case '[':
		r->at++;
		return read_inside(r, json_array(), ']', read_item);
	case '"':
		return read_string(r, &s) ? json_stringn_nocheck(s.data, s.len) : NULL;
	case 't':
		return read_word(r, "true", json_true());
	case 'f':
		return read_word(r, "false", json_false());
	case 'n':
		return read_word(r, "null", json_null());
	default:
		return read_number(r);
	}
}

json_t *json_read(const char *text, size_t len, int depth_max, bool spelled)
{
	struct reader r = { .at = text,
		.end = text + len,
		.depth = depth_max,
		.spelled = spelled };
	json_t *v = read_value(&r);

	skip_space(&r);
	if (v && r.at != r.end) {
		json_decref(v);
		v = NULL;
	}
	buf_release(&r.scratch);
	return v;
}
