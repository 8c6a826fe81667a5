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
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* Returns the first of the bytes from p to end - 1 that is a quote, a backslash, below 0x20 or
 * above 0x7e, or end; or, with less than a step to go, any byte before it. */
#ifdef __SSE2__
static inline const char *json_plain_skip(const char *p, const char *end)
{
	for (; end - p >= 16; p += 16) {
		__m128i c = _mm_loadu_si128((const __m128i *)p);
		/* as signed bytes, those above 0x7f are below 0x20 */
		__m128i other = _mm_or_si128(_mm_cmplt_epi8(c, _mm_set1_epi8(0x20)),
			_mm_cmpeq_epi8(c, _mm_set1_epi8(0x7f)));
		int found;

		other = _mm_or_si128(other, _mm_cmpeq_epi8(c, _mm_set1_epi8('"')));
		other = _mm_or_si128(other, _mm_cmpeq_epi8(c, _mm_set1_epi8('\\')));
		found = _mm_movemask_epi8(other);
		if (found)
			return p + __builtin_ctz((unsigned)found);
	}
	return p;
}
#else
/* 8 bytes at a time; may stop at 8 where none is, but never not (Bit Twiddling Hacks, "Determine if
 * a word has a byte less than n"). */
static inline const char *json_plain_skip(const char *p, const char *end)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;

	for (; end - p >= 8; p += 8) {
		uint64_t w, quote, slash;

		memcpy(&w, p, sizeof w);
		quote = w ^ (ones * '"');
		slash = w ^ (ones * '\\');
		if (((w - ones * 0x20) | (w + ones) | (quote - ones) | (slash - ones) |
			    w) &
			high)
			break;
	}
	return p;
}
#endif

/* Consumes a string; *text points into the line, without the quotes and not terminated. */
static inline bool json_plain_string(struct json_plain *s, const char **text, size_t *len)
{
	const char *p;

	if (!json_plain_take(s, '"'))
		return false;
	for (p = json_plain_skip(s->at, s->end); p < s->end && *p != '"'; p++)
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
