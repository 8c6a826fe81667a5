/* change.c - what happens to a cluster and its nodes in a transaction: states, leases, money. */
#include "cmd/rnp-register/market/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/told.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/poc/poc.h"

/* A released cluster has this long until its programs are killed, and we as long to say so. */
#define GRACE_MS 35000

/* --- the whole cluster ------------------------------------------------------------------------ */

/* Sums over the nodes of a cluster. */
struct sums {
	enum node_state states[256];
	size_t n;
	int ready, rank, waited,
		last_waits;  /* ranks that run has to wait for, see add_rank */
	int64_t live_uusd;   /* per hour, of those with a lease */
	int64_t ready_uusd;  /* per hour, of those that are charged */
	int64_t unread_uusd; /* what those may cost since they were last read, at most */
	int64_t now_ms;
	struct market *m;
	bool go_on; /* where one has failed */
};

/* The newest node of each rank counts: they come in this order. Who is released is not waited for,
 * nor who failed where the others go on. */
static void add_rank(struct sums *s, const struct member_row *w)
{
	if (w->rank == s->rank)
		s->waited -= s->last_waits;
	s->rank = w->rank;
	s->last_waits = w->state != NODE_READY && w->state != NODE_RELEASED &&
		!(w->state == NODE_FAILED && s->go_on);
	s->waited += s->last_waits;
	s->ready += w->state == NODE_READY;
}

static int add_member(void *ctx, struct member_row *w)
{
	struct sums *s = ctx;

	add_rank(s, w);
	if (s->n < sizeof s->states / sizeof *s->states)
		s->states[s->n++] = w->state;
	if (node_state_live(w->state)) {
		s->live_uusd += w->uusd_per_hour;
		told_news(s->m, w->node);
	}
	if (w->counting_ms) {
		int64_t ms = member_own_ms(w, s->now_ms);

		s->ready_uusd += w->uusd_per_hour;
		s->unread_uusd += market_cost(w->uusd_per_hour,
					  ms > w->ready_ms ? ms : w->ready_ms) -
			w->charged_uusd;
	}
	return 0;
}

static int sum_up(struct market *m, const struct cluster_row *c, int64_t now_ms,
	struct sums *s)
{
	*s = (struct sums){ .now_ms = now_ms,
		.m = m,
		.rank = -1,
		.go_on = c->on_failure == ON_FAILURE_CONTINUE };
	return members_each(&m->rows, c->id, add_member, s);
}

/* Returns 0 or -1; an account that is not there has nothing. */
static int read_available(struct market *m, const char *customer, int64_t *uusd)
{
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_ACCOUNT);
	int rc;

	*uusd = 0;
	if (!q)
		return -1;
	store_bind(q, "t", customer);
	rc = store_step(m->rows.s, q);
	if (rc == 1)
		*uusd = sqlite3_column_int64(q, 0) - sqlite3_column_int64(q, 1) -
			sqlite3_column_int64(q, 2);
	sqlite3_reset(q);
	return rc < 0 ? -1 : 0;
}

static int hold_of(struct market *m, struct cluster_row *c, const struct sums *s)
{
	int64_t available, want, change;

	if (read_available(m, c->customer, &available) < 0)
		return -1;
	want = c->live ? market_hold(s->live_uusd, c->limit_uusd - c->spent_uusd) : 0;
	if (available < 0)
		available = 0;
	if (want > c->held_uusd + available)
		want = c->held_uusd + available;
	change = want - c->held_uusd;
	c->held_uusd = want;
	if (!change)
		return 0;
	return rows_run(&m->rows, ROWS_ACCOUNT_MOVE, "tii", c->customer, INT64_C(0),
		change);
}

int change_hold(struct market *m, struct cluster_row *c, int64_t now_ms)
{
	struct sums s;

	return sum_up(m, c, now_ms, &s) < 0 ? -1 : hold_of(m, c, &s);
}

/* What ends a cluster, and when: by its time, by what the customer allows, by what he has. */
struct ending {
	int64_t left_ms;
	const char *what;
};

static int find_ending(struct market *m, const struct cluster_row *c,
	const struct sums *s, struct ending *e)
{
	int64_t available, ms;

	*e = (struct ending){ INT64_MAX, "" };
	if (read_available(m, c->customer, &available) < 0)
		return -1;
	if (c->ends_ms && c->ends_ms - s->now_ms < e->left_ms)
		*e = (struct ending){ c->ends_ms - s->now_ms, "the booked time" };
	if (c->deadline_ms && c->deadline_ms - s->now_ms < e->left_ms)
		*e = (struct ending){ c->deadline_ms - s->now_ms, "the deadline" };
	if (!s->ready_uusd)
		return 0;
	ms = market_lasts_ms(s->ready_uusd,
		c->limit_uusd - c->spent_uusd - s->unread_uusd);
	if (ms < e->left_ms)
		*e = (struct ending){ ms, "the budget" };
	ms = market_lasts_ms(s->ready_uusd, c->held_uusd + available - s->unread_uusd);
	if (ms < e->left_ms)
		*e = (struct ending){ ms, "the credit" };
	return 0;
}

/* Sets when to look again: at the next warning, or in time for the end. */
static void set_due(struct cluster_row *c, const struct sums *s, const struct ending *e)
{
	static const int64_t steps_ms[] = { 900000, 300000, 60000, GRACE_MS };
	int64_t next_ms = 0;

	c->due_ms = 0;
	if (!c->live || c->state == NODE_RELEASING || e->left_ms == INT64_MAX)
		return;
	for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms && !next_ms; i++)
		if (e->left_ms > steps_ms[i])
			next_ms = e->left_ms - steps_ms[i];
	c->due_ms = s->now_ms + next_ms;
}

/* After any change: state, time, hold and what is due next; writes the row. */
static int settle(struct market *m, struct cluster_row *c, const char *cause,
	int64_t now_ms)
{
	enum node_state before = c->state;
	struct ending e;
	struct sums s;

	if (sum_up(m, c, now_ms, &s) < 0)
		return -1;
	c->state = cluster_state(s.states, s.n);
	if (rows_run(&m->rows, ROWS_MEMBERS_COUNT, "iiii", c->id, now_ms,
		    (int64_t)(c->state == NODE_READY),
		    (int64_t)(c->on_failure == ON_FAILURE_CONTINUE)) < 0 ||
		(sqlite3_changes(m->rows.s->db) && sum_up(m, c, now_ms, &s) < 0))
		return -1;
	c->live = node_state_live(c->state);
	if (c->state != before)
		snprintf(c->cause, sizeof c->cause, "%s", cause);
	if (c->run == RUN_WAITS && s.ready && !s.waited)
		c->run = RUN_ON;
	if (c->state == NODE_READY && !c->ends_ms)
		c->ends_ms = now_ms + c->hours * MARKET_HOUR_MS;
	if (hold_of(m, c, &s) < 0 || find_ending(m, c, &s, &e) < 0)
		return -1;
	set_due(c, &s, &e);
	told_news(m, c->name);
	told_news(m, c->customer);
	return cluster_update(&m->rows, c);
}

/* --- events ----------------------------------------------------------------------------------- */

/* The registry's own words about a node. Returns the text, which the caller frees. */
static char *own_event(struct market *m, const struct cluster_row *c,
	const struct member_row *w, enum node_state from, const char *cause)
{
	json_t *event = json_record("rnp.event");
	struct buf text = BUF_INIT;

	json_set_text(event, "cluster", c->name);
	json_set_i64(event, "rank", w->rank);
	json_set_i64(event, "seq", c->seq);
	json_set_text(event, "from", node_state_names[from]);
	json_set_text(event, "to", node_state_names[w->state]);
	json_set_text(event, "cause", cause);
	if (w->ready_ms)
		json_set_i64(event, "ready_ms", w->ready_ms);
	if (c->restarts)
		json_set_i64(event, "restarts", c->restarts);
	market_sign(m->g, &text, event);
	return buf_take(&text);
}

static int put_event(struct market *m, struct cluster_row *c, const struct member_row *w,
	enum node_state from, const char *cause, const char *event)
{
	char *own = NULL;
	int rc;

	c->seq++;
	if (!event)
		event = own = own_event(m, c, w, from, cause);
	rc = rows_run(&m->rows, ROWS_EVENT_INSERT, "iit", c->id, c->seq, event);
	free(own);
	m->events++;
	return rc;
}

/* --- leases ----------------------------------------------------------------------------------- */

/* Writes the name of a processor as a device. */
static void cpu_device(const char *node, char out[POC_UUID_MAX])
{
	unsigned char key[KEY_PUBLIC_BYTES];

	if (address_parse(node, "node", key) < 0)
		bug("a node's address is none: %s", node);
	poc_cpu_uuid(out, key);
}

static void lower(char *text)
{
	for (; *text; text++)
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + 'a' - 'A');
}

static int lease_one(struct market *m, const struct member_row *w, const char *device,
	int64_t now_ms)
{
	if (rows_run(&m->rows, ROWS_LEASE_INSERT, "ttii", device, w->node, w->id,
		    now_ms) < 0)
		return -1;
	return sqlite3_changes(m->rows.s->db) ? 1 : 0;
}

int change_lease(struct market *m, const struct member_row *w, int64_t now_ms)
{
	json_t *gpus = json_parse(w->gpus, strlen(w->gpus), JSON_DEPTH_MAX, "gpus"), *one;
	char device[POC_UUID_MAX];
	int rc = 1;
	size_t i;

	if (!gpus)
		return -1;
	if (json_array_size(gpus) == 0) {
		cpu_device(w->node, device);
		rc = lease_one(m, w, device, now_ms);
	}
	json_array_foreach(gpus, i, one) {
		snprintf(device, sizeof device, "%s", json_string_value(one));
		lower(device);
		rc = lease_one(m, w, device, now_ms);
		if (rc != 1)
			break;
	}
	json_decref(gpus);
	if (rc == 1)
		told_lease(m, w->node, w->gpus, true);
	return rc;
}

static int end_leases(struct market *m, const struct member_row *w, int64_t now_ms)
{
	told_lease(m, w->node, w->gpus, false);
	return rows_run(&m->rows, ROWS_LEASE_END, "ii", now_ms, w->id);
}

/* --- states ----------------------------------------------------------------------------------- */

int change_move(struct market *m, struct cluster_row *c, struct member_row *w,
	enum node_state to, const char *cause, const char *event, int64_t now_ms)
{
	enum node_state from = w->state;

	if (to != from)
		w->since_ms = now_ms;
	if (to == NODE_READY && from != NODE_READY && !w->ready_at_ms)
		w->ready_at_ms = now_ms;
	w->heard_ms = now_ms;
	w->state = to;
	snprintf(w->cause, sizeof w->cause, "%s", cause);
	told_news(m, w->node);
	if (node_state_live(from) && !node_state_live(to) && end_leases(m, w, now_ms) < 0)
		return -1;
	if (member_update(&m->rows, w) < 0 ||
		put_event(m, c, w, from, cause, event) < 0 ||
		rows_run(&m->rows, ROWS_MEMBERS_TOUCH, "ii", c->id, w->id) < 0)
		return -1;
	if (settle(m, c, cause, now_ms) < 0)
		return -1;
	return w->leaves && node_state_live(from) && !node_state_live(to) ?
		change_left(m, c, w, cause, now_ms) :
		0;
}

int change_read_meter(struct market *m, struct cluster_row *c, struct member_row *w,
	int64_t ready_ms, int64_t now_ms)
{
	int64_t own_ms = member_own_ms(w, now_ms), most_ms, charge, from_hold;

	if (!w->ready_at_ms)
		return 0;
	if (ready_ms > own_ms)
		ready_ms = own_ms;
	/* the node knew the customer's limit, too: what goes beyond it is its own affair */
	most_ms = market_lasts_ms(w->uusd_per_hour,
		w->charged_uusd + c->limit_uusd - c->spent_uusd);
	if (ready_ms > most_ms)
		ready_ms = most_ms;
	if (ready_ms <= w->ready_ms)
		return 0;
	charge = market_cost(w->uusd_per_hour, ready_ms) - w->charged_uusd;
	w->ready_ms = ready_ms;
	w->charged_uusd += charge;
	c->spent_uusd += charge;
	from_hold = charge < c->held_uusd ? charge : c->held_uusd;
	c->held_uusd -= from_hold;
	return rows_run(&m->rows, ROWS_ACCOUNT_MOVE, "tii", c->customer, charge,
		-from_hold);
}

/* The nodes of a cluster, collected before they are changed. */
struct picked {
	struct member_row *rows;
	size_t n;
	int64_t rank;
};

static int pick(void *ctx, struct member_row *w)
{
	struct picked *p = ctx;

	if (node_state_live(w->state) && w->state != NODE_RELEASING &&
		(p->rank < 0 || w->rank == p->rank) && p->n < 256)
		p->rows[p->n++] = *w;
	return 0;
}

int change_release(struct market *m, struct cluster_row *c, int64_t rank,
	const char *cause, int64_t now_ms)
{
	struct picked p = { .rank = rank };
	int rc;

	/* whoever was to be replaced is not any more */
	if (rows_run(&m->rows, ROWS_MEMBERS_LEAVE, "iii", c->id, INT64_C(0), rank) < 0)
		return -1;
	p.rows = xcalloc(256, sizeof *p.rows);
	rc = members_each(&m->rows, c->id, pick, &p);
	/* what no agent has taken is free at once */
	for (size_t i = 0; i < p.n && rc == 0; i++)
		rc = change_move(m, c, &p.rows[i],
			p.rows[i].state == NODE_RESERVED ? NODE_RELEASED : NODE_RELEASING,
			cause, NULL, now_ms);
	free(p.rows);
	return rc;
}

int change_due(struct market *m, struct cluster_row *c, int64_t now_ms)
{
	struct member_row w;
	struct ending e;
	struct sums s;
	char text[CAUSE_MAX];
	int minutes, rc;

	if (sum_up(m, c, now_ms, &s) < 0 || find_ending(m, c, &s, &e) < 0)
		return -1;
	if (c->live && e.left_ms <= GRACE_MS) {
		snprintf(text, sizeof text, "%s ends: %s", e.what,
			strcmp(e.what, "the credit") == 0 ?
				"a deposit would have kept it" :
				"it is released");
		c->due_ms = 0;
		return change_release(m, c, -1, text, now_ms);
	}
	minutes = market_warning(e.left_ms, &c->warned);
	rc = minutes ? member_by_rank(&m->rows, c->id, 0, &w) : 0;
	if (rc < 0)
		return -1;
	if (rc == 1) {
		snprintf(text, sizeof text, "%s lasts for less than %d min", e.what,
			minutes);
		return change_move(m, c, &w, w.state, text, NULL, now_ms);
	}
	return settle(m, c, c->cause, now_ms);
}
