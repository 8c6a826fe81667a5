/* work.c - what is assigned to a node, for its agent; which leases a node had, for everybody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/reach.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/json.h"

#define WORK_MAX 64 /* assignments of one node */

/* --- GET /v1/work ----------------------------------------------------------------------------- */

/* The ranks of a cluster. */
struct peers {
	struct rows *rows;
	json_t *list;
	const char *cluster; /* its name */
};

static int add_peer(void *ctx, struct member_row *w)
{
	struct peers *p = ctx;
	json_t *one;

	if (!node_state_live(w->state))
		return 0;
	one = json_object();
	json_set_i64(one, "rank", w->rank);
	json_set_i64(one, "turn", w->turn);
	json_set_text(one, "node", w->node);
	json_set_text(one, "state", node_state_names[w->state]);
	json_set_i64(one, "number", member_number(w->id));
	reach_set_places(one, p->cluster, w);
	json_push(p->list, one);
	return reach_set_listing(p->rows, one, w->node);
}

/* Sets the event by which a node said what it kept of this rank last: its word, not ours. */
static int set_kept(struct rows *rows, json_t *to, const struct member_row *w)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_KEPT);

	if (!q)
		return -1;
	store_bind(q, "ii", w->cluster, w->rank);
	return rows_set_record(rows, q, to, "kept");
}

/* Sets the action by which the customer said who may log in, if he has. */
static int set_keys(struct rows *rows, json_t *to, int64_t cluster)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_KEYS_ACTION);

	if (!q)
		return -1;
	store_bind(q, "i", cluster);
	return rows_set_record(rows, q, to, "keys");
}

static void set_lease(json_t *to, const struct member_row *w)
{
	json_set_i64(to, "rank", w->rank);
	json_set_i64(to, "turn", w->turn);
	json_set_i64(to, "number", member_number(w->id));
	json_set(to, "gpus",
		json_parse(w->gpus, strlen(w->gpus), JSON_DEPTH_MAX, "gpus"));
	json_set_text(to, "quote", w->quote);
	json_set_i64(to, "uusd_per_hour", w->uusd_per_hour);
	json_set_i64(to, "node_uusd_per_hour", w->node_uusd_per_hour);
	json_set_text(to, "state", node_state_names[w->state]);
	json_set_text(to, "want", w->state == NODE_RELEASING ? "release" : "run");
	json_set_text(to, "cause", w->cause);
	json_set_i64(to, "seq", w->node_seq);
	json_set_i64(to, "ready_ms", w->ready_ms);
}

/* Adds one assignment. Returns 0 or -1. */
static int add_work(struct rows *rows, const struct member_row *w, json_t *list)
{
	json_t *one = json_object(), *peers = json_array();
	struct cluster_row c;
	struct peers p = { rows, peers, c.name };
	int rc = cluster_by_id(rows, w->cluster, &c);
	json_t *booking = rc == 1 ? cluster_booking(rows, c.id) : NULL;

	set_lease(one, w);
	if (rc == 1 &&
		(!booking || members_each(rows, c.id, add_peer, &p) < 0 ||
			set_kept(rows, one, w) < 0 || set_keys(rows, one, c.id) < 0))
		rc = -1;
	if (rc == 1) {
		json_set(one, "booking", json_incref(booking));
		json_set_text(one, "cluster", c.name);
		json_set_text(one, "customer", c.customer);
		json_set_text(one, "booking_sha256", c.booking);
		json_set(one, "peers", json_incref(peers));
		json_set_i64(one, "restarts", c.restarts);
		json_set_bool(one, "go", c.run == RUN_ON);
		json_set_bool(one, "halt", c.run == RUN_FAILS);
		json_set_i64(one, "limit_uusd", c.limit_uusd);
		if (c.ends_ms)
			json_set_time(one, "ends_at", c.ends_ms);
		json_push(list, json_incref(one));
	}
	json_decref(booking);
	json_decref(peers);
	json_decref(one);
	return rc < 0 ? -1 : 0;
}

/* Returns the number of the last change for a node, or -1. */
static int64_t work_seq(struct rows *rows, const char *node)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_WORK_SEQ);
	int64_t seq = -1;

	if (!q)
		return -1;
	store_bind(q, "t", node);
	if (store_step(rows->s, q) == 1)
		seq = sqlite3_column_int64(q, 0);
	sqlite3_reset(q);
	return seq;
}

/* Returns a new list, or NULL. */
static json_t *list_work(struct rows *rows, const char *node)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_WORK);
	struct member_row *all;
	json_t *list;
	int n = 0, rc;

	if (!q)
		return NULL;
	all = calloc(WORK_MAX, sizeof *all);
	if (!all)
		return NULL;
	store_bind(q, "t", node);
	while ((rc = store_step(rows->s, q)) == 1 && n < WORK_MAX)
		member_read(q, &all[n++]);
	sqlite3_reset(q);
	list = json_array();
	for (int i = 0; i < n && rc >= 0; i++)
		rc = add_work(rows, &all[i], list);
	free(all);
	if (rc >= 0)
		return list;
	json_decref(list);
	return NULL;
}

static bool look_at_work(struct registry *g, struct waiter *w, bool last)
{
	struct store *s = registry_db_reader(&g->db);
	json_t *answer, *list = NULL;
	struct rows rows;
	int64_t seq;
	bool done;

	rows_open(&rows, s);
	/* read first: what is newer only makes the next question's answer come at once */
	seq = work_seq(&rows, w->caller);
	done = last || seq > w->after || seq < 0;
	if (done && seq >= 0)
		list = list_work(&rows, w->caller);
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	if (done && !list) {
		registry_unavailable(w->r);
	} else if (done) {
		answer = json_object();
		json_set_i64(answer, "after", seq);
		json_set_time(answer, "at", clock_now_ms());
		json_set(answer, "work", list);
		json_write(&w->r->body, answer);
		buf_addc(&w->r->body, '\n');
		json_decref(answer);
	}
	return done;
}

enum httpd_when market_get_work(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct waiter *w = cluster_waiter(g, q, r, "wait after");

	if (!w)
		return HTTPD_NOW;
	snprintf(w->subject, sizeof w->subject, "%s", w->caller);
	supply_asked(g->market->supply, w->caller, clock_now_ms());
	w->look = look_at_work;
	return watch_wait(g->market->watch, w);
}

/* --- GET /v1/leases --------------------------------------------------------------------------- */

/* Appends the page of a node's leases, without whose they were. */
static int write_leases(struct store *s, const char *node, int64_t after,
	const json_t *sale, struct buf *out)
{
	sqlite3_stmt *q = NULL;
	int64_t last = 0;
	int n = 0, rc;

	if (store_prepare(s, &q,
		    "SELECT m.id, min(l.from_ms), max(l.to_ms), max(l.to_ms IS NULL), "
		    "m.gpus, m.node_uusd_per_hour FROM members m JOIN leases l "
		    "ON l.member = m.id WHERE m.node = ? AND m.id > ? GROUP BY m.id "
		    "ORDER BY m.id LIMIT 501") < 0)
		return -1;
	store_bind(q, "ti", node, after);
	buf_adds(out, "{\"leases\":[");
	while ((rc = store_step(s, q)) == 1 && n < 500) {
		json_t *one = json_record("rnp.lease");
		const char *gpus = store_text(q, 4);

		last = sqlite3_column_int64(q, 0);
		json_set_text(one, "node", node);
		if (strcmp(gpus, "[]") != 0)
			json_set(one, "gpus",
				json_parse(gpus, strlen(gpus), JSON_DEPTH_MAX, "gpus"));
		json_set_time(one, "begin", sqlite3_column_int64(q, 1));
		if (!sqlite3_column_int64(q, 3))
			json_set_time(one, "end", sqlite3_column_int64(q, 2));
		json_set_i64(one, "uusd_per_hour", sqlite3_column_int64(q, 5));
		if (n++)
			buf_addc(out, ',');
		json_write(out, one);
		json_decref(one);
	}
	buf_addc(out, ']');
	if (sale) {
		buf_adds(out, ",\"sale\":");
		json_write(out, sale);
	}
	if (rc == 1)
		buf_addf(out, ",\"next\":\"%lld\"", (long long)last);
	buf_adds(out, "}\n");
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

enum httpd_when market_get_leases(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *node = httpd_query(q, "node"), *cursor = httpd_query(q, "cursor");
	struct store *s;
	json_t *sale;
	int64_t after = 0;

	if (!market_is_here(g, r) ||
		registry_query_known(q, r, "node cursor limit") < 0 ||
		registry_query_address(q, r, "node") < 0)
		return HTTPD_NOW;
	if (!node)
		return httpd_error(r, 400, "node: is missing");
	if (cursor && num_i64(cursor, "cursor", 0, INT64_MAX, &after) < 0)
		return httpd_error(r, 400, "%s", err_get()->text);
	sale = supply_sale(g->market->supply, node, clock_now_ms());
	s = registry_db_reader(&g->db);
	if (write_leases(s, node, after, sale, &r->body) < 0) {
		buf_reset(&r->body);
		registry_unavailable(r);
	} else {
		registry_etag(r);
	}
	registry_db_reader_done(&g->db, s);
	json_decref(sale);
	return HTTPD_NOW;
}
