/* stake_moves.h - computes which stakes of a ledger a policy's rule moves at the end of an epoch,
 * as records that become rows. Uses stake, recompute. */
#ifndef RNP_CMD_REWARD_LEDGER_STAKE_MOVES_H
#define RNP_CMD_REWARD_LEDGER_STAKE_MOVES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-reward/ledger/stake.h"
#include "common/base/buf.h"

enum stake_move { STAKE_STAYS, STAKE_RELEASE, STAKE_SLASH };

/* What is known of a node at the end of an epoch. */
struct stake_view {
	bool challenged;    /* it has verdicts in the epoch */
	int64_t passed_ppm; /* the part of them that it passed */
	bool up;            /* it was up in the epoch */
	int64_t absent_ms;  /* time since the end of the last epoch in which it was up */
};

/* Decides what becomes of a node's stake. Pure. A challenged node that passed less than
 * slash_below_ppm loses its stake; a node that was not up for release_after_s gets it back. -1
 * means never. Slashing is decided first, so nobody escapes it by leaving. */
enum stake_move stake_decide(int64_t slash_below_ppm, int64_t release_after_s,
	const struct stake_view *v);

/* Computes the moves that follow from the usages in files (none: standard input) of the sealed
 * epoch `epoch` (its row), with the stakes as of the rows before `before`. The epoch is
 * recomputed first: if it differs, reason says how and *out is empty. policy NULL: the one that the
 * epoch names. *out: an array of rnp.stake records, slashes first, which the caller owns. Returns
 * 0, or -1. */
int stake_moves(struct ledger *l, const json_t *epoch, const char *policy, char **files,
	int n, int64_t before, json_t **out, struct buf *reason);

#endif
