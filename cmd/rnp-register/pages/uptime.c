/* uptime.c - uptime as the registry saw it: heartbeats count from their arrival. Each
 * day that is over becomes one signed rnp.uptime record per node, a few nodes at a time, so
 * that heartbeats never wait long for the writer. */
#include "cmd/rnp-register/pages/uptime.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/cli/prog.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "common/record/uptime.h"

#define DAY_MS INT64_C(86400000)
/* Heartbeats that arrived before midnight are stored by then. */
#define SETTLED_MS 60000
/* `at` of a heartbeat differs at most this much from its arrival (registry/accept.h), plus a
 * margin. */
#define SKEW_MS INT64_C(600000)
/* If a node goes up and down more often within a day, the rest of the day counts as down. */
#define SPANS_MAX 1440
/* Nodes, heartbeats of theirs, and deleted rows, in one transaction: what is posted waits. */
#define NODES_AT_ONCE 100
#define BEATS_AT_ONCE 100000
#define ROWS_AT_ONCE  20000
/* Heartbeats that one reply may read; the next page continues. */
#define BEATS_PER_PAGE 500000

struct beats {
	struct uptime_beat *list;
	size_t n, cap;
};

/* Heartbeats by arrival; if a registry did not record it, by their own time. */
#define BEATS_SQL                                                                 \
	"SELECT coalesce(received_ms, at_ms), interval_s, at_ms FROM heartbeats " \
	"WHERE node = ? AND at_ms >= ? AND at_ms < ? ORDER BY at_ms"

/* Loads all heartbeats that can cover any of [from, to), in the order of their arrival; *lines
 * (may be NULL): those that arrived within it, as beats_sha256 of rnp.uptime defines them, and
 * how many. Returns 0 or -1. */
static int read_beats(struct beats *b, struct store *s, sqlite3_stmt *q, int64_t node,
	int64_t from_ms, int64_t to_ms, struct buf *lines, int64_t *count)
{
	int rc;

	b->n = 0;
	store_bind(q, "iii", node, from_ms - UPTIME_INTERVAL_MAX_MS - SKEW_MS,
		to_ms + SKEW_MS);
	while ((rc = store_step(s, q)) == 1) {
		int64_t at = sqlite3_column_int64(q, 0);
		int64_t interval_s = sqlite3_column_int64(q, 1);

		/* the clock may have been set back between two of them */
		if (b->n && at < b->list[b->n - 1].at_ms)
			at = b->list[b->n - 1].at_ms;
		b->list = xgrow(b->list, &b->cap, b->n + 1, sizeof *b->list);
		b->list[b->n++] = (struct uptime_beat){ at, interval_s * 1000 };
		if (lines && at >= from_ms && at < to_ms) {
			buf_addf(lines, "%lld %lld %lld\n", (long long)(at - from_ms),
				(long long)sqlite3_column_int64(q, 2),
				(long long)interval_s);
			++*count;
		}
	}
	return rc;
}

/* --- a day, signed ------------------------------------------------------------------------ */

/* Progress of the registry; stored in the table tasks. */
struct progress {
	int64_t day;  /* the day that is being written, counted from 1970 */
	int64_t node; /* the last node of it that is done */
};

static int read_task(struct store *s, const char *name, int64_t *value)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, "SELECT value FROM tasks WHERE name = ?");

	if (rc == 0) {
		store_bind(q, "t", name);
		rc = store_step(s, q);
		if (rc == 1)
			*value = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int write_task(struct store *s, const char *name, int64_t value)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"INSERT OR REPLACE INTO tasks (name, value) VALUES (?, ?)");

	if (rc == 0)
		rc = store_run(s, q, "ti", name, value);
	sqlite3_finalize(q);
	return rc;
}

/* Returns one number from a query; dflt if it is NULL. */
static int read_number(struct store *s, const char *sql, int64_t dflt, int64_t *out)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, sql);

	*out = dflt;
	if (rc == 0)
		rc = store_step(s, q);
	if (rc == 1 && sqlite3_column_type(q, 0) != SQLITE_NULL)
		*out = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static json_t *spans_json(const struct uptime_span *spans, size_t n, int64_t from_ms,
	int64_t *up_ms)
{
	json_t *list = json_array();

	*up_ms = 0;
	for (size_t i = 0; i < n; i++) {
		json_t *one = json_array();

		json_push(one, json_integer(spans[i].from_ms - from_ms));
		json_push(one, json_integer(spans[i].to_ms - from_ms));
		json_push(list, one);
		*up_ms += spans[i].to_ms - spans[i].from_ms;
	}
	return list;
}

/* Returns the record of a node's day, signed; NULL with err_set. */
static json_t *make_uptime(const struct registry *g, const char *node, int64_t from_ms,
	const struct beats *b, const struct buf *lines, int64_t count)
{
	struct uptime_span *spans = xmalloc(SPANS_MAX * sizeof *spans);
	size_t n = uptime_spans(spans, SPANS_MAX, b->list, b->n, from_ms,
		from_ms + DAY_MS);
	unsigned char hash[SHA256_BYTES];
	json_t *record = json_record("rnp.uptime"), *list;
	char hex[2 * sizeof hash + 1];
	int64_t up_ms, now_ms = clock_now_ms();

	list = spans_json(spans, n, from_ms, &up_ms);
	free(spans);
	sha256(hash, buf_text(lines), lines->len);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	json_set_text(record, "node", node);
	json_set_text(record, "signer", g->config.key->address);
	json_set_time(record, "at", now_ms);
	json_set_time(record, "from", from_ms);
	json_set_time(record, "to", from_ms + DAY_MS);
	json_set_i64(record, "beats", count);
	json_set_text(record, "beats_sha256", hex);
	json_set_i64(record, "up_ms", up_ms);
	json_set(record, "spans", list);
	if (signature_add(record, g->config.key, now_ms / 1000 * 1000) == 0)
		return record;
	json_decref(record);
	return NULL;
}

static int store_uptime(struct registry *g, const json_t *record, const char *node,
	int64_t to_ms)
{
	struct registry_put p = { .what = PUT_RECORD, .received_ms = clock_now_ms() };
	unsigned char sha256[CANON_HASH_BYTES];
	struct buf text = BUF_INIT;
	int rc = canon_hash_record(sha256, record);

	/* at the end of its day, so that a query for an epoch returns its days */
	p.at_ms = to_ms;
	strcpy(p.kind, "rnp.uptime");
	snprintf(p.node, sizeof p.node, "%s", node);
	snprintf(p.signer, sizeof p.signer, "%s", g->config.key->address);
	sodium_bin2hex(p.sha256, sizeof p.sha256, sha256, sizeof sha256);
	json_write(&text, record);
	p.text = buf_text(&text);
	if (rc == 0)
		rc = registry_db_insert(&g->db, &p);
	buf_release(&text);
	return rc;
}

/* Writes the day of some nodes after at->node; at->node advances, and becomes 0 when the day is
 * complete. */
static int write_some(struct registry *g, struct progress *at)
{
	struct store *s = &g->db.store;
	sqlite3_stmt *nodes = NULL, *q = NULL;
	struct buf lines = BUF_INIT;
	struct beats b = { 0 };
	int64_t from_ms = at->day * DAY_MS, last = 0, read = 0;
	int rc = store_prepare(s, &nodes,
		"SELECT id, address FROM nodes WHERE id > ? ORDER BY id LIMIT ?");

	if (rc == 0)
		rc = store_prepare(s, &q, BEATS_SQL);
	if (rc == 0)
		store_bind(nodes, "ii", at->node, (int64_t)NODES_AT_ONCE);
	while (rc == 0 && read < BEATS_AT_ONCE && (rc = store_step(s, nodes)) == 1) {
		int64_t count = 0;
		json_t *record;

		last = sqlite3_column_int64(nodes, 0);
		buf_reset(&lines);
		rc = read_beats(&b, s, q, last, from_ms, from_ms + DAY_MS, &lines,
			&count);
		read += (int64_t)b.n;
		if (rc < 0 || !b.n)
			continue;
		record = make_uptime(g, store_text(nodes, 1), from_ms, &b, &lines, count);
		rc = !record ?
			-1 :
			store_uptime(g, record, store_text(nodes, 1), from_ms + DAY_MS);
		json_decref(record);
	}
	at->node = last;
	free(b.list);
	buf_release(&lines);
	sqlite3_finalize(nodes);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* Sets *more if a day that is over is not complete. */
static int sign_some(struct registry *g, bool *more)
{
	struct store *s = &g->db.store;
	int64_t first_ms, now_ms = clock_now_ms();
	struct progress at = { -1, 0 };

	*more = false;
	if (read_task(s, "uptime_day", &at.day) < 0 ||
		read_task(s, "uptime_node", &at.node) < 0)
		return -1;
	if (at.day < 0) {
		if (read_number(s,
			    "SELECT coalesce(received_ms, at_ms) FROM heartbeats "
			    "ORDER BY id LIMIT 1",
			    -1, &first_ms) < 0)
			return -1;
		if (first_ms < 0)
			return 0;
		at.day = first_ms / DAY_MS;
	}
	if (now_ms < (at.day + 1) * DAY_MS + SETTLED_MS)
		return 0;
	if (write_some(g, &at) < 0)
		return -1;
	*more = true;
	if (!at.node)
		at.day++;
	return write_task(s, "uptime_day", at.day) < 0 ?
		-1 :
		write_task(s, "uptime_node", at.node);
}

/* --- what goes ---------------------------------------------------------------------------- */

static int delete_rows(struct registry *g, const char *sql, int64_t before_ms, bool *more)
{
	struct store *s = &g->db.store;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, sql);

	if (rc == 0)
		rc = store_run(s, q, "ii", before_ms, (int64_t)ROWS_AT_ONCE);
	sqlite3_finalize(q);
	*more = *more || sqlite3_changes(s->db) >= ROWS_AT_ONCE;
	return rc;
}

/* Deletes heartbeats whose day is signed, and measurements and asks, older than the retention
 * time; if the disk limit is reached, of any age. Records on which pay depends stay. */
static int forget_some(struct registry *g, bool *more)
{
	int64_t now_ms = clock_now_ms(), keep_ms = g->config.keep_ms, day = 0;
	bool full = g->db.bytes_max && g->db.bytes_used > g->db.bytes_max;
	int64_t beats_before = now_ms - keep_ms, signed_until;

	if (!full && !keep_ms)
		return 0;
	if (read_task(&g->db.store, "uptime_day", &day) < 0)
		return -1;
	signed_until = day * DAY_MS - UPTIME_INTERVAL_MAX_MS - SKEW_MS;
	/* without a key nothing is ever signed, and only heartbeats remain */
	if ((full || beats_before > signed_until) && g->config.key)
		beats_before = signed_until;
	if (full && !g->config.key)
		beats_before = now_ms - 35 * DAY_MS;
	if (delete_rows(g,
		    "DELETE FROM heartbeats WHERE id IN (SELECT id FROM heartbeats "
		    "WHERE at_ms < ?1 AND id < (SELECT id FROM heartbeats "
		    "ORDER BY id LIMIT 1 OFFSET ?2) ORDER BY id)",
		    beats_before, more) < 0)
		return -1;
	return delete_rows(g,
		"DELETE FROM records WHERE id IN (SELECT id FROM records WHERE "
		"kind IN ('rnp.bench', 'rnp.quote') AND at_ms < ?1 ORDER BY id LIMIT ?2)",
		full ? INT64_MAX : now_ms - keep_ms, more);
}

/* --- the job ------------------------------------------------------------------------------ */

static int work_some(struct registry_put *p, struct registry_db *db)
{
	struct registry *g = p->done_ctx;
	bool more_days = false, more_rows = false;

	(void)db;
	if ((g->config.key && sign_some(g, &more_days) < 0) ||
		forget_some(g, &more_rows) < 0)
		return -1;
	g->work_left = more_days || more_rows;
	return 0;
}

static void on_worked(struct registry_put *p, void *ctx)
{
	struct registry *g = ctx;

	(void)p;
	g->working = false;
}

#define QUIET_NS INT64_C(60000000000)

void registry_uptime_tick(struct registry *g)
{
	int64_t now_ns = clock_mono_ns();
	struct registry_put *p;

	if (g->working || (!g->work_left && now_ns < g->work_due_ns))
		return;
	g->working = true;
	g->work_left = false;
	g->work_due_ns = now_ns + QUIET_NS;
	p = xcalloc(1, sizeof *p);
	p->what = PUT_JOB;
	p->job = work_some;
	p->done = on_worked;
	p->done_ctx = g;
	registry_db_put(&g->db, p);
}

/* --- questions ---------------------------------------------------------------------------- */

struct window {
	int64_t from_ms, to_ms, now_ms;
	struct beats beats; /* the memory is reused from node to node */
	int64_t read;       /* heartbeats read, of all nodes of the page */
};

static int up_of_node(struct window *w, struct store *s, sqlite3_stmt *q, int64_t node,
	int64_t *up_ms)
{
	int rc = read_beats(&w->beats, s, q, node, w->from_ms, w->to_ms, NULL, NULL);

	w->read += (int64_t)w->beats.n;
	*up_ms = uptime_ms(w->beats.list, w->beats.n, w->from_ms, w->to_ms, w->now_ms);
	return rc;
}

static int write_uptimes(struct buf *out, struct store *s, struct window *w,
	const struct registry_uptime_query *wanted)
{
	const char *node = wanted->node;
	int64_t last = 0, up_ms, n = 0, limit = wanted->page.limit;
	sqlite3_stmt *nodes = NULL, *q = NULL;
	int rc = store_prepare(s, &nodes,
		node ? "SELECT id, address FROM nodes WHERE id > ? AND address = ?3 "
		       "ORDER BY id LIMIT ?2" :
		       "SELECT id, address FROM nodes WHERE id > ? ORDER BY id LIMIT ?");

	if (rc == 0)
		rc = store_prepare(s, &q, BEATS_SQL);
	if (rc == 0)
		store_bind(nodes, node ? "iit" : "ii", wanted->page.after, limit + 1,
			node);
	while (rc == 0 && (rc = store_step(s, nodes)) == 1 && n < limit &&
		w->read < BEATS_PER_PAGE) {
		last = sqlite3_column_int64(nodes, 0);
		rc = up_of_node(w, s, q, last, &up_ms);
		buf_addf(out, "%s{\"node\":\"%s\",\"up_ms\":%lld}", n++ ? "," : "",
			store_text(nodes, 1), (long long)up_ms);
	}
	if (rc == 1)
		buf_addf(out, "],\"next\":\"%lld\"}\n", (long long)last);
	else
		buf_adds(out, "]}\n");
	sqlite3_finalize(nodes);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

enum httpd_when registry_get_uptime(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct registry_uptime_query wanted;
	struct window w = { .now_ms = clock_now_ms() };
	char text[CLOCK_TEXT_MAX];
	struct store *s;
	int rc;

	if (registry_query_uptime(q, r, &wanted) < 0)
		return HTTPD_NOW;
	w.from_ms = wanted.from_ms;
	w.to_ms = wanted.to_ms;
	clock_format(text, w.from_ms);
	buf_addf(&r->body, "{\"from\":\"%s\",", text);
	clock_format(text, w.to_ms);
	buf_addf(&r->body, "\"to\":\"%s\",\"uptime\":[", text);
	s = registry_db_reader(&g->db);
	rc = write_uptimes(&r->body, s, &w, &wanted);
	registry_db_reader_done(&g->db, s);
	free(w.beats.list);
	if (rc < 0)
		return registry_unavailable(r);
	registry_etag(r);
	return HTTPD_NOW;
}
