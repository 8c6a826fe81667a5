/* hashes.c - see hashes.h. */
#include "cmd/rnp-reward/ledger/hashes.h"

int ledger_note_hash(struct ledger *l, const struct solana_key *hash, const char *server,
	int64_t good_slot)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"INSERT INTO good_hash (blockhash, server, slot) VALUES (?, ?, ?)"
		" ON CONFLICT DO UPDATE SET slot = max(slot, excluded.slot)");

	if (rc == 0)
		rc = store_run(&l->store, q, "bti", hash->bytes, sizeof hash->bytes,
			server, good_slot);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int ledger_hash_slot(struct ledger *l, const struct solana_key *hash, const char *server,
	int64_t *good_slot)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT slot FROM good_hash WHERE blockhash = ? AND server = ?");

	*good_slot = 0;
	if (rc == 0) {
		store_bind(q, "bt", hash->bytes, sizeof hash->bytes, server);
		rc = store_step(&l->store, q);
	}
	if (rc == 1)
		*good_slot = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}
