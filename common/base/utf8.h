/* utf8.h - checks UTF-8 (RFC 3629). Pure. */
#ifndef RNP_COMMON_BASE_UTF8_H
#define RNP_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* True when all len bytes are whole, shortest-form characters without surrogates. */
bool utf8_valid(const char *text, size_t len);

/* Makes text fit for one line of a message: control characters and bytes that are not UTF-8 (a
 * character that "%.40s" split, say) become '?'. */
void utf8_clean_line(char *text);

#endif
