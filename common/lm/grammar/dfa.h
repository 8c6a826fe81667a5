/* dfa.h - finite automata over the characters of a string: from regular expressions, sets of texts,
 * numbers, and each other. For common/lm/grammar only. Uses err, mem. Pure.
 *
 * Every automaton is pruned: from each state a text can still be accepted. What strangers wrote is
 * bounded by a budget of states and steps. */
#ifndef RNP_COMMON_LM_GRAMMAR_DFA_H
#define RNP_COMMON_LM_GRAMMAR_DFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/lm/grammar/grammar.h"

#define DFA_DEAD    UINT32_MAX
#define DFA_CUT_MAX 8192 /* intervals of characters that are distinguished */

/* Character c belongs to interval i when cuts[i] <= c < cuts[i + 1]; cuts[0] is 0 and the last
 * interval ends at 0x110000. Surrogates and NUL are in no text. */
struct lm_dfa {
	uint32_t states; /* 0: nothing is accepted; else 0 is the start */
	uint32_t intervals;
	uint32_t *cuts;
	uint32_t *next;      /* [states][intervals], DFA_DEAD: none */
	bool *accept;        /* [states] */
	uint32_t ascii[128]; /* interval of a character */
};

void dfa_release(struct lm_dfa *d);
uint32_t dfa_interval(const struct lm_dfa *d, uint32_t c);
static inline uint32_t dfa_step(const struct lm_dfa *d, uint32_t state, uint32_t c)
{
	return d->next[(size_t)state * d->intervals +
		(c < 128 ? d->ascii[c] : dfa_interval(d, c))];
}
/* Takes a character of UTF-8. */
uint32_t dfa_next_char(const char **s, const char *end);
bool dfa_accepts(const struct lm_dfa *d, const char *text, size_t len);

/* All return 0 and *out, or -1 with err_set(EX_DATAERR). */

/* Everything. */
int dfa_any(struct lm_dfa *out, struct lm_budget *b);
/* A regular expression as ECMA-262 writes them, found anywhere in a text: without back-references
 * and word boundaries, with look-ahead only behind a ^ at its beginning, and with (?i) there, for
 * letters of ASCII. where names it. */
int dfa_regex(struct lm_dfa *out, const char *pattern, size_t len, const char *where,
	struct lm_budget *b);
struct dfa_text {
	const char *data;
	size_t len;
};
int dfa_texts(struct lm_dfa *out, const struct dfa_text *texts, size_t n,
	struct lm_budget *b);
/* Texts that all of the automata accept, or any; of as many characters as said. */
int dfa_product(struct lm_dfa *out, const struct lm_dfa *const *parts, size_t n, bool all,
	struct lm_budget *b);
/* Texts that a accepts and b does not. */
int dfa_without(struct lm_dfa *out, const struct lm_dfa *a, const struct lm_dfa *b,
	struct lm_budget *budget);
int dfa_length(struct lm_dfa *out, const struct lm_dfa *d, uint64_t min, uint64_t max,
	struct lm_budget *b);

/* Builds an automaton by exploring states that are keys of key_bytes bytes. step writes the key
 * that follows on an interval, or returns false. keys: NULL, or gets the keys of the states, to be
 * freed; prune: whether states that accept nothing any more go. weight: the steps that one step
 * takes, 0 is 1; accept_weight: those that accept takes. */
struct dfa_maker {
	const uint32_t *cuts;
	uint32_t intervals;
	size_t key_bytes;
	uint64_t weight, accept_weight;
	bool (*step)(const void *ctx, const void *key, uint32_t interval, void *next);
	bool (*accept)(const void *ctx, const void *key);
	const void *ctx;
};
int dfa_make(struct lm_dfa *out, const struct dfa_maker *m, const void *start,
	struct lm_budget *b, void **keys);

/* The intervals of several automata together; *cuts to be freed. */
int dfa_join_cuts(const struct lm_dfa *const *parts, size_t n, uint32_t **cuts,
	uint32_t *intervals, struct lm_budget *b);
/* Sorts cuts, adds those that are always there and removes doubles; returns how many. There must be
 * space for 6 more. */
uint32_t dfa_sort_cuts(uint32_t *cuts, uint32_t n);
int dfa_spend(struct lm_budget *b, uint64_t states, uint64_t steps);
/* Spends words of memory; what is freed soon is given back to b->words. */
int dfa_hold(struct lm_budget *b, uint64_t words);
/* Spends what there is, where there is no way to fail: once something lacks, no step is left, and
 * the next dfa_spend() that asks for one fails. */
void dfa_use(struct lm_budget *b, uint64_t steps, uint64_t words);
int dfa_copy(struct lm_dfa *out, const struct lm_dfa *d, struct lm_budget *b);

/* A number of JSON, as text. */
struct lm_decimal {
	bool negative;
	uint32_t whole_len, part_len; /* digits before and after the point */
	char digits[56];              /* whole, then part; no zeros in front or after */
};
struct lm_number {
	bool whole; /* without a fraction other than 0 */
	bool has_min, has_max, min_excluded, max_excluded;
	struct lm_decimal min, max;
	/* a multiple of multiple / 10^places; 0: of nothing */
	uint64_t multiple;
	uint32_t places;
};
#define DFA_PLACES_MAX 9
int decimal_set(struct lm_decimal *d, const char *text); /* "-12.50", "1e3" */
int decimal_compare(const struct lm_decimal *a, const struct lm_decimal *b);
int dfa_number(struct lm_dfa *out, const struct lm_number *n, struct lm_budget *b);

#endif
