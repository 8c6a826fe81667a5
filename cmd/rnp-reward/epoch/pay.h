/* pay.h - what one group of a node's GPUs is paid by a policy's formulas, before pools and caps.
 * Pure. Uses core.h's struct epoch, groups. */
#ifndef RNP_CMD_REWARD_EPOCH_PAY_H
#define RNP_CMD_REWARD_EPOCH_PAY_H

#include "cmd/rnp-reward/epoch/core.h"

#define PAY_BASE_UNITS UINT64_C(100000000) /* of one token */

/* What a group is paid for. */
enum pay_place {
	PAY_NOTHING, /* it does not qualify */
	PAY_FIRST,   /* itself, and the node as a whole: the first one that qualifies */
	PAY_FURTHER  /* what it adds */
};

/* Finds the requirements that a usage does not meet, and those that are unknown and waived: a bit
 * each. */
void pay_needs(const struct rules *r, const struct usage *u, uint64_t *unmet,
	uint64_t *waived);
bool pay_qualifies(const struct rules *r, const struct usage *u);

/* Computes each part of the pay of a group: tokens before a scale, or the weight in a share; zeros
 * for PAY_NOTHING. Returns 0, or -1 with EX_DATAERR: a value, or a term, does not fit. */
int pay_weigh(const struct epoch *e, const struct usage *one, enum pay_place place,
	struct frac out[PAY_N]);

/* Computes the base units of tokens in a part that pays an amount. The same returns. */
int pay_base_units(const struct epoch *e, const struct usage *one, int part,
	struct frac amount, int64_t *out);

/* Sets the error that the pay of a usage's node does not fit; returns -1. */
int pay_does_not_fit(const struct usage *u);

#endif
