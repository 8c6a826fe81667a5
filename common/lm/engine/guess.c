/* guess.c - proposes tokens by looking up earlier occurrences of the last ones. */
#include "common/lm/engine/guess.h"

#include <string.h>

#define GRAM 3 /* tokens that have to match */

/* Returns the end of the last occurrence of gram in from[0 .. before), or 0. */
static uint32_t find_last(const uint32_t *from, uint32_t before, const uint32_t *gram,
	uint32_t tokens)
{
	for (uint32_t end = before; end >= tokens; end--)
		if (from[end - 1] == gram[tokens - 1] &&
			memcmp(from + end - tokens, gram, tokens * sizeof *gram) == 0)
			return end;
	return 0;
}

static uint32_t copy(uint32_t *out, uint32_t max, const uint32_t *from, uint32_t n)
{
	if (n > max)
		n = max;
	memcpy(out, from, n * sizeof *out);
	return n;
}

/* Continues the prediction after the last tokens of the answer; at the start, from its
 * beginning. */
static uint32_t from_prediction(uint32_t *out, uint32_t max, const uint32_t *answer,
	uint32_t n, const uint32_t *predicted, uint32_t m)
{
	uint32_t gram = n < GRAM ? n : GRAM, at = 0;

	if (n) {
		/* try the same position first: edited texts are mostly unchanged */
		if (n <= m &&
			memcmp(predicted + n - gram, answer + n - gram,
				gram * sizeof *answer) == 0)
			at = n;
		else
			at = find_last(predicted, m, answer + n - gram, gram);
		if (!at)
			return 0;
	}
	return copy(out, max, predicted + at, m - at);
}

uint32_t lm_guess(uint32_t *out, uint32_t max, const uint32_t *text, uint32_t n,
	uint32_t prompt, const uint32_t *predicted, uint32_t m)
{
	uint32_t found = 0, at;

	if (m)
		found = from_prediction(out, max, text + prompt, n - prompt, predicted,
			m);
	if (found || n <= GRAM)
		return found;
	at = find_last(text, n - 1, text + n - GRAM, GRAM);
	if (!at)
		return 0;
	/* a text that repeats itself continues with its own copy */
	for (uint32_t i = 0; i < max; i++)
		out[i] = at + i < n ? text[at + i] : out[at + i - n];
	return max;
}
