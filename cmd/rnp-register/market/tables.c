/* tables.c - the market's tables: the steps that make them, and the statements that use them. */
#include "cmd/rnp-register/market/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/owner.h"
#include "cmd/rnp-register/market/place.h"
#include "common/base/mem.h"
#include "common/base/err.h"
#include "common/json/json.h"

static const char *const steps[] = {
	"CREATE TABLE accounts ("
	" customer TEXT NOT NULL PRIMARY KEY,"
	" deposited_uusd INTEGER NOT NULL,"
	" charged_uusd INTEGER NOT NULL,"
	" held_uusd INTEGER NOT NULL,"
	" CHECK (held_uusd >= 0 AND charged_uusd >= 0)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE deposits ("
	" id TEXT NOT NULL PRIMARY KEY,"
	" sha256 TEXT NOT NULL,"
	" customer TEXT NOT NULL,"
	" uusd INTEGER NOT NULL,"
	" at_ms INTEGER NOT NULL,"
	" body TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE listings ("
	" node TEXT NOT NULL PRIMARY KEY,"
	" at_ms INTEGER NOT NULL,"
	" until_ms INTEGER NOT NULL,"
	" body TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE clusters ("
	" id INTEGER PRIMARY KEY,"
	" cluster TEXT NOT NULL UNIQUE,"
	" customer TEXT NOT NULL,"
	" booking TEXT NOT NULL UNIQUE,"
	" cause TEXT NOT NULL,"
	" state INTEGER NOT NULL,"
	" live INTEGER NOT NULL,"
	" booked_ms INTEGER NOT NULL,"
	" hours INTEGER NOT NULL,"
	" ends_ms INTEGER NOT NULL,"
	" due_ms INTEGER NOT NULL,"
	" deadline_ms INTEGER NOT NULL,"
	" seq INTEGER NOT NULL,"
	" spent_uusd INTEGER NOT NULL,"
	" held_uusd INTEGER NOT NULL,"
	" limit_uusd INTEGER NOT NULL,"
	" replace_uusd INTEGER NOT NULL,"
	" on_failure INTEGER NOT NULL,"
	" warned INTEGER NOT NULL,"
	" body TEXT NOT NULL"
	") STRICT;"
	"CREATE TABLE members ("
	" id INTEGER PRIMARY KEY,"
	" cluster INTEGER NOT NULL REFERENCES clusters (id),"
	" rank INTEGER NOT NULL,"
	" turn INTEGER NOT NULL,"
	" node TEXT NOT NULL,"
	" quote TEXT NOT NULL,"
	" gpus TEXT NOT NULL,"
	" cause TEXT NOT NULL,"
	" address TEXT NOT NULL,"
	" ssh TEXT NOT NULL,"
	" state INTEGER NOT NULL,"
	" since_ms INTEGER NOT NULL,"
	" heard_ms INTEGER NOT NULL,"
	" deadline_ms INTEGER NOT NULL,"
	" uusd_per_hour INTEGER NOT NULL,"
	" node_uusd_per_hour INTEGER NOT NULL,"
	" ready_at_ms INTEGER NOT NULL,"
	" ready_ms INTEGER NOT NULL,"
	" charged_uusd INTEGER NOT NULL,"
	" node_seq INTEGER NOT NULL,"
	" exit INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL,"
	" bytes_total INTEGER NOT NULL,"
	/* number of the event that last changed what its node has to know */
	" changed INTEGER NOT NULL,"
	" UNIQUE (cluster, rank, turn)"
	") STRICT;"
	"CREATE TABLE leases ("
	" id INTEGER PRIMARY KEY,"
	" device TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" member INTEGER NOT NULL REFERENCES members (id),"
	" from_ms INTEGER NOT NULL,"
	" to_ms INTEGER"
	") STRICT;"
	"CREATE TABLE events ("
	" id INTEGER PRIMARY KEY,"
	" cluster INTEGER NOT NULL REFERENCES clusters (id),"
	" seq INTEGER NOT NULL,"
	" body TEXT NOT NULL,"
	" UNIQUE (cluster, seq)"
	") STRICT;"
	"CREATE TABLE actions ("
	" sha256 TEXT NOT NULL PRIMARY KEY,"
	" cluster INTEGER NOT NULL REFERENCES clusters (id),"
	" body TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"
	/* a device has one lease at any instant, whichever node claims it */
	"CREATE UNIQUE INDEX one_lease ON leases (device) WHERE to_ms IS NULL;"
	"CREATE INDEX leases_member ON leases (member);"
	"CREATE INDEX leases_node ON leases (node, id);"
	"CREATE INDEX clusters_customer ON clusters (customer, id);"
	"CREATE INDEX clusters_due ON clusters (due_ms) WHERE due_ms > 0;"
	"CREATE INDEX members_node ON members (node, changed);"
	/* NODE_RELEASING is the last state with a lease */
	"CREATE INDEX members_live ON members (node) WHERE state <= 5;"
	"CREATE INDEX members_late ON members (deadline_ms) WHERE deadline_ms > 0;",
	/* gateways; the keys that may log in to a cluster at present, a JSON array */
	"CREATE TABLE gateways ("
	" gateway TEXT NOT NULL PRIMARY KEY,"
	" at_ms INTEGER NOT NULL,"
	" body TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"ALTER TABLE clusters ADD COLUMN ssh_keys TEXT NOT NULL DEFAULT '[]';",
	"ALTER TABLE members ADD COLUMN artifacts TEXT NOT NULL DEFAULT '';",
	/* how many of its clusters are live */
	"ALTER TABLE accounts ADD COLUMN open INTEGER NOT NULL DEFAULT 0;"
	"UPDATE accounts SET open = (SELECT count(*) FROM clusters c WHERE "
	"c.customer = accounts.customer AND c.live = 1);"
	"CREATE TRIGGER cluster_opens AFTER INSERT ON clusters WHEN new.live BEGIN"
	" UPDATE accounts SET open = open + 1 WHERE customer = new.customer; END;"
	"CREATE TRIGGER cluster_turns AFTER UPDATE OF live ON clusters "
	"WHEN new.live <> old.live BEGIN UPDATE accounts SET open = open + new.live - old.live "
	"WHERE customer = new.customer; END;",
	/* see struct member_row */
	"ALTER TABLE members ADD COLUMN counted_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE members ADD COLUMN counting_ms INTEGER NOT NULL DEFAULT 0;"
	"UPDATE members SET counted_ms = ready_ms WHERE state <> 4;"
	"UPDATE members SET counting_ms = ready_at_ms WHERE state = 4;",
	"ALTER TABLE members ADD COLUMN leaves INTEGER NOT NULL DEFAULT 0;"
	/* what was answered */
	"ALTER TABLE actions ADD COLUMN status INTEGER NOT NULL DEFAULT 200;"
	"ALTER TABLE actions ADD COLUMN why TEXT NOT NULL DEFAULT '';",
	/* the event by which its node said what it kept last */
	"ALTER TABLE members ADD COLUMN kept TEXT NOT NULL DEFAULT '';",
	/* those that are here already run, or wait for all of their ranks */
	"ALTER TABLE clusters ADD COLUMN run INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE clusters ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE clusters ADD COLUMN errors INTEGER NOT NULL DEFAULT 0;"
	"UPDATE clusters SET run = state = 4, restarts = "
	"(SELECT count(*) FROM members WHERE cluster = clusters.id AND turn > 0);",
	/* the action by which its customer said who may log in; '': the booking's keys may */
	"ALTER TABLE clusters ADD COLUMN keys_action TEXT NOT NULL DEFAULT '';",
	NULL,
};

const struct store_module market_tables = { "market", steps };

#define CLUSTER                                                                  \
	"SELECT id, cluster, customer, booking, cause, state, live, booked_ms, " \
	"hours, ends_ms, deadline_ms, seq, spent_uusd, held_uusd, limit_uusd, "  \
	"replace_uusd, on_failure, warned, due_ms, run, restarts, errors "       \
	"FROM clusters WHERE "
#define MEMBER                                                                        \
	"SELECT id, cluster, rank, turn, node, quote, gpus, cause, address, ssh, "    \
	"state, since_ms, heard_ms, uusd_per_hour, node_uusd_per_hour, ready_at_ms, " \
	"ready_ms, charged_uusd, node_seq, exit, bytes, bytes_total, artifacts, "     \
	"counted_ms, counting_ms, leaves FROM members WHERE "
/* NODE_RELEASING is the last state with a lease */
#define LIVE "state <= 5"

static const char *const texts[ROWS_STATEMENTS] = {
	[ROWS_CLUSTER_BY_NAME] = CLUSTER "cluster = ?",
	[ROWS_CLUSTER_BY_ID] = CLUSTER "id = ?",
	[ROWS_CLUSTER_BY_BOOKING] = CLUSTER "booking = ?",
	[ROWS_CLUSTERS_OF] = CLUSTER "customer = ? AND id > ? AND live >= ? "
				     "ORDER BY id LIMIT ?",
	[ROWS_CLUSTER_INSERT] =
		"INSERT INTO clusters (cluster, customer, booking, cause, state, live, "
		"booked_ms, hours, ends_ms, deadline_ms, seq, spent_uusd, held_uusd, "
		"limit_uusd, replace_uusd, on_failure, warned, due_ms, body) VALUES "
		"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[ROWS_CLUSTER_UPDATE] =
		"UPDATE clusters SET cause = ?, state = ?, live = ?, hours = ?, "
		"ends_ms = ?, seq = ?, spent_uusd = ?, held_uusd = ?, limit_uusd = ?, "
		"warned = ?, due_ms = ?, run = ?, restarts = ?, errors = ? WHERE id = ?",
	[ROWS_CLUSTER_BODY] = "SELECT body FROM clusters WHERE id = ?",
	[ROWS_MEMBERS_OF] = MEMBER "cluster = ? ORDER BY rank, turn",
	[ROWS_MEMBER_BY_RANK] = MEMBER
	"cluster = ? AND rank = ? ORDER BY turn DESC LIMIT 1",
	[ROWS_MEMBER_INSERT] =
		"INSERT INTO members (cluster, rank, turn, node, quote, gpus, cause, "
		"address, ssh, state, since_ms, heard_ms, deadline_ms, uusd_per_hour, "
		"node_uusd_per_hour, ready_at_ms, ready_ms, charged_uusd, node_seq, exit, "
		"bytes, bytes_total, changed, artifacts) VALUES "
		"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, -1, 0, 0, 0, "
		/* who takes a rank over goes on from what was kept of it */
		"coalesce((SELECT artifacts FROM members WHERE cluster = ?1 AND rank = ?2 "
		"ORDER BY turn DESC LIMIT 1), ''))",
	[ROWS_MEMBER_UPDATE] =
		"UPDATE members SET cause = ?, address = ?, ssh = ?, state = ?, "
		"since_ms = ?, heard_ms = ?, deadline_ms = ?, ready_at_ms = ?, "
		"ready_ms = ?, charged_uusd = ?, node_seq = ?, exit = ?, bytes = ?, "
		"bytes_total = ?, artifacts = coalesce(nullif(?, ''), artifacts) "
		"WHERE id = ?",
	/* The time of a node counts from when all are ready (?3) until it is not, or its run has
	 * ended; unless (?4) it goes on whatever becomes of the others. */
	[ROWS_MEMBERS_COUNT] =
		"UPDATE members SET counted_ms = counted_ms + iif(counting_ms > 0, "
		"?2 - counting_ms, 0), counting_ms = iif(counting_ms > 0, 0, ?2) "
		"WHERE cluster = ?1 AND (counting_ms > 0) <> (state = 4 AND exit = -1 AND "
		"(?3 OR (?4 AND counting_ms > 0)))",
	/* of one rank (?3), or of all: -1 */
	[ROWS_MEMBERS_LEAVE] =
		"UPDATE members SET leaves = ?2 WHERE cluster = ?1 AND " LIVE
		" AND (?3 < 0 OR rank = ?3)",
	[ROWS_KEPT_PUT] = "UPDATE members SET kept = ? WHERE id = ?",
	[ROWS_KEPT] = "SELECT kept FROM members WHERE cluster = ? AND rank = ? AND "
		      "kept <> '' ORDER BY turn DESC LIMIT 1",
	[ROWS_MEMBERS_AGAIN] =
		"UPDATE members SET exit = -1 WHERE cluster = ? AND state = 4",
	/* whatever happens to one, its peers hear of it */
	[ROWS_MEMBERS_TOUCH] =
		"UPDATE members SET changed = (SELECT max(id) FROM events) "
		"WHERE cluster = ?1 AND (" LIVE " OR id = ?2)",
	[ROWS_LEASE_INSERT] =
		"INSERT INTO leases (device, node, member, from_ms) "
		"SELECT ?1, ?2, ?3, ?4 WHERE ?4 - ifnull(" OWNER_ELSE("?1",
			"?2") ", 0) >= " OWNER_NUMBER(OWNER_MS) " ON CONFLICT DO NOTHING",
	[ROWS_LEASE_END] =
		"UPDATE leases SET to_ms = ? WHERE member = ? AND to_ms IS NULL",
	/* of a node, and of all that claim a device of it: until when others have proven one */
	[ROWS_DISPUTED] = "SELECT m.address, max((SELECT max(" OWNER_ELSE("f.uuid",
		"m.address") ") "
			     "FROM devices f WHERE f.node = m.id)) FROM nodes n JOIN devices d "
			     "ON d.node = n.id JOIN devices e ON e.uuid = d.uuid JOIN nodes m "
			     "ON m.id = e.node WHERE n.address = ? GROUP BY m.id",
	[ROWS_SQUATTERS] = MEMBER
	"state <= 3 AND id IN (SELECT l.member FROM nodes n JOIN devices d "
	"ON d.node = n.id JOIN leases l ON l.device = d.uuid AND l.to_ms IS NULL "
	"WHERE n.address = ?1 AND l.node <> ?1 AND " OWNER_ELSE("l.device",
		"l.node") " > ?2)",
	[ROWS_EVENT_INSERT] = "INSERT INTO events (cluster, seq, body) VALUES (?, ?, ?)",
	[ROWS_EVENTS_AFTER] = "SELECT seq, body FROM events WHERE cluster = ? "
			      "AND seq > ? ORDER BY seq LIMIT ?",
	[ROWS_ACTION_INSERT] = "INSERT INTO actions (sha256, cluster, body, status, why) "
			       "VALUES (?, ?, ?, ?, ?)",
	[ROWS_ACTION] = "SELECT status, why FROM actions WHERE sha256 = ?",
	[ROWS_ACCOUNT] =
		"SELECT deposited_uusd, charged_uusd, held_uusd, open FROM accounts "
		"WHERE customer = ?",
	[ROWS_ACCOUNT_ADD] =
		"INSERT INTO accounts (customer, deposited_uusd, charged_uusd, held_uusd) "
		"VALUES (?, ?, 0, 0) ON CONFLICT DO UPDATE SET deposited_uusd = "
		"deposited_uusd + excluded.deposited_uusd",
	[ROWS_ACCOUNT_HOLD] =
		"UPDATE accounts SET held_uusd = held_uusd + ?2 WHERE customer = ?1 "
		"AND deposited_uusd - charged_uusd - held_uusd >= ?2 AND open < ?3",
	[ROWS_ACCOUNT_MOVE] = "UPDATE accounts SET charged_uusd = charged_uusd + ?2, "
			      "held_uusd = held_uusd + ?3 WHERE customer = ?1",
	[ROWS_DEPOSIT_INSERT] =
		"INSERT INTO deposits (id, sha256, customer, uusd, at_ms, body) "
		"VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
	[ROWS_DEPOSIT] =
		"SELECT customer = ? AND uusd = ? AND "
		"json_extract(body, '$.source') = ?, sha256 FROM deposits WHERE id = ?",
	[ROWS_LISTING_PUT] =
		"INSERT INTO listings (node, at_ms, until_ms, body) VALUES (?, ?, ?, ?) "
		"ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms, "
		"until_ms = excluded.until_ms, body = excluded.body "
		"WHERE excluded.at_ms >= at_ms",
	[ROWS_NODE] = "SELECT 1 FROM nodes WHERE address = ?",
	[ROWS_GATEWAY_PUT] =
		"INSERT INTO gateways (gateway, at_ms, body) VALUES (?, ?, ?) "
		"ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body "
		"WHERE excluded.at_ms >= at_ms",
	[ROWS_GATEWAYS] = "SELECT body FROM gateways ORDER BY gateway",
	[ROWS_GATEWAY] = "SELECT 1 FROM gateways WHERE gateway = ?",
	[ROWS_ACCESS] = "SELECT m.cluster, m.id, m.node, c.ssh_keys FROM members m "
			"JOIN clusters c ON c.id = m.cluster WHERE m." LIVE
			" ORDER BY m.cluster, m.rank",
	[ROWS_KEYS_PUT] =
		"UPDATE clusters SET ssh_keys = ?, keys_action = ? WHERE id = ?",
	[ROWS_KEYS_ACTION] = "SELECT keys_action FROM clusters WHERE id = ?",
	[ROWS_WORK_SEQ] = "SELECT max(changed) FROM members WHERE node = ?",
	[ROWS_WORK] = MEMBER "node = ? AND " LIVE " ORDER BY id",
	[ROWS_LIVE] = MEMBER LIVE,
	[ROWS_LATE] = MEMBER "deadline_ms > 0 AND deadline_ms <= ? "
			     "ORDER BY deadline_ms LIMIT 100",
	[ROWS_DUE] = CLUSTER "due_ms > 0 AND due_ms <= ? ORDER BY due_ms LIMIT 100",
	[ROWS_LISTING] = "SELECT body FROM listings WHERE node = ?",
	[ROWS_SAVE] = "SAVEPOINT part",
	[ROWS_BACK] = "ROLLBACK TO part",
	[ROWS_SAVED] = "RELEASE part",
};

int64_t member_own_ms(const struct member_row *w, int64_t now_ms)
{
	return w->counted_ms + (w->counting_ms ? now_ms - w->counting_ms : 0);
}

int64_t member_number(int64_t id)
{
	return (id - 1) % PLACE_NUMBER_MAX + 1;
}

void rows_open(struct rows *r, struct store *s)
{
	memset(r, 0, sizeof *r);
	r->s = s;
}

void rows_close(struct rows *r)
{
	/* one that is at a row would keep its view of the database */
	for (int i = 0; i < ROWS_STATEMENTS; i++)
		sqlite3_reset(r->q[i]);
	memset(r, 0, sizeof *r);
}

sqlite3_stmt *rows_get(struct rows *r, enum rows_statement which)
{
	r->q[which] = store_keep(r->s, texts[which]);
	return r->q[which];
}

int rows_set_record(struct rows *r, sqlite3_stmt *q, json_t *to, const char *key)
{
	int rc = store_step(r->s, q);

	if (rc == 1 && *store_text(q, 0)) {
		const char *text = store_text(q, 0);

		json_set(to, key, json_parse_object(text, strlen(text), key));
		err_clear();
	}
	sqlite3_reset(q);
	return rc < 0 ? -1 : 0;
}

int rows_save(struct rows *r)
{
	return rows_run(r, ROWS_SAVE, "");
}

int rows_saved(struct rows *r, bool undo)
{
	return undo && rows_run(r, ROWS_BACK, "") < 0 ? -1 : rows_run(r, ROWS_SAVED, "");
}

#define TEXT(to, column) snprintf((to), sizeof(to), "%s", store_text(q, (column)))

void cluster_read(sqlite3_stmt *q, struct cluster_row *c)
{
	*c = (struct cluster_row){
		.id = sqlite3_column_int64(q, 0),
		.state = (enum node_state)sqlite3_column_int(q, 5),
		.live = sqlite3_column_int(q, 6),
		.booked_ms = sqlite3_column_int64(q, 7),
		.hours = sqlite3_column_int64(q, 8),
		.ends_ms = sqlite3_column_int64(q, 9),
		.deadline_ms = sqlite3_column_int64(q, 10),
		.seq = sqlite3_column_int64(q, 11),
		.spent_uusd = sqlite3_column_int64(q, 12),
		.held_uusd = sqlite3_column_int64(q, 13),
		.limit_uusd = sqlite3_column_int64(q, 14),
		.replace_uusd = sqlite3_column_int64(q, 15),
		.on_failure = (enum on_failure)sqlite3_column_int(q, 16),
		.warned = sqlite3_column_int(q, 17),
		.due_ms = sqlite3_column_int64(q, 18),
		.run = (enum run_state)sqlite3_column_int(q, 19),
		.restarts = sqlite3_column_int64(q, 20),
		.errors = sqlite3_column_int64(q, 21),
	};
	TEXT(c->name, 1);
	TEXT(c->customer, 2);
	TEXT(c->booking, 3);
	TEXT(c->cause, 4);
}

void member_read(sqlite3_stmt *q, struct member_row *w)
{
	*w = (struct member_row){
		.id = sqlite3_column_int64(q, 0),
		.cluster = sqlite3_column_int64(q, 1),
		.rank = sqlite3_column_int(q, 2),
		.turn = sqlite3_column_int(q, 3),
		.state = (enum node_state)sqlite3_column_int(q, 10),
		.since_ms = sqlite3_column_int64(q, 11),
		.heard_ms = sqlite3_column_int64(q, 12),
		.uusd_per_hour = sqlite3_column_int64(q, 13),
		.node_uusd_per_hour = sqlite3_column_int64(q, 14),
		.ready_at_ms = sqlite3_column_int64(q, 15),
		.ready_ms = sqlite3_column_int64(q, 16),
		.charged_uusd = sqlite3_column_int64(q, 17),
		.node_seq = sqlite3_column_int64(q, 18),
		.exit = sqlite3_column_int64(q, 19),
		.bytes = sqlite3_column_int64(q, 20),
		.bytes_total = sqlite3_column_int64(q, 21),
		.counted_ms = sqlite3_column_int64(q, 23),
		.counting_ms = sqlite3_column_int64(q, 24),
		.leaves = sqlite3_column_int(q, 25),
	};
	TEXT(w->node, 4);
	TEXT(w->quote, 5);
	TEXT(w->gpus, 6);
	TEXT(w->cause, 7);
	TEXT(w->address, 8);
	TEXT(w->ssh, 9);
	TEXT(w->artifacts, 22);
}

/* Steps a bound statement; reads its row, if there is one, and resets it. */
static int one_cluster(struct rows *r, sqlite3_stmt *q, struct cluster_row *out)
{
	int rc = store_step(r->s, q);

	if (rc == 1)
		cluster_read(q, out);
	sqlite3_reset(q);
	return rc;
}

static int cluster_by_text(struct rows *r, enum rows_statement which, const char *text,
	struct cluster_row *out)
{
	sqlite3_stmt *q = rows_get(r, which);

	if (!q)
		return -1;
	store_bind(q, "t", text);
	return one_cluster(r, q, out);
}

int cluster_by_name(struct rows *r, const char *name, struct cluster_row *out)
{
	return cluster_by_text(r, ROWS_CLUSTER_BY_NAME, name, out);
}

int cluster_by_booking(struct rows *r, const char *sha256, struct cluster_row *out)
{
	return cluster_by_text(r, ROWS_CLUSTER_BY_BOOKING, sha256, out);
}

int cluster_by_id(struct rows *r, int64_t id, struct cluster_row *out)
{
	sqlite3_stmt *q = rows_get(r, ROWS_CLUSTER_BY_ID);

	if (!q)
		return -1;
	store_bind(q, "i", id);
	return one_cluster(r, q, out);
}

int member_by_rank(struct rows *r, int64_t cluster, int64_t rank, struct member_row *out)
{
	sqlite3_stmt *q = rows_get(r, ROWS_MEMBER_BY_RANK);
	int rc;

	if (!q)
		return -1;
	store_bind(q, "ii", cluster, rank);
	rc = store_step(r->s, q);
	if (rc == 1)
		member_read(q, out);
	sqlite3_reset(q);
	return rc;
}

int members_each(struct rows *r, int64_t cluster, member_fn fn, void *ctx)
{
	sqlite3_stmt *q = rows_get(r, ROWS_MEMBERS_OF);
	struct member_row *all = NULL;
	size_t n = 0, cap = 0;
	int rc = -1;

	if (!q)
		return -1;
	store_bind(q, "i", cluster);
	while ((rc = store_step(r->s, q)) == 1) {
		all = xgrow(all, &cap, n + 1, sizeof *all);
		member_read(q, &all[n++]);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fn(ctx, &all[i]);
	free(all);
	return rc;
}

int cluster_insert(struct rows *r, struct cluster_row *c, const char *body)
{
	if (rows_run(r, ROWS_CLUSTER_INSERT,
		    "tttt"
		    "iiiiiiiiiiiiii"
		    "t",
		    c->name, c->customer, c->booking, c->cause, (int64_t)c->state,
		    (int64_t)c->live, c->booked_ms, c->hours, c->ends_ms, c->deadline_ms,
		    c->seq, c->spent_uusd, c->held_uusd, c->limit_uusd, c->replace_uusd,
		    (int64_t)c->on_failure, (int64_t)c->warned, c->due_ms, body) < 0)
		return -1;
	c->id = sqlite3_last_insert_rowid(r->s->db);
	return 0;
}

int cluster_update(struct rows *r, const struct cluster_row *c)
{
	return rows_run(r, ROWS_CLUSTER_UPDATE,
		"t"
		"iiiiiiiiiiiiii",
		c->cause, (int64_t)c->state, (int64_t)c->live, c->hours, c->ends_ms,
		c->seq, c->spent_uusd, c->held_uusd, c->limit_uusd, (int64_t)c->warned,
		c->due_ms, (int64_t)c->run, c->restarts, c->errors, c->id);
}

int member_insert(struct rows *r, struct member_row *w)
{
	if (rows_run(r, ROWS_MEMBER_INSERT,
		    "iiitttttt"
		    "iiiiii",
		    w->cluster, (int64_t)w->rank, (int64_t)w->turn, w->node, w->quote,
		    w->gpus, w->cause, w->address, w->ssh, (int64_t)w->state, w->since_ms,
		    w->heard_ms, node_state_deadline(w->state, w->since_ms, w->heard_ms),
		    w->uusd_per_hour, w->node_uusd_per_hour) < 0)
		return -1;
	w->id = sqlite3_last_insert_rowid(r->s->db);
	w->exit = EXIT_NONE;
	return 0;
}

int member_update(struct rows *r, const struct member_row *w)
{
	return rows_run(r, ROWS_MEMBER_UPDATE,
		"ttt"
		"iiiiiiiiiiiti",
		w->cause, w->address, w->ssh, (int64_t)w->state, w->since_ms, w->heard_ms,
		node_state_deadline(w->state, w->since_ms, w->heard_ms), w->ready_at_ms,
		w->ready_ms, w->charged_uusd, w->node_seq, w->exit, w->bytes,
		w->bytes_total, w->artifacts, w->id);
}
