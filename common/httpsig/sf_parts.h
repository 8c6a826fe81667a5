/* sf_parts.h - characters of structured fields, for the parser and the writer; not for callers. */
#ifndef RNP_COMMON_HTTPSIG_SF_PARTS_H
#define RNP_COMMON_HTTPSIG_SF_PARTS_H

#include <stdbool.h>
#include <string.h>

#define SF_INTEGER_MAX INT64_C(999999999999999)

static inline bool sf_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool sf_is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool sf_is_alpha(char c)
{
	return sf_is_lower(c) || (c >= 'A' && c <= 'Z');
}

static inline bool sf_is_key_char(char c)
{
	return sf_is_lower(c) || sf_is_digit(c) || c == '_' || c == '-' || c == '.' ||
		c == '*';
}

static inline bool sf_is_token_char(char c)
{
	return sf_is_alpha(c) || sf_is_digit(c) || (c && strchr("!#$%&'*+-.^_`|~:/", c));
}

#endif
