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

#define LEFT_MAX 16 /* places that are named; a header shows no more */

/* Pointers, without doubles. */
struct pointers {
	const void **at;
	size_t n, cap;
};

struct alt {
	uint8_t type;
	uint8_t bools; /* bit 0: false, bit 1: true */
	struct lm_number number;
	uint64_t min, max; /* characters, items or properties; max UINT64_MAX: no bound */
	const json_t *unique; /* the schema that says that items differ, or NULL */
	const json_t *sized;  /* the one that wants several properties, or NULL */
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
		/* the first of the same; the others have its automaton */
		const char *pattern;
		size_t len;
	} * dfas;
	size_t dfa_count, dfas_cap;
	unsigned depth; /* of normalising */
	struct pointers busy;
	/* What is left out (schema_leave_out); places are only named in the end, for each is a walk
	 * over the whole schema. */
	bool leaves_out;
	struct left_out {
		const json_t *at;
		const char *keyword;
	} left[LEFT_MAX];
	size_t left_count;      /* may be beyond LEFT_MAX */
	struct pointers naming; /* propertyNames that are being made into automata */
};

void schema_release(struct schema *s);

/* Returns the value of a keyword, or NULL. Programs write null for what they do not say; only of
 * const it is a value. */
json_t *schema_keyword(const json_t *schema, const char *key);

void pointers_add(struct schema *s, struct pointers *p, const void *value);

/* The values that all of the schemas allow. */
int schema_alts(struct schema *s, const struct pointers *schemas, struct alts *out);

/* The schemas of an array's item, or of a key's value, one for each part; a part that says nothing
 * adds none. False: no value is allowed there. */
bool schema_item(struct schema *s, const struct alt *a, size_t i, struct pointers *out);
bool schema_value(struct schema *s, const struct alt *a, const char *key,
	struct pointers *out);

#define UNIQUE_MAX 24 /* values of items that differ */

/* The schemas of the single values that an array's items can be, each {"const": VALUE}. Returns 1,
 * 0: they are more than UNIQUE_MAX, or not known, or -1. */
int schema_item_values(struct schema *s, const struct alt *a, struct pointers *out);

/* The automaton of what "propertyNames" of a part allows, kept, or NULL: it allows every name.
 * Returns 0, or -1. */
int schema_names(struct schema *s, const json_t *part, const struct lm_dfa **out);

/* An automaton that is kept, of a pattern. NULL with err_set(). */
const struct lm_dfa *schema_pattern(struct schema *s, const json_t *where,
	const char *pattern, size_t len, const void *of);

/* An automaton of what an alternative allows; alternative: number or string. */
int schema_number(struct schema *s, const struct alt *a, struct lm_dfa *out);
int schema_string(struct schema *s, const struct alt *a, struct lm_dfa *out);

/* Returns the automaton that is all that a string has to match, or NULL. */
const struct lm_dfa *schema_one_dfa(const struct alt *a);

/* Leaves a keyword out that cannot be held: returns 0 and notes it, or, where nothing may be left
 * out,
 * -1 as schema_refuse. keyword: a literal, or NULL. */
int schema_leave_out(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Appends the places of what was left out since the last call: "schema.not, schema.items.if". */
void schema_tell_left_out(struct schema *s, struct buf *out);

/* Sets the error, with the place of a schema (or of a keyword in it) in front. Returns -1. */
int schema_refuse(struct schema *s, const json_t *at, const char *keyword,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
