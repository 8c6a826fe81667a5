/* payouts.c - transactions and their claims in the ledger.
 *
 * long because every statement about transactions is in one place. */
#include "cmd/rnp-reward/ledger/payouts.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

const char *const pay_action_names[ACTIONS] = { "pay", "burn", "mint" };

/* --- what is owed --------------------------------------------------------------------------- */

long ledger_payable(struct ledger *l, const char *token, const struct opt_list *trusted,
	int need, int64_t **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long n = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT sequence FROM epoch WHERE payable = 1 AND token = ? ORDER BY sequence");

	*out = NULL;
	if (rc == 0)
		store_bind(q, "t", token);
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		int64_t sequence = sqlite3_column_int64(q, 0);
		int signers = ledger_signers(l, sequence, trusted);

		rc = signers < 0 ? -1 : 0;
		if (signers < need)
			continue;
		*out = xgrow(*out, &cap, (size_t)n + 1, sizeof **out);
		(*out)[n++] = sequence;
	}
	sqlite3_finalize(q);
	if (rc < 0) {
		free(*out);
		*out = NULL;
	}
	return rc < 0 ? -1 : n;
}

/* Stores the epochs that may be paid in a temporary table of this connection. */
static int set_payable(struct ledger *l, const int64_t *epochs, size_t n)
{
	sqlite3_stmt *q = NULL;
	int rc = store_exec(&l->store,
		"CREATE TEMP TABLE IF NOT EXISTS payable(epoch INTEGER PRIMARY KEY);"
		"DELETE FROM payable");

	if (rc == 0)
		rc = store_prepare(&l->store, &q,
			"INSERT OR IGNORE INTO payable VALUES(?)");
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = store_run(&l->store, q, "i", epochs[i]);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

long ledger_owed(struct ledger *l, const int64_t *epochs, size_t n, struct owed **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long found = 0;
	int rc = set_payable(l, epochs, n);

	*out = NULL;
	if (rc == 0)
		rc = store_prepare(&l->store, &q,
			"SELECT c.wallet, sum(c.unlocked), t.reason FROM claim c"
			" JOIN payable p ON p.epoch = c.epoch"
			" LEFT JOIN trouble t ON t.wallet = c.wallet"
			" WHERE c.state = 0 AND c.unlocked > 0 GROUP BY c.wallet ORDER BY c.wallet");
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct owed *o;

		*out = xgrow(*out, &cap, (size_t)found + 1, sizeof **out);
		o = &(*out)[found++];
		memset(o, 0, sizeof *o);
		o->base_units = sqlite3_column_int64(q, 1);
		o->alone = sqlite3_column_type(q, 2) != SQLITE_NULL;
		o->refused = o->alone && store_text(q, 2)[0];
		rc = store_blob(q, 0, o->wallet.bytes, SOLANA_KEY_BYTES);
	}
	sqlite3_finalize(q);
	if (rc < 0) {
		free(*out);
		*out = NULL;
	}
	return rc < 0 ? -1 : found;
}

/* --- planning ------------------------------------------------------------------------------- */

static int assign_claims(struct ledger *l, int64_t id, const struct owed *list, int n,
	json_t *record)
{
	sqlite3_stmt *claim = NULL, *payout = NULL;
	json_t *payouts = json_array();
	int rc = store_prepare(&l->store, &claim,
		"UPDATE claim SET state = 1, tx = ?1 WHERE wallet = ?2 AND state = 0"
		" AND unlocked > 0 AND epoch IN (SELECT epoch FROM payable)");

	if (rc == 0)
		rc = store_prepare(&l->store, &payout,
			"INSERT INTO payout(tx, wallet, base_units, created) SELECT ?1, ?2,"
			" sum(unlocked), ?3 FROM claim WHERE tx = ?1 AND wallet = ?2"
			" HAVING sum(unlocked) = ?4");
	for (int i = 0; i < n && rc == 0; i++) {
		char wallet[ADDRESS_MAX];
		json_t *one = json_object();

		address_format(list[i].wallet.bytes, wallet);
		json_set_text(one, "wallet", wallet);
		json_set_i64(one, "base_units", list[i].base_units);
		json_push(payouts, one);
		rc = store_run(&l->store, claim, "ib", id, &list[i].wallet,
			sizeof list[i].wallet);
		if (rc == 0)
			rc = store_run(&l->store, payout, "ibii", id, &list[i].wallet,
				sizeof list[i].wallet, (int64_t)list[i].create,
				list[i].base_units);
		if (rc == 0 && sqlite3_changes(l->store.db) != 1)
			rc = err_set(EX_DATAERR,
				"what wallet %s is owed has changed while it was planned",
				wallet);
	}
	sqlite3_finalize(claim);
	sqlite3_finalize(payout);
	json_set(record, "payouts", payouts);
	return rc;
}

static int64_t next_id(struct ledger *l)
{
	sqlite3_stmt *q = NULL;
	int64_t id = -1;

	if (store_prepare(&l->store, &q, "SELECT coalesce(max(id), -1) + 1 FROM tx") ==
			0 &&
		store_step(&l->store, q) == 1)
		id = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return id;
}

static int64_t plan(struct ledger *l, const struct owed *list, int n, json_t *record,
	int64_t now_ms)
{
	int64_t id = next_id(l), sum = 0;
	sqlite3_stmt *q = NULL;
	int rc = id < 0 ? -1 : 0;

	for (int i = 0; i < n; i++)
		sum += list[i].base_units;
	json_set_i64(record, "tx", id);
	json_set_text(record, "status", pay_status_names[PAY_PLANNED]);
	json_set_time(record, "at", now_ms);
	json_set_i64(record, "base_units", sum);
	if (rc == 0)
		rc = store_prepare(&l->store, &q,
			"INSERT INTO tx(id, status, at_ms, base_units) VALUES(?, 'planned', ?, ?)");
	if (rc == 0)
		rc = store_run(&l->store, q, "iii", id, now_ms, sum);
	sqlite3_finalize(q);
	if (rc == 0)
		rc = assign_claims(l, id, list, n, record);
	if (rc == 0)
		rc = ledger_append(l, record, NULL, now_ms);
	return rc < 0 ? -1 : id;
}

int64_t ledger_plan(struct ledger *l, const int64_t *epochs, size_t nepochs,
	const struct owed *list, int n, const json_t *shared, int64_t now_ms)
{
	json_t *record = json_deep_copy(shared);
	int64_t id = -1;

	if (set_payable(l, epochs, nepochs) == 0 && store_begin(&l->store) == 0) {
		id = plan(l, list, n, record, now_ms);
		if (id < 0)
			store_rollback(&l->store);
		else if (store_commit(&l->store) < 0)
			id = -1;
	}
	json_decref(record);
	return id;
}

/* --- orders --------------------------------------------------------------------------------- */

int ledger_add_order(struct ledger *l, const struct ledger_order *o)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"INSERT INTO supply_order(id, action, base_units) VALUES(?1, ?2, ?3)"
		" ON CONFLICT(id) DO UPDATE SET tx = tx"
		" WHERE action = excluded.action AND base_units = excluded.base_units");

	if (rc == 0)
		rc = store_run(&l->store, q, "tti", o->id, pay_action_names[o->action],
			o->base_units);
	if (rc == 0 && sqlite3_changes(l->store.db) != 1)
		rc = err_set(EX_DATAERR,
			"'%s' is in the ledger with another amount than %" PRId64, o->id,
			o->base_units);
	sqlite3_finalize(q);
	return rc;
}

static enum pay_action find_action(const char *name)
{
	for (int i = 0; i < ACTIONS; i++)
		if (strcmp(pay_action_names[i], name) == 0)
			return (enum pay_action)i;
	return ACTION_PAY;
}

void ledger_read_order(sqlite3_stmt *q, int at, struct ledger_order *out)
{
	snprintf(out->id, sizeof out->id, "%s", store_text(q, at));
	out->action = find_action(store_text(q, at + 1));
	out->base_units = sqlite3_column_int64(q, at + 2);
}

long ledger_open_orders(struct ledger *l, struct ledger_order **out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	long n = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT id, action, base_units FROM supply_order WHERE tx IS NULL"
		" ORDER BY action DESC, id");

	*out = NULL;
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		*out = xgrow(*out, &cap, (size_t)n + 1, sizeof **out);
		ledger_read_order(q, 0, &(*out)[n++]);
		rc = 0;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

static int64_t plan_order(struct ledger *l, const struct ledger_order *o, json_t *record,
	int64_t now_ms)
{
	sqlite3_stmt *tx = NULL, *take = NULL;
	int64_t id = next_id(l);
	int rc = id < 0 ? -1 : 0;

	json_set_i64(record, "tx", id);
	json_set_text(record, "status", pay_status_names[PAY_PLANNED]);
	json_set_time(record, "at", now_ms);
	json_set_text(record, "action", pay_action_names[o->action]);
	json_set_text(record, "order", o->id);
	json_set_i64(record, "base_units", o->base_units);
	if (rc == 0)
		rc = store_prepare(&l->store, &tx,
			"INSERT INTO tx(id, status, at_ms, base_units, action)"
			" VALUES(?, 'planned', ?, ?, ?)");
	if (rc == 0)
		rc = store_run(&l->store, tx, "iiit", id, now_ms, o->base_units,
			pay_action_names[o->action]);
	if (rc == 0)
		rc = store_prepare(&l->store, &take,
			"UPDATE supply_order SET tx = ? WHERE id = ? AND tx IS NULL");
	if (rc == 0)
		rc = store_run(&l->store, take, "it", id, o->id);
	if (rc == 0 && sqlite3_changes(l->store.db) != 1)
		rc = err_set(EX_DATAERR, "'%s' is carried out already", o->id);
	sqlite3_finalize(tx);
	sqlite3_finalize(take);
	if (rc == 0)
		rc = ledger_append(l, record, NULL, now_ms);
	return rc < 0 ? -1 : id;
}

int64_t ledger_plan_order(struct ledger *l, const struct ledger_order *o,
	const json_t *shared, int64_t now_ms)
{
	json_t *record = json_deep_copy(shared);
	int64_t id = -1;

	if (store_begin(&l->store) == 0) {
		id = plan_order(l, o, record, now_ms);
		if (id < 0)
			store_rollback(&l->store);
		else if (store_commit(&l->store) < 0)
			id = -1;
	}
	json_decref(record);
	return id;
}

/* --- moving on ------------------------------------------------------------------------------ */

static int run_on(struct ledger *l, const char *sql, int64_t tx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, sql);

	if (rc == 0)
		rc = store_run(&l->store, q, "i", tx);
	sqlite3_finalize(q);
	return rc;
}

static int store_signature(struct ledger *l, const struct ledger_tx *tx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"UPDATE tx SET signature = ?, bytes = ?, last_valid = ?, sender = ?, nonce = ?,"
		" blockhash = ? WHERE id = ?");

	if (rc == 0)
		rc = store_run(&l->store, q, "tbittbi", tx->signature, tx->bytes, tx->len,
			tx->last_valid, tx->sender, tx->nonce, &tx->blockhash,
			sizeof tx->blockhash, tx->id);
	sqlite3_finalize(q);
	return rc;
}

int ledger_store_message(struct ledger *l, const struct ledger_tx *tx)
{
	sqlite3_stmt *q = NULL;
	int rc;

	if (store_begin(&l->store) < 0)
		return -1;
	rc = store_prepare(&l->store, &q,
		tx->asked ?
			"UPDATE tx SET last_valid = ?1, nonce = ?2, blockhash = ?3, bytes = ?4"
			" WHERE id = ?5" :
			"UPDATE tx SET last_valid = NULL, nonce = NULL, blockhash = NULL,"
			" bytes = NULL WHERE id = ?5");
	if (rc == 0)
		rc = store_run(&l->store, q, "itbbi", tx->last_valid, tx->nonce,
			&tx->blockhash, sizeof tx->blockhash, tx->bytes, tx->len, tx->id);
	sqlite3_finalize(q);
	if (rc < 0) {
		store_rollback(&l->store);
		return -1;
	}
	return store_commit(&l->store);
}

/* Notes that a transaction has failed: its wallets will be paid one by one; a wallet that was
 * alone in it is refused from now on. */
static int record_failure(struct ledger *l, const struct ledger_tx *tx)
{
	return run_on(l,
		tx->npayouts > 1 ?
			"INSERT OR IGNORE INTO trouble(wallet, reason) SELECT wallet, '' FROM payout"
			" WHERE tx = ?" :
			"INSERT OR REPLACE INTO trouble(wallet, reason) SELECT wallet,"
			" 'its payment failed by itself' FROM payout WHERE tx = ?",
		tx->id);
}

static int set_status(struct ledger *l, int64_t id, enum pay_status to)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, "UPDATE tx SET status = ? WHERE id = ?");

	if (rc == 0)
		rc = store_run(&l->store, q, "ti", pay_status_names[to], id);
	sqlite3_finalize(q);
	return rc;
}

int ledger_move(struct ledger *l, const struct ledger_tx *tx, enum pay_status to,
	const json_t *more, int64_t now_ms)
{
	json_t *record = json_record("rnp.tx");
	int rc = set_status(l, tx->id, to);

	json_set_i64(record, "tx", tx->id);
	json_set_text(record, "status", pay_status_names[to]);
	json_set_time(record, "at", now_ms);
	if (more)
		json_object_update(record, (json_t *)more);
	if (rc == 0 && to == PAY_SIGNED)
		rc = store_signature(l, tx);
	if (rc == 0 && to == PAY_FINALISED)
		rc = run_on(l, "UPDATE claim SET state = 2 WHERE tx = ?", tx->id);
	if (rc == 0 && to == PAY_FAILED)
		rc = record_failure(l, tx);
	if (rc == 0 && (to == PAY_FAILED || to == PAY_EXPIRED))
		rc = run_on(l, "UPDATE claim SET state = 0, tx = NULL WHERE tx = ?",
			tx->id);
	if (rc == 0 && (to == PAY_FAILED || to == PAY_EXPIRED))
		rc = run_on(l, "UPDATE supply_order SET tx = NULL WHERE tx = ?", tx->id);
	if (rc == 0)
		rc = ledger_append(l, record, NULL, now_ms);
	json_decref(record);
	return rc;
}

/* --- reading -------------------------------------------------------------------------------- */

#define TX_COLUMNS                                                                    \
	"t.id, t.status, t.base_units, t.signature, t.bytes, t.last_valid, t.sender," \
	" (SELECT count(*) FROM payout p WHERE p.tx = t.id), t.action, t.nonce, t.blockhash"

#define TX_COLUMNS_N 11

static int read_tx(sqlite3_stmt *q, struct ledger_tx *out)
{
	int status = pay_status_find(store_text(q, 1));

	memset(out, 0, sizeof *out);
	out->id = sqlite3_column_int64(q, 0);
	out->len = (size_t)sqlite3_column_bytes(q, 4);
	if (status < 0 || out->len > sizeof out->bytes)
		return err_set(EX_DATAERR,
			"the ledger's transaction %" PRId64 " is damaged", out->id);
	out->status = (enum pay_status)status;
	out->base_units = sqlite3_column_int64(q, 2);
	snprintf(out->signature, sizeof out->signature, "%s", store_text(q, 3));
	if (out->len)
		memcpy(out->bytes, sqlite3_column_blob(q, 4), out->len);
	out->last_valid = sqlite3_column_int64(q, 5);
	snprintf(out->sender, sizeof out->sender, "%s", store_text(q, 6));
	out->npayouts = sqlite3_column_int(q, 7);
	out->action = find_action(store_text(q, 8));
	snprintf(out->nonce, sizeof out->nonce, "%s", store_text(q, 9));
	out->asked = sqlite3_column_bytes(q, 10) == SOLANA_KEY_BYTES;
	if (out->asked)
		memcpy(out->blockhash.bytes, sqlite3_column_blob(q, 10),
			SOLANA_KEY_BYTES);
	return 0;
}

int ledger_has_signature(struct ledger *l, const char *signature)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, "SELECT 1 FROM tx WHERE signature = ?");

	if (rc == 0) {
		store_bind(q, "t", signature);
		rc = store_step(&l->store, q);
	}
	sqlite3_finalize(q);
	return rc;
}

int ledger_in_flight(struct ledger *l, struct ledger_tx *out, int max)
{
	sqlite3_stmt *q = NULL;
	int n = 0,
	    rc = store_prepare(&l->store, &q,
		    "SELECT " TX_COLUMNS " FROM tx t WHERE t.status NOT IN"
		    " ('finalised', 'failed', 'expired') ORDER BY t.id");

	while (rc == 0 && n < max && (rc = store_step(&l->store, q)) == 1)
		rc = read_tx(q, &out[n++]);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

static int read_payout(sqlite3_stmt *q, int at, struct owed *out)
{
	memset(out, 0, sizeof *out);
	out->base_units = sqlite3_column_int64(q, at + 1);
	out->create = sqlite3_column_int(q, at + 2) != 0;
	return store_blob(q, at, out->wallet.bytes, SOLANA_KEY_BYTES);
}

int ledger_payouts(struct ledger *l, int64_t tx, struct owed *out, int max)
{
	sqlite3_stmt *q = NULL;
	int n = 0,
	    rc = store_prepare(&l->store, &q,
		    "SELECT wallet, base_units, created FROM payout WHERE tx = ?"
		    " ORDER BY wallet");

	if (rc == 0)
		store_bind(q, "i", tx);
	while (rc == 0 && n < max && (rc = store_step(&l->store, q)) == 1) {
		rc = read_payout(q, 0, &out[n++]);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

json_t *ledger_last_plan(struct ledger *l)
{
	sqlite3_stmt *q = NULL;
	int64_t sequence = -1;

	if (store_prepare(&l->store, &q,
		    "SELECT max(sequence) FROM entry WHERE kind = 'rnp.tx'"
		    " AND body LIKE '%\"status\":\"planned\"%'") == 0 &&
		store_step(&l->store, q) == 1 && sqlite3_column_type(q, 0) != SQLITE_NULL)
		sequence = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return sequence < 0 ? NULL : ledger_row(l, sequence);
}

/* Returns the sum that a bound statement selects, and finalizes it; -1 with err_set. */
static int64_t read_sum(struct ledger *l, sqlite3_stmt *q)
{
	int64_t sum = -1;

	if (q && store_step(&l->store, q) == 1)
		sum = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return sum;
}

int64_t ledger_spent_since(struct ledger *l, int64_t since_ms)
{
	sqlite3_stmt *q = NULL;

	if (store_prepare(&l->store, &q,
		    "SELECT coalesce(sum(base_units), 0) FROM tx WHERE at_ms >= ?"
		    " AND action = 'pay' AND status NOT IN ('failed', 'expired')") == 0)
		store_bind(q, "i", since_ms);
	return read_sum(l, q);
}

int64_t ledger_spent_from(struct ledger *l, int64_t first_tx,
	const struct solana_key *payer)
{
	const unsigned char *but = payer ? payer->bytes : (const unsigned char *)"";
	sqlite3_stmt *q = NULL;

	if (store_prepare(&l->store, &q,
		    "SELECT coalesce(sum(y.base_units), 0) FROM payout y JOIN tx t ON t.id = y.tx"
		    " WHERE t.id >= ? AND t.action = 'pay' AND y.wallet <> ?"
		    " AND t.status NOT IN ('failed', 'expired')") == 0)
		store_bind(q, "ib", first_tx, but, payer ? sizeof *payer : 0);
	return read_sum(l, q);
}

int ledger_each_payout(struct ledger *l, ledger_payout_fn fn, void *ctx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT " TX_COLUMNS ", y.wallet, y.base_units, y.created FROM tx t"
		" JOIN payout y ON y.tx = t.id ORDER BY t.id, y.wallet");

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct ledger_tx tx;
		struct owed payout;

		rc = read_tx(q, &tx);
		if (rc == 0)
			rc = read_payout(q, TX_COLUMNS_N, &payout);
		if (rc == 0)
			rc = fn(ctx, &payout, &tx);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_each_order(struct ledger *l, ledger_payout_fn fn, void *ctx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT " TX_COLUMNS " FROM tx t WHERE t.action <> 'pay' ORDER BY t.id");

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct owed none = { .base_units = 0 };
		struct ledger_tx tx;

		rc = read_tx(q, &tx);
		if (rc == 0)
			rc = fn(ctx, &none, &tx);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- checks --------------------------------------------------------------------------------- */

static int fault(struct ledger *l, const char *sql, const char *text, struct buf *reason)
{
	sqlite3_stmt *q = NULL;
	int rc = reason->len ? 0 : store_prepare(&l->store, &q, sql);

	if (rc == 0 && q)
		rc = store_step(&l->store, q);
	if (rc == 1)
		buf_addf(reason, "transaction %" PRId64 ": %s",
			(int64_t)sqlite3_column_int64(q, 0), text);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_verify_payouts(struct ledger *l, struct buf *reason)
{
	static const struct {
		const char *sql, *text;
	} checks[] = {
		{ "SELECT t.id FROM tx t LEFT JOIN (SELECT body ->> 'tx' AS id, max(sequence) AS at"
		  " FROM entry WHERE kind = 'rnp.tx' GROUP BY 1) r ON r.id = t.id"
		  " LEFT JOIN entry e ON e.sequence = r.at"
		  " WHERE e.body IS NULL OR e.body ->> 'status' <> t.status ORDER BY t.id LIMIT 1",
			"its status is not that of its last row" },
		{ "SELECT r.id FROM (SELECT DISTINCT body ->> 'tx' AS id FROM entry"
		  " WHERE kind = 'rnp.tx') r LEFT JOIN tx t ON t.id = r.id WHERE t.id IS NULL LIMIT 1",
			"it has rows, and is missing" },
		{ "SELECT t.id FROM tx t JOIN entry e ON e.kind = 'rnp.tx' AND e.body ->> 'tx' = t.id"
		  " AND e.body ->> 'status' = 'signed'"
		  " WHERE e.body ->> 'signature' IS NOT t.signature LIMIT 1",
			"its signature is not that of its row" },
		{ "SELECT t.id FROM tx t WHERE t.action = 'pay' AND t.base_units IS NOT"
		  " (SELECT sum(base_units) FROM payout p WHERE p.tx = t.id) LIMIT 1",
			"its payouts do not add up" },
		{ "SELECT o.tx FROM supply_order o LEFT JOIN tx t ON t.id = o.tx WHERE o.tx IS NOT NULL"
		  " AND (t.id IS NULL OR t.action <> o.action OR t.base_units <> o.base_units"
		  " OR t.status IN ('failed', 'expired')) LIMIT 1",
			"it is not what was ordered" },
		{ "SELECT t.id FROM tx t WHERE t.action <> 'pay' AND t.status NOT IN ('failed', 'expired')"
		  " AND NOT EXISTS (SELECT 1 FROM supply_order o WHERE o.tx = t.id) LIMIT 1",
			"nobody has ordered it" },
		{ "SELECT p.tx FROM payout p JOIN tx t ON t.id = p.tx AND t.status NOT IN"
		  " ('failed', 'expired') WHERE p.base_units IS NOT (SELECT sum(unlocked) FROM claim c"
		  " WHERE c.tx = p.tx AND c.wallet = p.wallet) LIMIT 1",
			"its claims are not what it pays" },
		{ "SELECT c.tx FROM claim c LEFT JOIN tx t ON t.id = c.tx WHERE"
		  " (c.state = 0 AND c.tx IS NOT NULL) OR (c.state = 2 AND t.status IS NOT 'finalised')"
		  " OR (c.state = 1 AND (t.id IS NULL OR t.status IN ('finalised', 'failed', 'expired')))"
		  " LIMIT 1",
			"a claim of it is in another state" },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof checks / sizeof *checks && rc == 0; i++)
		rc = fault(l, checks[i].sql, checks[i].text, reason);
	return rc;
}
