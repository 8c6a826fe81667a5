/* utf8.c - checks and cleans UTF-8. */
#include "common/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Returns the length of the character at s (NUL-terminated or at least len bytes), 0 if it is
 * malformed. */
static size_t character(const unsigned char *s, size_t len)
{
	size_t n;
	uint32_t c;

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
	return n;
}

bool utf8_valid(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text, *end = s + len;

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
		n = character(s, (size_t)(end - s));
		if (!n)
			return false;
		s += n;
	}
	return true;
}

void utf8_clean_line(char *text)
{
	unsigned char *s = (unsigned char *)text, *end = s + strlen(text);

	while (s < end) {
		size_t n = character(s, (size_t)(end - s));

		if (!n || *s < 0x20 || *s == 0x7f) {
			*s = '?';
			n = 1;
		} else if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) {
			/* U+009B begins a command to the terminal, as ESC [ does */
			s[0] = s[1] = '?';
		}
		s += n;
	}
}
