/* stake.h - the stakes of nodes in the ledger: earnings that are locked, and later released or
 * slashed, once, by a row of the chain (rnp.stake).
 *
 * Locked tokens belong to an epoch's "locked" balance. A move transfers them to its "left". Slashed
 * tokens stay there. Released ones are minted anew by the rnp.stake row, which is an epoch of its
 * own in the tables, with claims and a Merkle root, and is paid like one. Uses ledger. */
#ifndef RNP_CMD_REWARD_LEDGER_STAKE_H
#define RNP_CMD_REWARD_LEDGER_STAKE_H

#include "cmd/rnp-reward/ledger/ledger.h"

#define LEDGER_STAKES_MAX 4000 /* stakes that one row of the chain moves */

/* What one node has at stake; or what an epoch locks of a node that was up in it (base_units 0:
 * nothing is locked, the node was only seen). */
struct ledger_stake {
	unsigned char node[32], wallet[32];
	int64_t base_units;
	int64_t uusd;    /* worth when it was locked, in all */
	int64_t seen_ms; /* end of the last epoch in which the node was up */
};

/* Stores what an epoch locks, and which nodes were up in it; between store_begin and store_commit.
 * Returns 0, or -1. */
int ledger_lock(struct ledger *l, int64_t epoch, int64_t end_ms,
	const struct ledger_stake *list, size_t n);

/* Lists what nodes have at stake as of the rows before `before` (INT64_MAX: now), in the order of
 * the nodes; the caller frees *out. Returns how many, or -1. */
long ledger_stakes(struct ledger *l, int64_t before, struct ledger_stake **out);

/* Returns the stake of a node in such a list, or NULL. */
const struct ledger_stake *ledger_stake_find(const struct ledger_stake *list, long n,
	const unsigned char node[32]);

/* Returns what the node with this address has at stake by such a list. The address must be
 * valid. */
int64_t ledger_staked_uusd(const char *address, const struct ledger_stake *list, long n);

/* Appends an rnp.stake and moves the stakes that it names, in one transaction. Returns 0, or -1:
 * 65 a stake is not what the record says. */
int ledger_move_stakes(struct ledger *l, json_t *record, const struct key *k,
	int64_t now_ms);

/* Checks stakes against claims, rows and balances: see ledger_verify, which calls it. */
int ledger_verify_stakes(struct ledger *l, struct buf *reason);

#endif
