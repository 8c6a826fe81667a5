/* run.c - `run` of a cluster: one that ends with an error ends on all ranks; when all have ended it
 * begins again, or the cluster is released. */
#include <stdio.h>

#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/cluster.h"
#include "common/base/err.h"
#include "common/json/json.h"

/* What its ranks have come to. */
struct course {
	int running; /* has still to end */
	int rank;    /* whose run failed first; -1: none did */
	int64_t exit;
};

/* A node that is not ready has nothing to end; of a run that goes on it will have. */
static int add_rank(void *ctx, struct member_row *w)
{
	struct course *s = ctx;

	if (!node_state_live(w->state))
		return 0;
	s->running += w->exit == EXIT_NONE && w->state != NODE_RELEASING;
	if (w->exit > 0 && s->rank < 0) {
		s->rank = w->rank;
		s->exit = w->exit;
	}
	return 0;
}

/* Whether the customer wants it once more after this code: one that he named is not counted. */
static bool wants_again(const struct cluster_row *c, const json_t *recovery, int64_t exit,
	bool *counts)
{
	const json_t *codes = json_object_get(recovery, "exit_codes"), *code;
	size_t i;

	*counts = false;
	json_array_foreach((json_t *)codes, i, code)
		if (json_integer_value(code) == exit)
			return true;
	*counts = true;
	return c->errors <
		json_integer_value(json_object_get(recovery, "max_restarts_on_errors"));
}

int change_run_again(struct market *m, struct cluster_row *c)
{
	c->restarts++;
	c->run = RUN_WAITS;
	return rows_run(&m->rows, ROWS_MEMBERS_AGAIN, "i", c->id);
}

/* It has failed on one, and ended on all. */
static int conclude(struct market *m, struct cluster_row *c, const struct course *s,
	int64_t now_ms)
{
	json_t *booking = cluster_booking(&m->rows, c->id);
	const json_t *recovery = json_object_get(booking, "recovery");
	struct member_row w;
	char cause[CAUSE_MAX];
	bool again, counts;
	int rc;

	if (!booking)
		return -1;
	again = wants_again(c, recovery, s->exit, &counts);
	json_decref(booking);
	snprintf(cause, sizeof cause, "run of rank %d ended with %d%s", s->rank,
		(int)s->exit, again ? ": it begins again" : "");
	if (!again)
		return change_release(m, c, -1, cause, now_ms);
	c->errors += counts;
	if (change_run_again(m, c) < 0)
		return -1;
	rc = member_by_rank(&m->rows, c->id, s->rank, &w);
	return rc == 1 ? change_move(m, c, &w, w.state, cause, NULL, now_ms) : -1;
}

int change_run_ended(struct market *m, struct cluster_row *c, int64_t now_ms)
{
	struct course s = { .rank = -1 };
	char cause[CAUSE_MAX];

	if (members_each(&m->rows, c->id, add_rank, &s) < 0)
		return -1;
	if (s.rank < 0)
		return s.running ?
			0 :
			change_release(m, c, -1, "run has ended on all ranks", now_ms);
	if (!s.running)
		return conclude(m, c, &s, now_ms);
	if (c->run == RUN_FAILS)
		return 0;
	/* the others end: should one of their nodes have failed, that was the reason */
	c->run = RUN_FAILS;
	snprintf(cause, sizeof cause,
		"run of rank %d ended with %d: it ends on the others", s.rank,
		(int)s.exit);
	snprintf(c->cause, sizeof c->cause, "%s", cause);
	return cluster_update(&m->rows, c);
}
