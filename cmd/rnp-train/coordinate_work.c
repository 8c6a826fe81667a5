/* coordinate_work.c - turns are handed out, long polls are answered, receipts are written. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/json/json.h"
#include "common/record/signature.h"

bool coordinate_is_member(struct coordinator *g, const char *node)
{
	return coordinate_db_member(g, node) == 1;
}

static int write_assignment(struct coordinator *g, const struct turn *t, json_t **record)
{
	struct assignment a = { .turn = t->turn,
		.round = t->round,
		.first = t->first,
		.sequences = t->sequences,
		.step = t->step,
		.steps = t->steps,
		.deadline_s = -1 };
	int64_t now_ms = clock_now_ms();

	memcpy(a.member, t->node, sizeof a.member);
	memcpy(a.base, t->base, sizeof a.base);
	memcpy(a.method, g->run.method, sizeof a.method);
	*record = assignment_write(&a, &g->run, now_ms);
	if (signature_add(*record, &g->key, now_ms) == 0)
		return 0;
	json_decref(*record);
	*record = NULL;
	return -1;
}

int coordinate_assign(struct coordinator *g, const char *node, json_t **record)
{
	struct turn t;
	int rc;

	*record = NULL;
	if (g->closing || g->over)
		return 0;
	rc = coordinate_db_last_turn(g, node, &t);
	if (rc < 0)
		return -1;
	if (rc == 1 && t.round == g->round)
		/* what was delivered waits for the round; what is open may be asked for again */
		return strcmp(t.state, "open") == 0 ? write_assignment(g, &t, record) : 0;
	if (coordinate_db_new_turn(g, node, &t) < 0)
		return -1;
	return write_assignment(g, &t, record);
}

/* --- long polls ------------------------------------------------------------------------------- */

static void answer_with(struct waiter *w, json_t *record)
{
	if (record) {
		json_write(&w->r->body, record);
		buf_addc(&w->r->body, '\n');
	} else {
		w->r->status = 204;
		w->r->retry_after_s = 1;
	}
	httpd_finish(w->q);
}

/* Whether the request is done with. */
static bool answer(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	json_t *record = NULL;

	if (httpd_gone(w->q)) {
		httpd_finish(w->q);
		return true;
	}
	if (g->over) {
		httpd_error(w->r, 410, "the run is over");
		httpd_finish(w->q);
		return true;
	}
	if (coordinate_assign(g, w->node, &record) < 0) {
		httpd_error(w->r, 503, "%s", err_get()->text);
		httpd_finish(w->q);
		return true;
	}
	if (!record && now_ns < w->until_ns && !g->stop)
		return false;
	answer_with(w, record);
	json_decref(record);
	return true;
}

void coordinate_answer(struct coordinator *g)
{
	int64_t now_ns = clock_mono_ns();
	struct waiter **at = &g->waiters;

	while (*at) {
		struct waiter *w = *at;

		if (answer(g, w, now_ns)) {
			*at = w->next;
			g->nwaiters--;
			free(w);
		} else {
			at = &w->next;
		}
	}
}

int64_t coordinate_next_answer(const struct coordinator *g)
{
	int64_t next = INT64_MAX;

	for (const struct waiter *w = g->waiters; w; w = w->next)
		if (w->until_ns < next)
			next = w->until_ns;
	return next;
}

/* --- receipts --------------------------------------------------------------------------------- */

/* What a member's counted turns without a receipt add up to. */
struct work {
	char node[KEY_ADDRESS_MAX];
	int64_t from_ms, to_ms, tokens, seconds, upto;
};

static int write_receipt(struct coordinator *g, const struct work *w)
{
	int64_t now_ms = clock_now_ms();
	json_t *record = json_record("rnp.receipt");
	struct buf text = BUF_INIT;
	sqlite3_stmt *q = NULL;
	int rc = 0;

	json_set_text(record, "node", w->node);
	json_set_text(record, "signer", g->key.address);
	json_set_time(record, "at", now_ms);
	json_set_text(record, "job", g->run.name);
	json_set_time(record, "from", w->from_ms);
	json_set_time(record, "to", w->to_ms > w->from_ms ? w->to_ms : w->from_ms + 1);
	json_set_i64(record, "gpu_seconds", w->seconds);
	json_set_i64(record, "tokens", w->tokens);
	json_set_i64(record, "earned_uusd",
		muldiv_floor(w->tokens, g->run.uusd_per_million_tokens, 1000000));
	json_set_i64(record, "credits",
		muldiv_floor(w->tokens, g->run.credits_per_million_tokens, 1000000));
	rc = signature_add(record, &g->key, now_ms);
	json_write(&text, record);
	if (rc == 0)
		rc = store_prepare(&g->db, &q,
			"INSERT INTO receipts(node, record, written) VALUES(?, ?, 0)");
	if (rc == 0)
		rc = store_run(&g->db, q, "tt", w->node, buf_text(&text));
	sqlite3_finalize(q);
	q = NULL;
	if (rc == 0)
		rc = store_prepare(&g->db, &q,
			"UPDATE turns SET receipt = (SELECT max(id) FROM receipts)"
			" WHERE node = ? AND state = 'counted' AND receipt IS NULL AND turn <= ?");
	if (rc == 0)
		rc = store_run(&g->db, q, "ti", w->node, w->upto);
	sqlite3_finalize(q);
	buf_release(&text);
	json_decref(record);
	return rc;
}

/* gpu_seconds is the smaller of what the worker says and the time from assignment to delivery. */
static int find_work(struct coordinator *g, const char *node, struct work *w)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->db, &q,
		"SELECT node, min(assigned_ms), max(delivered_ms), sum(tokens),"
		" sum(min(seconds, (delivered_ms - assigned_ms) / 1000)), max(turn)"
		" FROM turns WHERE state = 'counted' AND receipt IS NULL"
		" AND (?1 IS NULL OR node = ?1) GROUP BY node ORDER BY node LIMIT 1");

	if (rc == 0) {
		store_bind(q, "t", node);
		rc = store_step(&g->db, q);
	}
	if (rc == 1) {
		*w = (struct work){ .from_ms = sqlite3_column_int64(q, 1),
			.to_ms = sqlite3_column_int64(q, 2),
			.tokens = sqlite3_column_int64(q, 3),
			.seconds = sqlite3_column_int64(q, 4),
			.upto = sqlite3_column_int64(q, 5) };
		memcpy(w->node, store_text(q, 0), strlen(store_text(q, 0)) + 1);
	}
	sqlite3_finalize(q);
	return rc;
}

int coordinate_receipts(struct coordinator *g, const char *node)
{
	struct work w;
	int rc;

	while ((rc = find_work(g, node, &w)) == 1) {
		if (store_begin(&g->db) < 0)
			return -1;
		if (write_receipt(g, &w) < 0) {
			store_rollback(&g->db);
			return -1;
		}
		if (store_commit(&g->db) < 0)
			return -1;
	}
	return rc;
}
