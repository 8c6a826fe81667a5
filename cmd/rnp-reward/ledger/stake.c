/* stake.c - stakes of nodes in the ledger: locked by epochs, released or slashed by rows. */
#include "cmd/rnp-reward/ledger/stake.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/ledger/parts.h"
#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* --- locking -------------------------------------------------------------------------------- */

/* Sets the time at which a node was last up in its locked stakes. The rows are found first and
 * updated by primary key: an UPDATE that searches makes a temporary table for each node, empty
 * for most. */
static int set_seen(struct ledger *l, sqlite3_stmt *find, sqlite3_stmt *set,
	int64_t end_ms, const unsigned char node[32])
{
	int rc;

	store_bind(find, "bi", node, (size_t)32, end_ms);
	while ((rc = store_step(&l->store, find)) == 1)
		if (store_run(&l->store, set, "iib", end_ms,
			    sqlite3_column_int64(find, 0), node, (size_t)32) < 0)
			return -1;
	return rc;
}

int ledger_lock(struct ledger *l, int64_t epoch, int64_t end_ms,
	const struct ledger_stake *list, size_t n)
{
	sqlite3_stmt *lock = NULL, *find = NULL, *set = NULL;
	int rc = store_prepare(&l->store, &lock,
		"INSERT INTO stake(epoch, node, wallet, base_units, uusd, seen_ms)"
		" VALUES(?, ?, ?, ?, ?, ?)");

	if (rc == 0)
		rc = store_prepare(&l->store, &find,
			"SELECT epoch FROM stake WHERE node = ? AND moved IS NULL"
			" AND seen_ms < ?");
	if (rc == 0)
		rc = store_prepare(&l->store, &set,
			"UPDATE stake SET seen_ms = ? WHERE epoch = ? AND node = ?");
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct ledger_stake *s = &list[i];

		rc = set_seen(l, find, set, end_ms, s->node);
		if (rc == 0 && s->base_units)
			rc = store_run(&l->store, lock, "ibbiii", epoch, s->node,
				sizeof s->node, s->wallet, sizeof s->wallet,
				s->base_units, s->uusd, end_ms);
	}
	sqlite3_finalize(lock);
	sqlite3_finalize(find);
	sqlite3_finalize(set);
	return rc < 0 ? -1 : 0;
}

static void put_u64le(unsigned char out[8], uint64_t v)
{
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)(v >> 8 * i);
}

int ledger_seen_hash(struct ledger *l, int64_t sequence,
	unsigned char out[LEDGER_HASH_BYTES], int64_t *stakes)
{
	sqlite3_stmt *q = NULL;
	struct sha256_state sha;
	int rc = store_prepare(&l->store, &q,
		"SELECT epoch, node, seen_ms FROM stake WHERE epoch <= ? ORDER BY epoch, node");

	sha256_init(&sha);
	*stakes = 0;
	if (rc == 0)
		store_bind(q, "i", sequence);
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		unsigned char one[48];

		rc = store_blob(q, 1, one + 8, 32);
		if (rc < 0)
			break;
		put_u64le(one, (uint64_t)sqlite3_column_int64(q, 0));
		put_u64le(one + 40, (uint64_t)sqlite3_column_int64(q, 2));
		sha256_update(&sha, one, sizeof one);
		++*stakes;
	}
	sha256_final(&sha, out);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- reading -------------------------------------------------------------------------------- */

long ledger_stakes(struct ledger *l, int64_t before, struct ledger_stake **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long n = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT node, wallet, sum(base_units), sum(uusd), max(seen_ms), max(epoch)"
		" FROM stake WHERE epoch < ?1 AND (moved IS NULL OR moved >= ?1)"
		" GROUP BY node ORDER BY node");

	*out = NULL;
	if (rc == 0)
		store_bind(q, "i", before);
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct ledger_stake *s;

		*out = xgrow(*out, &cap, (size_t)n + 1, sizeof **out);
		s = &(*out)[n++];
		rc = store_blob(q, 0, s->node, sizeof s->node) < 0 ?
			-1 :
			store_blob(q, 1, s->wallet, sizeof s->wallet);
		s->base_units = sqlite3_column_int64(q, 2);
		s->uusd = sqlite3_column_int64(q, 3);
		s->seen_ms = sqlite3_column_int64(q, 4);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

const struct ledger_stake *ledger_stake_find(const struct ledger_stake *list, long n,
	const unsigned char node[32])
{
	long low = 0, high = n;

	while (low < high) {
		long middle = (low + high) / 2;
		int order = memcmp(list[middle].node, node, sizeof list->node);

		if (order == 0)
			return &list[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

int64_t ledger_staked_uusd(const char *address, const struct ledger_stake *list, long n)
{
	const struct ledger_stake *s;
	unsigned char node[32];

	if (address_parse(address, "node", node) < 0)
		bug("%s", err_get()->text);
	s = ledger_stake_find(list, n, node);
	return s ? s->uusd : 0;
}

/* --- moving --------------------------------------------------------------------------------- */

/* Adds up the stakes of a record by wallet; the caller frees *leaves. Returns how many wallets
 * there are, or -1. */
static long read_moves(const json_t *record, struct merkle_leaf **leaves, int64_t *total)
{
	const json_t *list = json_object_get(record, "stakes"), *v;
	struct merkle_leaf *all = xcalloc(json_array_size(list) + 1, sizeof *all);
	size_t i;
	long n = -1;

	*total = 0;
	json_array_foreach(list, i, v) {
		const char *wallet;
		int64_t amount;

		if (json_get_text(v, "stakes", "wallet", &wallet) < 0 ||
			json_get_i64(v, "stakes", "base_units", 1, INT64_MAX, &amount) <
				0 ||
			address_parse(wallet, "wallet", all[i].claimant) < 0)
			goto out;
		if (__builtin_add_overflow(*total, amount, total)) {
			err_set(EX_DATAERR, "stakes: their sum does not fit 64 bits");
			goto out;
		}
		all[i].unlocked = (uint64_t)amount;
	}
	n = i ? merkle_sort(all, i) : 0;
out:
	if (n < 0) {
		free(all);
		all = NULL;
	}
	*leaves = all;
	return n;
}

/* Moves all that a node has at stake. Returns 0, or -1: the record says another amount. */
static int move_node(struct ledger *l, sqlite3_stmt *move, sqlite3_stmt *sum,
	const json_t *one, int64_t sequence)
{
	unsigned char node[32];
	const char *address;
	int64_t amount, found = -1;
	int rc;

	if (json_get_text(one, "stakes", "node", &address) < 0 ||
		json_get_i64(one, "stakes", "base_units", 1, INT64_MAX, &amount) < 0 ||
		address_parse(address, "node", node) < 0 ||
		store_run(&l->store, move, "ib", sequence, node, sizeof node) < 0)
		return -1;
	store_bind(sum, "bi", node, sizeof node, sequence);
	rc = store_step(&l->store, sum);
	if (rc == 1)
		found = sqlite3_column_int64(sum, 0);
	sqlite3_reset(sum);
	if (rc < 0)
		return -1;
	return found == amount ?
		0 :
		err_set(EX_DATAERR, "node %s has %" PRId64 " at stake, not %" PRId64,
			address, found, amount);
}

static int move_all(struct ledger *l, const json_t *record, int64_t sequence)
{
	sqlite3_stmt *move = NULL, *sum = NULL;
	const json_t *one;
	size_t i;
	int rc = store_prepare(&l->store, &move,
		"UPDATE stake SET moved = ?1 WHERE node = ?2 AND moved IS NULL");

	if (rc == 0)
		rc = store_prepare(&l->store, &sum,
			"SELECT coalesce(sum(base_units), 0) FROM stake WHERE node = ?1"
			" AND moved = ?2");
	if (rc == 0)
		json_array_foreach(json_object_get(record, "stakes"), i, one) {
			rc = move_node(l, move, sum, one, sequence);
			if (rc < 0)
				break;
		}
	sqlite3_finalize(move);
	sqlite3_finalize(sum);
	return rc;
}

static int move_stakes(struct ledger *l, json_t *record, const struct key *k,
	int64_t now_ms)
{
	struct merkle_leaf *leaves = NULL;
	int64_t total, stated, sequence;
	const char *action;
	long n;
	int rc = -1;

	if (json_get_text(record, "stake", "action", &action) < 0 ||
		json_get_i64(record, "stake", "total_base_units", 1, INT64_MAX, &stated) <
			0)
		return -1;
	n = read_moves(record, &leaves, &total);
	if (n < 0)
		return -1;
	if (total != stated)
		err_set(EX_DATAERR, "stakes: their sum is %" PRId64 ", not %" PRId64,
			total, stated);
	else if (ledger_append(l, record, k, now_ms) == 0 &&
		schema_check(record, "stake", "rnp.stake") == 0 &&
		json_get_i64(record, "stake", "sequence", 0, INT64_MAX, &sequence) == 0 &&
		move_all(l, record, sequence) == 0)
		rc = strcmp(action, "release") != 0 ||
				(ledger_store_epoch(l, record, "stake", sequence, true) ==
						0 &&
					ledger_store_claims(l, sequence, leaves,
						(size_t)n) == 0) ?
			0 :
			-1;
	free(leaves);
	return rc;
}

int ledger_move_stakes(struct ledger *l, json_t *record, const struct key *k,
	int64_t now_ms)
{
	if (store_begin(&l->store) < 0)
		return -1;
	if (move_stakes(l, record, k, now_ms) < 0) {
		store_rollback(&l->store);
		return -1;
	}
	return store_commit(&l->store);
}

/* --- checks --------------------------------------------------------------------------------- */

/* Finds the newest epoch whose claims are known, and the newest that has a seen_sha256; -1:
 * there is none. Once an epoch has one, all later ones must. */
static int newest_seen(struct ledger *l, int64_t *newest, int64_t *says)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT coalesce(max(sequence), -1), coalesce(max(iif("
		"body ->> 'seen_sha256' IS NULL, NULL, sequence)), -1) FROM epoch JOIN entry"
		" USING(sequence) WHERE kind = 'rnp.epoch' AND payable");

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 1) {
		*newest = sqlite3_column_int64(q, 0);
		*says = sqlite3_column_int64(q, 1);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* Compares the times at which nodes were last seen with the hash in the newest epoch. The times
 * at earlier epochs are no longer known: later ones have overwritten them. */
static int verify_seen(struct ledger *l, struct buf *reason)
{
	unsigned char hash[LEDGER_HASH_BYTES];
	char hex[2 * LEDGER_HASH_BYTES + 1];
	int64_t newest = -1, says = -1, stakes;
	const char *said;
	json_t *row;

	if (newest_seen(l, &newest, &says) < 0)
		return -1;
	if (says < 0)
		return 0; /* an older program has sealed it, or nothing is at stake */
	if (says != newest) {
		buf_addf(reason,
			"row %" PRId64 ": it does not say when nodes were last seen,"
			" and row %" PRId64 " does",
			newest, says);
		return 0;
	}
	row = ledger_row(l, newest);
	if (!row)
		return -1;
	if (ledger_seen_hash(l, newest, hash, &stakes) < 0) {
		json_decref(row);
		return -1;
	}
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	said = json_string_value(json_object_get(row, "seen_sha256"));
	if (!said || strcmp(said, hex) != 0)
		buf_addf(reason,
			"row %" PRId64 ": nodes with a stake were last seen when it or"
			" an epoch before it does not say",
			newest);
	json_decref(row);
	return 0;
}

int ledger_verify_stakes(struct ledger *l, struct buf *reason)
{
	static const struct {
		const char *sql, *text;
	} checks[] = {
		{ "SELECT c.epoch FROM claim c LEFT JOIN (SELECT epoch, wallet,"
		  " sum(base_units) AS base_units FROM stake GROUP BY epoch, wallet) s"
		  " ON s.epoch = c.epoch AND s.wallet = c.wallet"
		  " WHERE c.locked <> coalesce(s.base_units, 0) LIMIT 1",
			"its stakes are not what its claims lock" },
		{ "SELECT s.epoch FROM stake s LEFT JOIN claim c ON c.epoch = s.epoch"
		  " AND c.wallet = s.wallet WHERE c.wallet IS NULL LIMIT 1",
			"a stake of it belongs to no claim" },
		{ "SELECT e.sequence FROM entry e WHERE e.kind = 'rnp.stake' AND"
		  " CAST(e.body ->> 'total_base_units' AS INTEGER) <> coalesce((SELECT sum(base_units) FROM stake s"
		  " WHERE s.moved = e.sequence), 0) LIMIT 1",
			"it does not move what it says" },
		{ "SELECT s.moved FROM stake s LEFT JOIN entry e ON e.sequence = s.moved AND"
		  " e.kind = 'rnp.stake' WHERE s.moved IS NOT NULL AND e.sequence IS NULL LIMIT 1",
			"a stake was moved by it, and it is no rnp.stake" },
		/* a node is seen at the end of its stake's own epoch, or of one that was sealed
		 * later; both lists are short */
		{ "SELECT min(s.epoch) FROM (SELECT DISTINCT epoch, seen_ms FROM stake) s"
		  " JOIN epoch own ON own.sequence = s.epoch WHERE s.seen_ms < own.to_ms OR"
		  " NOT EXISTS (SELECT 1 FROM epoch e WHERE e.sequence >= s.epoch AND"
		  " e.to_ms = s.seen_ms) HAVING min(s.epoch) IS NOT NULL",
			"a node with a stake of it was last seen when no epoch ended" },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof checks / sizeof *checks && rc >= 0 && !reason->len;
		i++) {
		sqlite3_stmt *q = NULL;

		rc = store_prepare(&l->store, &q, checks[i].sql);
		if (rc == 0)
			rc = store_step(&l->store, q);
		if (rc == 1)
			buf_addf(reason, "row %" PRId64 ": %s",
				(int64_t)sqlite3_column_int64(q, 0), checks[i].text);
		sqlite3_finalize(q);
	}
	if (rc >= 0 && !reason->len)
		rc = verify_seen(l, reason);
	return rc < 0 ? -1 : 0;
}
