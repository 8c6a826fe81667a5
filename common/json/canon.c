/* canon.c - writes JSON values in the canonical form of RFC 8785. */
#include "common/json/canon.h"

#include <math.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define FEW 24 /* fields of an object that are sorted on the stack */

/* Writes the shortest decimal digits of v > 0 that read back as v, and the exponent e of
 * 0.d1d2... x 10^e. Up to 15 digits every decimal has its own double, so that the correctly
 * rounded 15 digits without their trailing zeros are the shortest; only beyond that, and for
 * subnormals, lengths are tried one by one. */
static int shortest_digits(double v, char digits[32], int *exponent)
{
	char text[40];
	int n;

	for (int places = v < 2.3e-308 ? 1 : 15;; places++) {
		snprintf(text, sizeof text, "%.*e", places - 1, v);
		if (strtod(text, NULL) == v || places == 17)
			break;
		/* Just above a power of two the doubles below are twice as dense: the nearest
		 * decimal of this length may read back as the neighbour below while the next
		 * decimal up still reads back as v. */
		if (places == 16) {
			char *last = text + places; /* of d.ddd */

			if (*last < '9') {
				(*last)++;
				if (strtod(text, NULL) == v)
					break;
			}
		}
	}
	digits[0] = text[0];
	n = 1;
	for (const char *s = text + 1; *s && *s != 'e'; s++)
		if (*s != '.')
			digits[n++] = *s;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	*exponent = atoi(strchr(text, 'e') + 1) + 1;
	return n;
}

void canon_number(struct buf *out, double v)
{
	char digits[32];
	int n, e;

	if (v == 0) {
		buf_addc(out, '0');
		return;
	}
	if (fabs(v) <= 9007199254740992.0 && v == (double)(int64_t)v) {
		buf_add_i64(out, (int64_t)v);
		return;
	}
	if (v < 0)
		buf_addc(out, '-');
	n = shortest_digits(fabs(v), digits, &e);
	if (e > 0 && e <= 21) {
		for (int i = 0; i < (n > e ? n : e); i++) {
			if (i == e)
				buf_addc(out, '.');
			buf_addc(out, i < n ? digits[i] : '0');
		}
	} else if (e > -6 && e <= 0) {
		buf_adds(out, "0.");
		for (int i = e; i < 0; i++)
			buf_addc(out, '0');
		buf_add(out, digits, (size_t)n);
	} else {
		buf_addc(out, digits[0]);
		if (n > 1) {
			buf_addc(out, '.');
			buf_add(out, digits + 1, (size_t)n - 1);
		}
		buf_addf(out, "e%+d", e - 1);
	}
}

/* Returns the high bit of each byte of w that needs an escape; bytes above such a one may be
 * marked wrongly, so that only 0 or not 0 counts. */
static uint64_t marks(uint64_t w)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
	uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';

	return (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) |
		       ((slash - ones) & ~slash)) &
		highs;
}

static bool needs_escape(unsigned char c)
{
	return c < 0x20 || c == '"' || c == '\\';
}

static size_t count_escapes(const char *text, size_t len)
{
	size_t n = 0, i = 0;

	while (i < len) {
		uint64_t eight;

		if (len - i >= 8) {
			memcpy(&eight, text + i, 8);
			if (!marks(eight)) {
				i += 8;
				continue;
			}
		}
		n += needs_escape((unsigned char)text[i++]);
	}
	return n;
}

static char *add_escape(char *at, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	/* pairs (character, letter); the first of a pair is what is found */
	const char *found = c ? strchr("\"\"\\\\\bb\tt\nn\ff\rr", c) : NULL;

	*at++ = '\\';
	if (found) {
		*at++ = found[1];
		return at;
	}
	memcpy(at, "u00", 3);
	at[3] = hex[c >> 4];
	at[4] = hex[c & 15];
	return at + 5;
}

void canon_string(struct buf *out, const char *text, size_t len)
{
	size_t escapes = count_escapes(text, len);
	char *to = buf_reserve(out, len + 5 * escapes + 2), *at = to;

	*at++ = '"';
	if (!escapes) {
		memcpy(at, text, len);
		at += len;
	} else {
		for (size_t i = 0; i < len; i++)
			if (needs_escape((unsigned char)text[i]))
				at = add_escape(at, (unsigned char)text[i]);
			else
				*at++ = text[i];
	}
	*at++ = '"';
	*at = '\0';
	out->len += (size_t)(at - to);
}

/* Compares in the order of UTF-16 code units, on UTF-8: byte order is code point order, and
 * differs only where one side is beyond U+FFFF (a surrogate pair, D800..DFFF) and the other in
 * U+E000..U+FFFF. */
static int utf16_order(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;

	while (*x && *x == *y)
		x++, y++;
	if (*x >= 0xee && *y >= 0xee && (*x >= 0xf0) != (*y >= 0xf0))
		return *x >= 0xf0 ? -1 : 1;
	return (int)*x - (int)*y;
}

struct entry {
	const char *key;
	const json_t *v;
};

static int by_key(const void *a, const void *b)
{
	return utf16_order(((const struct entry *)a)->key,
		((const struct entry *)b)->key);
}

/* Most objects are small, and then this is faster than qsort and its calls. */
static void sort_entries(struct entry *e, size_t n)
{
	if (n > FEW) {
		qsort(e, n, sizeof *e, by_key);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct entry x = e[i];
		size_t k = i;

		for (; k > 0 && utf16_order(e[k - 1].key, x.key) > 0; k--)
			e[k] = e[k - 1];
		e[k] = x;
	}
}

static int write_value(struct buf *out, const json_t *v);

static int write_entries(struct buf *out, const struct entry *e, size_t n)
{
	buf_addc(out, '{');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_addc(out, ',');
		canon_string(out, e[i].key, strlen(e[i].key));
		buf_addc(out, ':');
		if (write_value(out, e[i].v) < 0)
			return -1;
	}
	buf_addc(out, '}');
	return 0;
}

static int write_object(struct buf *out, const json_t *obj, const char *left_out)
{
	size_t size = json_object_size(obj), n = 0;
	struct entry few[FEW], *e = size <= FEW ? few : xmalloc(size * sizeof *e);
	json_t *v = (json_t *)obj;
	int rc;

	for (void *at = json_object_iter(v); at; at = json_object_iter_next(v, at)) {
		const char *key = json_object_iter_key(at);

		if (left_out && strcmp(key, left_out) == 0)
			continue;
		e[n++] = (struct entry){ key, json_object_iter_value(at) };
	}
	sort_entries(e, n);
	rc = write_entries(out, e, n);
	if (e != few)
		free(e);
	return rc;
}

static int write_array(struct buf *out, const json_t *v)
{
	size_t i, n = json_array_size(v);

	buf_addc(out, '[');
	for (i = 0; i < n; i++) {
		if (i)
			buf_addc(out, ',');
		if (write_value(out, json_array_get(v, i)) < 0)
			return -1;
	}
	buf_addc(out, ']');
	return 0;
}

static int write_value(struct buf *out, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return write_object(out, v, NULL);
	case JSON_ARRAY:
		return write_array(out, v);
	case JSON_STRING:
		if (!utf8_valid(json_string_value(v), json_string_length(v)))
			return err_set(EX_DATAERR, "a string is not UTF-8");
		canon_string(out, json_string_value(v), json_string_length(v));
		return 0;
	case JSON_INTEGER:
		canon_number(out, (double)json_integer_value(v));
		return 0;
	case JSON_REAL:
		if (!isfinite(json_real_value(v)))
			return err_set(EX_DATAERR, "a number is not finite");
		canon_number(out, json_real_value(v));
		return 0;
	default:
		buf_adds(out,
			json_is_null(v)         ? "null" :
				json_is_true(v) ? "true" :
						  "false");
		return 0;
	}
}

static int undo(struct buf *out, size_t len)
{
	out->len = len;
	if (out->data)
		out->data[len] = '\0';
	return -1;
}

int canon_write(struct buf *out, const json_t *v)
{
	size_t before = out->len;

	return write_value(out, v) == 0 ? 0 : undo(out, before);
}

int canon_write_without(struct buf *out, const json_t *obj, const char *left_out)
{
	size_t before = out->len;

	return write_object(out, obj, left_out) == 0 ? 0 : undo(out, before);
}

int canon_hash_record(unsigned char out[CANON_HASH_BYTES], const json_t *record)
{
	struct buf text = BUF_INIT;
	int rc = canon_write_without(&text, record, "proof");

	if (rc == 0)
		sha256(out, buf_text(&text), text.len);
	buf_release(&text);
	return rc;
}
