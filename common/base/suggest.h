/* suggest.h - guesses which existing name a mistyped one was meant to be. Pure. libc only. */
#ifndef RNP_COMMON_BASE_SUGGEST_H
#define RNP_COMMON_BASE_SUGGEST_H

#include <stddef.h>

/* Collects the best candidate. Start from { .wanted = text }. */
struct suggest {
	const char *wanted;
	char best[64]; /* "" none near enough */
	size_t distance;
};

/* Considers a candidate of len bytes. It is near enough if a third of its letters, rounded up
 * and at most three, are changed, missing, added or swapped with the next one (optimal string
 * alignment distance), or if wanted, of at least two letters, is its prefix. Case, '-' and '_'
 * make no difference. */
void suggest_offer(struct suggest *s, const char *candidate, size_t len);

/* Considers each of "a|b|c". */
void suggest_choices(struct suggest *s, const char *choices);

/* Returns the end of a message: "; did you mean 'x'?", or "". Points into s or to a constant. */
const char *suggest_text(struct suggest *s, char *out, size_t size);

#endif
