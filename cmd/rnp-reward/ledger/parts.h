/* parts.h - declarations that the files of the ledger share among themselves. */
#ifndef RNP_CMD_REWARD_LEDGER_PARTS_H
#define RNP_CMD_REWARD_LEDGER_PARTS_H

#include "cmd/rnp-reward/ledger/ledger.h"

/* Checks that a row fits its schema and follows the row with hash `before`. Returns 0, or -1
 * with EX_DATAERR. */
int ledger_check_link(const json_t *row, const char *where, int64_t sequence,
	const unsigned char before[LEDGER_HASH_BYTES]);

/* Reads the head: how many rows there are, and the hash of the last one. Returns 0, or -1 with
 * 65: it is missing. */
int ledger_head(struct ledger *l, int64_t *entries,
	unsigned char last[LEDGER_HASH_BYTES]);

/* Stores a row that already has sequence and previous, and moves the head; between store_begin and
 * store_commit. Returns 0, or -1. */
int ledger_store_row(struct ledger *l, const json_t *row, int64_t sequence);

/* Gets the number that the next row will have. Returns 0, or -1. */
int ledger_next(struct ledger *l, int64_t *sequence);

/* Lets this transaction store rows of other tables that refer to a ledger row before that row.
 * Returns 0, or -1. */
int ledger_row_follows(struct ledger *l);

/* Stores the epoch of row `sequence` in its table; payable: its claims are known, and are stored
 * next. Returns 0, or -1. */
int ledger_store_epoch(struct ledger *l, const json_t *row, const char *where,
	int64_t sequence, bool payable);

/* Checks the rules that SQLite keeps for the ledger: see ledger_verify, which calls it. */
int ledger_verify_schema(struct ledger *l, struct buf *reason);

/* Hashes the times at which the nodes of all stakes were last seen, up to the stakes of row
 * `sequence` (rnp.epoch's seen_sha256), and counts these stakes. Returns 0, or -1. */
int ledger_seen_hash(struct ledger *l, int64_t sequence,
	unsigned char out[LEDGER_HASH_BYTES], int64_t *stakes);

/* Stores claims of the epoch of row `sequence`. Returns 0, or -1. */
int ledger_store_claims(struct ledger *l, int64_t sequence,
	const struct merkle_leaf *leaves, size_t n);

#endif
