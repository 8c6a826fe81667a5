/* ledger.h - the ledger of epochs and payouts: an SQLite file of rows that form a hash chain.
 *
 * A row is a record with its place ("sequence") and the hash of the previous row ("previous");
 * the hash of a row is the SHA-256 of its canonical bytes (RFC 8785), proof included. The rows
 * alone, one a line, are the ledger's export, in the same format as the older ledgers of JSON
 * Lines. The other tables (epochs and claims here, payouts in payouts.h) follow from the
 * rows; SQLite itself checks with every statement that minted = claimed + locked + left and
 * that claimed = paid + in flight + owed. Uses store, json, canon, schema, merkle, key. */
#ifndef RNP_CMD_REWARD_LEDGER_LEDGER_H
#define RNP_CMD_REWARD_LEDGER_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-reward/epoch/merkle.h"
#include "common/base/buf.h"
#include "common/cli/opt.h"
#include "common/record/key.h"
#include "common/store/store.h"

#define LEDGER_HASH_BYTES 32

struct ledger_stake; /* stake.h */

struct ledger {
	struct store store;
	sqlite3_stmt *insert_row, *set_head;
};
#define LEDGER_INIT \
	{           \
		0   \
	}

/* Called by ledger_each for each row; returns 0, or -1 to stop. */
typedef int (*ledger_fn)(void *ctx, int64_t sequence, const json_t *row);

/* Opens a ledger, and creates it unless read_only. Returns 0, or -1 as store_open does; 65 with
 * a hint if the file is a ledger of JSON Lines. */
int ledger_open(struct ledger *l, const char *path, bool read_only);

/* Opens a ledger that must exist, since its name may be mistyped. Returns 0, or -1: 66 there is
 * none. */
int ledger_open_existing(struct ledger *l, const char *path, bool read_only);
void ledger_close(struct ledger *l); /* fine if it is not open */

/* Appends a record as the next row: sets sequence and previous, adds k's signature (NULL:
 * none), and stores it. Call between store_begin and store_commit. Returns 0, or -1. */
int ledger_append(struct ledger *l, json_t *record, const struct key *k, int64_t now_ms);

/* Calls fn for the rows of a kind (NULL: of all) from `from` on, in order; each fits its schema.
 * Returns 0, or -1: fn's error, the store's, or 65: a row does not fit. */
int ledger_each(struct ledger *l, const char *kind, int64_t from, ledger_fn fn,
	void *ctx);

/* Returns the row with this number; the caller owns it. NULL with code 1 (there is none), the
 * store's error, or 65 (it does not fit its schema). */
json_t *ledger_row(struct ledger *l, int64_t sequence);

/* Returns the number of the last row of a kind, -1 if there is none; -2 with the store's error. */
int64_t ledger_last(struct ledger *l, const char *kind);

/* --- epochs -------------------------------------------------------------------------------- */

/* Seals an epoch: stores the rnp.epoch, its claims and its stakes in one transaction. Refuses
 * with 65: an epoch without times; one that shares time with an epoch of the same token, unless
 * each names the other as its complement; a different result for the times and policy of a
 * stored one. An epoch that is already stored with the same content is left alone (*there is
 * true). Sets sequence, previous and, if k is not NULL, the signature in record. Returns 0, or
 * -1. */
#define LEDGER_BATCH 1024
struct ledger_content {
	void *ctx;
	/* Each writes the next rows to list, LEDGER_BATCH at most, and returns how many, 0 at
	 * the end: claims in the order of wallets, stakes in the order of nodes. So ten million
	 * rows are never all in memory, and the tables grow at their ends, which wastes no
	 * pages. */
	size_t (*claims)(void *ctx, struct merkle_leaf *list);
	size_t (*stakes)(void *ctx, struct ledger_stake *list);
};
int ledger_seal(struct ledger *l, json_t *record, const struct ledger_content *content,
	const struct key *k, int64_t now_ms, bool *there);

/* Appends the names of the tokens that the epochs pay: "RENDER, TEST". Returns 0, or -1. */
int ledger_tokens(struct ledger *l, struct buf *out);

/* The balance of an epoch, in base units. */
struct ledger_balance {
	int64_t sequence;
	int64_t minted, claimed, locked, left, paid, in_flight, owed;
};

/* Lists the balances of all epochs, in order; the caller frees *out. Returns how many, or -1. */
long ledger_balances(struct ledger *l, struct ledger_balance **out);

/* Reads the claims of an epoch in the order of the tree; the caller frees *out. Returns how
 * many, or -1. */
long ledger_claims(struct ledger *l, int64_t sequence, struct merkle_leaf **out);

/* Imports the rows of a ledger of JSON Lines, or of an export; the ledger must be empty. Epochs
 * without claims, as in such a file, are stored but never paid. Returns how many rows, or -1:
 * 65 naming the line that breaks the chain. */
int64_t ledger_import(struct ledger *l, const char *path);

/* Appends a second party's rnp.cosign, after checking its signature and its epoch. One that is
 * already stored is left alone. Returns 0, or -1 with 65. */
int ledger_add_cosign(struct ledger *l, json_t *record);

/* Whether a row is of a kind that is signed and co-signed: an epoch, or a move of stakes. */
bool ledger_pays(const json_t *row);

/* Returns how many of the trusted addresses have signed or co-signed the epoch of row
 * `sequence`, or -1. */
int ledger_signers(struct ledger *l, int64_t sequence, const struct opt_list *trusted);

/* --- checks -------------------------------------------------------------------------------- */

/* Checks the whole ledger for consistency: rows against their hashes and each other, the head
 * against the last row, claims against the roots, balances against sums, the database's own rules
 * (triggers, constraints) against those that it was made with. Returns 0 with the first fault in
 * reason, naming the row ("row 3: ..."), or an empty reason; -1 if it cannot be read. */
int ledger_verify(struct ledger *l, struct buf *reason);

/* Checks that the claims and balances of these epochs, in order, are what their signed rows say,
 * as ledger_verify does for all: a claim that somebody has changed is never paid. only_open:
 * skips the epochs of which nothing is owed. Returns 0, or -1: 65 naming the row. */
int ledger_check_claims(struct ledger *l, const int64_t *epochs, long n, bool only_open);

/* Checks that no epoch of which something is owed shares time with another one of its token, except
 * where ledger_seal allows it. Returns 0, or -1: 65 naming the rows. */
int ledger_check_times(struct ledger *l);

/* Checks that the transactions that are planned and not yet signed pay claims of these epochs,
 * and that those claims are what was signed. Returns 0, or -1: 65 naming the transaction or row. */
int ledger_check_planned(struct ledger *l, const int64_t *epochs, long n);

/* Computes the hash of a row. */
void ledger_hash(const json_t *row, unsigned char out[LEDGER_HASH_BYTES]);

#endif
