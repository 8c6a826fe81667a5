/* expr.h - expressions of a policy: parsed from JSON once, evaluated for every node. Pure.
 * Depends on fields and frac and knows nothing of the rules around it: the scope holds the
 * names that an expression may use, the environment the values that it is evaluated with. */
#ifndef RNP_CMD_REWARD_POLICY_EXPR_H
#define RNP_CMD_REWARD_POLICY_EXPR_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-reward/policy/fields.h"
#include "cmd/rnp-reward/policy/frac.h"

#define EXPR_TERMS_MAX  32
#define EXPR_TABLES_MAX 16

struct arena;
struct expr;

/* The names that an expression may use; the texts are borrowed. */
struct expr_scope {
	struct arena *arena; /* expressions live there */
	const char *terms[EXPR_TERMS_MAX];
	int nterms;
	const char *tables[EXPR_TABLES_MAX];
	int ntables;
	/* out: bit per field whose largest value over the nodes is needed */
	uint32_t relative;
};

/* A row of each table for one GPU model. */
struct expr_rows {
	bool present[EXPR_TABLES_MAX];
	struct frac value[EXPR_TABLES_MAX];
};

/* The values with which one node's expressions are evaluated. */
struct expr_env {
	const struct usage *usage;
	int64_t epoch_s;
	int64_t price_uusd; /* of a token; 0 if not given */
	const int64_t *max; /* greatest value of each field among the qualified nodes */
	const struct frac *terms;     /* earlier terms, already computed */
	const struct expr_rows *rows; /* of the node's model; NULL: it has none */
	uint32_t lacking; /* out: bit per field that was needed and is absent */
};

/* Parses an expression, which lives in the scope's arena. `where` names it in errors. Returns
 * NULL with EX_DATAERR. */
const struct expr *expr_parse(struct expr_scope *s, const json_t *v, const char *where);

/* Evaluates an expression. *known becomes false, and the value 0, if a field that it needs is
 * absent. Returns 0, or -1 with EX_DATAERR: a value does not fit 128 bits. */
int expr_eval(struct expr_env *e, const struct expr *x, struct frac *out, bool *known);

/* Upper bounds of the inputs: known and terms_known have a bit per field and term with a bound. */
struct expr_bounds {
	uint32_t known, terms_known;
	struct frac field[FIELD_N];
	struct frac terms[EXPR_TERMS_MAX];
	struct frac tables[EXPR_TABLES_MAX]; /* largest value in each */
};

/* Computes an upper bound of an expression. Returns false when none follows from the bounds of
 * its inputs. */
bool expr_bound(const struct expr_bounds *b, const struct expr *x, struct frac *out);

/* Adds the terms, tables and fields that an expression names, a bit each. */
void expr_uses(const struct expr *x, uint32_t *terms, uint32_t *tables, uint32_t *fields);

#endif
