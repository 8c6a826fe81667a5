/* coordinate_db.c - the coordinator's database: one connection, held by its lock. */
#include "cmd/rnp-train/coordinate_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

static const char *const steps[] = {
	"CREATE TABLE run(id INTEGER PRIMARY KEY CHECK(id = 1), round INTEGER NOT NULL,"
	" base TEXT NOT NULL, step INTEGER NOT NULL, next INTEGER NOT NULL,"
	" tokens INTEGER NOT NULL, over INTEGER NOT NULL) STRICT;"
	"CREATE TABLE members(node TEXT PRIMARY KEY, facts TEXT NOT NULL,"
	" joined_ms INTEGER NOT NULL, gone INTEGER NOT NULL) STRICT;"
	"CREATE TABLE turns(turn INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL,"
	" round INTEGER NOT NULL, base TEXT NOT NULL, first INTEGER NOT NULL,"
	" sequences INTEGER NOT NULL, step INTEGER NOT NULL, steps INTEGER NOT NULL,"
	" state TEXT NOT NULL, assigned_ms INTEGER NOT NULL, delivered_ms INTEGER,"
	" offset_ms INTEGER, sha256 TEXT, bytes INTEGER, tokens INTEGER, seconds INTEGER,"
	" loss_first INTEGER, loss_last INTEGER, norm REAL, weight REAL, cosine REAL,"
	" reason TEXT, receipt INTEGER) STRICT;"
	"CREATE INDEX turns_round ON turns(round);"
	"CREATE INDEX turns_node ON turns(node, turn);"
	"CREATE TABLE ranges(first INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;"
	"CREATE TABLE updates(base TEXT PRIMARY KEY, round INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL) STRICT;"
	"CREATE TABLE rounds(round INTEGER PRIMARY KEY, facts TEXT NOT NULL,"
	" record TEXT) STRICT;"
	"CREATE TABLE receipts(id INTEGER PRIMARY KEY, node TEXT NOT NULL,"
	" record TEXT NOT NULL, written INTEGER NOT NULL) STRICT;",
	NULL
};

int coordinate_db_open(struct coordinator *g)
{
	char *path = coordinate_path(g, "state.db");
	int rc = store_open(&g->db, path, steps, false);

	free(path);
	return rc;
}

void coordinate_db_close(struct coordinator *g)
{
	if (g->db.db)
		store_close(&g->db);
}

/* One statement that returns no rows, or the first row of one that does (1). */
#define RUN_SQL(g, q, sql, ...)                   \
	(store_prepare(&(g)->db, &(q), sql) < 0 ? \
			-1 :                      \
			(store_bind((q), __VA_ARGS__), store_step(&(g)->db, (q))))

static int done(sqlite3_stmt *q, int rc)
{
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int coordinate_db_begin_run(struct coordinator *g, const char *base)
{
	sqlite3_stmt *q = NULL;

	/* a kill between this and the run's record leaves an older base here */
	return done(q,
		RUN_SQL(g, q, "INSERT OR REPLACE INTO run VALUES(1, 1, ?, 0, 0, 0, 0)",
			"t", base));
}

int coordinate_db_load(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT round, base, step, next, tokens, over FROM run",
		"");

	if (rc == 1) {
		g->round = (uint64_t)sqlite3_column_int64(q, 0);
		snprintf(g->base, sizeof g->base, "%s", store_text(q, 1));
		g->step = (uint64_t)sqlite3_column_int64(q, 2);
		g->next = (uint64_t)sqlite3_column_int64(q, 3);
		g->tokens = (uint64_t)sqlite3_column_int64(q, 4);
		g->over = sqlite3_column_int64(q, 5) != 0;
	} else if (rc == 0) {
		rc = err_set(EX_DATAERR, "%s: holds no run", g->db.path);
	}
	g->opened_ns = clock_mono_ns();
	g->opened_ms = clock_now_ms();
	return done(q, rc);
}

/* --- files that are in use ------------------------------------------------------------------ */

/* The number in "PREFIXnumber..."; -1: it is no such name. */
static int64_t number_in(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 ? strtoll(name + n, NULL, 10) : -1;
}

static int keep_file(void *ctx, const char *name)
{
	struct coordinator *g = ctx;
	static const char *const arrays[] = { "theta-", "pub-", "v-" };
	const char *dot = strrchr(name, '.');
	char base[PROTOCOL_HEX];
	struct turn t;
	uint64_t bytes;
	int64_t n;

	if (strcmp(name, "run.json") == 0 || strncmp(name, "state.db", 8) == 0 ||
		strcmp(name, "key.json") == 0)
		return 1;
	if (dot && strcmp(dot, ".part") == 0)
		return 0;
	for (int i = 0; i < 3; i++)
		if ((n = number_in(name, arrays[i])) >= 0)
			return (uint64_t)n + 1 == g->round;
	if (strncmp(name, "update-", 7) == 0 || strncmp(name, "params-", 7) == 0) {
		snprintf(base, sizeof base, "%s", name + 7);
		if (*name == 'p')
			return strcmp(base, g->base) == 0;
		return coordinate_db_update(g, base, &bytes) == 0 && bytes;
	}
	if ((n = number_in(name, "delta-")) >= 0)
		return coordinate_db_turn(g, (uint64_t)n, &t) == 1 &&
			t.round == g->round &&
			(strcmp(t.state, "open") == 0 ||
				strcmp(t.state, "delivered") == 0);
	return 0;
}

void coordinate_db_sweep(struct coordinator *g)
{
	flatfile_sweep(g->dir, keep_file, g);
	err_clear();
}

/* --- members ---------------------------------------------------------------------------------- */

int coordinate_db_join(struct coordinator *g, const char *node, const char *facts)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"INSERT INTO members VALUES(?1, ?2, ?3, 0) ON CONFLICT(node)"
			" DO UPDATE SET facts = ?2, gone = 0",
			"tti", node, facts, clock_now_ms()));
}

int coordinate_db_leave(struct coordinator *g, const char *node)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE members SET gone = 1 WHERE node = ?", "t", node));
}

int coordinate_db_member(struct coordinator *g, const char *node)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT 1 FROM members WHERE node = ? AND gone = 0", "t",
		node);

	sqlite3_finalize(q);
	return rc;
}

/* --- turns ------------------------------------------------------------------------------------ */

#define TURN_COLUMNS                                                                  \
	"turn, node, round, base, first, sequences, step, steps, state, assigned_ms," \
	" delivered_ms, sha256, bytes, tokens, seconds, loss_first, loss_last, norm"

static void read_turn(sqlite3_stmt *q, struct turn *t)
{
	*t = (struct turn){ .turn = (uint64_t)sqlite3_column_int64(q, 0),
		.round = (uint64_t)sqlite3_column_int64(q, 2),
		.first = (uint64_t)sqlite3_column_int64(q, 4),
		.sequences = (uint64_t)sqlite3_column_int64(q, 5),
		.step = (uint64_t)sqlite3_column_int64(q, 6),
		.steps = (uint64_t)sqlite3_column_int64(q, 7),
		.assigned_ms = sqlite3_column_int64(q, 9),
		.delivered_ms = sqlite3_column_int64(q, 10),
		.bytes = (uint64_t)sqlite3_column_int64(q, 12),
		.tokens = (uint64_t)sqlite3_column_int64(q, 13),
		.seconds = sqlite3_column_int64(q, 14),
		.loss_first = sqlite3_column_int64(q, 15),
		.loss_last = sqlite3_column_int64(q, 16),
		.norm = sqlite3_column_double(q, 17) };
	snprintf(t->node, sizeof t->node, "%s", store_text(q, 1));
	snprintf(t->base, sizeof t->base, "%s", store_text(q, 3));
	snprintf(t->state, sizeof t->state, "%s", store_text(q, 8));
	snprintf(t->sha256, sizeof t->sha256, "%s", store_text(q, 11));
}

int coordinate_db_turn(struct coordinator *g, uint64_t number, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT " TURN_COLUMNS " FROM turns WHERE turn = ?", "i",
		(int64_t)number);

	if (rc == 1)
		read_turn(q, t);
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_last_turn(struct coordinator *g, const char *node, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT " TURN_COLUMNS
		" FROM turns WHERE node = ? ORDER BY turn DESC LIMIT 1",
		"t", node);

	if (rc == 1)
		read_turn(q, t);
	sqlite3_finalize(q);
	return rc;
}

/* Takes a range that was given back and is large enough, or the next that nobody had. */
static int take_range(struct coordinator *g, uint64_t count, uint64_t *first)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT first, count FROM ranges WHERE count >= ? ORDER BY first LIMIT 1",
		"i", (int64_t)count);
	int64_t left = 0;

	if (rc == 1) {
		*first = (uint64_t)sqlite3_column_int64(q, 0);
		left = sqlite3_column_int64(q, 1) - (int64_t)count;
	}
	sqlite3_finalize(q);
	if (rc < 0)
		return -1;
	if (rc == 0) {
		*first = g->next;
		return done(q,
			RUN_SQL(g, q, "UPDATE run SET next = ?", "i",
				(int64_t)(g->next + count)));
	}
	if (done(q,
		    RUN_SQL(g, q, "DELETE FROM ranges WHERE first = ?", "i",
			    (int64_t)*first)) < 0)
		return -1;
	return left ? done(q,
			      RUN_SQL(g, q, "INSERT INTO ranges VALUES(?, ?)", "ii",
				      (int64_t)(*first + count), left)) :
		      0;
}

int coordinate_db_new_turn(struct coordinator *g, const char *node, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	uint64_t count = g->run.batch * g->run.inner_steps;
	int rc;

	*t = (struct turn){ .round = g->round,
		.sequences = count,
		.step = g->step,
		.steps = g->run.inner_steps,
		.state = "open",
		.assigned_ms = clock_now_ms() };
	snprintf(t->node, sizeof t->node, "%s", node);
	memcpy(t->base, g->base, sizeof t->base);
	if (store_begin(&g->db) < 0)
		return -1;
	rc = take_range(g, count, &t->first);
	if (rc == 0)
		rc = done(q,
			RUN_SQL(g, q,
				"INSERT INTO turns(node, round, base, first, sequences, step,"
				" steps, state, assigned_ms) VALUES(?, ?, ?, ?, ?, ?, ?, 'open', ?)",
				"titiiiii", node, (int64_t)t->round, t->base,
				(int64_t)t->first, (int64_t)count, (int64_t)t->step,
				(int64_t)t->steps, t->assigned_ms));
	t->turn = (uint64_t)sqlite3_last_insert_rowid(g->db.db);
	if (rc < 0) {
		store_rollback(&g->db);
		return -1;
	}
	if (store_commit(&g->db) < 0)
		return -1;
	if (t->first == g->next)
		g->next += count;
	return 0;
}

int coordinate_db_deliver(struct coordinator *g, const struct turn *t)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET state = ?, delivered_ms = ?, offset_ms = ?, sha256 = ?,"
			" bytes = ?, tokens = ?, seconds = ?, loss_first = ?, loss_last = ?,"
			" norm = ? WHERE turn = ?",
			"tiitiiiiiri", t->state, t->delivered_ms,
			t->delivered_ms - t->assigned_ms, t->sha256, (int64_t)t->bytes,
			(int64_t)t->tokens, t->seconds, t->loss_first, t->loss_last,
			t->norm, (int64_t)t->turn));
}

static int give_back(struct coordinator *g, uint64_t first, uint64_t count)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "INSERT OR IGNORE INTO ranges VALUES(?, ?)", "ii",
			(int64_t)first, (int64_t)count));
}

static int set_state(struct coordinator *g, uint64_t turn, const char *state,
	const char *reason)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE turns SET state = ?, reason = ? WHERE turn = ?",
			"tti", state, reason, (int64_t)turn));
}

int coordinate_db_end_turn(struct coordinator *g, const struct turn *t, const char *state,
	const char *reason)
{
	if (store_begin(&g->db) < 0)
		return -1;
	if (set_state(g, t->turn, state, reason) < 0 ||
		give_back(g, t->first, t->sequences) < 0) {
		store_rollback(&g->db);
		return -1;
	}
	return store_commit(&g->db);
}

int coordinate_db_turns(struct coordinator *g, uint64_t round, struct turn **all,
	size_t *n)
{
	sqlite3_stmt *q = NULL;
	size_t room = 0;
	int rc;

	*all = NULL;
	*n = 0;
	if (store_prepare(&g->db, &q,
		    "SELECT " TURN_COLUMNS
		    " FROM turns WHERE round = ? ORDER BY node, turn") < 0)
		return -1;
	store_bind(q, "i", (int64_t)round);
	while ((rc = store_step(&g->db, q)) == 1) {
		*all = xgrow(*all, &room, *n + 1, sizeof **all);
		read_turn(q, &(*all)[(*n)++]);
	}
	sqlite3_finalize(q);
	return rc;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int count_deltas(struct coordinator *g, const struct counted *c, size_t k)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->db, &q,
		"UPDATE turns SET state = 'counted', weight = ?, cosine = ? WHERE turn = ?");

	for (size_t i = 0; rc == 0 && i < k; i++)
		rc = store_run(&g->db, q, "rri", c[i].weight, c[i].cosine,
			(int64_t)c[i].turn);
	sqlite3_finalize(q);
	return rc;
}

/* What is still open did not come in time. */
static int end_open(struct coordinator *g)
{
	struct turn *all;
	size_t n;
	int rc = coordinate_db_turns(g, g->round, &all, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (strcmp(all[i].state, "open") == 0)
			rc = set_state(g, all[i].turn, "absent", NULL) < 0 ||
					give_back(g, all[i].first, all[i].sequences) < 0 ?
				-1 :
				0;
	free(all);
	return rc;
}

/* Updates are kept while all of them are less than the whole. */
static int keep_updates(struct coordinator *g, const struct closed *closed)
{
	sqlite3_stmt *q = NULL;

	if (done(q,
		    RUN_SQL(g, q, "INSERT OR REPLACE INTO updates VALUES(?, ?, ?)", "tii",
			    g->base, (int64_t)g->round, (int64_t)closed->update_bytes)) <
		0)
		return -1;
	return done(q,
		RUN_SQL(g, q,
			"DELETE FROM updates WHERE round IN (SELECT round FROM (SELECT round,"
			" sum(bytes) OVER (ORDER BY round DESC) AS upto FROM updates)"
			" WHERE upto > ? AND round < ?)",
			"ii", (int64_t)(g->run.parameters * 2), (int64_t)g->round));
}

static int commit_round(struct coordinator *g, const struct counted *c, size_t k,
	const struct closed *closed, const char *facts, uint64_t tokens, bool over)
{
	sqlite3_stmt *q = NULL;

	if (count_deltas(g, c, k) < 0 || end_open(g) < 0 || keep_updates(g, closed) < 0)
		return -1;
	if (done(q,
		    RUN_SQL(g, q, "INSERT INTO rounds VALUES(?, ?, NULL)", "it",
			    (int64_t)g->round, facts)) < 0)
		return -1;
	return done(q,
		RUN_SQL(g, q,
			"UPDATE run SET round = ?, base = ?, step = ?, tokens = ?, over = ?",
			"itiii", (int64_t)g->round + 1, closed->model,
			(int64_t)(g->step + g->run.inner_steps), (int64_t)tokens,
			(int64_t)over));
}

int coordinate_db_commit_round(struct coordinator *g, const struct counted *c, size_t k,
	const struct closed *closed, const char *facts)
{
	uint64_t tokens = g->tokens;
	bool over = g->run.rounds && g->round >= g->run.rounds;

	for (size_t i = 0; i < k; i++)
		tokens += c[i].tokens;
	if (store_begin(&g->db) < 0)
		return -1;
	if (commit_round(g, c, k, closed, facts, tokens, over) < 0) {
		store_rollback(&g->db);
		return -1;
	}
	if (store_commit(&g->db) < 0)
		return -1;
	return coordinate_db_load(g);
}

int coordinate_db_unwritten(struct coordinator *g, uint64_t *round, json_t **facts)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT round, facts FROM rounds WHERE record IS NULL ORDER BY round LIMIT 1",
		"");

	if (rc == 1) {
		const char *text = store_text(q, 1);

		*round = (uint64_t)sqlite3_column_int64(q, 0);
		*facts = json_parse_object(text, strlen(text), g->db.path);
		rc = *facts ? 1 : -1;
	}
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_write(struct coordinator *g, uint64_t round, const char *record)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE rounds SET record = ? WHERE round = ?", "ti",
			record, (int64_t)round));
}

int coordinate_db_offsets(struct coordinator *g, double *ms, int max)
{
	sqlite3_stmt *q = NULL;
	int n = 0, rc;

	if (store_prepare(&g->db, &q,
		    "SELECT offset_ms FROM turns WHERE offset_ms IS NOT NULL"
		    " ORDER BY delivered_ms DESC LIMIT ?") < 0)
		return -1;
	store_bind(q, "i", (int64_t)max);
	while ((rc = store_step(&g->db, q)) == 1 && n < max)
		ms[n++] = sqlite3_column_double(q, 0);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : n;
}

int coordinate_db_update(struct coordinator *g, const char *base, uint64_t *bytes)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT bytes FROM updates WHERE base = ?", "t", base);

	*bytes = rc == 1 ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
	return done(q, rc);
}
