/* plain.h - scans JSON whose form is known beforehand, without building objects.
 *
 * Plain JSON is what this suite itself writes: strings of printable ASCII without escapes, whole
 * numbers of at most 15 digits (below 2^53). Each function returns false for everything else, also
 * for sound JSON; the caller then reads the line again with json_parse_object. Inline, because
 * readers call them about a hundred times a line, for millions of lines. */
#ifndef RNP_COMMON_JSON_PLAIN_H
#define RNP_COMMON_JSON_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct json_plain {
	const char *at, *end;
};

static inline void json_plain_space(struct json_plain *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
		s->at++;
}

/* Skips blanks, then consumes the character c. */
static inline bool json_plain_take(struct json_plain *s, char c)
{
	json_plain_space(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* Consumes a word such as true. */
static inline bool json_plain_word(struct json_plain *s, const char *word)
{
	size_t len = strlen(word);

	json_plain_space(s);
	if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
		return false;
	s->at += len;
	return true;
}

/* Consumes a string; *text points into the line, without the quotes and not terminated. */
static inline bool json_plain_string(struct json_plain *s, const char **text, size_t *len)
{
	const char *p;

	if (!json_plain_take(s, '"'))
		return false;
	for (p = s->at; p < s->end && *p != '"'; p++)
		if (*p < 0x20 || *p > 0x7e || *p == '\\')
			return false;
	if (p == s->end)
		return false;
	*text = s->at;
	*len = (size_t)(p - s->at);
	s->at = p + 1;
	return true;
}

/* Consumes a string and copies it, terminated, to out of size bytes. */
static inline bool json_plain_copy(struct json_plain *s, char *out, size_t size)
{
	const char *text;
	size_t len;

	if (!json_plain_string(s, &text, &len) || len >= size)
		return false;
	memcpy(out, text, len);
	out[len] = '\0';
	return true;
}

/* Consumes a whole number without a sign. */
static inline bool json_plain_whole(struct json_plain *s, int64_t *out)
{
	const char *start;

	json_plain_space(s);
	*out = 0;
	for (start = s->at; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
		if (s->at - start < 15)
			*out = *out * 10 + (*s->at - '0');
	return s->at > start && s->at - start <= 15 &&
		(*start != '0' || s->at - start == 1);
}

/* Whether a key found by json_plain_string is name. */
static inline bool json_plain_is(const char *key, size_t len, const char *name)
{
	return strncmp(key, name, len) == 0 && !name[len];
}

#endif
