/* coordinate_work.c - registers members, hands out turns, answers long polls, writes receipts.
 * round.h decides; this file stores the decisions and tells the members. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "cmd/rnp-train/coordinate_pieces.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/record/signature.h"

/* that delivered, ever: each takes room in every change that is kept */
#define NODES_MAX 100000
/* who waits for work asks every 25 s */
#define MISSED_MS 90000
/* Who has work is silent meanwhile: for ten times as long as its longest turn took; the first time, an hour and
 * ten times as long as anybody's */
#define TURNS_MISSED    10
#define FIRST_MISSED_MS 3600000
/* numbers of nodes that are away, of which a new one may get one */
#define UNUSED_LOOKED_AT 64

int64_t coordinate_now(const struct coordinator *g)
{
	(void)g;
	return clock_mono_ns() / 1000000;
}

/* --- members ---------------------------------------------------------------------------------- */

/* Of a member, since the start: when it was heard of, as the round's times, and the longest turn that it
 * delivered, in ms. */
struct heard {
	int64_t at, took_ms;
};

static void hear_of(struct coordinator *g, int64_t number)
{
	size_t had = g->heard_cap;

	g->heard = xgrow(g->heard, &g->heard_cap, (size_t)number + 1, sizeof *g->heard);
	for (size_t i = had; i < g->heard_cap; i++)
		g->heard[i] = (struct heard){ .at = coordinate_now(g) };
	g->heard[number].at = coordinate_now(g);
}

void coordinate_took(struct coordinator *g, const struct turn *t)
{
	int64_t ms = t->delivered_ms - t->assigned_ms;

	hear_of(g, (int64_t)t->member);
	if (ms > g->heard[t->member].took_ms)
		g->heard[t->member].took_ms = ms;
	if (ms > g->took_max_ms)
		g->took_max_ms = ms;
}

int64_t coordinate_member(struct coordinator *g, const char *node)
{
	int64_t number = -1;

	if (coordinate_db_member(g, node, &number) != 1 || number < 0 ||
		(size_t)number >= g->r.nmembers || !g->r.members[number].here)
		return -1;
	hear_of(g, number);
	return number;
}

/* Whether the node of a number left without having delivered anything, and nothing that still counts is its: 1, 0
 * or -1. */
static int is_unused(struct coordinator *g, size_t number)
{
	const struct round_member *m = &g->r.members[number];
	bool lately = m->work.steps && m->work.turn + 1 >= g->r.number;

	return m->here || m->done || lately ? 0 : coordinate_db_idle(g, (int64_t)number);
}

/* A number for a new node: where strangers come and go without having done anything, theirs, so that they cost
 * nothing for long. Returns it, or -1 with err_set(). */
static int64_t new_number(struct coordinator *g, uint64_t speed)
{
	int looked = 0;

	for (size_t i = 0; i < g->r.nmembers && looked < UNUSED_LOOKED_AT; i++) {
		int rc = is_unused(g, i);

		looked += !g->r.members[i].here && !g->r.members[i].done;
		if (rc == 0)
			continue;
		if (rc < 0 || round_replace(&g->r, i, speed) < 0 ||
			coordinate_db_forget(g, (int64_t)i) < 0)
			return -1;
		return (int64_t)i;
	}
	if (g->r.nmembers >= NODES_MAX)
		return err_set(EX_TEMPFAIL,
			"%d nodes have worked here, and no more are taken", NODES_MAX);
	return round_join(&g->r, speed, coordinate_now(g));
}

int coordinate_join(struct coordinator *g, const char *node, const char *facts,
	uint64_t speed)
{
	int64_t number = -1;
	int known = coordinate_db_member(g, node, &number);

	if (known < 0)
		return -1;
	if (number >= 0 && (size_t)number < g->r.nmembers) {
		const struct round_member *m = &g->r.members[number];

		/* another speed is taken over between turns */
		if (m->here && m->speed != speed && !m->works)
			round_leave(&g->r, (uint64_t)number, coordinate_now(g));
		if (round_return(&g->r, (uint64_t)number, speed) < 0)
			return -1;
	} else {
		number = new_number(g, speed);
	}
	if (number < 0)
		return -1;
	hear_of(g, number);
	return coordinate_db_join(g, node, facts, number);
}

/* Its turns end, and what it sent of them goes: the next turn is another one. */
static int leave(struct coordinator *g, int64_t number, const char *node, const char *why)
{
	struct turn t;

	round_leave(&g->r, (uint64_t)number, coordinate_now(g));
	while (coordinate_db_open_turn(g, node, &t) == 1) {
		strcpy(t.state, "absent");
		if (coordinate_db_set_turn(g, &t, why) < 0)
			return -1;
		pieces_end(g, t.turn, true);
	}
	return coordinate_db_join(g, node, NULL, number);
}

int coordinate_leave(struct coordinator *g, const char *node)
{
	int64_t number = coordinate_member(g, node);

	if (number < 0)
		return 0;
	return leave(g, number, node, TURN_LEFT);
}

/* How long a member may be silent. */
static int64_t patience_ms(const struct coordinator *g, size_t number)
{
	int64_t took_ms = g->heard[number].took_ms, ms = MISSED_MS;

	if (!g->r.members[number].works)
		return ms;
	if (!took_ms) {
		took_ms = g->took_max_ms;
		ms = FIRST_MISSED_MS;
	}
	return took_ms < (INT64_MAX - ms) / TURNS_MISSED ? ms + TURNS_MISSED * took_ms :
							   INT64_MAX;
}

/* Its place among --workers-max is free. Without a turn nothing is written: a restart would miss it again. */
static int miss(struct coordinator *g, size_t number)
{
	char node[KEY_ADDRESS_MAX];
	int rc = 0;

	if (g->r.members[number].works)
		rc = coordinate_db_node(g, (int64_t)number, node);
	if (rc == 1)
		return leave(g, (int64_t)number, node, TURN_SILENT);
	round_leave(&g->r, number, coordinate_now(g));
	return rc;
}

int coordinate_miss(struct coordinator *g)
{
	int64_t now = coordinate_now(g);

	for (size_t i = 0; i < g->r.nmembers; i++) {
		if (!g->r.members[i].here)
			continue;
		if (i >= g->heard_cap)
			hear_of(g, (int64_t)i);
		else if (now - g->heard[i].at > patience_ms(g, i) && miss(g, i) < 0)
			return -1;
	}
	return 0;
}

/* --- turns ------------------------------------------------------------------------------------ */

static int write_assignment(struct coordinator *g, const struct turn *t, int64_t deadline,
	json_t **record)
{
	struct assignment a = { .turn = t->turn,
		.round = t->round,
		.first = t->first,
		.sequences = t->sequences,
		.step = t->step,
		.steps = t->steps,
		.deadline_s = -1 };
	int64_t now_ms = clock_now_ms();

	if (deadline != ROUND_NEVER)
		a.deadline_s = deadline > coordinate_now(g) ?
			(deadline - coordinate_now(g)) / 1000 :
			0;
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

/* The turn of an assignment: there already, or made now. Who gave it up in this round and asks again gets it
 * again, with other text: it is in the round's record once. */
static int find_turn(struct coordinator *g, const char *node, int64_t number,
	const struct round_assignment *a, struct turn *t)
{
	int rc = coordinate_db_turn_of(g, (uint64_t)number, a->turn + 1, t);
	bool revived;

	if (rc < 0 ||
		(rc == 1 && strcmp(t->state, "open") == 0 && t->first == a->range.first))
		return rc < 0 ? -1 : 0;
	revived = rc == 1 && turn_is_given_up(t) && strcmp(t->node, node) == 0;
	*t = (struct turn){ .turn = revived ? t->turn : 0,
		.member = (uint64_t)number,
		.round = a->turn + 1,
		.first = a->range.first,
		.sequences = a->range.count,
		.step = g->run.first_step + training_steps_before(&g->run, a->turn),
		.steps = a->steps,
		.state = "open",
		.assigned_ms = clock_now_ms() };
	memcpy(t->node, node, strlen(node) + 1);
	memcpy(t->base, g->base, sizeof t->base);
	return revived ? coordinate_db_revive_turn(g, t) : coordinate_db_new_turn(g, t);
}

typedef enum round_answer ask_function(struct round *, uint64_t, int64_t,
	struct round_assignment *);

/* ask: round_ask or round_ask_ahead. Returns 0 with the record of a turn, or NULL: none at
 * present; 1: the node is no member; -1. */
static int assign(struct coordinator *g, const char *node, ask_function *ask,
	json_t **record)
{
	int64_t number = coordinate_member(g, node);
	struct round_assignment a;
	struct turn t;

	*record = NULL;
	switch (number < 0 ? ROUND_GONE :
			     ask(&g->r, (uint64_t)number, coordinate_now(g), &a)) {
	case ROUND_GONE:
		return 1;
	case ROUND_WAIT:
		return 0;
	default:
		break;
	}
	if (find_turn(g, node, number, &a, &t) < 0)
		return -1;
	return write_assignment(g, &t, a.deadline, record);
}

int coordinate_assign_ahead(struct coordinator *g, const char *node, json_t **record)
{
	return assign(g, node, round_ask_ahead, record);
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

static void refuse_waiter(struct waiter *w, int status, const char *text)
{
	httpd_error(w->r, status, "%s", text);
	httpd_finish(w->q);
}

/* A waiting client has left, and must not be counted among those that wait. */
static int lose(struct coordinator *g, struct waiter *w)
{
	int64_t number = coordinate_member(g, w->node);

	httpd_finish(w->q);
	if (w->replaced || w->round || number < 0 || !g->r.members[number].asks)
		return 0;
	round_leave(&g->r, (uint64_t)number, coordinate_now(g));
	return coordinate_db_join(g, w->node, NULL, number);
}

/* The parameters after a round are there, or the request waits on. */
static int answer_base(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	json_t *record = NULL;

	if (g->round <= w->round && !g->over && now_ns < w->until_ns && !g->stop)
		return 0;
	if (g->round > w->round) {
		record = coordinate_member_record(g, w->node);
		if (signature_add(record, &g->key, clock_now_ms()) < 0) {
			json_decref(record);
			refuse_waiter(w, 503, err_get()->text);
			return -1;
		}
	}
	answer_with(w, record);
	json_decref(record);
	return 1;
}

/* The update is there, and its round committed; or the request waits on. */
static int answer_update(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	if (g->over)
		refuse_waiter(w, 410, "the run is over");
	else if (g->stop)
		refuse_waiter(w, 503, "the coordinator is about to end");
	else if (g->round > w->round) {
		coordinate_reply_update(g, w->r, w->q->arg);
		httpd_finish(w->q);
	} else if (now_ns >= w->until_ns)
		refuse_waiter(w, 404, "the round is not closed yet");
	else
		return 0;
	return 1;
}

/* Returns 1: the request is done with, 0: it waits on, or -1. */
static int answer(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	json_t *record = NULL;
	int rc;

	if (httpd_gone(w->q))
		return lose(g, w) < 0 ? -1 : 1;
	if (w->update)
		return answer_update(g, w, now_ns);
	if (w->round)
		return answer_base(g, w, now_ns);
	if (g->over) {
		refuse_waiter(w, 410, "the run is over");
		return 1;
	}
	if (w->replaced) {
		refuse_waiter(w, 409,
			"another worker asks with this key: each needs its own");
		return 1;
	}
	rc = assign(g, w->node, round_ask, &record);
	if (rc < 0) {
		refuse_waiter(w, 503, err_get()->text);
		return -1;
	}
	if (rc == 1) {
		refuse_waiter(w, 410, "not a member: join again");
		return 1;
	}
	if (!record && now_ns < w->until_ns && !g->stop)
		return 0;
	answer_with(w, record);
	json_decref(record);
	return 1;
}

int coordinate_answer(struct coordinator *g)
{
	int64_t now_ns = clock_mono_ns();
	struct waiter **at = &g->waiters;
	int failed = 0;

	coordinate_refuse_held(g, now_ns, g->stop);
	while (*at) {
		struct waiter *w = *at;
		int rc = answer(g, w, now_ns);

		if (rc) {
			*at = w->next;
			g->nwaiters -= !w->update;
			g->nupdates -= w->update;
			free(w);
		} else {
			at = &w->next;
		}
		failed = rc < 0 ? -1 : failed;
	}
	return failed;
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

/* The sum of a member's counted turns without a receipt. */
struct work {
	char node[KEY_ADDRESS_MAX];
	int64_t from_ms, to_ms, tokens, ms, upto;
};

static json_t *receipt(struct coordinator *g, const struct work *w)
{
	json_t *record = json_record("rnp.receipt");

	json_set_text(record, "node", w->node);
	json_set_text(record, "signer", g->key.address);
	json_set_time(record, "at", clock_now_ms());
	json_set_text(record, "job", g->run.name);
	json_set_time(record, "from", w->from_ms);
	json_set_time(record, "to", w->to_ms > w->from_ms ? w->to_ms : w->from_ms + 1);
	json_set_i64(record, "gpu_seconds", w->ms / 1000);
	json_set_i64(record, "tokens", w->tokens);
	json_set_i64(record, "earned_uusd",
		muldiv_floor(w->tokens, g->run.uusd_per_million_tokens, 1000000));
	json_set_i64(record, "credits",
		muldiv_floor(w->tokens, g->run.credits_per_million_tokens, 1000000));
	return record;
}

static int write_receipt(struct coordinator *g, const struct work *w)
{
	json_t *record = receipt(g, w);
	struct buf text = BUF_INIT;
	sqlite3_stmt *q = NULL;
	int rc = signature_add(record, &g->key, clock_now_ms());

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

static void add_work(struct work *w, sqlite3_stmt *q)
{
	const struct turn t = { .assigned_ms = sqlite3_column_int64(q, 1),
		.delivered_ms = sqlite3_column_int64(q, 2),
		.seconds = sqlite3_column_int64(q, 4) };

	if (!w->node[0] || t.assigned_ms < w->from_ms)
		w->from_ms = t.assigned_ms;
	if (!w->node[0] || t.delivered_ms > w->to_ms)
		w->to_ms = t.delivered_ms;
	w->tokens += sqlite3_column_int64(q, 3);
	w->ms += turn_busy_ms(&t);
	w->upto = sqlite3_column_int64(q, 5);
	memcpy(w->node, store_text(q, 0), strlen(store_text(q, 0)) + 1);
}

/* The turns without a receipt of node, or (NULL) of the first node that has some; copies do not count.
 * Returns 1, 0 there are none, or -1. */
static int find_work(struct coordinator *g, const char *node, struct work *w)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->db, &q,
		"SELECT node, assigned_ms, delivered_ms, tokens, seconds, turn"
		" FROM turns WHERE state = 'counted' AND receipt IS NULL AND reason IS NULL"
		" AND (?1 IS NULL OR node = ?1) ORDER BY node, turn");

	*w = (struct work){ 0 };
	if (rc == 0) {
		store_bind(q, "t", node);
		rc = store_step(&g->db, q);
	}
	for (; rc == 1; rc = store_step(&g->db, q)) {
		if (w->node[0] && strcmp(w->node, store_text(q, 0)) != 0)
			break;
		add_work(w, q);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : w->node[0] != '\0';
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
