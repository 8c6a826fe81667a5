/* ledger_parts.h - declarations that the files of the ledger share among themselves. */
#ifndef RNP_CMD_REWARD_LEDGER_PARTS_H
#define RNP_CMD_REWARD_LEDGER_PARTS_H

#include "cmd/rnp-reward/ledger.h"

/* Checks that a row fits its schema and follows the row with hash `before`. Returns 0, or -1
 * with EX_DATAERR. */
int ledger_check_link(const json_t *row, const char *where, int64_t sequence,
	const unsigned char before[LEDGER_HASH_BYTES]);

/* Gets the number that the next row will have. Returns 0, or -1. */
int ledger_next(struct ledger *l, int64_t *sequence);

/* Lets this transaction store what belongs to the next row before the row. Returns 0, or -1. */
int ledger_row_follows(struct ledger *l);

/* Enters the epoch of row `sequence` into its table; payable: its claims are known, and follow.
 * Returns 0, or -1. */
int ledger_store_epoch(struct ledger *l, const json_t *row, const char *where,
	int64_t sequence, bool payable);

/* Checks the rules that SQLite keeps for the ledger: see ledger_verify, which calls it. */
int ledger_verify_schema(struct ledger *l, struct buf *reason);

/* Hashes when the nodes of all stakes up to those of row `sequence` were last seen (rnp.epoch's
 * seen_sha256), and counts these. Returns 0, or -1. */
int ledger_seen_hash(struct ledger *l, int64_t sequence,
	unsigned char out[LEDGER_HASH_BYTES], int64_t *stakes);

/* Enters claims of that epoch. Returns 0, or -1. */
int ledger_store_claims(struct ledger *l, int64_t sequence,
	const struct merkle_leaf *leaves, size_t n);

#endif
