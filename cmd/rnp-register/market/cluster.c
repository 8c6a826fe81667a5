/* cluster.c - the reads of a customer's own clusters. */
#include "cmd/rnp-register/market/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/reach.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/json/json.h"

#define LIST_MAX 100

/* --- rnp.cluster ------------------------------------------------------------------------------ */

static void set_count(json_t *to, const char *key, int64_t value)
{
	if (value > 0)
		json_set_i64(to, key, value);
}

static void set_moment(json_t *to, const char *key, int64_t ms)
{
	if (ms > 0)
		json_set_time(to, key, ms);
}

static void set_words(json_t *to, const char *key, const char *text)
{
	if (text[0])
		json_set_text(to, key, text);
}

struct shown {
	json_t *nodes;
	int64_t uusd_per_hour, turns;
	const char *cluster; /* its name */
};

static int show_member(void *ctx, struct member_row *w)
{
	struct shown *s = ctx;
	json_t *one = json_object();
	json_t *gpus = json_parse(w->gpus, strlen(w->gpus), JSON_DEPTH_MAX, "gpus");

	json_set_i64(one, "rank", w->rank);
	json_set_i64(one, "turn", w->turn);
	json_set_text(one, "node", w->node);
	json_set_i64(one, "number", member_number(w->id));
	if (json_array_size(gpus))
		json_set(one, "gpus", gpus);
	else
		json_decref(gpus);
	json_set_text(one, "state", node_state_names[w->state]);
	set_words(one, "cause", w->cause);
	json_set_time(one, "since", w->since_ms);
	set_moment(one, "deadline",
		node_state_deadline(w->state, w->since_ms, w->heard_ms));
	if (node_state_live(w->state))
		reach_set_places(one, s->cluster, w);
	set_words(one, "artifacts", w->artifacts);
	json_set_i64(one, "uusd_per_hour", w->uusd_per_hour);
	set_count(one, "ready_ms", w->ready_ms);
	if (w->exit >= 0)
		json_set_i64(one, "exit", w->exit);
	set_count(one, "bytes", w->bytes);
	set_count(one, "bytes_total", w->bytes_total);
	json_push(s->nodes, one);
	s->turns += w->turn > 0;
	if (node_state_live(w->state))
		s->uusd_per_hour += w->uusd_per_hour;
	return 0;
}

int cluster_write(struct registry *g, struct rows *r, const struct cluster_row *c,
	struct buf *out)
{
	struct shown s = { .nodes = json_array(), .cluster = c->name };
	json_t *record;

	if (members_each(r, c->id, show_member, &s) < 0) {
		json_decref(s.nodes);
		return -1;
	}
	record = json_record("rnp.cluster");
	json_set_text(record, "cluster", c->name);
	json_set_text(record, "booking", c->booking);
	json_set_text(record, "customer", c->customer);
	json_set_i64(record, "seq", c->seq);
	json_set_text(record, "state", node_state_names[c->state]);
	set_words(record, "cause", c->cause);
	json_set(record, "nodes", s.nodes);
	/* where the others go on, a node that takes a rank is what begins again */
	set_count(record, "restarts",
		c->restarts + (c->on_failure == ON_FAILURE_CONTINUE ? s.turns : 0));
	json_set_i64(record, "uusd_per_hour", s.uusd_per_hour);
	json_set_i64(record, "spent_uusd", c->spent_uusd);
	json_set_i64(record, "held_uusd", c->held_uusd);
	json_set_time(record, "booked_at", c->booked_ms);
	set_moment(record, "ends_at", c->ends_ms ? c->ends_ms : c->deadline_ms);
	market_sign(g, out, record);
	buf_addc(out, '\n');
	return 0;
}

json_t *cluster_booking(struct rows *r, int64_t cluster)
{
	sqlite3_stmt *q = rows_get(r, ROWS_CLUSTER_BODY);
	json_t *booking = NULL;
	const char *text;

	if (!q)
		return NULL;
	store_bind(q, "i", cluster);
	if (store_step(r->s, q) == 1) {
		text = store_text(q, 0);
		booking = json_parse_object(text, strlen(text), "booking");
	}
	sqlite3_reset(q);
	return booking;
}

/* --- reads ------------------------------------------------------------------------------------ */

int cluster_of_caller(struct registry *g, struct rows *r, struct httpd_reply *reply,
	const char *name, const char *caller, struct cluster_row *out)
{
	int rc = cluster_by_name(r, name, out);

	if (rc < 0) {
		registry_unavailable(reply);
		return -1;
	}
	if (rc == 1 && strcmp(out->customer, caller) == 0)
		return 1;
	market_refuse(g, reply, 404, "cluster", "rnp-register clusters lists yours",
		"you have no cluster %.32s", name);
	return 0;
}

struct waiter *cluster_waiter(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *known)
{
	const char *after = httpd_query(q, "after");
	struct waiter *w;
	int64_t wait_s, after_seq = -1;

	if (!market_is_here(g, r) || registry_query_known(q, r, known) < 0 ||
		watch_wait_query(q, r, &wait_s) < 0)
		return NULL;
	if (after && num_i64(after, "after", 0, INT64_MAX, &after_seq) < 0) {
		httpd_error(r, 400, "%s", err_get()->text);
		err_clear();
		return NULL;
	}
	w = xcalloc(1, sizeof *w);
	*w = (struct waiter){ .q = q,
		.r = r,
		.after = after_seq,
		.until_ns = clock_mono_ns() + wait_s * 1000000000 };
	if (registry_caller(g, q, r, w->caller))
		return w;
	free(w);
	return NULL;
}

/* A cluster with events after w->after. */
static bool look_at_cluster(struct registry *g, struct waiter *w, bool last)
{
	struct store *s = registry_db_reader(&g->db);
	struct cluster_row c;
	struct rows rows;
	bool done = true;

	rows_open(&rows, s);
	if (cluster_of_caller(g, &rows, w->r, w->subject, w->caller, &c) == 1) {
		done = last || c.seq > w->after;
		if (done && cluster_write(g, &rows, &c, &w->r->body) < 0)
			registry_unavailable(w->r);
		else if (done)
			snprintf(w->r->etag, sizeof w->r->etag, "\"%s-%lld\"", c.name,
				(long long)c.seq);
	}
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	return done;
}

enum httpd_when market_get_cluster(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct waiter *w = cluster_waiter(g, q, r, "wait after");

	if (!w)
		return HTTPD_NOW;
	snprintf(w->subject, sizeof w->subject, "%.32s", q->arg);
	w->look = look_at_cluster;
	return watch_wait(g->market->watch, w);
}

/* Appends the clusters of a page. Returns 0 or -1. */
static int write_page(struct registry *g, struct rows *rows, const char *caller,
	int64_t after, bool all, struct buf *out)
{
	struct cluster_row page[LIST_MAX + 1];
	sqlite3_stmt *q = rows_get(rows, ROWS_CLUSTERS_OF);
	int n = 0, rc = 0;

	if (!q)
		return -1;
	store_bind(q, "tiii", caller, after, (int64_t)!all, (int64_t)LIST_MAX + 1);
	while ((rc = store_step(rows->s, q)) == 1)
		cluster_read(q, &page[n++]);
	buf_adds(out, "{\"clusters\":[");
	for (int i = 0; i < n && i < LIST_MAX && rc == 0; i++) {
		if (i)
			buf_addc(out, ',');
		rc = cluster_write(g, rows, &page[i], out);
	}
	buf_addc(out, ']');
	if (n > LIST_MAX)
		buf_addf(out, ",\"next\":\"%lld\"", (long long)page[LIST_MAX - 1].id);
	buf_adds(out, "}\n");
	return rc;
}

enum httpd_when market_get_clusters(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *cursor = httpd_query(q, "cursor"), *all = httpd_query(q, "all");
	char caller[KEY_ADDRESS_MAX];
	struct store *s;
	struct rows rows;
	int64_t after = 0;

	if (!market_is_here(g, r) || registry_query_known(q, r, "cursor limit all") < 0)
		return HTTPD_NOW;
	if (cursor && num_i64(cursor, "cursor", 0, INT64_MAX, &after) < 0)
		return httpd_error(r, 400, "%s", err_get()->text);
	if (!registry_caller(g, q, r, caller))
		return HTTPD_NOW;
	s = registry_db_reader(&g->db);
	rows_open(&rows, s);
	if (write_page(g, &rows, caller, after, all && strcmp(all, "true") == 0,
		    &r->body) < 0) {
		buf_reset(&r->body);
		registry_unavailable(r);
	}
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	return HTTPD_NOW;
}
