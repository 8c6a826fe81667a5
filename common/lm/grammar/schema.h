/* schema.h - a JSON schema as alternatives of one type each. For common/lm/grammar only. */
#ifndef RNP_COMMON_LM_GRAMMAR_SCHEMA_H
#define RNP_COMMON_LM_GRAMMAR_SCHEMA_H

#include "common/base/mem.h"
#include "common/lm/grammar/program.h"

enum alt_type {
	ALT_NULL,
	ALT_BOOL,
	ALT_NUMBER,
	ALT_STRING,
	ALT_ARRAY,
	ALT_OBJECT,
	ALT_TYPES
};

/* Pointers, without doubles. */
struct pointers {
	const void **at;
	size_t n, cap;
};

struct alt {
	uint8_t type;
	uint8_t bools; /* bit 0: false, bit 1: true */
	struct lm_number number;
	uint64_t min, max;    /* characters or items; max UINT64_MAX: no bound */
	struct pointers dfas; /* const struct lm_dfa *: all accept the string */
	/* const json_t *: schemas that say what is in an array or object */
	struct pointers parts;
	struct pointers names; /* const char *: required */
};

struct alts {
	struct alt *at;
	size_t n, cap;
};

struct schema {
	const json_t *root;
	struct lm_budget budget;
	struct arena arena;
	json_t *made; /* an array of schemas that stand for values of const and enum */
	struct pointers made_of; /* these values, in the same order */
	/* automata by the JSON value and purpose that they are of */
	struct {
		const void *of;
		int purpose;
		struct lm_dfa *dfa;
	} * dfas;
	size_t dfa_count, dfas_cap;
	unsigned depth; /* of normalising */
	struct pointers busy;
};

void schema_release(struct schema *s);
void pointers_add(struct schema *s, struct pointers *p, const void *value);

/* The values that all of the schemas allow. */
int schema_alts(struct schema *s, const struct pointers *schemas, struct alts *out);

/* The schemas of an array's item, or of a key's value, one for each part; a part that says nothing
 * adds none. False: no value is allowed there. */
bool schema_item(struct schema *s, const struct alt *a, size_t i, struct pointers *out);
bool schema_value(struct schema *s, const struct alt *a, const char *key,
	struct pointers *out);

/* An automaton that is kept, of a pattern. NULL with err_set(). */
const struct lm_dfa *schema_pattern(struct schema *s, const json_t *where,
	const char *pattern, size_t len, const void *of);

/* An automaton of what an alternative allows; alternative: number or string. */
int schema_number(struct schema *s, const struct alt *a, struct lm_dfa *out);
int schema_string(struct schema *s, const struct alt *a, struct lm_dfa *out);

/* Returns the automaton that is all that a string has to match, or NULL. */
const struct lm_dfa *schema_one_dfa(const struct alt *a);

/* Sets the error, with the place of a schema (or of a keyword in it) in front. Returns -1. */
int schema_refuse(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
