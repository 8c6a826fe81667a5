/* event.c - the events of clusters: those of nodes come in, customers read them or follow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/challenges/challenge.h"
#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/owner.h"
#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* --- events of nodes -------------------------------------------------------------------------- */

#define DAY_MS      INT64_C(86400000)
#define PROGRESS_MS 1000

/* An event on its way into the database. */
struct arriving {
	struct httpd_request *q;
	struct httpd_reply *r;
	struct market_record record;
	const char *cluster;
	int64_t rank, seq;
	int64_t ready_ms, exit, restarts, bytes, bytes_total; /* -1: not said */
	const char *cause, *address, *ssh, *artifacts, *fault;
	enum node_state to;
	/* out */
	int status; /* 201; 200: it was here; 403, 404, 409 */
	char why[CAUSE_MAX];
	struct member_row w;
};

static int refuse(struct arriving *a, int status, const char *why)
{
	a->status = status;
	snprintf(a->why, sizeof a->why, "%s", why);
	return 0;
}

/* Whether what a node proves of itself is known: a verdict of today, or there are no challenges. */
static bool is_proven(struct market *m, const struct member_row *w, int64_t now_ms)
{
	return !m->g->config.challenge_every_ms ||
		supply_proven_ms(m->supply, w->node) > now_ms - DAY_MS;
}

static int pull(struct market *m, struct cluster_row *c, struct member_row *w,
	int64_t now_ms)
{
	return change_move(m, c, w, NODE_PULLING,
		m->g->config.challenge_every_ms ? "its devices are proven" :
						  "this registry issues no challenges",
		NULL, now_ms);
}

/* Whether it only says how far something is, a moment after the last such word: the numbers are
 * kept, and no event. */
static bool is_progress(const struct arriving *a, const struct member_row *w,
	enum node_state to, int64_t now_ms)
{
	return to == w->state && a->ready_ms < 0 && a->exit < 0 && !a->address &&
		!a->ssh && now_ms - w->heard_ms < PROGRESS_MS &&
		w->heard_ms > w->since_ms;
}

/* Applies an event whose place is found. */
static int apply(struct market *m, struct arriving *a, struct cluster_row *c)
{
	struct member_row *w = &a->w;
	const char *text = buf_text(&a->q->body);
	int64_t now_ms = a->record.now_ms;
	enum node_state to = a->to;

	w->node_seq = a->seq;
	if (a->address)
		snprintf(w->address, sizeof w->address, "%s", a->address);
	if (a->ssh)
		snprintf(w->ssh, sizeof w->ssh, "%s", a->ssh);
	if (a->artifacts) {
		snprintf(w->artifacts, sizeof w->artifacts, "%s", a->artifacts);
		if (rows_run(&m->rows, ROWS_KEPT_PUT, "ti", text, w->id) < 0)
			return -1;
	}
	if (a->bytes >= 0)
		w->bytes = a->bytes;
	if (a->bytes_total >= 0)
		w->bytes_total = a->bytes_total;
	/* of a run that was before this one it says nothing */
	if (a->restarts >= 0 && a->restarts != c->restarts)
		a->exit = -1;
	if (a->exit >= 0)
		w->exit = a->exit && c->run == RUN_FAILS ? EXIT_WITH : a->exit;
	/* a last reading may cross our wish that it be released */
	if (w->state == NODE_RELEASING && to == NODE_READY)
		to = NODE_RELEASING;
	if (a->ready_ms >= 0 && change_read_meter(m, c, w, a->ready_ms, now_ms) < 0)
		return -1;
	if (to == NODE_FAILED && a->fault && !w->ready_at_ms &&
		w->state != NODE_RELEASING)
		return change_refused(m, c, w, a->cause, text, now_ms);
	if (to == NODE_FAILED)
		return change_fail(m, c, w, a->cause, text, now_ms);
	if (is_progress(a, w, to, now_ms))
		return member_update(&m->rows, w);
	if (change_move(m, c, w, to, a->cause, text, now_ms) < 0)
		return -1;
	if (to == NODE_PROVING && is_proven(m, w, now_ms))
		return pull(m, c, w, now_ms);
	if (to == NODE_PROVING) {
		supply_to_prove(m->supply, w->node);
		registry_challenge_within(m->g, w->node, 0);
	}
	return a->exit < 0 ? 0 : change_run_ended(m, c, now_ms);
}

static int event_job(struct market *m, void *ctx)
{
	struct arriving *a = ctx;
	struct cluster_row c;
	int rc = cluster_by_name(&m->rows, a->cluster, &c);

	if (rc == 1)
		rc = member_by_rank(&m->rows, c.id, a->rank, &a->w);
	if (rc < 0)
		return -1;
	if (rc == 0)
		return refuse(a, 404, "there is no such cluster, or rank");
	if (strcmp(a->w.node, a->record.signer) != 0)
		return refuse(a, 403, "another node has this rank");
	if (a->seq == a->w.node_seq)
		return refuse(a, 200, "");
	if (a->seq < a->w.node_seq)
		return refuse(a, 409, "a later event of this node is here already");
	if (!node_state_live(a->w.state))
		return refuse(a, 409, "the lease is over");
	if (!node_state_may(a->w.state, a->to) &&
		!(a->w.state == NODE_RELEASING && a->to == NODE_READY)) {
		snprintf(a->why, sizeof a->why, "it is %s, and cannot become %s",
			node_state_names[a->w.state], node_state_names[a->to]);
		a->status = 409;
		return 0;
	}
	a->status = 201;
	return apply(m, a, &c);
}

static void write_stored(struct registry *g, struct arriving *a)
{
	json_t *ack = json_record("rnp.stored");

	(void)g;
	json_set_text(ack, "of", "rnp.event");
	json_set_text(ack, "node", a->record.signer);
	json_set_time(ack, "at", a->record.at_ms);
	json_set_text(ack, "sha256", a->record.sha256);
	json_set_bool(ack, "new", a->status == 201);
	json_set_text(ack, "state", node_state_names[a->w.state]);
	a->r->status = a->status;
	json_write(&a->r->body, ack);
	buf_addc(&a->r->body, '\n');
	json_decref(ack);
}

static void event_done(struct market *m, void *ctx, bool ok)
{
	struct arriving *a = ctx;

	if (!ok) {
		registry_unwritable(a->r);
	} else if (a->status < 300) {
		write_stored(m->g, a);
	} else {
		market_refuse(m->g, a->r, a->status, "event",
			"ask GET /v1/work what is assigned", "%s", a->why);
		/* where it stands, for an agent that lost its notes */
		if (a->status == 409) {
			registry_add_field(a->r, "seq", json_integer(a->w.node_seq));
			registry_add_field(a->r, "state",
				json_string(node_state_names[a->w.state]));
		}
	}
	market_record_release(&a->record);
	httpd_finish(a->q);
	free(a);
}

static int read_event(struct arriving *a)
{
	const json_t *e = a->record.json;
	const char *to = NULL;

	a->cause = "";
	a->ready_ms = a->exit = a->restarts = a->bytes = a->bytes_total = -1;
	if (json_get_text(e, "body", "cluster", &a->cluster) < 0 ||
		json_get_i64(e, "body", "rank", 0, 63, &a->rank) < 0 ||
		json_get_i64(e, "body", "seq", 1, JSON_SAFE_INTEGER_MAX, &a->seq) < 0 ||
		json_get_text(e, "body", "to", &to) < 0 ||
		json_opt_text(e, "body", "cause", &a->cause) < 0 ||
		json_opt_text(e, "body", "address", &a->address) < 0 ||
		json_opt_text(e, "body", "ssh", &a->ssh) < 0 ||
		json_opt_text(e, "body", "artifacts", &a->artifacts) < 0 ||
		json_opt_text(e, "body", "fault", &a->fault) < 0 ||
		json_opt_i64(e, "body", "ready_ms", 0, JSON_SAFE_INTEGER_MAX,
			&a->ready_ms) < 0 ||
		json_opt_i64(e, "body", "exit", 0, 255, &a->exit) < 0 ||
		json_opt_i64(e, "body", "restarts", 0, JSON_SAFE_INTEGER_MAX,
			&a->restarts) < 0 ||
		json_opt_i64(e, "body", "bytes", 0, JSON_SAFE_INTEGER_MAX, &a->bytes) <
			0 ||
		json_opt_i64(e, "body", "bytes_total", 0, JSON_SAFE_INTEGER_MAX,
			&a->bytes_total) < 0)
		return -1;
	a->to = (enum node_state)node_state_find(to);
	return 0;
}

enum httpd_when market_post_event(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct arriving *a = xcalloc(1, sizeof *a);

	a->q = q;
	a->r = r;
	if (market_read(g, q, r, "rnp.event", "node", &a->record) == 0 &&
		market_timely(g, r, &a->record) == 0 &&
		market_may_say(g, q, r, &a->record) == 0) {
		if (read_event(a) == 0) {
			market_write(g->market, event_job, event_done, a);
			return HTTPD_LATER;
		}
		market_refuse(g, r, 400, "form", "see rnp-json(5)", "%s",
			err_get()->text);
		err_clear();
	}
	market_record_release(&a->record);
	free(a);
	return HTTPD_NOW;
}

/* --- a verdict came --------------------------------------------------------------------------- */

static int proven_job(struct market *m, void *ctx)
{
	const char *node = ctx;
	int64_t now_ms = clock_now_ms();
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_WORK);
	struct member_row w, found[16];
	struct cluster_row c;
	int n = 0, rc;

	if (!q)
		return -1;
	store_bind(q, "t", node);
	while ((rc = store_step(m->rows.s, q)) == 1 && n < 16) {
		member_read(q, &w);
		if (w.state == NODE_PROVING)
			found[n++] = w;
	}
	sqlite3_reset(q);
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = cluster_by_id(&m->rows, found[i].cluster, &c);
		if (rc == 1)
			rc = pull(m, &c, &found[i], now_ms);
	}
	return rc < 0 ? -1 : owner_take(m, node, now_ms);
}

static void free_text(struct market *m, void *ctx, bool ok)
{
	(void)m, (void)ok;
	free(ctx);
}

void event_proven(struct market *m, const char *node)
{
	market_write(m, proven_job, free_text, xstrdup(node));
}

/* --- events to customers ---------------------------------------------------------------------- */

#define EVENTS_MAX 500

/* Appends what came after w->after, and advances it. Returns how many, or -1. */
static int write_events(struct rows *rows, struct waiter *w, int64_t cluster, bool stream,
	struct buf *out)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_EVENTS_AFTER);
	int n = 0, rc;

	if (!q)
		return -1;
	store_bind(q, "iii", cluster, w->after < 0 ? 0 : w->after, (int64_t)EVENTS_MAX);
	while ((rc = store_step(rows->s, q)) == 1) {
		w->after = sqlite3_column_int64(q, 0);
		if (stream)
			buf_addf(out, "id: %lld\ndata: %s\n\n", (long long)w->after,
				store_text(q, 1));
		else
			buf_addf(out, "%s{\"seq\":%lld,\"event\":%s}", n ? "," : "",
				(long long)w->after, store_text(q, 1));
		n++;
	}
	return rc < 0 ? -1 : n;
}

static bool look_at_events(struct registry *g, struct waiter *w, bool last)
{
	struct store *s = registry_db_reader(&g->db);
	struct buf list = BUF_INIT;
	struct cluster_row c;
	struct rows rows;
	bool done = true;
	int n = 0;

	rows_open(&rows, s);
	if (cluster_of_caller(g, &rows, w->r, w->subject, w->caller, &c) == 1) {
		n = write_events(&rows, w, c.id, false, &list);
		/* of a cluster that is over nothing more comes */
		done = last || n || !c.live;
		if (n < 0)
			registry_unavailable(w->r);
		else if (done)
			buf_addf(&w->r->body,
				"{\"events\":[%s],\"after\":%lld,\"live\":%s}\n",
				buf_text(&list), (long long)(w->after < 0 ? 0 : w->after),
				c.live ? "true" : "false");
	}
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	buf_release(&list);
	return done;
}

/* Server-sent events: all that comes, until the cluster is over or the client leaves. One who reads
 * so slowly that the pieces pile up is cut off, and resumes by Last-Event-ID. */
static bool stream_events(struct registry *g, struct waiter *w, bool last)
{
	struct store *s = registry_db_reader(&g->db);
	struct buf text = BUF_INIT;
	struct cluster_row c;
	struct rows rows;
	bool over = true;
	int n = 0, sent = 0;

	rows_open(&rows, s);
	if (cluster_by_name(&rows, w->subject, &c) == 1) {
		n = write_events(&rows, w, c.id, true, &text);
		over = n < 0 || (!c.live && n < EVENTS_MAX);
	}
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	err_clear();
	if (last && !text.len)
		buf_adds(&text, ": nothing new\n\n");
	if (text.len)
		sent = httpd_try_write(w->q, text.data, text.len);
	buf_release(&text);
	if (last)
		w->until_ns = clock_mono_ns() + 15 * INT64_C(1000000000);
	return over || sent != 0 || httpd_disconnected(w->q) || n == EVENTS_MAX;
}

/* Whether the cluster is the caller's; else r is filled. */
static bool may_follow(struct registry *g, struct httpd_reply *r, const struct waiter *w)
{
	struct store *s = registry_db_reader(&g->db);
	struct cluster_row c;
	struct rows rows;
	bool may;

	rows_open(&rows, s);
	may = cluster_of_caller(g, &rows, r, w->subject, w->caller, &c) == 1;
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	return may;
}

static void follow(struct httpd_request *q, struct httpd_reply *r, struct waiter *w)
{
	const char *id = httpd_header(q, "last-event-id");

	r->content_type = "text/event-stream";
	w->stream = true;
	if (id && w->after < 0)
		w->after = strtoll(id, NULL, 10);
}

enum httpd_when market_get_events(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *accept = httpd_header(q, "accept");
	const char *name = httpd_query(q, "cluster");
	struct waiter *w = cluster_waiter(g, q, r, "cluster wait after");

	if (!w)
		return HTTPD_NOW;
	snprintf(w->subject, sizeof w->subject, "%.32s", name ? name : "");
	w->look = look_at_events;
	if (accept && strstr(accept, "text/event-stream") &&
		watch_runs(g->market->watch)) {
		if (!may_follow(g, r, w)) {
			free(w);
			return HTTPD_NOW;
		}
		follow(q, r, w);
		w->look = stream_events;
	}
	return watch_wait(g->market->watch, w);
}
