/* work.c - registers members, hands out turns, answers long polls, writes receipts.
 * common/lm/rounds/round.h decides; this file stores the decisions and tells the members. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/pieces.h"
#include "cmd/rnp-train/coordinator/files.h"
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
/* places of an address, at least: friends behind one router */
#define SHARE_LEAST 8
/* A member that works sends nothing until its turn is done. It counts as gone after ten times its
 * own longest turn; in its first turn, after an hour and ten times the longest turn of any
 * member. */
#define TURNS_MISSED    10
#define FIRST_MISSED_MS 3600000
/* numbers of nodes that are away, of which a new one may get one */
#define UNUSED_LOOKED_AT 64

/* --- members ---------------------------------------------------------------------------------- */

static void note_activity(struct coordinator *g, int64_t number)
{
	size_t had = g->activity.cap;

	g->activity.heard = xgrow(g->activity.heard, &g->activity.cap, (size_t)number + 1,
		sizeof *g->activity.heard);
	for (size_t i = had; i < g->activity.cap; i++)
		g->activity.heard[i] = (struct heard){ .at = coordinate_now(g) };
	g->activity.heard[number].at = coordinate_now(g);
}

void coordinate_took(struct coordinator *g, const struct turn *t)
{
	int64_t ms = t->delivered_ms - t->assigned_ms;

	note_activity(g, (int64_t)t->member);
	if (ms > g->activity.heard[t->member].took_ms)
		g->activity.heard[t->member].took_ms = ms;
	if (ms > g->activity.took_max_ms)
		g->activity.took_max_ms = ms;
}

int64_t coordinate_member(struct coordinator *g, const char *node)
{
	int64_t number = -1;

	if (coordinate_db_member(g, node, &number) != 1 || number < 0 ||
		(size_t)number >= g->rounds.r.nmembers ||
		!g->rounds.r.members[number].here)
		return -1;
	note_activity(g, number);
	return number;
}

/* Whether the node of a number left without having delivered anything, and nothing that still
 * counts is its: 1, 0 or -1. */
static int is_unused(struct coordinator *g, size_t number)
{
	const struct round_member *m = &g->rounds.r.members[number];
	bool lately = m->work.steps && m->work.turn + 1 >= g->rounds.r.number;

	return m->here || m->done || lately ? 0 : coordinate_db_idle(g, (int64_t)number);
}

/* A number for a new node: where strangers come and go without having done anything, theirs, so
 * that they cost nothing for long. Returns it, or -1 with err_set(). */
static int64_t new_number(struct coordinator *g, uint64_t speed)
{
	int looked = 0;

	for (size_t i = 0; i < g->rounds.r.nmembers && looked < UNUSED_LOOKED_AT; i++) {
		int rc = is_unused(g, i);

		looked += !g->rounds.r.members[i].here && !g->rounds.r.members[i].done;
		if (rc == 0)
			continue;
		if (rc < 0 || round_replace(&g->rounds.r, i, speed) < 0 ||
			coordinate_db_forget(g, (int64_t)i) < 0)
			return -1;
		return (int64_t)i;
	}
	if (g->rounds.r.nmembers >= NODES_MAX)
		return err_set(EX_TEMPFAIL,
			"%d nodes have worked here, and no more are taken", NODES_MAX);
	return round_join(&g->rounds.r, speed, coordinate_now(g));
}

/* The share of an address. A key costs nothing: only one that --allow names, or whose node is
 * registered, is a reason for a place of its own. */
static uint64_t share_of_address(const struct coordinator *g)
{
	uint64_t share = (uint64_t)g->o.workers_max / 16;

	if (g->o.registry || g->o.nallow)
		return UINT64_MAX;
	if (g->o.per_address)
		return (uint64_t)g->o.per_address;
	return share > SHARE_LEAST ? share : SHARE_LEAST;
}

int coordinate_has_place(struct coordinator *g, const char *node, uint64_t from)
{
	const struct round *r = &g->rounds.r;
	uint64_t theirs = 0, share = share_of_address(g);
	int64_t number = -1;

	if (coordinate_db_member(g, node, &number) == 1 && number >= 0 &&
		(size_t)number < r->nmembers && r->members[number].here)
		return 0;
	if (r->policy.members_max && r->here >= r->policy.members_max)
		return err_set(EX_TEMPFAIL, "%zu workers are here, and no more are taken",
			r->here);
	for (size_t i = 0; i < r->nmembers && i < g->activity.cap; i++)
		theirs += r->members[i].here && g->activity.heard[i].from == from;
	if (theirs < share)
		return 0;
	return err_set(EX_TEMPFAIL,
		"%llu workers of your address are here, which is its share",
		(unsigned long long)theirs);
}

int coordinate_join(struct coordinator *g, const char *node, const char *facts,
	uint64_t speed, uint64_t from)
{
	int64_t number = -1;
	int known = coordinate_db_member(g, node, &number);

	if (known < 0 || coordinate_has_place(g, node, from) < 0)
		return -1;
	if (number >= 0 && (size_t)number < g->rounds.r.nmembers) {
		const struct round_member *m = &g->rounds.r.members[number];

		/* another speed is taken over between turns */
		if (m->here && m->speed != speed && !m->works)
			round_leave(&g->rounds.r, (uint64_t)number, coordinate_now(g));
		if (round_return(&g->rounds.r, (uint64_t)number, speed) < 0)
			return -1;
	} else {
		number = new_number(g, speed);
	}
	if (number < 0)
		return -1;
	note_activity(g, number);
	g->activity.heard[number].from = from;
	return coordinate_db_join(g, node, facts, number);
}

/* Ends the member's turns and removes the pieces that it sent of them. Its next turn is a new
 * one. */
static int leave(struct coordinator *g, int64_t number, const char *node, const char *why)
{
	struct turn t;

	round_leave(&g->rounds.r, (uint64_t)number, coordinate_now(g));
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
	int64_t took_ms = g->activity.heard[number].took_ms, ms = MISSED_MS;

	if (!g->rounds.r.members[number].works)
		return ms;
	if (!took_ms) {
		took_ms = g->activity.took_max_ms;
		ms = FIRST_MISSED_MS;
	}
	return took_ms < (INT64_MAX - ms) / TURNS_MISSED ? ms + TURNS_MISSED * took_ms :
							   INT64_MAX;
}

/* Its place among --workers-max is free. Without a turn nothing is written: a restart would miss it
 * again. */
static int miss(struct coordinator *g, size_t number)
{
	char node[KEY_ADDRESS_MAX];
	int rc = 0;

	if (g->rounds.r.members[number].works)
		rc = coordinate_db_node(g, (int64_t)number, node);
	if (rc == 1)
		return leave(g, (int64_t)number, node, TURN_SILENT);
	round_leave(&g->rounds.r, number, coordinate_now(g));
	return rc;
}

int coordinate_miss(struct coordinator *g)
{
	int64_t now = coordinate_now(g);

	for (size_t i = 0; i < g->rounds.r.nmembers; i++) {
		if (!g->rounds.r.members[i].here)
			continue;
		if (i >= g->activity.cap)
			note_activity(g, (int64_t)i);
		else if (now - g->activity.heard[i].at > patience_ms(g, i) &&
			miss(g, i) < 0)
			return -1;
	}
	return 0;
}

json_t *coordinate_member_record(struct coordinator *g, const char *node)
{
	json_t *m = json_record("rnp.member");
	struct turn t = { 0 };
	bool open = coordinate_db_last_turn(g, node, &t) == 1 &&
		strcmp(t.state, "open") == 0;

	json_set_text(m, "node", g->key.address);
	json_set_time(m, "at", clock_now_ms());
	json_set_text(m, "run", g->run.name);
	json_set_text(m, "member", node);
	json_set_i64(m, "turn", open ? (int64_t)t.turn : 0);
	json_set_text(m, "base", g->rounds.params_hash);
	json_set_i64(m, "round", (int64_t)g->rounds.round);
	json_set_bool(m, "over", g->rounds.over);
	return m;
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

/* The turn of an assignment: there already, or made now. Who gave it up in this round and asks
 * again gets it again, with other text: it is in the round's record once. */
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
	memcpy(t->base, g->rounds.params_hash, sizeof t->base);
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
			     ask(&g->rounds.r, (uint64_t)number, coordinate_now(g), &a)) {
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
	if (w->replaced || w->round || number < 0 || !g->rounds.r.members[number].asks)
		return 0;
	round_leave(&g->rounds.r, (uint64_t)number, coordinate_now(g));
	return coordinate_db_join(g, w->node, NULL, number);
}

/* The parameters after a round are there, or the request waits on. */
static int answer_base(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	json_t *record = NULL;

	if (g->rounds.round <= w->round && !g->rounds.over && now_ns < w->until_ns &&
		!g->rounds.stop)
		return 0;
	if (g->rounds.round > w->round) {
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

/* Returns 1: the request is done with, 0: it waits on, or -1. */
static int answer(struct coordinator *g, struct waiter *w, int64_t now_ns)
{
	json_t *record = NULL;
	int rc;

	if (httpd_disconnected(w->q))
		return lose(g, w) < 0 ? -1 : 1;
	if (w->round)
		return answer_base(g, w, now_ns);
	if (g->rounds.over) {
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
	if (!record && now_ns < w->until_ns && !g->rounds.stop)
		return 0;
	answer_with(w, record);
	json_decref(record);
	return 1;
}

int coordinate_answer(struct coordinator *g)
{
	int64_t now_ns = clock_mono_ns();
	struct waiter **at = &g->waiting.first;
	int failed = 0;

	while (*at) {
		struct waiter *w = *at;
		int rc = answer(g, w, now_ns);

		if (rc) {
			*at = w->next;
			g->waiting.n--;
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

	for (const struct waiter *w = g->waiting.first; w; w = w->next)
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
		rc = store_prepare(&g->rounds.db, &q,
			"INSERT INTO receipts(node, record, written) VALUES(?, ?, 0)");
	if (rc == 0)
		rc = store_run(&g->rounds.db, q, "tt", w->node, buf_text(&text));
	sqlite3_finalize(q);
	q = NULL;
	if (rc == 0)
		rc = store_prepare(&g->rounds.db, &q,
			"UPDATE turns SET receipt = (SELECT max(id) FROM receipts)"
			" WHERE node = ? AND state = 'counted' AND receipt IS NULL"
			" AND reason IS NULL AND covered = 1 AND turn <= ?");
	if (rc == 0)
		rc = store_run(&g->rounds.db, q, "ti", w->node, w->upto);
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

/* The turns without a receipt of node, or (NULL) of the first node that has some; those that have a
 * reason, as copies, or that no judging speaks for, are not paid. Returns 1, 0 there are none, or
 * -1. */
static int find_work(struct coordinator *g, const char *node, struct work *w)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->rounds.db, &q,
		"SELECT node, assigned_ms, delivered_ms, tokens, seconds, turn"
		" FROM turns WHERE state = 'counted' AND receipt IS NULL AND reason IS NULL"
		" AND covered = 1"
		" AND (?1 IS NULL OR node = ?1) ORDER BY node, turn");

	*w = (struct work){ 0 };
	if (rc == 0) {
		store_bind(q, "t", node);
		rc = store_step(&g->rounds.db, q);
	}
	for (; rc == 1; rc = store_step(&g->rounds.db, q)) {
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
		if (store_begin(&g->rounds.db) < 0)
			return -1;
		if (write_receipt(g, &w) < 0) {
			store_rollback(&g->rounds.db);
			return -1;
		}
		if (store_commit(&g->rounds.db) < 0)
			return -1;
	}
	return rc;
}
