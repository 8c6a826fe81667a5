/* formula.h - a policy's expressions as people write them. Pure. */
#ifndef RNP_CMD_REWARD_POLICY_FORMULA_H
#define RNP_CMD_REWARD_POLICY_FORMULA_H

#include <jansson.h>

#include "cmd/rnp-reward/policy/frac.h"
#include "common/base/buf.h"

/* Appends an expression as "2 x uptime" or "least(cpu_cores: 2 -> 0, 4 -> 0.5; ...)". v is a
 * valid expression. */
void formula_write(struct buf *out, const json_t *v);

/* Appends a fraction as a decimal of at most 9 places, followed by the exact fraction if that
 * decimal is rounded: "0.595238095 (25/42)". */
void formula_frac(struct buf *out, struct frac f);

#endif
