/* grammar.h - which tokens may come next so that a text keeps to a JSON schema, or to a sequence of
 * literals, tokens and values. Uses jansson, err, mem. Pure.
 *
 * A schema becomes automata over bytes and a stack; a trie of the vocabulary's texts is walked
 * through them. Every text that a mask leads to can be completed to a value that the schema
 * accepts, and every such value, written without blanks or as pretty-printers do, is let through:
 * keys in any order, numbers without exponents where they have bounds, nested at most
 * LM_GRAMMAR_DEPTH_MAX deep. Schemas are untrusted. */
#ifndef RNP_COMMON_LM_GRAMMAR_GRAMMAR_H
#define RNP_COMMON_LM_GRAMMAR_GRAMMAR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define LM_GRAMMAR_BYTES_MAX      ((size_t)64 << 10) /* of a schema, as compact JSON */
#define LM_GRAMMAR_STATES_MAX     100000
#define LM_GRAMMAR_STEPS_MAX      10000000 /* of compiling: some 100 ms, at most 1 s */
#define LM_GRAMMAR_WORDS_MAX      10000000 /* of 4 bytes, of memory while it compiles */
#define LM_GRAMMAR_DEPTH_MAX      64
#define LM_GRAMMAR_PROPERTIES_MAX 128 /* names of one object */

struct lm_grammar; /* compiled; threads may share it */

/* Compiles a schema. Keywords: type, enum, const, properties, required, additionalProperties,
 * patternProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern, format,
 * minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minProperties (more than 1
 * where all names are known), maxProperties, uniqueItems (where values are few and known), anyOf,
 * oneOf (whose branches exclude each other), allOf, propertyNames, nullable, $ref (within the
 * schema), $anchor, $defs. Other words of the standard are refused unless they constrain nothing;
 * words of others are notes, and a null is as if the word were not there. Returns 0 and *out, which
 * the caller frees, or -1 with err_set(EX_DATAERR): a sentence that begins with the place
 * ("schema.properties.a: ..."). */
int lm_grammar_schema(struct lm_grammar **out, const json_t *schema);
void lm_grammar_free(struct lm_grammar *g); /* NULL is allowed */

/* A part of a larger text. */
enum lm_grammar_part_kind {
	LM_GRAMMAR_END,
	LM_GRAMMAR_TEXT,
	LM_GRAMMAR_SCHEMA,
	LM_GRAMMAR_TOKEN,
	LM_GRAMMAR_CHOICE,
	LM_GRAMMAR_PATTERN
};
struct lm_grammar_part {
	enum lm_grammar_part_kind kind;
	/* TEXT: NUL-terminated. PATTERN: a regular expression of the text as it is, with its
	 * anchors */
	const char *text;
	const json_t *schema;
	/* SCHEMA: NULL: a word that cannot be held is an error. Else such words are left out, and
	 * their places appended, "schema.not, schema.items.if"; the text may break them then. */
	struct buf *left_out;
	uint32_t token; /* TOKEN: exactly this one, whatever its text */
	/* CHOICE: one of these sequences, each ended by LM_GRAMMAR_END; the array ends with NULL. A
	 * sequence may hold itself at its end, for repetitions. */
	const struct lm_grammar_part *const *choices;
};

/* Compiles a sequence that LM_GRAMMAR_END ends. As lm_grammar_schema. */
int lm_grammar_parts(struct lm_grammar **out, const struct lm_grammar_part *parts);

/* What grammars may cost. Every loop of compiling spends of it, whose length a schema sets. */
struct lm_budget {
	uint64_t states, steps, words;
};
#define LM_GRAMMAR_BUDGET                                                         \
	{                                                                         \
		LM_GRAMMAR_STATES_MAX, LM_GRAMMAR_STEPS_MAX, LM_GRAMMAR_WORDS_MAX \
	}

/* The same within *b, from which it takes what it needed: for several grammars of one request,
 * which together cost no more than one. */
int lm_grammar_parts_within(struct lm_grammar **out, const struct lm_grammar_part *parts,
	struct lm_budget *b);

/* --- the vocabulary ----------------------------------------------------------------------- */

struct lm_vocabulary; /* the texts of all tokens, as a trie; threads may share it */

struct lm_vocabulary_token {
	const char *text; /* what it adds to the text; not NUL-terminated */
	size_t len;       /* 0: it is never allowed, but as LM_GRAMMAR_TOKEN or an end */
	bool ends;        /* it ends the text */
};

/* count tokens, from id 0; texts are copied. */
struct lm_vocabulary *lm_vocabulary_new(const struct lm_vocabulary_token *tokens,
	uint32_t count);
void lm_vocabulary_free(struct lm_vocabulary *v); /* NULL is allowed */

/* --- a text that is being written --------------------------------------------------------- */

struct lm_matcher;

/* g is borrowed until free; v too, and may be NULL where masks are not asked for. */
struct lm_matcher *lm_matcher_new(struct lm_grammar *g, const struct lm_vocabulary *v);
void lm_matcher_free(struct lm_matcher *m); /* NULL is allowed */

/* Takes bytes. Returns how many the grammar allows; fewer than len: the text is refused from there
 * on. */
size_t lm_matcher_push(struct lm_matcher *m, const char *text, size_t len);
/* Takes a token that the mask allowed. Returns whether it did. */
bool lm_matcher_take(struct lm_matcher *m, uint32_t token);
bool lm_matcher_done(const struct lm_matcher *m); /* the text may end here */

/* The tokens that may come next: token i is bit i % 64 of word i / 64. Borrowed until the next
 * call. When the text is refused, or must end, the tokens that end it. */
const uint64_t *lm_matcher_mask(struct lm_matcher *m);

#endif
