/* ledger.c - the ledger's file and its chain of rows: open, append, read. */
#include "cmd/rnp-reward/ledger/ledger.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-reward/ledger/parts.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* This list is only ever appended to: step i migrates version i to i + 1. */
static const char *const steps[] = {
	"CREATE TABLE entry("
	" sequence INTEGER PRIMARY KEY CHECK(sequence >= 0),"
	" kind TEXT NOT NULL,"
	" body TEXT NOT NULL,"
	" sha256 BLOB NOT NULL CHECK(length(sha256) = 32)) STRICT;"
	"CREATE INDEX entry_kind ON entry(kind, sequence);"
	"CREATE TABLE head("
	" one INTEGER PRIMARY KEY CHECK(one = 1),"
	" entries INTEGER NOT NULL,"
	" sha256 BLOB NOT NULL) STRICT;"
	"INSERT INTO head VALUES(1, 0, zeroblob(32));"
	"CREATE TABLE epoch("
	" sequence INTEGER PRIMARY KEY REFERENCES entry(sequence),"
	" token TEXT NOT NULL, policy TEXT NOT NULL,"
	" from_ms INTEGER, to_ms INTEGER," /* NULL: imported without times */
	" payable INTEGER NOT NULL CHECK(payable IN (0, 1))," /* 0: imported without claims */
	" minted INTEGER NOT NULL CHECK(minted >= 0),"
	" claimed INTEGER NOT NULL CHECK(claimed >= 0),"
	" locked INTEGER NOT NULL CHECK(locked >= 0),"
	" \"left\" INTEGER NOT NULL CHECK(\"left\" >= 0),"
	" paid INTEGER NOT NULL DEFAULT 0 CHECK(paid >= 0),"
	" in_flight INTEGER NOT NULL DEFAULT 0 CHECK(in_flight >= 0),"
	" owed INTEGER NOT NULL CHECK(owed >= 0),"
	" CHECK(minted = claimed + locked + \"left\"),"
	" CHECK(claimed = paid + in_flight + owed)) STRICT;"
	/* state 0 owed, 1 in flight, 2 paid; the wallet as its 32 bytes, in the order of the
	 * tree */
	"CREATE TABLE claim("
	" epoch INTEGER NOT NULL REFERENCES epoch(sequence),"
	" wallet BLOB NOT NULL CHECK(length(wallet) = 32),"
	" unlocked INTEGER NOT NULL CHECK(unlocked >= 0),"
	" locked INTEGER NOT NULL CHECK(locked >= 0),"
	" state INTEGER NOT NULL DEFAULT 0 CHECK(state IN (0, 1, 2)),"
	" PRIMARY KEY(epoch, wallet)) STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER claim_is_final BEFORE UPDATE ON claim WHEN old.state = 2"
	" BEGIN SELECT RAISE(ABORT, 'a claim that was paid does not change'); END;"
	"CREATE TRIGGER claim_moves AFTER UPDATE OF state ON claim WHEN old.state <> new.state"
	" BEGIN UPDATE epoch SET"
	"  owed = owed + new.unlocked * ((new.state = 0) - (old.state = 0)),"
	"  in_flight = in_flight + new.unlocked * ((new.state = 1) - (old.state = 1)),"
	"  paid = paid + new.unlocked * ((new.state = 2) - (old.state = 2))"
	"  WHERE sequence = new.epoch; END;",

	/* payouts, see payouts.h */
	"CREATE TABLE tx("
	" id INTEGER PRIMARY KEY,"
	" status TEXT NOT NULL CHECK(status IN ('planned', 'signed', 'sent', 'confirmed',"
	"  'finalised', 'failed', 'expired')),"
	" at_ms INTEGER NOT NULL,"
	" base_units INTEGER NOT NULL CHECK(base_units > 0),"
	" signature TEXT UNIQUE, bytes BLOB, last_valid INTEGER, sender TEXT) STRICT;"
	"CREATE INDEX tx_open ON tx(id) WHERE status NOT IN ('finalised', 'failed', 'expired');"
	"CREATE TRIGGER tx_ends BEFORE UPDATE ON tx"
	" WHEN old.status IN ('finalised', 'failed', 'expired')"
	" BEGIN SELECT RAISE(ABORT, 'a transaction that is over does not change'); END;"
	"CREATE TRIGGER tx_is_signed_once BEFORE UPDATE OF signature ON tx"
	" WHEN old.signature IS NOT NULL"
	" BEGIN SELECT RAISE(ABORT, 'a transaction is signed once'); END;"
	"CREATE TABLE payout("
	" tx INTEGER NOT NULL REFERENCES tx(id),"
	" wallet BLOB NOT NULL CHECK(length(wallet) = 32),"
	" base_units INTEGER NOT NULL CHECK(base_units > 0),"
	" created INTEGER NOT NULL CHECK(created IN (0, 1)),"
	" PRIMARY KEY(tx, wallet)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE trouble(wallet BLOB PRIMARY KEY, reason TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"ALTER TABLE claim ADD COLUMN tx INTEGER REFERENCES tx(id);"
	"CREATE INDEX claim_tx ON claim(tx) WHERE tx IS NOT NULL;",

	/* stakes, see stake.h */
	"CREATE TABLE stake("
	" epoch INTEGER NOT NULL REFERENCES epoch(sequence),"
	" node BLOB NOT NULL CHECK(length(node) = 32),"
	" wallet BLOB NOT NULL CHECK(length(wallet) = 32),"
	" base_units INTEGER NOT NULL CHECK(base_units > 0),"
	" uusd INTEGER NOT NULL CHECK(uusd >= 0),"
	" seen_ms INTEGER NOT NULL,"
	" moved INTEGER REFERENCES entry(sequence)," /* NULL: locked */
	" PRIMARY KEY(epoch, node)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX stake_node ON stake(node) WHERE moved IS NULL;"
	"CREATE TRIGGER stake_moves_once BEFORE UPDATE ON stake WHEN old.moved IS NOT NULL"
	" BEGIN SELECT RAISE(ABORT, 'a stake moves once'); END;"
	"CREATE TRIGGER stake_moves AFTER UPDATE OF moved ON stake WHEN new.moved IS NOT NULL"
	" BEGIN UPDATE epoch SET locked = locked - new.base_units,"
	"  \"left\" = \"left\" + new.base_units WHERE sequence = new.epoch; END;",

	/* burns and issues, durable nonces, blockhashes that an external signer was asked with */
	"ALTER TABLE tx ADD COLUMN action TEXT NOT NULL DEFAULT 'pay'"
	" CHECK(action IN ('pay', 'burn', 'mint'));"
	"ALTER TABLE tx ADD COLUMN nonce TEXT;"
	"ALTER TABLE tx ADD COLUMN blockhash BLOB;"
	"CREATE TABLE supply_order("
	" id TEXT PRIMARY KEY," /* of a job that is burned, or of an epoch that is issued */
	" action TEXT NOT NULL CHECK(action IN ('burn', 'mint')),"
	" base_units INTEGER NOT NULL CHECK(base_units > 0),"
	" tx INTEGER REFERENCES tx(id)) STRICT;"
	"CREATE TRIGGER supply_order_stays BEFORE UPDATE OF id, action, base_units ON supply_order"
	" BEGIN SELECT RAISE(ABORT, 'an order does not change'); END;",

	/* what servers said of blockhashes, see hashes.h */
	"CREATE TABLE good_hash("
	" blockhash BLOB NOT NULL CHECK(length(blockhash) = 32),"
	" server TEXT NOT NULL,"
	" slot INTEGER NOT NULL CHECK(slot > 0),"
	" PRIMARY KEY(blockhash, server)) STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER good_hash_goes AFTER UPDATE OF status ON tx"
	" WHEN new.status IN ('finalised', 'failed', 'expired')"
	" BEGIN DELETE FROM good_hash WHERE blockhash NOT IN (SELECT blockhash FROM tx"
	"  WHERE status NOT IN ('finalised', 'failed', 'expired') AND blockhash IS NOT NULL);"
	" END;",
	NULL
};

int ledger_verify_schema(struct ledger *l, struct buf *reason)
{
	struct buf what = BUF_INIT;
	int rc = store_compare(&l->store, steps, &what);

	if (rc == 0 && what.len)
		buf_addf(reason, "the database: %s", what.data);
	buf_release(&what);
	return rc;
}

void ledger_hash(const json_t *row, unsigned char out[LEDGER_HASH_BYTES])
{
	struct buf text = BUF_INIT;

	if (canon_write(&text, row) < 0)
		bug("%s", err_get()->text);
	sha256(out, text.data, text.len);
	buf_release(&text);
}

/* --- open ---------------------------------------------------------------------------------- */

/* Recognises a ledger of JSON Lines, which begins with a brace and which SQLite would call
 * damaged. */
static int refuse_lines(const char *path)
{
	char first = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return 0; /* absent or unreadable: SQLite reports it */
	got = read(fd, &first, 1);
	close(fd);
	if (got == 1 && first == '{')
		return err_set(EX_DATAERR,
			"'%s' is a ledger of JSON Lines: take it into a new one with "
			"rnp-reward ledger --import",
			path);
	return 0;
}

int ledger_open(struct ledger *l, const char *path, bool read_only)
{
	*l = (struct ledger)LEDGER_INIT;
	if (refuse_lines(path) < 0)
		return -1;
	if (store_open(&l->store, path, steps, read_only) == 0)
		return 0;
	if (!l->store.older)
		return -1;
	/* who only reads has no use for a refusal where the file can be upgraded */
	if (store_open(&l->store, path, steps, false) < 0)
		return -1;
	store_close(&l->store);
	return store_open(&l->store, path, steps, true);
}

int ledger_open_existing(struct ledger *l, const char *path, bool read_only)
{
	*l = (struct ledger)LEDGER_INIT;
	if (access(path, F_OK) < 0)
		return err_sys(0, "cannot open the database: '%s'", path);
	return ledger_open(l, path, read_only);
}

void ledger_close(struct ledger *l)
{
	sqlite3_finalize(l->insert_row);
	sqlite3_finalize(l->set_head);
	if (l->store.db)
		store_close(&l->store);
	*l = (struct ledger)LEDGER_INIT;
}

/* --- rows ---------------------------------------------------------------------------------- */

int ledger_head(struct ledger *l, int64_t *entries, unsigned char last[LEDGER_HASH_BYTES])
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q, "SELECT entries, sha256 FROM head");

	if (rc == 0)
		rc = store_step(&l->store, q);
	if (rc == 1 && sqlite3_column_bytes(q, 1) == LEDGER_HASH_BYTES) {
		*entries = sqlite3_column_int64(q, 0);
		memcpy(last, sqlite3_column_blob(q, 1), LEDGER_HASH_BYTES);
		rc = 0;
	} else if (rc >= 0) {
		rc = err_set(EX_DATAERR, "'%s': the head of the ledger is missing",
			l->store.path);
	}
	sqlite3_finalize(q);
	return rc;
}

int ledger_next(struct ledger *l, int64_t *sequence)
{
	unsigned char last[LEDGER_HASH_BYTES];

	return ledger_head(l, sequence, last);
}

int ledger_row_follows(struct ledger *l)
{
	sqlite3_stmt *q = NULL;
	/* this holds until the transaction ends */
	int rc = store_prepare(&l->store, &q, "PRAGMA defer_foreign_keys = ON");

	if (rc == 0)
		rc = store_step(&l->store, q);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_store_row(struct ledger *l, const json_t *row, int64_t sequence)
{
	unsigned char hash[LEDGER_HASH_BYTES];
	struct buf body = BUF_INIT;
	int rc = 0;

	ledger_hash(row, hash);
	json_write(&body, row);
	if (!l->insert_row)
		rc = store_prepare(&l->store, &l->insert_row,
			"INSERT INTO entry(sequence, kind, body, sha256) VALUES(?, ?, ?, ?)");
	if (rc == 0 && !l->set_head)
		rc = store_prepare(&l->store, &l->set_head,
			"UPDATE head SET entries = ?, sha256 = ?");
	if (rc == 0)
		rc = store_run(&l->store, l->insert_row, "ittb", sequence,
			json_string_value(json_object_get(row, "kind")), body.data, hash,
			sizeof hash);
	if (rc == 0)
		rc = store_run(&l->store, l->set_head, "ib", sequence + 1, hash,
			sizeof hash);
	buf_release(&body);
	return rc;
}

int ledger_append(struct ledger *l, json_t *record, const struct key *k, int64_t now_ms)
{
	unsigned char last[LEDGER_HASH_BYTES];
	struct buf previous = BUF_INIT;
	int64_t entries;

	if (ledger_head(l, &entries, last) < 0)
		return -1;
	buf_add_hex(&previous, last, sizeof last);
	json_set_i64(record, "sequence", entries);
	json_set_text(record, "previous", previous.data);
	buf_release(&previous);
	if (k && signature_add(record, k, now_ms) < 0)
		return -1;
	return ledger_store_row(l, record, entries);
}

/* Reads the body of a row; the caller owns it. NULL with EX_DATAERR: somebody has written
 * something there that is no record. */
static json_t *read_body(sqlite3_stmt *q, int column, int64_t sequence)
{
	char where[64];
	json_t *row;

	snprintf(where, sizeof where, "row %" PRId64, sequence);
	row = json_parse_object(store_text(q, column),
		(size_t)sqlite3_column_bytes(q, column), where);
	if (row && schema_check(row, where, NULL) < 0) {
		json_decref(row);
		row = NULL;
	}
	return row;
}

int ledger_each(struct ledger *l, const char *kind, int64_t from, ledger_fn fn, void *ctx)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		kind ? "SELECT sequence, body FROM entry WHERE sequence >= ? AND kind = ?"
		       " ORDER BY sequence" :
		       "SELECT sequence, body FROM entry WHERE sequence >= ? ORDER BY sequence");

	if (rc < 0)
		return -1;
	store_bind(q, kind ? "it" : "i", from, kind);
	while ((rc = store_step(&l->store, q)) == 1) {
		int64_t sequence = sqlite3_column_int64(q, 0);
		json_t *row = read_body(q, 1, sequence);

		rc = row ? fn(ctx, sequence, row) : -1;
		json_decref(row);
		if (rc < 0)
			break;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

json_t *ledger_row(struct ledger *l, int64_t sequence)
{
	sqlite3_stmt *q = NULL;
	json_t *row = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT body FROM entry WHERE sequence = ?");

	if (rc == 0) {
		store_bind(q, "i", sequence);
		rc = store_step(&l->store, q);
		if (rc == 1)
			row = read_body(q, 0, sequence);
		else if (rc == 0)
			err_set(EXIT_NO, "'%s' has no row %" PRId64, l->store.path,
				sequence);
	}
	sqlite3_finalize(q);
	return row;
}

int64_t ledger_last(struct ledger *l, const char *kind)
{
	sqlite3_stmt *q = NULL;
	int64_t found = -2;
	int rc = store_prepare(&l->store, &q,
		"SELECT max(sequence) FROM entry WHERE kind = ?");

	if (rc == 0) {
		store_bind(q, "t", kind);
		rc = store_step(&l->store, q);
		if (rc == 1)
			found = sqlite3_column_type(q, 0) == SQLITE_NULL ?
				-1 :
				sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	return found;
}
