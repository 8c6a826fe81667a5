/* fail.c - a node of a cluster has failed: what the customer wished for that case, and the
 * spares of his booking. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/supply.h"
#include "common/base/err.h"
#include "common/json/json.h"

struct used {
	const char *node;
	bool found;
};

static int is_used(void *ctx, struct member_row *w)
{
	struct used *u = ctx;

	u->found = u->found || strcmp(w->node, u->node) == 0;
	return 0;
}

/* Whether a spare can take the place: it has had none in this cluster, is for sale, and costs no
 * more than the customer allows. Returns 1, 0 or -1. */
static int may_replace(struct market *m, const struct cluster_row *c,
	const struct member_row *w, const json_t *spare, int64_t now_ms)
{
	struct used used = { json_string_value(json_object_get(spare, "node")), false };
	int64_t most_uusd = c->replace_uusd >= 0 ? c->replace_uusd : w->uusd_per_hour;
	char why[SUPPLY_WHY_MAX];

	if (members_each(&m->rows, c->id, is_used, &used) < 0)
		return -1;
	return !used.found &&
		json_integer_value(json_object_get(spare, "uusd_per_hour")) <=
		most_uusd &&
		supply_check(m->supply, spare, c->hours, now_ms, why) == 0;
}

/* Makes the member's row of a spare. */
static void member_of_spare(struct member_row *to, const struct member_row *w,
	const json_t *spare, int64_t now_ms)
{
	struct buf gpus = BUF_INIT;
	const json_t *list = json_object_get(spare, "gpus");

	*to = (struct member_row){ .cluster = w->cluster,
		.rank = w->rank,
		.turn = w->turn + 1,
		.state = NODE_RESERVED,
		.since_ms = now_ms,
		.heard_ms = now_ms,
		.uusd_per_hour = json_integer_value(
			json_object_get(spare, "uusd_per_hour")),
		.node_uusd_per_hour = json_integer_value(
			json_object_get(spare, "node_uusd_per_hour")) };
	snprintf(to->node, sizeof to->node, "%s",
		json_string_value(json_object_get(spare, "node")));
	snprintf(to->quote, sizeof to->quote, "%s",
		json_string_value(json_object_get(spare, "quote")));
	if (list)
		json_write(&gpus, list);
	snprintf(to->gpus, sizeof to->gpus, "%s", list ? gpus.data : "[]");
	buf_release(&gpus);
}

/* Tries one spare; look: only looks at it. Returns 1, 0 or -1. */
static int try_spare(struct market *m, struct cluster_row *c, struct member_row *w,
	const json_t *spare, bool look, int64_t now_ms)
{
	struct member_row fresh;
	char cause[CAUSE_MAX];
	int rc = may_replace(m, c, w, spare, now_ms);

	if (rc <= 0 || look)
		return rc;
	member_of_spare(&fresh, w, spare, now_ms);
	if (store_exec(m->rows.s, "SAVEPOINT spare") < 0 ||
		member_insert(&m->rows, &fresh) < 0)
		return -1;
	rc = change_lease(m, &fresh, now_ms);
	if (rc == 0 && store_exec(m->rows.s, "ROLLBACK TO spare") < 0)
		rc = -1;
	if (store_exec(m->rows.s, "RELEASE spare") < 0)
		rc = -1;
	if (rc <= 0)
		return rc;
	snprintf(cause, sizeof cause, "another node takes its rank: %s", fresh.node);
	if (change_move(m, c, w, NODE_REPLACED, cause, NULL, now_ms) < 0)
		return -1;
	/* others that go on need not begin again */
	if ((c->run == RUN_FAILS ||
		    (c->run == RUN_ON && c->on_failure != ON_FAILURE_CONTINUE)) &&
		change_run_again(m, c) < 0)
		return -1;
	snprintf(cause, sizeof cause, "in place of %s", w->node);
	return change_move(m, c, &fresh, NODE_RESERVED, cause, NULL, now_ms) < 0 ? -1 : 1;
}

int change_replace(struct market *m, struct cluster_row *c, struct member_row *w,
	bool look, int64_t now_ms)
{
	json_t *booking = cluster_booking(&m->rows, c->id);
	const json_t *spare, *spares;
	size_t i;
	int rc = 0;

	if (!booking)
		return -1;
	spares = json_object_get(json_object_get(booking, "proposal"), "spares");
	json_array_foreach(spares, i, spare) {
		rc = try_spare(m, c, w, spare, look, now_ms);
		if (rc)
			break;
	}
	json_decref(booking);
	return rc;
}

struct left {
	int n;
};

static int count_left(void *ctx, struct member_row *w)
{
	((struct left *)ctx)->n += node_state_live(w->state);
	return 0;
}

/* One is gone and has no successor: what waited for it waits no more. */
static int others_go(struct market *m, struct cluster_row *c, int64_t now_ms)
{
	struct left left = { 0 };

	if (members_each(&m->rows, c->id, count_left, &left) < 0)
		return -1;
	return left.n ? change_run_ended(m, c, now_ms) : 0;
}

/* The whole cluster ends for the sake of one of its nodes. */
static int end_for(struct market *m, struct cluster_row *c, const struct member_row *w,
	const char *more, const char *cause, int64_t now_ms)
{
	char text[CAUSE_MAX];

	snprintf(text, sizeof text, "rank %d %s%s: %.300s", w->rank,
		w->state == NODE_FAILED ? "has failed" : "is released", more, cause);
	if (change_release(m, c, -1, text, now_ms) < 0)
		return -1;
	/* of a cluster that has no other node left this is the cause */
	snprintf(c->cause, sizeof c->cause, "%s", text);
	return cluster_update(&m->rows, c);
}

int change_left(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, int64_t now_ms)
{
	int rc = 0;

	if (c->on_failure != ON_FAILURE_END || w->leaves)
		rc = change_replace(m, c, w, false, now_ms);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (c->on_failure == ON_FAILURE_CONTINUE)
		return others_go(m, c, now_ms);
	return end_for(m, c, w,
		c->on_failure == ON_FAILURE_END && !w->leaves ? "" :
								", and no spare is free",
		cause, now_ms);
}

int change_refused(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, const char *event, int64_t now_ms)
{
	if (!cause[0])
		cause = "its agent gave no cause";
	return change_move(m, c, w, NODE_FAILED, cause, event, now_ms) < 0 ?
		-1 :
		end_for(m, c, w, ", and would on any node", cause, now_ms);
}

int change_fail(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, const char *event, int64_t now_ms)
{
	bool started = w->ready_at_ms, leaving = w->state == NODE_RELEASING;

	if (!cause[0])
		cause = "its agent gave no cause";
	if (change_move(m, c, w, NODE_FAILED, cause, event, now_ms) < 0)
		return -1;
	if (leaving)
		return 0;
	if (!started)
		supply_failed(m->supply, w->node, c->customer, now_ms);
	return change_left(m, c, w, cause, now_ms);
}
