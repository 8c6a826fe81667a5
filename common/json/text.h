/* text.h - steps over the tokens of any JSON text, without building values: what read.c and the
 * market feeds have in common. Pure. Inline, because it runs for every byte of a feed. `end` is
 * never read. */
#ifndef RNP_COMMON_JSON_TEXT_H
#define RNP_COMMON_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct json_text {
	const char *at, *end;
};

static inline bool json_text_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline void json_text_space(struct json_text *t)
{
	while (t->at < t->end && json_text_is_space(*t->at))
		t->at++;
}

/* Consumes the character c, if it is the next one. */
static inline bool json_text_take(struct json_text *t, char c)
{
	if (t->at == t->end || *t->at != c)
		return false;
	t->at++;
	return true;
}

/* Consumes a word such as null. */
static inline bool json_text_word(struct json_text *t, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
		return false;
	t->at += n;
	return true;
}

/* Returns how many digits it has consumed. */
static inline size_t json_text_digits(struct json_text *t)
{
	const char *start = t->at;

	while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
		t->at++;
	return (size_t)(t->at - start);
}

/* How many digits the parts of a number have; 0: it has no such part. */
struct json_digits {
	size_t whole, fraction, exponent;
};

/* Consumes a number by JSON's grammar. */
static inline bool json_text_number(struct json_text *t, struct json_digits *n)
{
	const char *start;

	*n = (struct json_digits){ 0, 0, 0 };
	json_text_take(t, '-');
	start = t->at;
	n->whole = json_text_digits(t);
	if (!n->whole || (*start == '0' && n->whole > 1) ||
		(json_text_take(t, '.') && !(n->fraction = json_text_digits(t))))
		return false;
	if (!json_text_take(t, 'e') && !json_text_take(t, 'E'))
		return true;
	if (!json_text_take(t, '-'))
		json_text_take(t, '+');
	n->exponent = json_text_digits(t);
	return n->exponent > 0;
}

#endif
