/* utf8.c - checks and cleans UTF-8. */
#include "common/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Returns the length of the character at s (NUL-terminated or at least len bytes), and sets it; 0
 * if it is malformed. */
static size_t character(const unsigned char *s, size_t len, uint32_t *out)
{
	size_t n;
	uint32_t c;

	*out = s[0];
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2, c = s[0] & 0x1f;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3, c = s[0] & 0x0f;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4, c = s[0] & 0x07;
	else
		return 0;
	if (n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
		(n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	*out = c;
	return n;
}

size_t utf8_prefix(const char *text, size_t len)
{
	const unsigned char *begin = (const unsigned char *)text, *s = begin,
			    *end = s + len;
	uint32_t c;

	while (s < end) {
		uint64_t eight;
		size_t n;

		if (end - s >= 8) {
			memcpy(&eight, s, 8);
			if (!(eight & UINT64_C(0x8080808080808080))) {
				s += 8;
				continue;
			}
		}
		n = character(s, (size_t)(end - s), &c);
		if (!n)
			break;
		s += n;
	}
	return (size_t)(s - begin);
}

bool utf8_valid(const char *text, size_t len)
{
	return utf8_prefix(text, len) == len;
}

size_t utf8_count(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

/* Whether a character commands the terminal (U+009B as ESC [ does), ends the line or turns its
 * direction, or shows nothing, so that two names look like one: Cc, Bidi_Control,
 * Default_Ignorable_Code_Point, line and paragraph separators, annotations (Unicode 16, PropList
 * and DerivedCoreProperties). */
static bool hidden(uint32_t c)
{
	static const struct {
		uint32_t from, to;
	} ranges[] = { { 0x00, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x34f, 0x34f },
		{ 0x61c, 0x61c }, { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f }, { 0x200b, 0x200f }, { 0x2028, 0x202e },
		{ 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff } };

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (c <= ranges[i].to)
			return c >= ranges[i].from;
	return false;
}

void utf8_clean_line(char *text)
{
	unsigned char *s = (unsigned char *)text, *end = s + strlen(text);

	while (s < end) {
		uint32_t c;
		size_t n = character(s, (size_t)(end - s), &c);

		if (!n)
			*s = '?';
		else if (hidden(c))
			memset(s, '?', n);
		s += n ? n : 1;
	}
}
