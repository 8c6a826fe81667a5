/* schema_parts.h - what the parts of schema.h share. Every int is 0, or -1 with err_set(), unless
 * it says more. Memory is the schema's arena. */
#ifndef RNP_COMMON_LM_GRAMMAR_SCHEMA_PARTS_H
#define RNP_COMMON_LM_GRAMMAR_SCHEMA_PARTS_H

#include "common/lm/grammar/schema.h"

#define ALTS_MAX   256
#define MADE_WORDS 100 /* of memory, that a schema of one value takes */
#define ALL_TYPES  ((1u << ALT_TYPES) - 1) /* bits 1 << ALT_... */

/* --- schema_alts.c ------------------------------------------------------------------------ */

/* Appends a copy. */
struct alt *alts_add(struct schema *s, struct alts *l, const struct alt *a);

/* Every value of these types, one alternative each. */
void alts_full(struct schema *s, struct alts *out, unsigned types);

/* False: its own bounds exclude every value. */
bool alt_possible(const struct alt *a);

/* What both allow, into a. */
int numbers_join(struct lm_number *a, const struct lm_number *b);

/* Joins b into a. Returns 1, 0 when both exclude each other at a glance, or -1. */
int alt_join(struct schema *s, struct alt *a, const struct alt *b);

/* What both lists allow, into a. */
int alts_join(struct schema *s, struct alts *a, const struct alts *b);

/* Where the automaton of a JSON value and purpose is kept; *it is NULL at first. Valid until the
 * next call. */
struct lm_dfa **schema_kept(struct schema *s, const void *of, int purpose);

/* Adds the automaton of a "format" v. */
int schema_format(struct schema *s, const json_t *schema, const json_t *v, struct alt *a);

/* --- schema_keywords.c -------------------------------------------------------------------- */

/* v, found below key of in, must be an object or a boolean. */
int schema_is(struct schema *s, const json_t *v, const json_t *in, const char *key);

/* The values that const or enum lists; of: what their automaton is kept under. */
int schema_values(struct schema *s, const json_t *const *v, size_t n, const void *of,
	struct alts *out);

/* What the keywords of one schema allow, but for those that combine it with others. */
int schema_keywords(struct schema *s, const json_t *schema, struct alts *out);

/* --- schema.c ----------------------------------------------------------------------------- */

/* The values that one schema allows. */
int schema_normalise(struct schema *s, const json_t *schema, struct alts *out);

#endif
