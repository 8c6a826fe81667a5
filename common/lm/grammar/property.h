/* property.h - which characters have a property of Unicode's, as \p{L} of a pattern names it. For
 * common/lm/grammar only. Uses token/pre.h, which asks PCRE2. */
#ifndef RNP_COMMON_LM_GRAMMAR_PROPERTY_H
#define RNP_COMMON_LM_GRAMMAR_PROPERTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the characters with a property: the name of a general category or a script, or either after
 * "gc=", "sc=" or what these stand for. Returns how many ranges there are, and *out: the first and
 * last character of each, in order, kept for good. 0 with err_set(): no such property, or no
 * PCRE2. Any thread may call it. */
size_t property_find(const char *name, size_t bytes, const uint32_t **out);

/* Whether that is quick: it was found before. Else it takes some 30 ms. Any thread may call it. */
bool property_is_known(const char *name, size_t bytes);

#endif
