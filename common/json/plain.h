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

/* Whether one of 8 bytes is a quote, a backslash, below 0x20 or above 0x7e; may say so of 8 where
 * none is, but never not (Bit Twiddling Hacks, "Determine if a word has a byte less than n"). */
static inline bool json_plain_special(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
	uint64_t w, quote, slash;

	memcpy(&w, p, sizeof w);
	quote = w ^ (ones * '"');
	slash = w ^ (ones * '\\');
	return (((w - ones * 0x20) | (w + ones) | (quote - ones) | (slash - ones) | w) &
		       high) != 0;
}

/* Consumes a string; *text points into the line, without the quotes and not terminated. */
static inline bool json_plain_string(struct json_plain *s, const char **text, size_t *len)
{
	const char *p;

	if (!json_plain_take(s, '"'))
		return false;
	/* 8 bytes at a time as long as none of them ends the string or is not plain */
	for (p = s->at; s->end - p >= 8 && !json_plain_special(p); p += 8)
		;
	for (; p < s->end && *p != '"'; p++)
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

/* Whether n bytes are equal. Short ones, as keys are, without a call: their ends, which may
 * overlap. (cppcheck takes n for free; it is the length of both.) */
static inline bool json_plain_same(const char *a, const char *b, size_t n)
{
	uint64_t x[2], y[2];
	uint32_t u[2], v[2];

	if (n > 16)
		return memcmp(a, b, n) == 0;
	if (n >= 8) {
		memcpy(x, a, 8);
		memcpy(x + 1, a + (n - 8), 8);
		memcpy(y, b, 8);
		/* cppcheck-suppress pointerOutOfBoundsCond */
		memcpy(y + 1, b + (n - 8), 8);
		return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
	}
	if (n >= 4) {
		memcpy(u, a, 4);
		memcpy(u + 1, a + (n - 4), 4);
		memcpy(v, b, 4);
		/* cppcheck-suppress pointerOutOfBoundsCond */
		memcpy(v + 1, b + (n - 4), 4);
		return ((u[0] ^ v[0]) | (u[1] ^ v[1])) == 0;
	}
	while (n && a[n - 1] == b[n - 1])
		n--;
	return n == 0;
}

/* Whether a key found by json_plain_string is name. */
static inline bool json_plain_is(const char *key, size_t len, const char *name)
{
	return len == strlen(name) && json_plain_same(key, name, len);
}

#endif
