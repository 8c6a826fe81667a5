#include "common/canon.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/utf8.h"

/* The shortest decimal digits of v > 0 that read back as v, and the exponent e of
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
		buf_addf(out, "%lld", (long long)v);
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

void canon_string(struct buf *out, const char *text, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	char *to = buf_reserve(out, 6 * len + 2), *at = to;

	*at++ = '"';
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		const char *found;

		if (c >= 0x20 && c != '"' && c != '\\') {
			*at++ = (char)c;
			continue;
		}
		*at++ = '\\';
		found = c ? strchr("\"\"\\\\\bb\tt\nn\ff\rr", c) : NULL;
		if (found) {
			/* pairs (character, letter); the first of a pair is what was found */
			*at++ = found[1];
		} else {
			memcpy(at, "u00", 3);
			at[3] = hex[c >> 4];
			at[4] = hex[c & 15];
			at += 5;
		}
	}
	*at++ = '"';
	*at = '\0';
	out->len += (size_t)(at - to);
}

/* The order of UTF-16 code units, read off UTF-8: byte order is code point order, and differs
 * only where one side is beyond U+FFFF (a surrogate pair, D800..DFFF) and the other in
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

static int by_utf16(const void *a, const void *b)
{
	return utf16_order(*(const char *const *)a, *(const char *const *)b);
}

static int write_value(struct buf *out, const json_t *v);

static int write_object(struct buf *out, const json_t *v)
{
	size_t n = json_object_size(v), i = 0;
	const char *few[32], **keys = n <= 32 ? few : xmalloc(n * sizeof *keys);
	const char *key;
	json_t *item;
	int rc = 0;

	json_object_foreach((json_t *)v, key, item)
		keys[i++] = key;
	qsort(keys, n, sizeof *keys, by_utf16);
	buf_addc(out, '{');
	for (i = 0; i < n && rc == 0; i++) {
		if (i)
			buf_addc(out, ',');
		canon_string(out, keys[i], strlen(keys[i]));
		buf_addc(out, ':');
		rc = write_value(out, json_object_get(v, keys[i]));
	}
	buf_addc(out, '}');
	if (keys != few)
		free(keys);
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
		return write_object(out, v);
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
		json_write(out, v); /* true, false, null */
		return 0;
	}
}

int canon_write(struct buf *out, const json_t *v)
{
	size_t before = out->len;

	if (write_value(out, v) == 0)
		return 0;
	out->len = before;
	if (out->data)
		out->data[before] = '\0';
	return -1;
}
