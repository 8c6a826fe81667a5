/* expr.h - expressions of a policy: read from JSON once, computed for every node. For
 * rules.c. */
#ifndef RNP_CMD_REWARD_EXPR_H
#define RNP_CMD_REWARD_EXPR_H

#include "cmd/rnp-reward/rules.h"

/* Read an expression; it lives in r's arena. Terms before the nterms-th may be named. where
 * names it in errors. Returns NULL with EX_DATAERR. */
const struct expr *expr_parse(struct rules *r, const json_t *v, const char *where);

int expr_eval(struct eval *e, const struct expr *x, struct frac *out, bool *known);

/* Indexes by name, -1 when there is none. */
int field_find(const char *name);
int factor_find(const char *name);

#endif
