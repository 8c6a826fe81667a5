/* blob_rows.c - the tables of blobs, and what is asked of them. */
#include "cmd/rnp-register/market/blob_rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmd/rnp-register/market/artifacts.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define SWEEP_ROWS 500
/* A blob is known as a part of so many directories, the last ones. */
#define MANIFESTS_OF_BLOB "64"
/* Artifacts that no event named so long after they were sent. */
#define UNNAMED_MS INT64_C(21600000)

#define LATEST_TURN                                                                   \
	" o.turn = (SELECT max(turn) FROM members x WHERE x.cluster = o.cluster AND " \
	"x.rank = o.rank)"

static const char *const steps[] = {
	"CREATE TABLE blob_holders ("
	" customer TEXT NOT NULL,"
	" cluster TEXT NOT NULL," /* for which a node sent it, or '' */
	" sha256 TEXT NOT NULL,"
	" bytes INTEGER NOT NULL,"
	" until_ms INTEGER NOT NULL,"
	" PRIMARY KEY (customer, cluster, sha256)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX blob_holders_until ON blob_holders (until_ms);"
	"CREATE INDEX blob_holders_sha256 ON blob_holders (sha256);"
	/* which directories a blob is part of */
	"CREATE TABLE blob_of ("
	" customer TEXT NOT NULL,"
	" cluster TEXT NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" manifest TEXT NOT NULL,"
	" at_ms INTEGER NOT NULL,"
	" PRIMARY KEY (customer, cluster, sha256, manifest)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX blob_of_manifest ON blob_of (customer, cluster, manifest);"
	"CREATE INDEX blob_of_at ON blob_of (at_ms) WHERE cluster <> '';"
	/* what bookings name, and the bytes of their artifacts */
	"CREATE TABLE blob_booked ("
	" cluster TEXT NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" PRIMARY KEY (cluster, sha256)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE blob_limits ("
	" cluster TEXT NOT NULL PRIMARY KEY,"
	" bytes INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	/* files that may have to go */
	"CREATE TABLE blob_gone (sha256 TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;"
	"CREATE TABLE blob_use ("
	" customer TEXT NOT NULL,"
	" cluster TEXT NOT NULL,"
	" bytes INTEGER NOT NULL,"
	" PRIMARY KEY (customer, cluster)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER blob_held AFTER INSERT ON blob_holders BEGIN"
	" INSERT INTO blob_use (customer, cluster, bytes)"
	" VALUES (new.customer, new.cluster, new.bytes)"
	" ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes; END;"
	"CREATE TRIGGER blob_dropped AFTER DELETE ON blob_holders BEGIN"
	" DELETE FROM blob_of WHERE customer = old.customer AND cluster = old.cluster"
	" AND sha256 = old.sha256;"
	" UPDATE blob_use SET bytes = bytes - old.bytes WHERE customer = old.customer"
	" AND cluster = old.cluster;"
	" DELETE FROM blob_use WHERE customer = old.customer AND cluster = old.cluster"
	" AND bytes <= 0;"
	" INSERT INTO blob_gone (sha256) VALUES (old.sha256) ON CONFLICT DO NOTHING; END;"
	"CREATE TRIGGER blob_part_of AFTER INSERT ON blob_of BEGIN"
	" DELETE FROM blob_of WHERE customer = new.customer AND cluster = new.cluster"
	" AND sha256 = new.sha256 AND manifest IN (SELECT manifest FROM blob_of"
	" WHERE customer = new.customer AND cluster = new.cluster"
	" AND sha256 = new.sha256 ORDER BY at_ms DESC LIMIT -1"
	" OFFSET " MANIFESTS_OF_BLOB "); END;"
	/* artifacts of which newer ones are there */
	"CREATE TRIGGER blob_unused AFTER DELETE ON blob_of WHEN old.cluster <> ''"
	" AND NOT EXISTS (SELECT 1 FROM blob_of WHERE customer = old.customer"
	" AND cluster = old.cluster AND sha256 = old.sha256) BEGIN"
	" DELETE FROM blob_holders WHERE customer = old.customer"
	" AND cluster = old.cluster AND sha256 = old.sha256; END;"
	"CREATE TRIGGER blob_replaced AFTER UPDATE OF artifacts ON members"
	" WHEN old.artifacts <> '' AND new.artifacts <> old.artifacts"
	" AND NOT EXISTS (SELECT 1 FROM members o WHERE o.cluster = new.cluster"
	" AND o.artifacts = old.artifacts AND" LATEST_TURN ") BEGIN"
	" DELETE FROM blob_of WHERE (customer, cluster) ="
	" (SELECT customer, cluster FROM clusters WHERE id = new.cluster)"
	" AND manifest = old.artifacts; END;",
	NULL,
};
const struct store_module blobs_tables = { "blobs", steps };

/* Runs a statement. Returns as store_step. */
#define RUN(s, q, sql, ...) \
	(store_prepare((s), &(q), (sql)) < 0 ? -1 : store_run((s), (q), __VA_ARGS__))

/* --- asking ----------------------------------------------------------------------------------- */

int blob_rows_room(struct store *s, const struct blob_who *who, struct blob_room *out)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN(s, q,
		"SELECT coalesce((SELECT deposited_uusd FROM accounts WHERE customer = ?1), 0),"
		" coalesce((SELECT bytes FROM blob_use WHERE customer = ?1 AND cluster = ?2), 0),"
		" coalesce((SELECT sum(bytes) FROM blob_use WHERE customer = ?1"
		" AND cluster <> ''), 0),"
		" coalesce((SELECT bytes FROM blob_limits WHERE cluster = ?2), 0)",
		"tt", who->customer, who->cluster);

	if (rc == 1)
		*out = (struct blob_room){ sqlite3_column_int64(q, 0),
			sqlite3_column_int64(q, 1), sqlite3_column_int64(q, 2),
			sqlite3_column_int64(q, 3) };
	sqlite3_finalize(q);
	return rc == 1 ? 0 : -1;
}

int blob_rows_may_read(struct store *s, const struct blob_who *who, const char *sha256,
	int64_t now_ms)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN(s, q,
		"SELECT 1 FROM blob_holders h WHERE customer = ?1 AND sha256 = ?3"
		" AND until_ms >= ?4 AND (?2 = '' OR cluster = ?2 OR (cluster = ''"
		" AND (EXISTS (SELECT 1 FROM blob_booked WHERE cluster = ?2 AND sha256 = ?3)"
		" OR EXISTS (SELECT 1 FROM blob_of o JOIN blob_booked b"
		" ON b.cluster = ?2 AND b.sha256 = o.manifest"
		" WHERE o.customer = ?1 AND o.cluster = '' AND o.sha256 = ?3)))) LIMIT 1",
		"ttti", who->customer, who->cluster, sha256, now_ms);

	sqlite3_finalize(q);
	return rc;
}

int blob_look_open(struct blob_look *l, struct store *s, const struct blob_who *who,
	const char *manifest, int64_t now_ms)
{
	*l = (struct blob_look){ .s = s,
		.who = who,
		.manifest = manifest ? manifest : "",
		.now_ms = now_ms };
	return store_prepare(s, &l->q,
		"SELECT until_ms, ?4 = '' OR EXISTS (SELECT 1 FROM blob_of o"
		" WHERE o.customer = ?1 AND o.cluster = ?2 AND o.sha256 = ?3"
		" AND o.manifest = ?4) FROM blob_holders WHERE customer = ?1 AND cluster = ?2"
		" AND sha256 = ?3 AND until_ms >= ?5");
}

int blob_look(struct blob_look *l, const char *sha256)
{
	int rc = store_run(l->s, l->q, "tttti", l->who->customer, l->who->cluster, sha256,
		l->manifest, l->now_ms);

	if (rc == 1) {
		l->until_ms = sqlite3_column_int64(l->q, 0);
		l->noted = sqlite3_column_int(l->q, 1) != 0;
	}
	sqlite3_reset(l->q);
	return rc;
}

void blob_look_close(struct blob_look *l)
{
	sqlite3_finalize(l->q);
	l->q = NULL;
}

int blob_rows_held(struct store *s, const char *sha256)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN(s, q, "SELECT 1 FROM blob_holders WHERE sha256 = ? LIMIT 1", "t",
		sha256);

	sqlite3_finalize(q);
	return rc;
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* Notes that a blob which is held is part of a directory. */
#define NOTE                                                                 \
	"INSERT INTO blob_of (customer, cluster, sha256, manifest, at_ms) "  \
	"SELECT customer, cluster, sha256, ?4, ?5 FROM blob_holders "        \
	"WHERE customer = ?1 AND cluster = ?2 AND sha256 = ?3 AND ?4 <> '' " \
	"ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms"

int blob_rows_renew(struct store *s, const struct blob_who *who, char (*sha256)[65],
	size_t n, int64_t until_ms, const char *manifest)
{
	sqlite3_stmt *q = NULL, *note = NULL;
	int rc = store_prepare(s, &q,
		"UPDATE blob_holders SET until_ms = max(until_ms, ?4) "
		"WHERE customer = ?1 AND cluster = ?2 AND sha256 = ?3");

	if (rc == 0)
		rc = store_prepare(s, &note, NOTE);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = store_run(s, q, "ttti", who->customer, who->cluster, sha256[i],
			until_ms);
		if (rc >= 0)
			rc = store_run(s, note, "tttti", who->customer, who->cluster,
				sha256[i], manifest, clock_now_ms());
	}
	sqlite3_finalize(q);
	sqlite3_finalize(note);
	return rc < 0 ? -1 : 0;
}

int blob_rows_keep(struct store *s, const struct blob_who *who, const char *sha256,
	int64_t bytes, int64_t until_ms, const char *manifest)
{
	sqlite3_stmt *q = NULL;
	char name[1][65];
	int rc = RUN(s, q,
		"INSERT INTO blob_holders (customer, cluster, sha256, bytes, until_ms) "
		"VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET until_ms = excluded.until_ms",
		"tttii", who->customer, who->cluster, sha256, bytes, until_ms);

	sqlite3_finalize(q);
	snprintf(name[0], sizeof name[0], "%s", sha256);
	return rc < 0 ? -1 : blob_rows_renew(s, who, name, 1, until_ms, manifest);
}

/* --- bookings --------------------------------------------------------------------------------- */

int blob_rows_book(struct store *s, const char *cluster, const json_t *booking)
{
	static const char *const scripts[] = { "setup_sha256", "run_sha256" };
	int64_t ranks, limit = artifact_bytes_max(booking);
	const json_t *offers = json_object_get(json_object_get(booking, "proposal"),
			     "offers"),
		     *offer = json_array_get(offers,
			     (size_t)json_integer_value(
				     json_object_get(booking, "offer"))),
		     *name;
	sqlite3_stmt *q = NULL;
	size_t i;
	int rc;

	/* lists of files, and what a blob takes beside its bytes */
	limit += limit ? limit / 8 + ((int64_t)8 << 20) : 0;
	/* of each rank the version that is kept, and the one that is on its way */
	ranks = 2 * (int64_t)json_array_size(json_object_get(offer, "nodes"));
	limit = ranks && limit > INT64_MAX / ranks ? INT64_MAX : limit * ranks;
	rc = RUN(s, q, "INSERT INTO blob_limits (cluster, bytes) VALUES (?, ?)", "ti",
		cluster, limit);
	sqlite3_finalize(q);
	if (rc < 0 ||
		store_prepare(s, &q,
			"INSERT INTO blob_booked (cluster, sha256) VALUES (?, ?) "
			"ON CONFLICT DO NOTHING") < 0)
		return -1;
	for (i = 0; i < sizeof scripts / sizeof *scripts && rc >= 0; i++) {
		name = json_object_get(booking, scripts[i]);
		if (name)
			rc = store_run(s, q, "tt", cluster, json_string_value(name));
	}
	json_array_foreach(json_object_get(booking, "blobs"), i, name)
		if (rc >= 0)
			rc = store_run(s, q, "tt", cluster, json_string_value(name));
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- what goes -------------------------------------------------------------------------------- */

/* Ends rights of clusters that are over, drops artifacts that were sent and never named, and blobs
 * whose time is over. */
static int age(struct store *s, int64_t now_ms, int64_t keep_ms)
{
	sqlite3_stmt *q = NULL;
	int rc = store_exec(s,
		"DELETE FROM blob_limits WHERE (SELECT live FROM clusters c "
		"WHERE c.cluster = blob_limits.cluster) = 0;"
		"DELETE FROM blob_booked WHERE cluster NOT IN (SELECT cluster FROM blob_limits)");

	if (rc == 0)
		rc = RUN(s, q,
			"DELETE FROM blob_of WHERE cluster <> '' AND at_ms < ? "
			"AND NOT EXISTS (SELECT 1 FROM clusters c JOIN members o "
			"ON o.cluster = c.id WHERE c.cluster = blob_of.cluster "
			"AND o.artifacts = blob_of.manifest AND" LATEST_TURN ")",
			"i", now_ms - UNNAMED_MS);
	sqlite3_finalize(q);
	/* what a customer has stays as long as one of his clusters lives */
	q = NULL;
	if (rc >= 0)
		rc = RUN(s, q,
			"UPDATE blob_holders SET until_ms = ?1 WHERE until_ms < ?2 "
			"AND EXISTS (SELECT 1 FROM clusters c "
			"WHERE c.customer = blob_holders.customer AND c.live = 1)",
			"ii", now_ms + keep_ms, now_ms + keep_ms - keep_ms / 8);
	sqlite3_finalize(q);
	q = NULL;
	if (rc >= 0)
		rc = RUN(s, q,
			"DELETE FROM blob_holders WHERE (customer, cluster, sha256) IN "
			"(SELECT customer, cluster, sha256 FROM blob_holders "
			"WHERE until_ms < ? LIMIT ?)",
			"ii", now_ms, (int64_t)SWEEP_ROWS);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int blob_rows_sweep(struct store *s, int64_t now_ms, int64_t keep_ms,
	int (*fn)(void *ctx, const char *sha256), void *ctx)
{
	char(*gone)[65] = xcalloc(SWEEP_ROWS, sizeof *gone);
	sqlite3_stmt *q = NULL;
	size_t n = 0;
	int rc = age(s, now_ms, keep_ms);

	if (rc == 0)
		rc = store_prepare(s, &q, "SELECT sha256 FROM blob_gone LIMIT ?");
	if (rc == 0)
		store_bind(q, "i", (int64_t)SWEEP_ROWS);
	while (rc == 0 && n < SWEEP_ROWS && (rc = store_step(s, q)) == 1) {
		snprintf(gone[n++], sizeof *gone, "%s", store_text(q, 0));
		rc = 0;
	}
	sqlite3_finalize(q);
	q = NULL;
	if (rc == 0)
		rc = store_prepare(s, &q, "DELETE FROM blob_gone WHERE sha256 = ?");
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = store_run(s, q, "t", gone[i]);
		if (rc == 0)
			rc = fn(ctx, gone[i]);
	}
	sqlite3_finalize(q);
	free(gone);
	return rc < 0 ? -1 : 0;
}
