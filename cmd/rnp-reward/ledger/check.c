/* check.c - checks a whole ledger against itself: rows, chain, head, claims, balances. */
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/ledger/parts.h"
#include "cmd/rnp-reward/ledger/payouts.h"
#include "cmd/rnp-reward/ledger/stake.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/record/signature.h"

struct walk {
	int64_t rows;
	unsigned char last[LEDGER_HASH_BYTES];
	struct buf *reason;
};

static void fault(struct buf *reason, int64_t row, const char *text)
{
	buf_addf(reason, "row %" PRId64 ": %s", row, text);
}

/* Moves the pending error, if it is EX_DATAERR, into reason. Other errors stay pending. */
static bool move_error(struct buf *reason)
{
	if (err_get()->code != EX_DATAERR)
		return false;
	buf_adds(reason, err_get()->text);
	err_clear();
	return true;
}

/* --- rows ---------------------------------------------------------------------------------- */

static void check_signature(struct walk *w, const json_t *row)
{
	struct signature_result signature;
	json_t *bare = json_copy((json_t *)row);

	if (strcmp(json_string_value(json_object_get(row, "kind")), "rnp.cosign") == 0) {
		json_object_del(bare, "sequence");
		json_object_del(bare, "previous");
	}
	if (json_object_get(bare, "proof")) {
		signature_verify(bare, &signature);
		if (!signature.valid)
			fault(w->reason, w->rows, signature.reason);
	}
	json_decref(bare);
}

static void check_row(struct walk *w, sqlite3_stmt *q)
{
	unsigned char hash[LEDGER_HASH_BYTES];
	int64_t sequence = sqlite3_column_int64(q, 0);
	char where[64];
	json_t *row;

	if (sequence != w->rows) {
		fault(w->reason, w->rows, "is missing");
		return;
	}
	snprintf(where, sizeof where, "row %" PRId64, sequence);
	row = json_parse_object(store_text(q, 2), (size_t)sqlite3_column_bytes(q, 2),
		where);
	if (!row) {
		move_error(w->reason);
		return;
	}
	/* the hash is checked first, so that a changed byte is reported in its own row, not in
	 * the next */
	ledger_hash(row, hash);
	if (sqlite3_column_bytes(q, 3) != sizeof hash ||
		memcmp(hash, sqlite3_column_blob(q, 3), sizeof hash) != 0)
		fault(w->reason, sequence, "does not have the hash that was kept of it");
	else if (ledger_check_link(row, where, sequence, w->last) < 0)
		move_error(w->reason);
	else if (strcmp(json_string_value(json_object_get(row, "kind")),
			 store_text(q, 1)) != 0)
		fault(w->reason, sequence, "is filed under another kind");
	else
		check_signature(w, row);
	memcpy(w->last, hash, sizeof hash);
	w->rows++;
	json_decref(row);
}

static int check_rows(struct ledger *l, struct walk *w)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT sequence, kind, body, sha256 FROM entry ORDER BY sequence");

	while (rc == 0 && !w->reason->len && (rc = store_step(&l->store, q)) == 1) {
		check_row(w, q);
		rc = 0;
		if (w->reason->len)
			break;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int check_head(struct ledger *l, struct walk *w)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, "SELECT entries, sha256 FROM head");

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 0) {
		buf_adds(w->reason, "the head of the ledger is missing");
	} else if (rc == 1) {
		int64_t entries = sqlite3_column_int64(q, 0);

		if (entries > w->rows)
			buf_addf(w->reason,
				"row %" PRId64 ": is missing: the head counts %" PRId64
				" rows",
				w->rows, entries);
		else if (entries < w->rows)
			buf_addf(w->reason, "row %" PRId64 ": the head does not count it",
				entries);
		else if (sqlite3_column_bytes(q, 1) != LEDGER_HASH_BYTES ||
			memcmp(sqlite3_column_blob(q, 1), w->last, LEDGER_HASH_BYTES) !=
				0)
			fault(w->reason, w->rows - 1, "does not have the head's hash");
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- claims and balances ------------------------------------------------------------------- */

struct sums {
	int64_t claimed, locked, owed, in_flight, paid;
};

static int read_claims(struct ledger *l, int64_t sequence, struct merkle_leaf **leaves,
	size_t *n, struct sums *sums)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	int rc = store_prepare(&l->store, &q,
		"SELECT wallet, unlocked, locked, state FROM claim WHERE epoch = ? ORDER BY wallet");

	memset(sums, 0, sizeof *sums);
	*leaves = NULL;
	*n = 0;
	if (rc == 0)
		store_bind(q, "i", sequence);
	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		int64_t unlocked = sqlite3_column_int64(q, 1);
		int state = sqlite3_column_int(q, 3);
		struct merkle_leaf *leaf;
		int64_t *of;

		if (*n == cap) {
			cap = cap ? cap + cap / 2 : 1024;
			*leaves = xrealloc(*leaves, cap * sizeof **leaves);
		}
		leaf = &(*leaves)[(*n)++];
		rc = store_blob(q, 0, leaf->claimant, sizeof leaf->claimant);
		leaf->unlocked = (uint64_t)unlocked;
		leaf->locked = (uint64_t)sqlite3_column_int64(q, 2);
		of = state == 0    ? &sums->owed :
			state == 1 ? &sums->in_flight :
				     &sums->paid;
		if (rc == 0 &&
			(unlocked < 0 || (int64_t)leaf->locked < 0 ||
				__builtin_add_overflow(sums->claimed, unlocked,
					&sums->claimed) ||
				__builtin_add_overflow(sums->locked,
					(int64_t)leaf->locked, &sums->locked)))
			rc = err_set(EX_DATAERR,
				"the ledger is not good: row %" PRId64
				": its claims do not fit 64 bits",
				sequence);
		if (rc == 0)
			*of += unlocked; /* fits: a part of claimed */
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static void check_root(int64_t sequence, const json_t *row,
	const struct merkle_leaf *leaves, size_t n, struct buf *reason)
{
	const char *stated = json_string_value(json_object_get(row, "merkle_root"));
	char hex[2 * MERKLE_HASH_BYTES + 1] = "";
	unsigned char root[MERKLE_HASH_BYTES];

	if (n) {
		merkle_root(leaves, n, root, 0, NULL, NULL);
		sodium_bin2hex(hex, sizeof hex, root, sizeof root);
	}
	if (strcmp(stated ? stated : "", hex) != 0)
		fault(reason, sequence, "its claims do not have its Merkle root");
}

static bool amount_is(const json_t *row, const char *key, int64_t otherwise, int64_t is)
{
	int64_t stated = otherwise;

	return json_opt_i64(row, "epoch", key, 0, INT64_MAX, &stated) == 0 &&
		stated == is;
}

/* The columns of table epoch, as check_epochs selects them. */
enum {
	AT_SEQUENCE,
	AT_PAYABLE,
	AT_MINTED,
	AT_CLAIMED,
	AT_LOCKED,
	AT_PAID,
	AT_FLIGHT,
	AT_OWED,
	AT_MOVED,
	AT_TOKEN,
	AT_POLICY,
	AT_FROM,
	AT_TO,
	AT_CLAIMS /* whether there are any */
};

static bool text_is(const json_t *row, const char *key, const char *otherwise,
	const char *is)
{
	const char *stated = json_string_value(json_object_get(row, key));

	return strcmp(stated ? stated : otherwise, is) == 0;
}

static bool time_is(const json_t *row, const char *key, sqlite3_stmt *q, int column)
{
	int64_t stated = -1,
		is = sqlite3_column_type(q, column) == SQLITE_NULL ?
		-1 :
		sqlite3_column_int64(q, column);

	return json_opt_time(row, "epoch", key, &stated) == 0 && stated == is;
}

/* Whether the columns that sealing and paying use say what the row says (token, policy, times),
 * and an epoch with claims is payable. */
static bool is_filed_right(const json_t *row, sqlite3_stmt *q)
{
	return text_is(row, "token", "RENDER", store_text(q, AT_TOKEN)) &&
		text_is(row, "policy", "", store_text(q, AT_POLICY)) &&
		time_is(row, "from", q, AT_FROM) && time_is(row, "to", q, AT_TO) &&
		(sqlite3_column_int(q, AT_PAYABLE) || !sqlite3_column_int(q, AT_CLAIMS));
}

static int check_epoch(struct ledger *l, sqlite3_stmt *q, struct buf *reason)
{
	int64_t sequence = sqlite3_column_int64(q, AT_SEQUENCE);
	int64_t claimed = sqlite3_column_int64(q, AT_CLAIMED), locked, total;
	/* the row counts as locked what is still locked and what was moved since */
	bool fits = !__builtin_add_overflow(sqlite3_column_int64(q, AT_LOCKED),
			    sqlite3_column_int64(q, AT_MOVED), &locked) &&
		!__builtin_add_overflow(claimed, locked, &total);
	struct merkle_leaf *leaves = NULL;
	json_t *row = ledger_row(l, sequence);
	struct sums sums;
	size_t n = 0;
	int rc = row ? 0 : -1;

	/* otherwise a signed row could stand here twice, and be paid twice */
	if (rc == 0 && (!ledger_pays(row) || !amount_is(row, "sequence", -1, sequence)))
		fault(reason, sequence, "is not what was signed for this place");
	if (rc == 0 && !reason->len &&
		(!fits || !amount_is(row, "total_base_units", -1, total) ||
			!amount_is(row, "pool_base_units", total,
				sqlite3_column_int64(q, AT_MINTED))))
		fault(reason, sequence, "its balance is not what the epoch says");
	if (rc == 0 && !reason->len && !is_filed_right(row, q))
		fault(reason, sequence, "is filed under another token, policy or time");
	if (rc == 0 && !reason->len && sqlite3_column_int(q, AT_PAYABLE)) {
		rc = read_claims(l, sequence, &leaves, &n, &sums);
		if (rc == 0)
			check_root(sequence, row, leaves, n, reason);
		if (rc == 0 && !reason->len &&
			(sums.claimed != claimed || sums.locked != locked ||
				sums.paid != sqlite3_column_int64(q, AT_PAID) ||
				sums.in_flight != sqlite3_column_int64(q, AT_FLIGHT) ||
				sums.owed != sqlite3_column_int64(q, AT_OWED)))
			fault(reason, sequence,
				"its balance is not the sum of its claims");
	}
	free(leaves);
	json_decref(row);
	return rc;
}

#define EPOCH_COLUMNS                                                               \
	"SELECT sequence, payable, minted, claimed, locked, paid, in_flight, owed," \
	" (SELECT coalesce(sum(base_units), 0) FROM stake WHERE epoch = sequence"   \
	" AND moved IS NOT NULL), token, policy, from_ms, to_ms,"                   \
	" EXISTS (SELECT 1 FROM claim WHERE epoch = sequence) FROM epoch"

int ledger_check_claims(struct ledger *l, const int64_t *epochs, long n, bool only_open)
{
	struct buf reason = BUF_INIT;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		only_open ? EPOCH_COLUMNS
			" WHERE sequence = ? AND EXISTS (SELECT 1 FROM claim"
			" WHERE epoch = sequence AND state = 0 AND unlocked > 0)" :
			    EPOCH_COLUMNS " WHERE sequence = ?");

	for (long i = 0; i < n && rc == 0 && !reason.len; i++) {
		store_bind(q, "i", epochs[i]);
		rc = store_step(&l->store, q);
		if (rc == 1)
			rc = check_epoch(l, q, &reason);
		sqlite3_reset(q);
	}
	sqlite3_finalize(q);
	if (rc == 0 && reason.len)
		rc = err_set(EX_DATAERR, "the ledger is not good: %s", reason.data);
	buf_release(&reason);
	return rc < 0 ? -1 : 0;
}

/* Checks that all claims of planned transactions are of these epochs, and checks those epochs.
 * Returns 0, or -1. */
static int check_planned_epochs(struct ledger *l, const int64_t *epochs, long n)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT DISTINCT t.id, c.epoch FROM tx t JOIN claim c ON c.tx = t.id"
		" WHERE t.status = 'planned' ORDER BY c.epoch");
	int64_t checked = -1;

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		int64_t epoch = sqlite3_column_int64(q, 1);
		bool found = false;

		for (long i = 0; i < n; i++)
			found = found || epochs[i] == epoch;
		if (!found)
			rc = err_set(EX_DATAERR,
				"transaction %" PRId64 " is planned for row %" PRId64
				", which not enough of those who are trusted have signed",
				(int64_t)sqlite3_column_int64(q, 0), epoch);
		else if (epoch != checked)
			rc = ledger_check_claims(l, &epoch, 1, false);
		else
			rc = 0;
		checked = epoch;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_check_planned(struct ledger *l, const int64_t *epochs, long n)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT t.id FROM tx t JOIN payout p ON p.tx = t.id WHERE t.status = 'planned'"
		" AND p.base_units IS NOT (SELECT sum(c.unlocked) FROM claim c"
		" WHERE c.tx = t.id AND c.wallet = p.wallet AND c.state = 1)");

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 1)
		rc = err_set(EX_DATAERR,
			"the ledger is not good: transaction %" PRId64
			" does not pay what its claims are",
			(int64_t)sqlite3_column_int64(q, 0));
	sqlite3_finalize(q);
	return rc < 0 ? -1 : check_planned_epochs(l, epochs, n);
}

static int check_epochs(struct ledger *l, struct buf *reason)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, EPOCH_COLUMNS " ORDER BY sequence");

	while (rc == 0 && !reason->len && (rc = store_step(&l->store, q)) == 1)
		rc = check_epoch(l, q, reason);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int check_count(struct ledger *l, struct buf *reason)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT min(sequence) FROM (SELECT sequence FROM entry WHERE kind = 'rnp.epoch'"
		" OR (kind = 'rnp.stake' AND body ->> 'action' = 'release')"
		" EXCEPT SELECT sequence FROM epoch)");

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 1 && sqlite3_column_type(q, 0) != SQLITE_NULL)
		fault(reason, sqlite3_column_int64(q, 0), "its balance is missing");
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_verify(struct ledger *l, struct buf *reason)
{
	struct walk w = { .reason = reason };

	if (check_rows(l, &w) < 0)
		return -1;
	if (!reason->len && check_head(l, &w) < 0)
		return -1;
	if (!reason->len && check_count(l, reason) < 0)
		return -1;
	if (!reason->len && check_epochs(l, reason) < 0)
		return -1;
	if (!reason->len && ledger_verify_stakes(l, reason) < 0)
		return -1;
	if (!reason->len && ledger_verify_payouts(l, reason) < 0)
		return -1;
	/* last, because a changed row is the better explanation */
	return reason->len ? 0 : ledger_verify_schema(l, reason);
}
