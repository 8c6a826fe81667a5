/* claims.c - the tables of epochs and their claims: stores what belongs to a row, and reads it. */
#include <inttypes.h>

#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/ledger/parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* rows of one INSERT: to start a statement costs about as much as a row */
#define CLAIMS_TOGETHER 32
/* --- storing ------------------------------------------------------------------------------- */

/* Stores claims in statements of `rows` claims each, as many of these as n fills. Returns how
 * many claims it has stored, or -1. */
static long store_claims(struct ledger *l, int64_t sequence,
	const struct merkle_leaf *leaves, size_t n, size_t rows)
{
	struct buf sql = BUF_INIT;
	sqlite3_stmt *q = NULL;
	size_t done = 0;
	int rc;

	buf_adds(&sql, "INSERT INTO claim(epoch, wallet, unlocked, locked) VALUES");
	for (size_t i = 0; i < rows; i++)
		buf_adds(&sql, i ? ",(?1, ?, ?, ?)" : "(?1, ?, ?, ?)");
	rc = store_prepare(&l->store, &q, sql.data);
	for (; rc == 0 && n - done >= rows; done += rows) {
		store_bind(q, "i", sequence);
		for (size_t i = 0; i < rows; i++) {
			const struct merkle_leaf *leaf = &leaves[done + i];
			int at = 2 + 3 * (int)i;

			sqlite3_bind_blob(q, at, leaf->claimant, sizeof leaf->claimant,
				SQLITE_STATIC);
			sqlite3_bind_int64(q, at + 1, (int64_t)leaf->unlocked);
			sqlite3_bind_int64(q, at + 2, (int64_t)leaf->locked);
		}
		rc = store_step(&l->store, q) < 0 ? -1 : 0;
	}
	sqlite3_finalize(q);
	buf_release(&sql);
	return rc < 0 ? -1 : (long)done;
}

int ledger_store_claims(struct ledger *l, int64_t sequence,
	const struct merkle_leaf *leaves, size_t n)
{
	long done = store_claims(l, sequence, leaves, n, CLAIMS_TOGETHER);

	if (done >= 0 && (size_t)done < n)
		done = store_claims(l, sequence, leaves + done, n - (size_t)done, 1);
	return done < 0 ? -1 : 0;
}

int ledger_store_epoch(struct ledger *l, const json_t *row, const char *where,
	int64_t sequence, bool payable)
{
	const char *policy, *token = "RENDER";
	int64_t total, pool, from_ms = -1, to_ms = -1, locked = 0;
	sqlite3_stmt *q = NULL;
	int rc;

	if (json_get_text(row, where, "policy", &policy) < 0 ||
		json_opt_text(row, where, "token", &token) < 0 ||
		json_opt_time(row, where, "from", &from_ms) < 0 ||
		json_opt_time(row, where, "to", &to_ms) < 0 ||
		json_get_i64(row, where, "total_base_units", 0, INT64_MAX, &total) < 0 ||
		json_opt_i64(row, where, "locked_base_units", 0, total, &locked) < 0)
		return -1;
	pool = total;
	if (json_opt_i64(row, where, "pool_base_units", 0, INT64_MAX, &pool) < 0)
		return -1;
	if (pool < total)
		return err_set(EX_DATAERR, "%s: more is paid than the pool holds", where);
	rc = store_prepare(&l->store, &q,
		"INSERT INTO epoch(sequence, token, policy, from_ms, to_ms, payable, minted, claimed,"
		" locked, \"left\", owed) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	if (rc == 0 && from_ms >= 0)
		rc = store_run(&l->store, q, "ittiiiiiiii", sequence, token, policy,
			from_ms, to_ms, (int64_t)payable, pool, total - locked, locked,
			pool - total, total - locked);
	else if (rc == 0)
		rc = store_run(&l->store, q, "ittnniiiiii", sequence, token, policy,
			(int64_t)payable, pool, total - locked, locked, pool - total,
			total - locked);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- reading ------------------------------------------------------------------------------- */

long ledger_balances(struct ledger *l, struct ledger_balance **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long n = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT sequence, minted, claimed, locked, \"left\", paid, in_flight, owed FROM epoch"
		" ORDER BY sequence");

	*out = NULL;
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct ledger_balance *b;

		*out = xgrow(*out, &cap, (size_t)n + 1, sizeof **out);
		b = &(*out)[n++];
		b->sequence = sqlite3_column_int64(q, 0);
		b->minted = sqlite3_column_int64(q, 1);
		b->claimed = sqlite3_column_int64(q, 2);
		b->locked = sqlite3_column_int64(q, 3);
		b->left = sqlite3_column_int64(q, 4);
		b->paid = sqlite3_column_int64(q, 5);
		b->in_flight = sqlite3_column_int64(q, 6);
		b->owed = sqlite3_column_int64(q, 7);
		rc = 0;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

long ledger_claims(struct ledger *l, int64_t sequence, struct merkle_leaf **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long n = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT wallet, unlocked, locked FROM claim WHERE epoch = ? ORDER BY wallet");

	*out = NULL;
	if (rc == 0)
		store_bind(q, "i", sequence);
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct merkle_leaf *leaf;

		*out = xgrow(*out, &cap, (size_t)n + 1, sizeof **out);
		leaf = &(*out)[n++];
		leaf->unlocked = (uint64_t)sqlite3_column_int64(q, 1);
		leaf->locked = (uint64_t)sqlite3_column_int64(q, 2);
		rc = leaf->unlocked > INT64_MAX || leaf->locked > INT64_MAX ||
				leaf->unlocked + leaf->locked > INT64_MAX ?
			err_set(EX_DATAERR,
				"the ledger is not good: row %" PRId64
				": a claim does not fit 64 bits",
				sequence) :
			store_blob(q, 0, leaf->claimant, sizeof leaf->claimant);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}
