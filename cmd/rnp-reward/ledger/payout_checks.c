/* payout_checks.c - checks the ledger's tables before a payment is signed. Nobody signs the
 * tables, so they are compared with each other and with the signed epochs, and past.c compares
 * them with the chain. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/ledger/payouts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

int ledger_check_issue(struct ledger *l, const struct ledger_order *o,
	const int64_t *epochs, long n)
{
	char id[LEDGER_ORDER_MAX];
	sqlite3_stmt *q = NULL;
	int64_t claimed = -1;
	int rc = 0;

	for (long i = 0; i < n && claimed < 0 && rc == 0; i++) {
		snprintf(id, sizeof id, "epoch %" PRId64, epochs[i]);
		if (strcmp(id, o->id) != 0)
			continue;
		rc = ledger_check_claims(l, &epochs[i], 1, false);
		if (rc == 0)
			rc = store_prepare(&l->store, &q,
				"SELECT claimed FROM epoch WHERE sequence = ?");
		if (rc == 0) {
			store_bind(q, "i", epochs[i]);
			rc = store_step(&l->store, q);
		}
		if (rc == 1)
			claimed = sqlite3_column_int64(q, 0);
		rc = rc < 0 ? -1 : 0;
		sqlite3_finalize(q);
	}
	if (rc < 0 || (claimed == o->base_units && o->action == ACTION_MINT))
		return rc;
	return err_set(EX_DATAERR,
		"the ledger is not good: '%.300s' is to be issued, %" PRId64
		" base units, which no epoch claims that is signed",
		o->id, o->base_units);
}

int ledger_each_planned(struct ledger *l, ledger_order_fn fn, void *ctx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT t.id, o.id, o.action, o.base_units FROM tx t LEFT JOIN supply_order o"
		" ON o.tx = t.id AND o.action = t.action AND o.base_units = t.base_units"
		" WHERE t.status = 'planned' AND t.action <> 'pay' ORDER BY t.id");

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		struct ledger_order o;

		if (sqlite3_column_type(q, 1) == SQLITE_NULL) {
			rc = err_set(EX_DATAERR,
				"the ledger is not good: transaction %" PRId64
				" is not what was ordered",
				(int64_t)sqlite3_column_int64(q, 0));
			break;
		}
		ledger_read_order(q, 1, &o);
		rc = fn(ctx, &o);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* Checks that a statement finds no row; the first column is a transaction's number. Returns 0,
 * or -1. */
static int check_none(struct ledger *l, const char *sql, const char *text)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, sql);

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 1)
		rc = err_set(EX_DATAERR,
			"the ledger is not good: transaction %" PRId64 ": %s",
			(int64_t)sqlite3_column_int64(q, 0), text);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_check_done(struct ledger *l)
{
	int64_t paid = ledger_spent_from(l, 0, NULL), claimed = -1;
	sqlite3_stmt *q = NULL;

	if (paid < 0 ||
		check_none(l,
			"SELECT t.id FROM tx t WHERE t.action = 'pay' AND t.status NOT IN"
			" ('failed', 'expired') AND t.base_units IS NOT (SELECT sum(base_units)"
			" FROM payout p WHERE p.tx = t.id) LIMIT 1",
			"its payouts do not add up") < 0 ||
		check_none(l,
			"SELECT t.id FROM tx t WHERE t.action <> 'pay' AND t.status NOT IN"
			" ('failed', 'expired') AND NOT EXISTS (SELECT 1 FROM supply_order o"
			" WHERE o.tx = t.id) LIMIT 1",
			"what it carries out is open again") < 0 ||
		store_prepare(&l->store, &q,
			"SELECT coalesce(sum(paid + in_flight), 0) FROM epoch") < 0)
		return -1;
	if (store_step(&l->store, q) == 1)
		claimed = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	if (claimed < 0 || paid == claimed)
		return claimed < 0 ? -1 : 0;
	return err_set(EX_DATAERR,
		"the ledger is not good: its transactions pay %" PRId64
		" base units, and of its claims %" PRId64 " are paid or in flight",
		paid, claimed);
}

/* --- comparison with the chain -------------------------------------------------------------- */

/* Returns the sum that the instructions of a transaction transfer, burn and issue; -1: this
 * program has not made it. */
static int64_t moved_by(const unsigned char *bytes, size_t len)
{
	struct solana_first first;
	struct solana_parsed m;
	int64_t sum = 0;

	if (!solana_first_signer(bytes, len, &first) ||
		!solana_parse(first.message, first.nmessage, &m))
		return -1;
	for (int i = 0; i < m.n; i++) {
		const unsigned char *data = m.list[i].data;
		uint64_t amount;

		if (m.list[i].ndata != SOLANA_CHECKED_BYTES ||
			(data[0] != SOLANA_TRANSFER_CHECKED &&
				data[0] != SOLANA_MINT_TO_CHECKED &&
				data[0] != SOLANA_BURN_CHECKED))
			continue;
		amount = solana_checked_amount(data);
		if (amount > INT64_MAX ||
			__builtin_add_overflow(sum, (int64_t)amount, &sum))
			return -1;
	}
	return sum;
}

int ledger_find_tx(struct ledger *l, const char *signature, int64_t *id)
{
	sqlite3_stmt *q = NULL;
	int found = -1,
	    rc = store_prepare(&l->store, &q,
		    "SELECT id, status, base_units, bytes FROM tx WHERE signature = ?");

	if (rc == 0) {
		store_bind(q, "t", signature);
		rc = store_step(&l->store, q);
	}
	if (rc == 1) {
		*id = sqlite3_column_int64(q, 0);
		found = pay_status_find(store_text(q, 1));
		if (found < 0)
			rc = err_set(EX_DATAERR,
				"the ledger's transaction %" PRId64 " is damaged", *id);
		/* its amount must be that of its bytes: otherwise some of its claims are open,
		 * and would be paid twice */
		else if (moved_by(sqlite3_column_blob(q, 3),
				 (size_t)sqlite3_column_bytes(q, 3)) !=
			sqlite3_column_int64(q, 2))
			rc = err_set(EX_DATAERR,
				"the ledger is not good: transaction %" PRId64
				": its bytes do not pay what it does",
				*id);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -2 : found;
}

int ledger_old_signature(struct ledger *l, int64_t before_ms,
	char out[LEDGER_SIGNATURE_MAX], int64_t *at_ms)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT signature, at_ms FROM tx WHERE status = 'finalised' AND at_ms < ?"
		" ORDER BY id DESC LIMIT 1");

	*out = '\0';
	if (rc == 0) {
		store_bind(q, "i", before_ms);
		rc = store_step(&l->store, q);
	}
	if (rc == 1) {
		snprintf(out, LEDGER_SIGNATURE_MAX, "%s", store_text(q, 0));
		*at_ms = sqlite3_column_int64(q, 1);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_used_nonce(struct ledger *l, const char *nonce, const struct solana_key *value)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT 1 FROM tx WHERE nonce = ? AND blockhash = ? LIMIT 1");

	if (rc == 0) {
		store_bind(q, "tb", nonce, value->bytes, sizeof value->bytes);
		rc = store_step(&l->store, q);
	}
	sqlite3_finalize(q);
	return rc;
}

static int by_root(const void *a, const void *b)
{
	return memcmp(a, b, MERKLE_HASH_BYTES);
}

const struct ledger_root *ledger_find_root(const struct ledger_roots *roots,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	return roots->n ?
		bsearch(root, roots->list, roots->n, sizeof *roots->list, by_root) :
		NULL;
}

static void add_root(struct ledger_roots *out, size_t *cap, sqlite3_stmt *q)
{
	const char *hex = store_text(q, 0);
	struct ledger_root one = { .payable = sqlite3_column_int(q, 1) != 0,
		.sequence = sqlite3_column_int64(q, 3) };
	int64_t signed_ms = sqlite3_column_int64(q, 2);
	size_t len = 0;

	/* an epoch that is sealed before it begins may be paid before that, too */
	if (clock_parse(store_text(q, 4), "proof", &signed_ms) < 0 ||
		signed_ms > sqlite3_column_int64(q, 2))
		signed_ms = sqlite3_column_int64(q, 2);
	err_clear();
	if (one.payable && signed_ms < out->first_ms)
		out->first_ms = signed_ms;
	if (one.payable && one.sequence < out->first_sequence)
		out->first_sequence = one.sequence;
	if (sodium_hex2bin(one.root, sizeof one.root, hex, strlen(hex), NULL, &len,
		    NULL) != 0 ||
		len != sizeof one.root)
		return;
	out->list = xgrow(out->list, cap, out->n + 1, sizeof *out->list);
	out->list[out->n++] = one;
}

int ledger_read_roots(struct ledger *l, struct ledger_roots *out)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT e.body ->> 'merkle_root', p.payable, coalesce(p.from_ms, 0), p.sequence,"
		" coalesce(e.body ->> '$.proof.created', e.body ->> '$.proof[0].created')"
		" FROM epoch p JOIN entry e ON e.sequence = p.sequence");

	*out = (struct ledger_roots){ .first_ms = INT64_MAX,
		.first_sequence = INT64_MAX };
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		rc = 0;
		add_root(out, &cap, q);
	}
	sqlite3_finalize(q);
	if (out->n)
		qsort(out->list, out->n, sizeof *out->list, by_root);
	if (rc == 0)
		return 0;
	free(out->list);
	*out = (struct ledger_roots){ .n = 0 };
	return -1;
}
