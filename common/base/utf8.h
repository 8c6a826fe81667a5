/* utf8.h - checks and counts UTF-8 (RFC 3629). Pure. */
#ifndef RNP_COMMON_BASE_UTF8_H
#define RNP_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether all len bytes are complete, shortest-form characters without surrogates. */
bool utf8_valid(const char *text, size_t len);

/* Returns how many bytes in front of the first that is not part of such a character. */
size_t utf8_prefix(const char *text, size_t len);

/* Returns how many characters valid UTF-8 has. */
size_t utf8_count(const char *text, size_t len);

/* Makes text fit for one line of a terminal: control characters, U+0080 to 9F too, characters that
 * turn the direction of writing or show nothing (U+202E, U+200B), and bytes that are not UTF-8
 * (such as a character that "%.40s" has split) become '?', one for each byte. */
void utf8_clean_line(char *text);

#endif
