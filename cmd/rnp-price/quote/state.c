/* state.c - the state of quote in SQLite: see state.h. Rows older than 90 days are
 * deleted, so that the file does not grow with the age of a node. */
#include "cmd/rnp-price/quote/state.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/quote/sellers.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define ASKS_MAX      64
#define HOSTS_WATCHED 64 /* the cheapest: one who is dearer does not matter */

static const char *const steps[] = {
	"CREATE TABLE node (node TEXT PRIMARY KEY, snapshots INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE price (id INTEGER PRIMARY KEY, node TEXT NOT NULL, at_ms INTEGER NOT NULL,"
	"  ask_uusd INTEGER NOT NULL, floor_uusd INTEGER NOT NULL, rival_uusd INTEGER,"
	"  changed INTEGER NOT NULL) STRICT;"
	"CREATE INDEX price_at ON price (node, at_ms);"
	"CREATE TABLE host (node TEXT NOT NULL, market TEXT NOT NULL, host TEXT NOT NULL,"
	"  first_snapshot INTEGER NOT NULL, last_ms INTEGER NOT NULL,"
	"  uusd_per_gpu_hour INTEGER NOT NULL, PRIMARY KEY (node, market, host))"
	"  STRICT, WITHOUT ROWID;",
	"CREATE TABLE demand (node TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, belief BLOB NOT NULL)"
	"  STRICT, WITHOUT ROWID;",
	"CREATE TABLE follower (node TEXT NOT NULL, market TEXT NOT NULL, host TEXT NOT NULL,"
	"  last_ms INTEGER NOT NULL, price REAL NOT NULL, ask REAL NOT NULL, ratio REAL NOT NULL,"
	"  copies INTEGER NOT NULL, PRIMARY KEY (node, market, host)) STRICT, WITHOUT ROWID;",
	NULL
};

static int damaged(const struct quote_state *s, const char *what)
{
	return err_set(EX_DATAERR,
		"%s: the state is damaged: it holds %s; with another file quote starts afresh",
		s->store.path, what);
}

/* Whether a number is one that quote stores, or is absent. */
static bool possible(int64_t number)
{
	return number == QUOTE_NONE || (number >= 0 && number <= JSON_SAFE_INTEGER_MAX);
}

/* Runs a query that is already bound and returns at most one row: 1, 0 or -1; columns go to
 * out. */
static int read_row(struct quote_state *s, sqlite3_stmt *q, int columns, int64_t *out)
{
	int rc = store_step(&s->store, q);

	for (int i = 0; rc > 0 && i < columns; i++)
		if (sqlite3_column_type(q, i) != SQLITE_NULL)
			out[i] = sqlite3_column_int64(q, i);
	return rc;
}

static int read_node(struct quote_state *s)
{
	sqlite3_stmt *last = NULL, *changes = NULL, *node = NULL;
	int64_t price[2] = { QUOTE_NONE, QUOTE_NONE };
	int64_t changed[2] = { QUOTE_NONE, 0 };
	int rc = -1;

	if (store_prepare(&s->store, &last,
		    "SELECT ask_uusd, at_ms FROM price WHERE node = ?"
		    " ORDER BY id DESC LIMIT 1") < 0 ||
		store_prepare(&s->store, &changes,
			"SELECT max(at_ms), sum(at_ms > ?) FROM price"
			" WHERE node = ? AND changed") < 0 ||
		store_prepare(&s->store, &node,
			"SELECT snapshots FROM node WHERE node = ?") < 0)
		goto out;
	store_bind(last, "t", s->node);
	store_bind(changes, "it", s->now_ms - QUOTE_STATE_DAY_MS, s->node);
	store_bind(node, "t", s->node);
	if (read_row(s, last, 2, price) < 0 || read_row(s, changes, 2, changed) < 0 ||
		read_row(s, node, 1, &s->snapshots) < 0)
		goto out;
	if (!possible(price[0]) || !possible(price[1]) || !possible(changed[0]) ||
		changed[0] > price[1] || !possible(s->snapshots)) {
		damaged(s, "an impossible price, time or count");
		goto out;
	}
	s->last_ask_uusd = price[0];
	s->last_at_ms = price[1];
	s->changed_ms = changed[0];
	s->changes_today = changed[1];
	rc = 0;
out:
	sqlite3_finalize(last);
	sqlite3_finalize(changes);
	sqlite3_finalize(node);
	return rc;
}

/* A belief written by another version of the program has another size: it is reset. */
static int read_demand(struct quote_state *s)
{
	sqlite3_stmt *q = NULL;
	const char *wrong;
	int rc;

	demand_init(&s->demand);
	s->learned_ms = QUOTE_NONE;
	if (store_prepare(&s->store, &q,
		    "SELECT at_ms, belief FROM demand WHERE node = ?") < 0)
		return -1;
	store_bind(q, "t", s->node);
	rc = store_step(&s->store, q);
	if (rc > 0 && sqlite3_column_bytes(q, 1) == sizeof s->demand) {
		memcpy(&s->demand, sqlite3_column_blob(q, 1), sizeof s->demand);
		s->learned_ms = sqlite3_column_int64(q, 0);
		wrong = s->learned_ms < 0 ||
				s->learned_ms > s->now_ms + QUOTE_STATE_SKEW_MS ?
			"customers of an impossible time" :
			demand_check(&s->demand);
		if (wrong)
			rc = damaged(s, wrong);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

int quote_state_learned(struct quote_state *s)
{
	sqlite3_stmt *put = NULL;
	int rc = store_prepare(&s->store, &put,
		"INSERT INTO demand VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET"
		" at_ms = excluded.at_ms, belief = excluded.belief");

	if (rc == 0)
		rc = store_run(&s->store, put, "tib", s->node, s->now_ms, &s->demand,
			sizeof s->demand);
	sqlite3_finalize(put);
	return rc;
}

static int check_clock(const struct quote_state *s, const char *path)
{
	char then[CLOCK_TEXT_MAX], now[CLOCK_TEXT_MAX];

	if (s->last_at_ms <= s->now_ms + QUOTE_STATE_SKEW_MS)
		return 0;
	clock_format(then, s->last_at_ms);
	clock_format(now, s->now_ms);
	return err_set(EX_DATAERR,
		"%s: the clock went back: the last price is of %s, and now is %s", path,
		then, now);
}

int quote_state_open(struct quote_state *s, const char *path, const char *node,
	int64_t now_ms)
{
	s->node = node;
	s->now_ms = now_ms;
	s->last_ask_uusd = s->last_at_ms = s->changed_ms = QUOTE_NONE;
	if (store_open(&s->store, path, steps, false) < 0)
		return -1;
	if (store_begin(&s->store) < 0) {
		store_close(&s->store);
		return -1;
	}
	s->open = true;
	if (read_node(s) == 0 && check_clock(s, path) == 0 && read_demand(s) == 0)
		return 0;
	quote_state_close(s);
	return -1;
}

int quote_state_seen(struct quote_state *s, const struct rivals_question *q, bool **out)
{
	sqlite3_stmt *find = NULL;
	bool *seen;
	int64_t first;
	int rc = 0;

	*out = NULL;
	if (!s->snapshots)
		return 0;
	if (store_prepare(&s->store, &find,
		    "SELECT first_snapshot FROM host WHERE node = ? AND market = ? AND host = ?") <
		0)
		return -1;
	seen = xcalloc(q->offers->n + 1, sizeof *seen);
	for (size_t i = 0; rc >= 0 && i < q->offers->n; i++) {
		const struct offer *o = &q->offers->items[i];

		if (rivals_kind(q, o) != RIVAL_COMPARABLE)
			continue;
		store_bind(find, "ttt", s->node, o->market, rivals_host(o));
		rc = read_row(s, find, 1, &first);
		seen[i] = rc > 0;
	}
	sqlite3_finalize(find);
	if (rc < 0) {
		free(seen);
		return -1;
	}
	*out = seen;
	return 0;
}

/* --- who follows ------------------------------------------------------------------------------ */

/* Reads what customers paid for a GPU in the last hours. Returns how many prices, or -1. */
static int read_asks(struct quote_state *s, const struct rivals_question *q,
	int64_t fee_ppm, double asks[ASKS_MAX])
{
	sqlite3_stmt *find = NULL;
	int n = 0, rc;

	if (store_prepare(&s->store, &find,
		    "SELECT DISTINCT ask_uusd FROM price WHERE node = ?1 AND id >="
		    " coalesce((SELECT max(id) FROM price WHERE node = ?1 AND at_ms <= ?2), 0)") <
		0)
		return -1;
	store_bind(find, "ti", s->node, s->now_ms - FOLLOWER_HOURS * INT64_C(3600000));
	while ((rc = store_step(&s->store, find)) > 0 && n < ASKS_MAX) {
		int64_t ask = sqlite3_column_int64(find, 0);

		if (ask < 0 || ask > JSON_SAFE_INTEGER_MAX) {
			rc = damaged(s, "an impossible price");
			break;
		}
		if (ask)
			asks[n++] = (double)quote_customer(ask, fee_ppm) /
				(double)q->gpu_count;
	}
	sqlite3_finalize(find);
	return rc < 0 ? -1 : n;
}

static bool is_amount(double x)
{
	return x >= 0 && x <= (double)JSON_SAFE_INTEGER_MAX;
}

/* Looks at one host with what was remembered of it. Returns whether it follows, or -1. */
static int look_at(struct quote_state *s, sqlite3_stmt *find, sqlite3_stmt *put,
	const struct offer *o, const double *asks, int n)
{
	struct follower f = { 0 };
	bool follows;
	int rc;

	store_bind(find, "ttt", s->node, o->market, rivals_host(o));
	rc = store_step(&s->store, find);
	if (rc > 0) {
		int64_t copies = sqlite3_column_int64(find, 3);

		f = (struct follower){ sqlite3_column_double(find, 0),
			sqlite3_column_double(find, 1), sqlite3_column_double(find, 2),
			(int)copies };
		sqlite3_reset(find);
		if (!is_amount(f.price) || !is_amount(f.ask) || !is_amount(f.ratio) ||
			copies < 0 || copies > FOLLOWER_COPIES_MAX ||
			(copies && !(f.ratio > 0 && f.ask > 0)))
			return damaged(s, "an impossible rival");
	}
	if (rc < 0)
		return -1;
	follows = follower_sees(&f, (double)o->uusd_per_gpu_hour, asks, (size_t)n);
	rc = store_run(&s->store, put, "tttirrri", s->node, o->market, rivals_host(o),
		s->now_ms, f.price, f.ask, f.ratio, (int64_t)f.copies);
	return rc < 0 ? -1 : follows;
}

/* Marks all offers of a host. */
static void mark_host(const struct offer_list *offers, const struct offer *host,
	bool *out)
{
	for (size_t i = 0; i < offers->n; i++)
		if (strcmp(offers->items[i].market, host->market) == 0 &&
			strcmp(rivals_host(&offers->items[i]), rivals_host(host)) == 0)
			out[i] = true;
}

int quote_state_follows(struct quote_state *s, const struct rivals_question *q,
	int64_t fee_ppm, bool **out, int64_t *nfollow)
{
	sqlite3_stmt *find = NULL, *put = NULL;
	double asks[ASKS_MAX];
	bool *marks = xcalloc(q->offers->n + 1, sizeof *marks);
	size_t n, followers = 0;
	struct rivals r;
	int nasks = read_asks(s, q, fee_ppm, asks), rc = nasks < 0 ? -1 : 0;

	*out = NULL;
	*nfollow = 0;
	rivals_find(&r, q);
	n = r.nhosts < HOSTS_WATCHED ? r.nhosts : HOSTS_WATCHED;
	if (rc == 0 &&
		(store_prepare(&s->store, &find,
			 "SELECT price, ask, ratio, copies FROM follower"
			 " WHERE node = ? AND market = ? AND host = ?") < 0 ||
			store_prepare(&s->store, &put,
				"INSERT OR REPLACE INTO follower"
				" VALUES (?, ?, ?, ?, ?, ?, ?, ?)") < 0))
		rc = -1;
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = look_at(s, find, put, r.hosts[i], asks, nasks);
		if (rc > 0) {
			mark_host(q->offers, r.hosts[i], marks);
			followers++;
		}
	}
	if (rc >= 0 && followers && followers < r.nhosts) {
		*out = marks;
		*nfollow = (int64_t)followers;
		marks = NULL;
	}
	free(marks);
	rivals_release(&r);
	sqlite3_finalize(find);
	sqlite3_finalize(put);
	return rc < 0 ? -1 : 0;
}

/* --- what is kept ----------------------------------------------------------------------------- */

static int save_hosts(struct quote_state *s, const struct rivals_question *q)
{
	sqlite3_stmt *put = NULL;
	int rc = store_prepare(&s->store, &put,
		"INSERT INTO host VALUES (?, ?, ?, ?, ?, ?)"
		" ON CONFLICT DO UPDATE SET last_ms = excluded.last_ms,"
		" uusd_per_gpu_hour = excluded.uusd_per_gpu_hour");

	for (size_t i = 0; rc == 0 && i < q->offers->n; i++) {
		const struct offer *o = &q->offers->items[i];

		if (rivals_kind(q, o) == RIVAL_COMPARABLE)
			rc = store_run(&s->store, put, "tttiii", s->node, o->market,
				rivals_host(o), s->snapshots + 1, s->now_ms,
				o->uusd_per_gpu_hour);
	}
	sqlite3_finalize(put);
	return rc;
}

static int save_price(struct quote_state *s, const struct quote *quote)
{
	sqlite3_stmt *put = NULL;
	int rc = store_prepare(&s->store, &put,
		"INSERT INTO price (node, at_ms, ask_uusd, floor_uusd, rival_uusd, changed)"
		" VALUES (?, ?, ?, ?, ?, ?)");

	/* a clock that went back a little does not put the history out of order */
	if (rc == 0 && s->now_ms < s->last_at_ms)
		s->now_ms = s->last_at_ms;
	if (rc == 0 && quote->rival_uusd >= 0)
		rc = store_run(&s->store, put, "tiiiii", s->node, s->now_ms,
			quote->ask_uusd, quote->floor_uusd, quote->rival_uusd,
			(int64_t)(quote->ask_uusd != s->last_ask_uusd));
	else if (rc == 0)
		rc = store_run(&s->store, put, "tiiini", s->node, s->now_ms,
			quote->ask_uusd, quote->floor_uusd,
			(int64_t)(quote->ask_uusd != s->last_ask_uusd));
	sqlite3_finalize(put);
	return rc;
}

static int save_node(struct quote_state *s, bool snapshot)
{
	static const char *const clean[] = { "DELETE FROM price WHERE at_ms < ?",
		"DELETE FROM host WHERE last_ms < ?",
		"DELETE FROM follower WHERE last_ms < ?" };
	sqlite3_stmt *put = NULL;
	int rc = store_prepare(&s->store, &put,
		"INSERT INTO node VALUES (?1, ?2) ON CONFLICT DO UPDATE SET"
		" snapshots = snapshots + ?2");

	if (rc == 0)
		rc = store_run(&s->store, put, "ti", s->node, (int64_t)snapshot);
	sqlite3_finalize(put);
	for (size_t i = 0; rc == 0 && i < sizeof clean / sizeof *clean; i++) {
		rc = store_prepare(&s->store, &put, clean[i]);
		if (rc == 0)
			rc = store_run(&s->store, put, "i",
				s->now_ms - QUOTE_STATE_KEEP_MS);
		sqlite3_finalize(put);
	}
	return rc;
}

int quote_state_save(struct quote_state *s, const struct rivals_question *q,
	const struct quote *quote)
{
	int rc = 0;

	if (q->offers->n && q->gpu_model)
		rc = save_hosts(s, q);
	if (rc == 0)
		rc = save_price(s, quote);
	if (rc == 0)
		rc = save_node(s, q->offers->n > 0);
	if (rc == 0)
		rc = store_commit(&s->store);
	else
		store_rollback(&s->store);
	s->open = false;
	return rc;
}

void quote_state_close(struct quote_state *s)
{
	if (s->open)
		store_rollback(&s->store);
	s->open = false;
	store_close(&s->store);
}
