/* db.c - the coordinator's database: one connection, held by its lock; long because all
 * statements on its tables stand in one place. */
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/page.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

static const char *const steps[] = {
	"CREATE TABLE run(id INTEGER PRIMARY KEY CHECK(id = 1), round INTEGER NOT NULL,"
	" base TEXT NOT NULL, tokens INTEGER NOT NULL, dn_members INTEGER NOT NULL,"
	" dn_arrived INTEGER NOT NULL, over INTEGER NOT NULL, state TEXT) STRICT;"
	"CREATE TABLE members(node TEXT PRIMARY KEY, facts TEXT NOT NULL,"
	" joined_ms INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;"
	"CREATE TABLE turns(turn INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL,"
	" member INTEGER NOT NULL, round INTEGER NOT NULL, base TEXT NOT NULL,"
	" first INTEGER NOT NULL, sequences INTEGER NOT NULL, step INTEGER NOT NULL,"
	" steps INTEGER NOT NULL, state TEXT NOT NULL, assigned_ms INTEGER NOT NULL,"
	" delivered_ms INTEGER, sha256 TEXT, bytes INTEGER, tokens INTEGER,"
	" seconds INTEGER, loss_first INTEGER, loss_last INTEGER, norm REAL,"
	" counted_in INTEGER, reason TEXT, receipt INTEGER) STRICT;"
	"CREATE INDEX turns_round ON turns(round, member);"
	"CREATE INDEX turns_node ON turns(node, turn);"
	"CREATE INDEX turns_state ON turns(state) WHERE receipt IS NULL;"
	"CREATE TABLE updates(base TEXT PRIMARY KEY, round INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL) STRICT;"
	"CREATE TABLE rounds(round INTEGER PRIMARY KEY, facts TEXT NOT NULL,"
	" record TEXT) STRICT;"
	"CREATE TABLE receipts(id INTEGER PRIMARY KEY, node TEXT NOT NULL,"
	" record TEXT NOT NULL, written INTEGER NOT NULL) STRICT;",
	"ALTER TABLE turns ADD own INTEGER;"
	"ALTER TABLE turns ADD other INTEGER;"
	"ALTER TABLE members ADD score_ppm INTEGER NOT NULL DEFAULT 0;",
	"ALTER TABLE receipts ADD posted INTEGER NOT NULL DEFAULT 0;",
	"CREATE INDEX turns_sha256 ON turns(sha256) WHERE sha256 IS NOT NULL;",
	"CREATE TABLE parent(id INTEGER PRIMARY KEY CHECK(id = 1), began INTEGER NOT NULL,"
	" began_ms INTEGER NOT NULL, turn INTEGER NOT NULL, round INTEGER NOT NULL,"
	" first INTEGER NOT NULL, sequences INTEGER NOT NULL, step INTEGER NOT NULL,"
	" steps INTEGER NOT NULL, base TEXT NOT NULL, method TEXT NOT NULL) STRICT;",
	/* 0: the record may not have been on standard output */
	"ALTER TABLE rounds ADD printed INTEGER NOT NULL DEFAULT 1;",
	"CREATE INDEX members_number ON members(number);",
	/* the open round, a row for each of its members, deltas ... (round_keep); versions before
	 * kept all of it in run.state */
	"CREATE TABLE round_rows(part INTEGER NOT NULL, key INTEGER NOT NULL,"
	" row TEXT NOT NULL, PRIMARY KEY(part, key)) STRICT, WITHOUT ROWID;",
	/* covered: judging speaks for it (judge.h), or nobody judges; what is not is paid for
	 * nowhere */
	"CREATE TABLE sketches(turn INTEGER PRIMARY KEY, fragment INTEGER NOT NULL,"
	" sketch BLOB NOT NULL) STRICT;"
	"ALTER TABLE turns ADD covered INTEGER NOT NULL DEFAULT 0;"
	"UPDATE turns SET covered = 1 WHERE state = 'counted';",
	/* the member's block: struct judge_block */
	"ALTER TABLE members ADD block_turns INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE members ADD block_made INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE members ADD block_place INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE members ADD block_good INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE members ADD streak INTEGER NOT NULL DEFAULT 0;",
	NULL
};

/* Of turns that were given up, a round's record has the first: strangers with new keys can take and
 * give up any number. */
#define GIVEN_UP_MAX 1000

int coordinate_db_open(struct coordinator *g)
{
	char *path = coordinate_path(g, "state.db");
	int rc = store_open(&g->rounds.db, path, steps, false);

	free(path);
	return rc;
}

void coordinate_db_close(struct coordinator *g)
{
	if (g->rounds.db.db)
		store_close(&g->rounds.db);
}

/* One statement that returns no rows, or the first row of one that does (1). */
#define RUN_SQL(g, q, sql, ...)                          \
	(store_prepare(&(g)->rounds.db, &(q), sql) < 0 ? \
			-1 :                             \
			(store_bind((q), __VA_ARGS__),   \
				store_step(&(g)->rounds.db, (q))))

static int done(sqlite3_stmt *q, int rc)
{
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int coordinate_db_begin_run(struct coordinator *g, const char *base)
{
	sqlite3_stmt *q = NULL;

	/* a kill between this and the run's record leaves an older base here */
	if (done(q, RUN_SQL(g, q, "DELETE FROM round_rows", "")) < 0)
		return -1;
	q = NULL;
	return done(q,
		RUN_SQL(g, q,
			"INSERT OR REPLACE INTO run VALUES(1, 1, ?, 0, 0, 0, 0, NULL)",
			"t", base));
}

/* The steps of the open round and, where its work is given ahead, of the next. */
static void set_steps(struct coordinator *g)
{
	struct round_policy *p = &g->rounds.r.policy;
	bool last = training_rounds(&g->run) &&
		g->rounds.round >= training_rounds(&g->run);

	p->steps = training_round_steps(&g->run, g->rounds.round - 1);
	p->ahead_steps = p->ahead && !last ?
		training_round_steps(&g->run, g->rounds.round) :
		0;
}

/* Reads the open round, as this version keeps it; where that fails the round stays as it is, and is
 * not kept over what is damaged. Returns 1, 0: there are no rows, or -1. */
static int read_rows(struct coordinator *g)
{
	struct round read = { .policy = g->rounds.r.policy };
	const char *where = g->rounds.db.path;
	sqlite3_stmt *q = NULL;
	int rc, n = 0;

	if (store_prepare(&g->rounds.db, &q,
		    "SELECT part, key, row FROM round_rows ORDER BY part, key") < 0)
		return -1;
	round_read(&read);
	while ((rc = store_step(&g->rounds.db, q)) == 1) {
		n++;
		rc = round_read_row(&read, (enum round_part)sqlite3_column_int(q, 0),
			(uint64_t)sqlite3_column_int64(q, 1), store_text(q, 2), where);
		if (rc < 0)
			break;
	}
	sqlite3_finalize(q);
	if (rc == 0 && n)
		rc = round_read_end(&read, coordinate_now(g), where) < 0 ? -1 : 1;
	if (rc == 1) {
		round_release(&g->rounds.r);
		g->rounds.r = read;
	} else {
		round_release(&read);
	}
	return rc;
}

/* Reads the open round from what a version before kept; text: "" where it kept none. */
static int read_older(struct coordinator *g, const char *text)
{
	json_t *state;
	int rc;

	if (!*text)
		return 0;
	state = json_parse_object(text, strlen(text), g->rounds.db.path);
	rc = state ?
		round_load(&g->rounds.r, state, coordinate_now(g), g->rounds.db.path) :
		-1;
	json_decref(state);
	return rc;
}

int coordinate_db_load(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT round, base, tokens, dn_members, dn_arrived, over, state FROM run",
		"");

	if (rc == 1) {
		g->rounds.round = (uint64_t)sqlite3_column_int64(q, 0);
		snprintf(g->rounds.params_hash, sizeof g->rounds.params_hash, "%s",
			store_text(q, 1));
		g->rounds.tokens = (uint64_t)sqlite3_column_int64(q, 2);
		g->rounds.dn.members = (uint32_t)sqlite3_column_int64(q, 3);
		g->rounds.dn.arrived = (uint32_t)sqlite3_column_int64(q, 4);
		g->rounds.over = sqlite3_column_int64(q, 5) != 0;
		rc = read_rows(g);
		if (rc == 0)
			rc = read_older(g, store_text(q, 6));
		set_steps(g);
	} else if (rc == 0) {
		rc = err_set(EX_DATAERR, "%s: holds no run", g->rounds.db.path);
	}
	return done(q, rc);
}

/* --- files that are in use ------------------------------------------------------------------ */

/* The number in "PREFIXnumber..."; -1: it is no such name. */
static int64_t number_in(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 ? strtoll(name + n, NULL, 10) : -1;
}

/* The oldest round whose deltas are kept for others, after its close. */
static int64_t kept_from(const struct coordinator *g)
{
	return (int64_t)g->rounds.round - g->o.keep_deltas;
}

/* Whether a turn's delta is still to be counted, or can be fetched. That of a turn of the last
 * round may be there and late, and about to be taken. */
static bool keep_delta(struct coordinator *g, int64_t turn)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT 1 FROM turns WHERE turn = ?1 AND (state IN ('open', 'late', 'delivered')"
		" OR (state IN ('counted', 'refused') AND coalesce(counted_in, round) >= ?2)"
		" OR (state = 'absent' AND ?3 AND round + 1 >= ?4))",
		"iiii", turn, kept_from(g), (int64_t)g->run.late_count,
		(int64_t)g->rounds.round);

	sqlite3_finalize(q);
	return rc == 1;
}

int coordinate_db_find_delta(struct coordinator *g, const char *sha256, int64_t *turn)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT turn FROM turns WHERE sha256 = ?1 AND state IN ('counted', 'refused')"
		" AND coalesce(counted_in, round) >= ?2 LIMIT 1",
		"ti", sha256, kept_from(g));

	if (rc == 1)
		*turn = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc;
}

static int keep_file(void *ctx, const char *name)
{
	struct coordinator *g = ctx;
	static const char *const arrays[] = { "theta-", "pub-", "v-", "d-", "last-",
		"parent-", "rest-" };
	const char *dot = strrchr(name, '.');
	char base[PROTOCOL_HEX];
	uint64_t bytes;
	int64_t n;

	if (strcmp(name, "run.json") == 0 || strncmp(name, "state.db", 8) == 0 ||
		strcmp(name, "key.json") == 0 || strcmp(name, "state.rnpg") == 0 ||
		strcmp(name, COORDINATE_PAGE) == 0)
		return 1;
	if (dot && strcmp(dot, ".part") == 0)
		return 0;
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		if ((n = number_in(name, arrays[i])) >= 0)
			return (uint64_t)n + 1 == g->rounds.round;
	if (strncmp(name, "update-", 7) == 0 || strncmp(name, "params-", 7) == 0) {
		snprintf(base, sizeof base, "%s", name + 7);
		if (*name == 'p')
			return strcmp(base, g->rounds.params_hash) == 0;
		return coordinate_db_update(g, base, &bytes) == 0 && bytes;
	}
	if ((n = number_in(name, "delta-")) >= 0)
		return keep_delta(g, n);
	return 0;
}

void coordinate_db_sweep(struct coordinator *g)
{
	flatfile_sweep(g->dir, keep_file, g);
	err_clear();
}

/* --- members ---------------------------------------------------------------------------------- */

/* The statements that keep rows of the round, prepared once a change. */
struct row_keeper {
	struct coordinator *g;
	sqlite3_stmt *put, *drop;
};

static int keep_row(void *ctx, enum round_part part, uint64_t key, const char *row)
{
	struct row_keeper *k = ctx;
	struct coordinator *g = k->g;
	sqlite3_stmt *q = NULL;

	if (key == ROUND_ALL)
		return done(q,
			RUN_SQL(g, q, "DELETE FROM round_rows WHERE part = ?", "i",
				(int64_t)part));
	q = row ? k->put : k->drop;
	sqlite3_reset(q);
	if (row)
		store_bind(q, "iit", (int64_t)part, (int64_t)key, row);
	else
		store_bind(q, "ii", (int64_t)part, (int64_t)key);
	return store_step(&g->rounds.db, q) < 0 ? -1 : 0;
}

/* Keeps what changed of the round since the last change. */
static int keep_round(struct coordinator *g)
{
	struct row_keeper k = { g, NULL, NULL };
	bool first = g->rounds.r.touched[ROUND_MEMBERS].all;
	sqlite3_stmt *q = NULL;
	int rc = -1;

	if (store_prepare(&g->rounds.db, &k.put,
		    "INSERT OR REPLACE INTO round_rows VALUES(?, ?, ?)") == 0 &&
		store_prepare(&g->rounds.db, &k.drop,
			"DELETE FROM round_rows WHERE part = ? AND key = ?") == 0)
		rc = round_keep(&g->rounds.r, coordinate_now(g), keep_row, &k);
	sqlite3_finalize(k.put);
	sqlite3_finalize(k.drop);
	/* what a version before kept is in the rows now */
	if (rc == 0 && first)
		rc = done(q,
			RUN_SQL(g, q,
				"UPDATE run SET state = NULL WHERE state IS NOT NULL",
				""));
	return rc;
}

/* One transaction of a change, made by fn, and of the round's state. */
static int change(struct coordinator *g, int (*fn)(struct coordinator *g, void *arg),
	void *arg)
{
	if (store_begin(&g->rounds.db) < 0)
		return -1;
	if (fn(g, arg) < 0 || keep_round(g) < 0) {
		store_rollback(&g->rounds.db);
		return -1;
	}
	if (store_commit(&g->rounds.db) < 0)
		return -1;
	round_kept(&g->rounds.r);
	return 0;
}

struct joining {
	const char *node, *facts;
	int64_t number;
};

static int put_member(struct coordinator *g, void *arg)
{
	const struct joining *j = arg;
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"INSERT INTO members(node, facts, joined_ms, number) VALUES(?1, coalesce(?2, '{}'), ?3, ?4)"
			" ON CONFLICT(node) DO UPDATE SET facts = coalesce(?2, facts),"
			" number = ?4",
			"ttii", j->node, j->facts, clock_now_ms(), j->number));
}

int coordinate_db_join(struct coordinator *g, const char *node, const char *facts,
	int64_t number)
{
	struct joining j = { node, facts, number };

	return change(g, put_member, &j);
}

int coordinate_db_member(struct coordinator *g, const char *node, int64_t *number)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT number FROM members WHERE node = ?", "t", node);

	if (rc == 1)
		*number = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_node(struct coordinator *g, int64_t number, char node[KEY_ADDRESS_MAX])
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT node FROM members WHERE number = ?", "i", number);

	if (rc == 1)
		snprintf(node, KEY_ADDRESS_MAX, "%s", store_text(q, 0));
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_idle(struct coordinator *g, int64_t number)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT NOT EXISTS (SELECT 1 FROM members JOIN turns USING(node)"
		" WHERE number = ?1 AND (sha256 IS NOT NULL OR turns.state = 'open'))",
		"i", number);

	if (rc == 1)
		rc = sqlite3_column_int(q, 0);
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_forget(struct coordinator *g, int64_t number)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "DELETE FROM members WHERE number = ?", "i", number));
}

/* --- turns ------------------------------------------------------------------------------------ */

#define TURN_COLUMNS                                                                  \
	"turn, node, round, base, first, sequences, step, steps, state, assigned_ms," \
	" delivered_ms, sha256, bytes, tokens, seconds, loss_first, loss_last, norm," \
	" member, reason"

int64_t turn_busy_ms(const struct turn *t)
{
	int64_t had = t->delivered_ms - t->assigned_ms;

	if (had < 0) /* a clock was set back */
		had = 0;
	return t->seconds > had / 1000 ? had : t->seconds * 1000;
}

bool turn_is_given_up(const struct turn *t)
{
	return strcmp(t->state, "absent") == 0 &&
		(strcmp(t->reason, TURN_LEFT) == 0 ||
			strcmp(t->reason, TURN_SILENT) == 0);
}

static void read_turn(sqlite3_stmt *q, struct turn *t)
{
	*t = (struct turn){ .turn = (uint64_t)sqlite3_column_int64(q, 0),
		.member = (uint64_t)sqlite3_column_int64(q, 18),
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
	snprintf(t->reason, sizeof t->reason, "%s", store_text(q, 19));
}

static int one_turn(sqlite3_stmt *q, int rc, struct turn *t)
{
	if (rc == 1)
		read_turn(q, t);
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_turn(struct coordinator *g, uint64_t number, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT " TURN_COLUMNS " FROM turns WHERE turn = ?", "i",
		(int64_t)number);

	return one_turn(q, rc, t);
}

int coordinate_db_turn_of(struct coordinator *g, uint64_t member, uint64_t round,
	struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT " TURN_COLUMNS " FROM turns WHERE member = ? AND round = ?"
		" ORDER BY turn DESC LIMIT 1",
		"ii", (int64_t)member, (int64_t)round);

	return one_turn(q, rc, t);
}

/* A turn whose delta another must not be: of a closed round, or the same node's. */
#define IS_EARLIER "(state IN ('counted', 'refused') OR node = ?2) AND turn <> ?3"

int coordinate_db_was_sent(struct coordinator *g, const char *sha256, const char *node,
	uint64_t turn)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT 1 FROM turns WHERE sha256 = ?1 AND " IS_EARLIER " LIMIT 1", "tti",
		sha256, node, (int64_t)turn);

	sqlite3_finalize(q);
	return rc;
}

/* Deltas, and updates, of one fragment have the same elements. */
static int64_t fragment_of(const struct coordinator *g, uint64_t round)
{
	return (int64_t)((round - 1) % g->run.fragments);
}

int coordinate_db_resembles(struct coordinator *g, const struct turn *t,
	const float sketch[SKETCH_N])
{
	float other[SKETCH_N];
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT sketch FROM sketches LEFT JOIN turns USING(turn)"
		" WHERE fragment = ?1 AND (turn < 0 OR (" IS_EARLIER "))",
		"iti", fragment_of(g, t->round), t->node, (int64_t)t->turn);

	for (; rc == 1; rc = store_step(&g->rounds.db, q)) {
		rc = store_blob(q, 0, other, sizeof other);
		if (rc == 0 && llabs(sketch_cosine_ppm(sketch, other)) > SKETCH_COPY_PPM)
			rc = 1;
		if (rc)
			break;
	}
	sqlite3_finalize(q);
	return rc;
}

/* turn: of a delta; of the update of a round less than 0, the round's number. */
static int keep_sketch(struct coordinator *g, int64_t turn, int64_t fragment,
	const float sketch[SKETCH_N])
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "INSERT OR REPLACE INTO sketches VALUES(?, ?, ?)", "iib",
			turn, fragment, sketch, SKETCH_N * sizeof *sketch));
}

int coordinate_db_last_turn(struct coordinator *g, const char *node, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT " TURN_COLUMNS
		" FROM turns WHERE node = ? ORDER BY turn DESC LIMIT 1",
		"t", node);

	return one_turn(q, rc, t);
}

int coordinate_db_open_turn(struct coordinator *g, const char *node, struct turn *t)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT " TURN_COLUMNS " FROM turns WHERE node = ? AND state = 'open'"
		" ORDER BY turn DESC LIMIT 1",
		"t", node);

	return one_turn(q, rc, t);
}

static int insert_turn(struct coordinator *g, void *arg)
{
	struct turn *t = arg;
	sqlite3_stmt *q = NULL;
	int rc = done(q,
		RUN_SQL(g, q,
			"INSERT INTO turns(node, member, round, base, first, sequences, step,"
			" steps, state, assigned_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			"tiitiiiiti", t->node, (int64_t)t->member, (int64_t)t->round,
			t->base, (int64_t)t->first, (int64_t)t->sequences,
			(int64_t)t->step, (int64_t)t->steps, t->state, t->assigned_ms));

	t->turn = (uint64_t)sqlite3_last_insert_rowid(g->rounds.db.db);
	return rc;
}

static int revive_turn(struct coordinator *g, void *arg)
{
	const struct turn *t = arg;
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET base = ?, first = ?, sequences = ?, step = ?, steps = ?,"
			" state = ?, assigned_ms = ?, reason = NULL WHERE turn = ?",
			"tiiiitii", t->base, (int64_t)t->first, (int64_t)t->sequences,
			(int64_t)t->step, (int64_t)t->steps, t->state, t->assigned_ms,
			(int64_t)t->turn));
}

int coordinate_db_revive_turn(struct coordinator *g, struct turn *t)
{
	return change(g, revive_turn, t);
}

int coordinate_db_new_turn(struct coordinator *g, struct turn *t)
{
	return change(g, insert_turn, t);
}

struct setting {
	const struct turn *t;
	const char *reason;
};

static int update_turn(struct coordinator *g, void *arg)
{
	const struct setting *s = arg;
	const struct turn *t = s->t;
	sqlite3_stmt *q = NULL;

	if (t->sketch &&
		keep_sketch(g, (int64_t)t->turn, fragment_of(g, t->round), t->sketch) < 0)
		return -1;
	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET state = ?, delivered_ms = ?, sha256 = ?, bytes = ?,"
			" tokens = ?, seconds = ?, loss_first = ?, loss_last = ?, norm = ?,"
			" reason = ? WHERE turn = ?",
			"titiiiiirti", t->state, t->delivered_ms, t->sha256,
			(int64_t)t->bytes, (int64_t)t->tokens, t->seconds, t->loss_first,
			t->loss_last, t->norm, s->reason, (int64_t)t->turn));
}

int coordinate_db_set_turn(struct coordinator *g, const struct turn *t,
	const char *reason)
{
	struct setting s = { t, reason };

	return change(g, update_turn, &s);
}

int coordinate_db_refuse(struct coordinator *g, uint64_t turn, const char *reason)
{
	sqlite3_stmt *q = NULL;
	char text[sizeof((struct turn *)NULL)->reason];

	/* strangers' words are in it */
	snprintf(text, sizeof text, "%s", reason);
	utf8_clean_line(text);
	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET reason = ? WHERE turn = ? AND state = 'open'",
			"ti", text, (int64_t)turn));
}

int coordinate_db_turns(struct coordinator *g, uint64_t round, struct turn **all,
	size_t *n)
{
	sqlite3_stmt *q = NULL;
	size_t cap = 0;
	int rc;

	*all = NULL;
	*n = 0;
	if (store_prepare(&g->rounds.db, &q,
		    "SELECT " TURN_COLUMNS
		    " FROM turns WHERE (round = ?1 AND (state <> 'absent'"
		    " OR coalesce(reason, '') NOT IN ('" TURN_LEFT "', '" TURN_SILENT
		    "')))"
		    " OR turn IN (SELECT turn FROM turns WHERE round = ?1 AND state = 'absent'"
		    " AND reason IN ('" TURN_LEFT "', '" TURN_SILENT
		    "') ORDER BY turn LIMIT ?2)"
		    " OR (round < ?1 AND state = 'late') ORDER BY node, turn") < 0)
		return -1;
	store_bind(q, "ii", (int64_t)round, GIVEN_UP_MAX);
	while ((rc = store_step(&g->rounds.db, q)) == 1) {
		*all = xgrow(*all, &cap, *n + 1, sizeof **all);
		read_turn(q, &(*all)[(*n)++]);
	}
	sqlite3_finalize(q);
	return rc;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int set_losses(struct coordinator *g, const struct counted *c)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE turns SET own = ?, other = ? WHERE turn = ?", "iii",
			c->losses.own, c->losses.other, (int64_t)c->turn));
}

/* Anybody sees a score: it moves when a block ends. */
static int set_score(struct coordinator *g, const struct counted *c)
{
	int64_t score;
	sqlite3_stmt *q = NULL;

	if (coordinate_db_score(g, c->node, &score) < 0)
		return -1;
	return done(q,
		RUN_SQL(g, q, "UPDATE members SET score_ppm = ? WHERE node = ?", "it",
			judge_score(score, c->verdict), c->node));
}

/* The turns that judging speaks for, which are paid, or forfeit. */
static int cover_turns(struct coordinator *g, const struct counted *c)
{
	static const char *const sql[] = {
		[JUDGE_PAID] =
			"UPDATE turns SET covered = 1 WHERE node = ?1 AND turn <= ?2"
			" AND state = 'counted' AND covered = 0",
		[JUDGE_ALONE] = "UPDATE turns SET covered = 1 WHERE turn = ?2",
		[JUDGE_FORFEIT] =
			"UPDATE turns SET reason = coalesce(reason, '" TURN_UNPAID
			"') WHERE node = ?1 AND turn <= ?2 AND state = 'counted'"
			" AND covered = 0",
	};
	sqlite3_stmt *q = NULL;

	if (c->pay == JUDGE_WAITS)
		return 0;
	return done(q, RUN_SQL(g, q, sql[c->pay], "ti", c->node, (int64_t)c->turn));
}

int coordinate_db_block(struct coordinator *g, const char *node, struct judge_block *b)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT block_turns, block_made, block_place, block_good, streak"
		" FROM members WHERE node = ?",
		"t", node);

	*b = (struct judge_block){ 0 };
	if (rc == 1)
		*b = (struct judge_block){ .turns = (uint64_t)sqlite3_column_int64(q, 0),
			.made = (uint64_t)sqlite3_column_int64(q, 1),
			.place = (uint64_t)sqlite3_column_int64(q, 2),
			.good = sqlite3_column_int(q, 3) != 0,
			.streak = (uint64_t)sqlite3_column_int64(q, 4) };
	return done(q, rc);
}

static int keep_block(struct coordinator *g, const struct counted *c)
{
	const struct judge_block *b = &c->block;
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"UPDATE members SET block_turns = ?, block_made = ?,"
			" block_place = ?, block_good = ?, streak = ? WHERE node = ?",
			"iiiiit", (int64_t)b->turns, (int64_t)b->made, (int64_t)b->place,
			(int64_t)b->good, (int64_t)b->streak, c->node));
}

static int refuse_delta(struct coordinator *g, const struct counted *c)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET state = 'refused', reason = ? WHERE turn = ?",
			"ti", judge_reason(c->verdict), (int64_t)c->turn));
}

/* What judging made of the round's deltas. */
static int settle_deltas(struct coordinator *g, const struct closed *x)
{
	for (size_t i = 0; g->o.judge && i < x->k + x->refused; i++) {
		const struct counted *c = &x->c[i];

		if ((c->judged && set_losses(g, c) < 0) ||
			(c->refused && refuse_delta(g, c) < 0) ||
			((c->pay == JUDGE_PAID || (c->judged && c->pay != JUDGE_WAITS)) &&
				set_score(g, c) < 0) ||
			cover_turns(g, c) < 0 || (c->final && keep_block(g, c) < 0))
			return -1;
	}
	return 0;
}

/* The run is over: blocks end where they are. Whose drawn turn was among those that were made, and
 * good, is paid for them. */
static int end_blocks(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;

	if (done(q,
		    RUN_SQL(g, q,
			    "UPDATE turns SET covered = 1 WHERE state = 'counted'"
			    " AND covered = 0 AND node IN (SELECT node FROM members"
			    " WHERE block_turns > 0 AND block_good = 1)",
			    "")) < 0)
		return -1;
	q = NULL;
	return done(q, RUN_SQL(g, q, "UPDATE members SET block_turns = 0", ""));
}

int coordinate_db_score(struct coordinator *g, const char *node, int64_t *ppm)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT score_ppm FROM members WHERE node = ?", "t", node);

	*ppm = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
	return done(q, rc);
}

static int count_deltas(struct coordinator *g, const struct closed *x)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->rounds.db, &q,
		"UPDATE turns SET state = 'counted', counted_in = ?, reason = ?, covered = ?"
		" WHERE turn = ?");

	for (size_t i = 0; rc == 0 && i < x->k; i++) {
		const struct counted *c = &x->c[i];

		/* one that was refused may have been taken all the same: see judge.c */
		rc = store_run(&g->rounds.db, q, "itii", (int64_t)g->rounds.round,
			c->copied                        ? "copy" :
				c->verdict != JUDGE_GOOD ? judge_reason(c->verdict) :
							   NULL,
			(int64_t)!g->o.judge, (int64_t)c->turn);
	}
	sqlite3_finalize(q);
	return rc;
}

/* Turns still open in a synchronous round came too late. */
static int end_open(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;

	if (g->rounds.r.policy.asynchronous)
		return 0;
	return done(q,
		RUN_SQL(g, q,
			"UPDATE turns SET state = 'absent' WHERE round = ? AND state = 'open'",
			"i", (int64_t)g->rounds.round));
}

/* Updates are kept while all of them are less than the whole. */
static int keep_updates(struct coordinator *g, const struct closed *x)
{
	sqlite3_stmt *q = NULL;

	if (done(q,
		    RUN_SQL(g, q, "INSERT OR REPLACE INTO updates VALUES(?, ?, ?)", "tii",
			    g->rounds.params_hash, (int64_t)g->rounds.round,
			    (int64_t)x->update_bytes)) < 0)
		return -1;
	return done(q,
		RUN_SQL(g, q,
			"DELETE FROM updates WHERE round IN (SELECT round FROM (SELECT round,"
			" sum(bytes) OVER (ORDER BY round DESC) AS upto FROM updates)"
			" WHERE upto > ? AND round < ?)",
			"ii", (int64_t)(g->run.parameters * 2),
			(int64_t)g->rounds.round));
}

static int drop_sketches(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;

	if (done(q,
		    RUN_SQL(g, q,
			    "DELETE FROM sketches WHERE turn >= 0 AND turn < (SELECT turn"
			    " FROM sketches ORDER BY turn DESC LIMIT 1 OFFSET ?)",
			    "i", (int64_t)SKETCHES_KEPT)) < 0)
		return -1;
	q = NULL;
	return done(q,
		RUN_SQL(g, q, "DELETE FROM sketches WHERE turn < 0 AND turn > ?", "i",
			(int64_t)SKETCHES_KEPT - (int64_t)g->rounds.round));
}

struct committing {
	const struct closed *x;
	const char *facts;
};

bool coordinate_db_is_over(const struct coordinator *g, const struct closed *x)
{
	if (g->parent)
		return x->up.over;
	return g->run.rounds && g->rounds.round >= training_rounds(&g->run);
}

static int commit_round(struct coordinator *g, void *arg)
{
	const struct closed *x = ((struct committing *)arg)->x;
	uint64_t tokens = g->rounds.tokens;
	sqlite3_stmt *q = NULL;

	for (size_t i = 0; i < x->k; i++)
		tokens += x->c[i].weight_tokens;
	if (count_deltas(g, x) < 0 || settle_deltas(g, x) < 0 || end_open(g) < 0 ||
		keep_updates(g, x) < 0 ||
		keep_sketch(g, -(int64_t)g->rounds.round, fragment_of(g, g->rounds.round),
			x->sketch) < 0 ||
		drop_sketches(g) < 0)
		return -1;
	if (coordinate_db_is_over(g, x) && end_blocks(g) < 0)
		return -1;
	if (done(q,
		    RUN_SQL(g, q, "INSERT INTO rounds(round, facts) VALUES(?, ?)", "it",
			    (int64_t)g->rounds.round,
			    ((struct committing *)arg)->facts)) < 0)
		return -1;
	q = NULL;
	if ((x->up.away ? x->up.again : x->up.ends && !x->up.over) &&
		coordinate_db_set_parent(g, &x->up.next, g->rounds.round + 1) < 0)
		return -1;
	return done(q,
		RUN_SQL(g, q,
			"UPDATE run SET round = ?, base = ?, tokens = ?, dn_members = ?,"
			" dn_arrived = ?, over = ?",
			"itiiii", (int64_t)g->rounds.round + 1, x->model, (int64_t)tokens,
			(int64_t)x->dn.members, (int64_t)x->dn.arrived,
			(int64_t)coordinate_db_is_over(g, x)));
}

int coordinate_db_commit_round(struct coordinator *g, const struct closed *x,
	const char *facts)
{
	struct committing c = { x, facts };

	if (change(g, commit_round, &c) < 0)
		return -1;
	if (x->up.ends && coordinate_db_get_parent(g) < 0)
		return -1;
	return coordinate_db_load(g);
}

/* --- the parent ------------------------------------------------------------------------------- */

int coordinate_db_set_parent(struct coordinator *g, const struct assignment *a,
	uint64_t began)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q,
			"INSERT OR REPLACE INTO parent VALUES(1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			"iiiiiiiitt", (int64_t)began, clock_now_ms(), (int64_t)a->turn,
			(int64_t)a->round, (int64_t)a->first, (int64_t)a->sequences,
			(int64_t)a->step, (int64_t)a->steps, a->base, a->method));
}

int coordinate_db_get_parent(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT began, began_ms, turn, round, first, sequences, step, steps, base,"
		" method FROM parent",
		"");

	if (rc == 1 && g->parent) {
		struct assignment *a = &g->parent->a;

		g->parent->began = (uint64_t)sqlite3_column_int64(q, 0);
		g->parent->began_ms = sqlite3_column_int64(q, 1);
		*a = (struct assignment){ .turn = (uint64_t)sqlite3_column_int64(q, 2),
			.round = (uint64_t)sqlite3_column_int64(q, 3),
			.first = (uint64_t)sqlite3_column_int64(q, 4),
			.sequences = (uint64_t)sqlite3_column_int64(q, 5),
			.step = (uint64_t)sqlite3_column_int64(q, 6),
			.steps = (uint64_t)sqlite3_column_int64(q, 7) };
		snprintf(a->base, sizeof a->base, "%s", store_text(q, 8));
		snprintf(a->method, sizeof a->method, "%s", store_text(q, 9));
	}
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_turn_facts(struct coordinator *g, uint64_t began, uint64_t *tokens,
	int64_t *loss_first, int64_t *loss_last)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT (SELECT coalesce(sum(tokens), 0) FROM turns WHERE state = 'counted'"
		" AND counted_in >= ?1),"
		" (SELECT coalesce(avg(loss_first), 0) FROM turns WHERE round = ?1"
		" AND state IN ('counted', 'delivered')),"
		" (SELECT coalesce(avg(loss_last), 0) FROM turns WHERE round = ?2"
		" AND state IN ('counted', 'delivered'))",
		"ii", (int64_t)began, (int64_t)g->rounds.round);

	if (rc == 1) {
		*tokens = (uint64_t)sqlite3_column_int64(q, 0);
		*loss_first = sqlite3_column_int64(q, 1);
		*loss_last = sqlite3_column_int64(q, 2);
	}
	return done(q, rc);
}

static int change_nothing(struct coordinator *g, void *arg)
{
	(void)g, (void)arg;
	return 0;
}

int coordinate_db_keep(struct coordinator *g)
{
	return change(g, change_nothing, NULL);
}

/* The row that q stands on (rc 1): a round and a record; q ends. */
static int one_round(struct coordinator *g, int rc, sqlite3_stmt *q, uint64_t *round,
	json_t **record)
{
	if (rc == 1) {
		const char *text = store_text(q, 1);

		*round = (uint64_t)sqlite3_column_int64(q, 0);
		*record = json_parse_object(text, strlen(text), g->rounds.db.path);
		rc = *record ? 1 : -1;
	}
	sqlite3_finalize(q);
	return rc;
}

int coordinate_db_unwritten(struct coordinator *g, uint64_t *round, json_t **facts)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT round, facts FROM rounds WHERE record IS NULL ORDER BY round LIMIT 1",
		"");

	return one_round(g, rc, q, round, facts);
}

int coordinate_db_write(struct coordinator *g, uint64_t round, const char *record)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE rounds SET record = ?, printed = 0 WHERE round = ?",
			"ti", record, (int64_t)round));
}

int coordinate_db_unprinted(struct coordinator *g, uint64_t *round, json_t **record)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q,
		"SELECT round, record FROM rounds WHERE printed = 0 ORDER BY round LIMIT 1",
		"");

	return one_round(g, rc, q, round, record);
}

int coordinate_db_printed(struct coordinator *g, uint64_t round)
{
	sqlite3_stmt *q = NULL;

	return done(q,
		RUN_SQL(g, q, "UPDATE rounds SET printed = 1 WHERE round = ?", "i",
			(int64_t)round));
}

int coordinate_db_update(struct coordinator *g, const char *base, uint64_t *bytes)
{
	sqlite3_stmt *q = NULL;
	int rc = RUN_SQL(g, q, "SELECT bytes FROM updates WHERE base = ?", "t", base);

	*bytes = rc == 1 ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
	return done(q, rc);
}
