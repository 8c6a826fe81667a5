/* supply_load.c - fills the supply with what is stored, when a registry starts. */
#include <string.h>

#include "cmd/rnp-register/market/owner.h"
#include "cmd/rnp-register/market/supply_parts.h"
#include "common/base/err.h"
#include "common/json/json.h"

/* Calls fn with each row's record: column 0 its text, the rest as fn likes. */
typedef void (*load_fn)(struct supply *s, const json_t *record, sqlite3_stmt *q);

static int load(struct supply *s, struct store *store, const char *sql, load_fn fn)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(store, &q, sql);

	while (rc >= 0 && (rc = store_step(store, q)) == 1) {
		const char *text = store_text(q, 0);
		json_t *record = text[0] ?
			json_parse(text, strlen(text), JSON_DEPTH_MAX_LISTED, "record") :
			NULL;

		if (record || !text[0])
			fn(s, record, q);
		else
			err_clear(); /* a row that an older version took */
		json_decref(record);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static void load_node(struct supply *s, const json_t *record, sqlite3_stmt *q)
{
	supply_node(s, record);
	if (sqlite3_column_int64(q, 2))
		supply_proven(s, store_text(q, 1), sqlite3_column_int64(q, 2));
}

static void load_quote(struct supply *s, const json_t *record, sqlite3_stmt *q)
{
	supply_quote(s, record, store_text(q, 1));
}

static void load_listing(struct supply *s, const json_t *record, sqlite3_stmt *q)
{
	(void)q;
	supply_listing(s, record);
}

static void load_beat(struct supply *s, const json_t *record, sqlite3_stmt *q)
{
	(void)record;
	supply_beat(s, store_text(q, 1), sqlite3_column_int64(q, 2),
		sqlite3_column_int64(q, 3) * 1000, sqlite3_column_int64(q, 4) > 1);
}

static void load_lease(struct supply *s, const json_t *gpus, sqlite3_stmt *q)
{
	supply_lease(s, store_text(q, 1), gpus, true);
}

static void load_dispute(struct supply *s, const json_t *record, sqlite3_stmt *q)
{
	(void)record;
	supply_dispute(s, store_text(q, 1), sqlite3_column_int64(q, 2) + OWNER_MS);
}

int supply_load(struct supply *s, struct store *store, int64_t now_ms)
{
	(void)now_ms;
	if (load(s, store,
		    "SELECT r.body, n.address, n.proven_ms FROM nodes n "
		    "JOIN records r ON r.id = n.record",
		    load_node) < 0 ||
		load(s, store,
			"SELECT r.body, r.sha256 FROM nodes n JOIN records r ON r.id = "
			"(SELECT max(id) FROM records WHERE node = n.address AND "
			"kind = 'rnp.quote')",
			load_quote) < 0 ||
		load(s, store, "SELECT body FROM listings", load_listing) < 0 ||
		load(s, store,
			"SELECT '', n.address, max(p.at_ms) FROM proven_devices p "
			"JOIN devices d ON d.uuid = p.uuid JOIN nodes n ON n.id = d.node "
			"WHERE p.at_ms = " OWNER_ELSE("d.uuid",
				"n.address") " GROUP BY n.id",
			load_dispute) < 0 ||
		load(s, store,
			"SELECT '', n.address, ifnull(h.received_ms, h.at_ms), h.interval_s, "
			"h.state FROM nodes n JOIN heartbeats h ON h.id = "
			"(SELECT id FROM heartbeats WHERE node = n.id "
			"ORDER BY at_ms DESC LIMIT 1)",
			load_beat) < 0)
		return -1;
	return load(s, store, "SELECT m.gpus, m.node FROM members m WHERE m.state <= 5",
		load_lease);
}
