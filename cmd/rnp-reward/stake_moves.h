/* stake_moves.h - computes which stakes of a ledger a policy's rule moves at the end of an epoch,
 * as records that become rows. Uses ledger_stake, again. */
#ifndef RNP_CMD_REWARD_STAKE_MOVES_H
#define RNP_CMD_REWARD_STAKE_MOVES_H

#include <jansson.h>

#include "cmd/rnp-reward/ledger_stake.h"
#include "common/base/buf.h"

/* Computes the moves that follow from the usages in files (none: standard input) of the sealed
 * epoch `epoch` (its row), with the stakes as of the rows before `before`. The epoch is computed
 * again first: if it differs, reason says how and *out is empty. policy: NULL, the one that the
 * epoch names. *out: an array of rnp.stake records, slashes first, which the caller owns. Returns
 * 0, or -1. */
int stake_moves(struct ledger *l, const json_t *epoch, const char *policy, char **files,
	int n, int64_t before, json_t **out, struct buf *reason);

#endif
