/* action.c - what a customer wishes about a cluster of his: release, extend, replace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/keys.h"
#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/told.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"

struct acting {
	struct httpd_request *q;
	struct httpd_reply *r;
	struct registry *g;
	struct market_record record;
	const char *cluster, *action, *cause;
	int64_t rank, hours, budget_uusd; /* -1: not said */
	struct buf keys;                  /* empty: not said */
	/* out */
	int status;
	char why[CAUSE_MAX];
};

static int refuse(struct acting *a, int status, const char *why)
{
	a->status = status;
	snprintf(a->why, sizeof a->why, "%s", why);
	return 0;
}

static int extend(struct market *m, struct acting *a, struct cluster_row *c)
{
	int64_t before = c->limit_uusd;

	if (a->hours < 0 && a->budget_uusd < 0)
		return refuse(a, 422, "extend: by how many hours, or to which budget?");
	if (a->hours >= 0) {
		if (c->hours + a->hours > MARKET_HOURS_MAX)
			return refuse(a, 422, "extend: that is longer than a century");
		/* what it may cost grows as the time does */
		if (money_muldiv(c->limit_uusd, c->hours + a->hours, c->hours, MONEY_CEIL,
			    &c->limit_uusd) < 0 ||
			c->limit_uusd > JSON_SAFE_INTEGER_MAX) {
			err_clear();
			return refuse(a, 422, "extend: it would cost more than there is");
		}
		c->hours += a->hours;
		if (c->ends_ms)
			c->ends_ms += a->hours * MARKET_HOUR_MS;
	}
	if (a->budget_uusd >= 0)
		c->limit_uusd = a->budget_uusd;
	if (c->limit_uusd < c->spent_uusd)
		return refuse(a, 422, "extend: more than this budget is spent already");
	if (c->limit_uusd < before && a->hours >= 0 && a->budget_uusd < 0)
		return refuse(a, 422, "extend: the limit would shrink");
	return change_hold(m, c, a->record.now_ms) < 0 ?
		-1 :
		change_due(m, c, a->record.now_ms);
}

static int replace(struct market *m, struct acting *a, struct cluster_row *c)
{
	struct member_row w;
	int rc = a->rank < 0 ? 0 : member_by_rank(&m->rows, c->id, a->rank, &w);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return refuse(a, 422, "replace: which rank?");
	if (w.state == NODE_REPLACED || w.state == NODE_RELEASING)
		return refuse(a, 409, "replace: this node is leaving already");
	rc = change_replace(m, c, &w, node_state_live(w.state), a->record.now_ms);
	if (rc == 0)
		return refuse(a, 409, "no spare of the booking is free: book anew");
	if (rc < 0 || !node_state_live(w.state))
		return rc < 0 ? -1 : 0;
	/* it says what it still has to be paid; then the spare gets its rank */
	if (rows_run(&m->rows, ROWS_MEMBERS_LEAVE, "iii", c->id, INT64_C(1), a->rank) < 0)
		return -1;
	w.leaves = true;
	return change_move(m, c, &w,
		w.state == NODE_RESERVED ? NODE_RELEASED : NODE_RELEASING,
		"its customer wants another", NULL, a->record.now_ms);
}

static int tell_node(void *ctx, struct member_row *w)
{
	told_news(ctx, w->node);
	return 0;
}

/* Who may log in from now on: gateways go by the keys, nodes by the customer's own word. */
static int set_keys(struct market *m, struct acting *a, struct cluster_row *c)
{
	if (!a->keys.len)
		return refuse(a, 422, "keys: which, in ssh_keys?");
	told_access(m);
	if (rows_run(&m->rows, ROWS_KEYS_PUT, "tti", a->keys.data, buf_text(&a->q->body),
		    c->id) < 0 ||
		rows_run(&m->rows, ROWS_MEMBERS_TOUCH, "ii", c->id, INT64_C(0)) < 0)
		return -1;
	return members_each(&m->rows, c->id, tell_node, m);
}

static int act(struct market *m, struct acting *a, struct cluster_row *c)
{
	char cause[CAUSE_MAX];

	if (strcmp(a->action, "release") == 0) {
		snprintf(cause, sizeof cause, "its customer releases it%s%.400s",
			a->cause[0] ? ": " : "", a->cause);
		return change_release(m, c, a->rank, cause, a->record.now_ms);
	}
	if (!c->live)
		return refuse(a, 409, "the cluster is over");
	if (strcmp(a->action, "keys") == 0)
		return set_keys(m, a, c);
	return strcmp(a->action, "extend") == 0 ? extend(m, a, c) : replace(m, a, c);
}

/* The same action again has the same answer. Returns 1, 0: it is new, or -1. */
static int find_answer(struct market *m, struct acting *a)
{
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_ACTION);
	int rc;

	if (!q)
		return -1;
	store_bind(q, "t", a->record.sha256);
	rc = store_step(m->rows.s, q);
	if (rc == 1)
		(void)refuse(a, sqlite3_column_int(q, 0), store_text(q, 1));
	sqlite3_reset(q);
	return rc;
}

/* What is refused has changed nothing. */
static int action_job(struct market *m, void *ctx)
{
	struct acting *a = ctx;
	struct told_mark mark = told_now(m);
	struct cluster_row c;
	int rc = cluster_by_name(&m->rows, a->cluster, &c);

	a->status = 200;
	if (rc < 0)
		return -1;
	if (rc == 0 || strcmp(c.customer, a->record.signer) != 0)
		return refuse(a, 404, "you have no such cluster");
	rc = find_answer(m, a);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (rows_save(&m->rows) < 0 || act(m, a, &c) < 0)
		return -1;
	if (a->status != 200)
		told_back(m, mark);
	return rows_saved(&m->rows, a->status != 200) < 0 ?
		-1 :
		rows_run(&m->rows, ROWS_ACTION_INSERT, "titit", a->record.sha256, c.id,
			buf_text(&a->q->body), (int64_t)a->status, a->why);
}

/* On the watch's thread: the cluster as it is now. */
static void answer(void *ctx)
{
	struct acting *a = ctx;
	struct store *s = registry_db_reader(&a->g->db);
	struct cluster_row c;
	struct rows rows;

	rows_open(&rows, s);
	if (cluster_by_name(&rows, a->cluster, &c) != 1 ||
		cluster_write(a->g, &rows, &c, &a->r->body) < 0)
		registry_unavailable(a->r);
	rows_close(&rows);
	registry_db_reader_done(&a->g->db, s);
	buf_release(&a->keys);
	market_record_release(&a->record);
	httpd_finish(a->q);
	free(a);
}

static void action_done(struct market *m, void *ctx, bool ok)
{
	struct acting *a = ctx;

	if (ok && a->status == 200) {
		watch_later(m->watch, answer, a);
		return;
	}
	if (!ok)
		registry_unwritable(a->r);
	else
		market_refuse(m->g, a->r, a->status, "action",
			"rnp-register clusters shows how it is", "%s", a->why);
	buf_release(&a->keys);
	market_record_release(&a->record);
	httpd_finish(a->q);
	free(a);
}

static int read_action(struct acting *a)
{
	const json_t *e = a->record.json;

	const json_t *keys = json_object_get(e, "ssh_keys");

	a->cause = "";
	a->rank = a->hours = a->budget_uusd = -1;
	if (keys && keys_write(keys, &a->keys) < 0)
		return -1;
	return json_get_text(e, "body", "cluster", &a->cluster) < 0 ||
			json_get_text(e, "body", "action", &a->action) < 0 ||
			json_opt_text(e, "body", "cause", &a->cause) < 0 ||
			json_opt_i64(e, "body", "rank", 0, 63, &a->rank) < 0 ||
			json_opt_i64(e, "body", "hours", 1, MARKET_HOURS_MAX, &a->hours) <
				0 ||
			json_opt_i64(e, "body", "budget_uusd", 1, JSON_SAFE_INTEGER_MAX,
				&a->budget_uusd) < 0 ?
		-1 :
		0;
}

enum httpd_when market_post_action(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct acting *a = xcalloc(1, sizeof *a);

	*a = (struct acting){ .q = q, .r = r, .g = g };
	if (market_read(g, q, r, "rnp.action", "signer", &a->record) == 0 &&
		market_timely(g, r, &a->record) == 0 &&
		market_may_say(g, q, r, &a->record) == 0) {
		if (read_action(a) == 0) {
			market_write(g->market, action_job, action_done, a);
			return HTTPD_LATER;
		}
		market_refuse(g, r, 400, "form", "see rnp-json(5)", "%s",
			err_get()->text);
		err_clear();
	}
	buf_release(&a->keys);
	market_record_release(&a->record);
	free(a);
	return HTTPD_NOW;
}
