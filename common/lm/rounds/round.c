/* round.c - events of a round, and the ranges of sequences behind them. Every sequence below
 * r->next is in exactly one place: free, assigned, after a delta, or counted in a round before.
 * long because all events change one set of members and ranges, and keep the same promise. */
#include "common/lm/rounds/round.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/rounds/outer.h"
#include "common/lm/rounds/speed.h"

const char *const round_waits[4] = { "members", "first", "deadline", "quorum" };
enum { WAIT_MEMBERS, WAIT_FIRST, WAIT_DEADLINE, WAIT_QUORUM };

void round_init(struct round *r, const struct round_policy *p, uint64_t first_sequence,
	int64_t now)
{
	*r = (struct round){ .policy = *p,
		.next = first_sequence,
		.began = now,
		.opened = ROUND_NEVER,
		.opened_before = ROUND_NEVER,
		.first_arrival = ROUND_NEVER,
		.last_arrival = ROUND_NEVER };
	if (!r->policy.quorum)
		r->policy.quorum = 1;
	for (int i = 0; i < ROUND_PARTS; i++)
		r->touched[i].all = true;
}

void round_release(struct round *r)
{
	free(r->members);
	free(r->deltas);
	free(r->late);
	free(r->free);
	for (int i = 0; i < ROUND_PARTS; i++)
		free(r->touched[i].keys);
	*r = (struct round){ 0 };
}

/* --- ranges --------------------------------------------------------------------------------- */

/* Puts a range back, joined with those beside it. */
static void give_back(struct round *r, struct round_range range)
{
	size_t at = 0;

	if (!range.count)
		return;
	while (at < r->nfree && r->free[at].first < range.first)
		at++;
	if (at && r->free[at - 1].first + r->free[at - 1].count == range.first) {
		at--;
		r->free[at].count += range.count;
		round_touch(r, ROUND_FREE, r->free[at].first);
	} else {
		r->free = xgrow(r->free, &r->free_cap, r->nfree + 1, sizeof *r->free);
		memmove(r->free + at + 1, r->free + at,
			(r->nfree++ - at) * sizeof *r->free);
		r->free[at] = range;
		round_touch(r, ROUND_FREE, range.first);
	}
	if (at + 1 < r->nfree &&
		r->free[at].first + r->free[at].count == r->free[at + 1].first) {
		r->free[at].count += r->free[at + 1].count;
		round_touch(r, ROUND_FREE, r->free[at + 1].first);
		r->nfree--;
		memmove(r->free + at + 1, r->free + at + 2,
			(r->nfree - at - 1) * sizeof *r->free);
	}
}

/* Takes `count` sequences from the beginning of free range `at`. */
static struct round_range cut(struct round *r, size_t at, uint64_t count)
{
	struct round_range out = { r->free[at].first, count };

	round_touch(r, ROUND_FREE, out.first);
	round_touch(r, ROUND_FREE, out.first + count);
	r->free[at].first += count;
	r->free[at].count -= count;
	if (!r->free[at].count) {
		r->nfree--;
		memmove(r->free + at, r->free + at + 1,
			(r->nfree - at) * sizeof *r->free);
	}
	return out;
}

/* The range for an assignment of *steps: one that came back, if there is one of that size; one of
 * at least half of it makes the assignment shorter; else a new one. */
static struct round_range take(struct round *r, uint64_t *steps)
{
	uint64_t batch = r->policy.batch, need = *steps * batch;
	struct round_range out = { r->next, need };

	for (size_t i = 0; i < r->nfree; i++)
		if (r->free[i].count >= need)
			return cut(r, i, need);
	for (size_t i = 0; i < r->nfree; i++)
		if (r->free[i].count >= batch && r->free[i].count >= need / 2) {
			*steps = r->free[i].count / batch;
			return cut(r, i, *steps * batch);
		}
	r->next += need;
	return out;
}

/* --- members -------------------------------------------------------------------------------- */

static void set(bool *flag, bool value, size_t *count)
{
	*count += (size_t)value - (size_t)*flag;
	*flag = value;
}

/* The member changes, as far as it is kept. */
static void touch_member(struct round *r, const struct round_member *m)
{
	round_touch(r, ROUND_MEMBERS, (uint64_t)(m - r->members));
}

static void expect(struct round *r, struct round_member *m, bool value)
{
	if (m->expected != value)
		touch_member(r, m);
	set(&m->expected, value, &r->expected);
}

/* The member's assignment is void. */
static void take_work(struct round *r, struct round_member *m)
{
	if (m->works) {
		give_back(r, m->work.range);
		touch_member(r, m);
	}
	set(&m->works, false, &r->working);
}

/* The assignment that was given ahead is the member's present one. */
static void promote(struct round *r, struct round_member *m)
{
	if (!m->has_next)
		return;
	m->work = m->next;
	m->has_next = m->done = m->dropped = false;
	set(&m->works, true, &r->working);
	touch_member(r, m);
}

static int check_cap(const struct round *r)
{
	if (r->policy.members_max && r->here >= r->policy.members_max)
		return err_set(EX_TEMPFAIL, "%zu workers are here, and no more are taken",
			r->here);
	return 0;
}

int round_return(struct round *r, uint64_t member, uint64_t speed)
{
	struct round_member *m = r->members + member;

	if (member >= r->nmembers || m->here)
		return 0;
	if (check_cap(r) < 0)
		return -1;
	m->speed = speed;
	touch_member(r, m);
	set(&m->here, true, &r->here);
	round_hear_speed(r, speed);
	return 0;
}

int round_replace(struct round *r, uint64_t member, uint64_t speed)
{
	const struct round_member was = r->members[member];

	if (was.here)
		bug("the number of a member that is here is given away");
	round_touch(r, ROUND_MEMBERS, member);
	r->members[member] = (struct round_member){ .here = false };
	if (round_return(r, member, speed) == 0)
		return 0;
	r->members[member] = was;
	return -1;
}

int64_t round_join(struct round *r, uint64_t speed, int64_t now)
{
	(void)now;
	if (check_cap(r) < 0)
		return -1;
	r->members = xgrow(r->members, &r->members_cap, r->nmembers + 1,
		sizeof *r->members);
	r->members[r->nmembers] = (struct round_member){ .here = true, .speed = speed };
	r->here++;
	round_touch(r, ROUND_MEMBERS, r->nmembers);
	r->nmembers++;
	round_hear_speed(r, speed);
	return (int64_t)r->nmembers - 1;
}

void round_leave(struct round *r, uint64_t member, int64_t now)
{
	struct round_member *m = r->members + member;

	(void)now;
	if (member >= r->nmembers || !m->here)
		return;
	touch_member(r, m);
	take_work(r, m);
	if (m->has_next)
		give_back(r, m->next.range);
	m->has_next = false;
	set(&m->asks, false, &r->asking);
	expect(r, m, false);
	set(&m->here, false, &r->here);
}

static uint64_t steps_of(const struct round *r, const struct round_member *m)
{
	if (!r->policy.dylu || !m->speed || !r->fastest)
		return r->policy.steps;
	return outer_dylu_steps(r->policy.steps, m->speed, r->fastest);
}

/* An assignment in the open round, or in the one after it. */
static struct round_assignment make_assignment(struct round *r,
	const struct round_member *m, bool ahead, int64_t now)
{
	struct round_assignment a = { .turn = r->number + ahead,
		.steps = ahead ? r->policy.ahead_steps : steps_of(r, m),
		.at = now,
		.deadline = ahead ? ROUND_NEVER : round_deadline(r) };

	a.range = take(r, &a.steps);
	return a;
}

static void assign(struct round *r, struct round_member *m, bool ahead, int64_t now)
{
	touch_member(r, m);
	m->work = make_assignment(r, m, ahead, now);
	m->done = m->dropped = false;
	set(&m->works, true, &r->working);
	set(&m->asks, false, &r->asking);
	/* who comes while a round is open is waited for, as long as its deadline allows */
	if (!r->policy.asynchronous && !r->policy.ahead && r->phase == ROUND_OPEN)
		expect(r, m, true);
}

/* Whether a member has had its turn in this round: delayed Nesterov accepts members that finish
 * within the grace before it hands out a model. */
static bool has_delta(const struct round *r, const struct round_member *m)
{
	if (r->policy.ahead)
		return m->done && m->work.turn >= r->number;
	return m->done &&
		(r->policy.asynchronous ? m->counts : m->work.turn) == r->number;
}

/* Whether a member works on what can still count in time: the open round, and with assignments
 * ahead also one that is not open yet. */
static bool is_current(const struct round *r, const struct round_member *m)
{
	if (!m->works)
		return false;
	if (!r->policy.ahead)
		return m->work.turn == r->number && r->phase == ROUND_OPEN;
	return m->work.turn == r->number ? r->phase != ROUND_CLOSED :
					   m->work.turn == r->number + 1;
}

enum round_answer round_ask(struct round *r, uint64_t member, int64_t now,
	struct round_assignment *out)
{
	struct round_member *m = r->members + member;

	if (member >= r->nmembers || !m->here)
		return ROUND_GONE;
	if (is_current(r, m)) {
		*out = m->work;
		return ROUND_WORK;
	}
	take_work(r, m);
	promote(r, m);
	if (!is_current(r, m)) {
		bool ahead = r->policy.ahead_steps && m->work.turn == r->number &&
			has_delta(r, m);

		take_work(r, m);
		if (!ahead && (r->phase != ROUND_OPEN || has_delta(r, m))) {
			if (!m->asks)
				touch_member(r, m);
			set(&m->asks, true, &r->asking);
			return ROUND_WAIT;
		}
		assign(r, m, ahead, now);
	}
	*out = m->work;
	return ROUND_WORK;
}

enum round_answer round_ask_ahead(struct round *r, uint64_t member, int64_t now,
	struct round_assignment *out)
{
	struct round_member *m = r->members + member;

	if (member >= r->nmembers || !m->here)
		return ROUND_GONE;
	if (!r->policy.ahead_steps || !m->works || m->work.turn != r->number)
		return ROUND_WAIT;
	if (!m->has_next) {
		touch_member(r, m);
		m->next = make_assignment(r, m, true, now);
		m->has_next = true;
	}
	*out = m->next;
	return ROUND_WORK;
}

/* --- deltas --------------------------------------------------------------------------------- */

static void add_offset(struct round *r, int64_t offset)
{
	r->offsets[r->noffsets++ % ROUND_OFFSETS] = offset;
	round_touch_all(r, ROUND_ARRIVED);
}

/* The round that a delta of this turn counts in; false: none. */
static bool round_for(const struct round *r, uint64_t turn, uint64_t *number)
{
	*number = r->number + (r->phase == ROUND_CLOSED);
	if (r->policy.asynchronous || turn == *number)
		return true;
	if (r->policy.ahead && turn == *number + 1) {
		*number = turn;
		return true;
	}
	return r->policy.late_count && turn + 1 == *number;
}

static void add_delta(struct round *r, const struct round_delta *d, uint64_t number)
{
	if (number > r->number) {
		r->late = xgrow(r->late, &r->late_cap, r->nlate + 1, sizeof *r->late);
		round_touch(r, ROUND_LATER, r->nlate);
		r->late[r->nlate++] = *d;
		return;
	}
	r->deltas = xgrow(r->deltas, &r->deltas_cap, r->ndeltas + 1, sizeof *r->deltas);
	round_touch(r, ROUND_DELTAS, r->ndeltas);
	r->deltas[r->ndeltas++] = *d;
	if (d->late)
		return;
	r->on_time++;
	r->last_arrival = d->at;
	if (r->first_arrival == ROUND_NEVER)
		r->first_arrival = d->at;
}

enum round_arrival round_deliver(struct round *r, uint64_t member, uint64_t turn,
	uint64_t steps, int64_t now)
{
	struct round_member *m = r->members + member;
	struct round_delta d = { .member = member,
		.turn = turn,
		.steps = steps,
		.at = now };
	uint64_t number, tokens;

	if (member >= r->nmembers)
		return ROUND_UNKNOWN;
	/* what it worked on before it has given up */
	if (m->has_next && m->next.turn == turn) {
		take_work(r, m);
		promote(r, m);
	}
	if (m->work.turn != turn || !m->work.steps)
		return ROUND_UNKNOWN;
	if (m->done)
		return ROUND_AGAIN;
	if (!steps || steps > m->work.steps)
		return ROUND_UNKNOWN;
	if (turn + 1 == r->number && r->opened_before != ROUND_NEVER && !m->dropped)
		add_offset(r, now - r->opened_before);
	if (!m->works || !round_for(r, turn, &number)) {
		take_work(r, m);
		touch_member(r, m);
		m->dropped = true;
		promote(r, m);
		return ROUND_DROPPED;
	}
	d.range = (struct round_range){ m->work.range.first, steps * r->policy.batch };
	give_back(r,
		(struct round_range){ d.range.first + d.range.count,
			m->work.range.count - d.range.count });
	d.late = !r->policy.asynchronous && turn != number;
	tokens = d.range.count * r->policy.length;
	d.weight_tokens = d.late ? tokens / 2 : tokens;
	add_delta(r, &d, number);
	touch_member(r, m);
	m->done = true;
	m->counts = number;
	set(&m->works, false, &r->working);
	if (turn == r->number)
		expect(r, m, false);
	promote(r, m);
	return d.late ? ROUND_LATE : ROUND_COUNTED;
}

void round_excuse(struct round *r, uint64_t member, uint64_t turn)
{
	if (member < r->nmembers && turn == r->number && r->phase == ROUND_OPEN)
		expect(r, r->members + member, false);
}

bool round_refuse(struct round *r, uint64_t member, uint64_t turn)
{
	for (size_t i = 0; i < r->ndeltas; i++) {
		struct round_delta *d = r->deltas + i;

		if (d->member != member || d->turn != turn || d->refused)
			continue;
		d->refused = true;
		round_touch(r, ROUND_DELTAS, i);
		r->on_time -= !d->late;
		give_back(r, d->range);
		return true;
	}
	return false;
}

/* --- time ----------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The median of n values, which are sorted; of an even number the mean of the middle two. */
static int64_t median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof *v, ascending);
	return n % 2 ? v[n / 2] : v[n / 2 - 1] + (v[n / 2] - v[n / 2 - 1]) / 2;
}

/* median + 3 MAD of the offsets that are kept. */
static int64_t typical_arrival(const struct round *r)
{
	size_t n = r->noffsets < ROUND_OFFSETS ? (size_t)r->noffsets : ROUND_OFFSETS;
	int64_t v[ROUND_OFFSETS], middle, slack;

	memcpy(v, r->offsets, n * sizeof *v);
	middle = median(v, n);
	for (size_t i = 0; i < n; i++)
		v[i] = v[i] > middle ? v[i] - middle : middle - v[i];
	slack = 3 * median(v, n);
	return middle + (slack > r->policy.slack_ms ? slack : r->policy.slack_ms);
}

int64_t round_deadline(const struct round *r)
{
	bool first = r->first_arrival == ROUND_NEVER;

	if (r->phase != ROUND_OPEN)
		return ROUND_NEVER;
	if (r->policy.asynchronous)
		return first ? ROUND_NEVER : r->first_arrival + r->policy.grace_ms;
	if (r->noffsets >= r->policy.quorum && r->noffsets >= ROUND_OFFSETS_MIN)
		return r->opened + typical_arrival(r);
	if (first)
		return ROUND_NEVER;
	return r->first_arrival >= r->opened ?
		r->opened + 3 * (r->first_arrival - r->opened) :
		r->opened + r->policy.slack_ms;
}

static bool quorate(const struct round *r)
{
	return r->on_time >= (r->policy.asynchronous ? 1 : r->policy.quorum);
}

/* Whether a round that opens is to wait for this member. */
static bool is_ready(const struct round *r, const struct round_member *m)
{
	bool there = m->asks || (m->done && m->counts + 1 >= r->number);

	if (r->policy.ahead && m->works)
		return m->work.turn == r->number;
	return !m->works && there && !(r->policy.ahead && has_delta(r, m));
}

/* Members that are at work on a round that is not open yet, or have delivered. */
static size_t at_work(const struct round *r)
{
	size_t n = 0;

	for (size_t i = 0; r->policy.ahead && i < r->nmembers; i++) {
		const struct round_member *m = r->members + i;

		n += m->here && !m->asks &&
			((m->works && m->work.turn == r->number) || has_delta(r, m));
	}
	return n;
}

/* A round waits for who delivered in the last one and for who asks now: not for those that are busy
 * with an older turn or were silent for a round. */
static void open_round(struct round *r, int64_t now)
{
	for (size_t i = 0; i < r->nmembers; i++) {
		struct round_member *m = r->members + i;

		if (m->here)
			expect(r, m, is_ready(r, m));
	}
	if (r->policy.dylu)
		round_find_fastest(r);
	r->waited[WAIT_MEMBERS] = now - r->began;
	r->phase = ROUND_OPEN;
	r->began = r->opened = now;
}

bool round_tick(struct round *r, int64_t now)
{
	/* without rounds to wait for, the quorum is only for the beginning */
	bool going = r->policy.asynchronous && r->number;
	size_t ready = r->asking + (going ? r->working : 0);

	if (r->phase == ROUND_GATHERING)
		ready += at_work(r);
	if (r->phase == ROUND_GATHERING && ready >= (going ? 1 : r->policy.quorum))
		open_round(r, now);
	if (r->phase != ROUND_OPEN || !quorate(r))
		return false;
	if (r->policy.asynchronous)
		return !r->working || now >= round_deadline(r);
	return !r->expected || now >= round_deadline(r);
}

int64_t round_next(const struct round *r)
{
	return r->phase == ROUND_OPEN && quorate(r) ? round_deadline(r) : ROUND_NEVER;
}

static int by_member(const void *a, const void *b)
{
	const struct round_delta *x = a, *y = b;

	if (x->member != y->member)
		return x->member < y->member ? -1 : 1;
	return (x->turn > y->turn) - (x->turn < y->turn);
}

/* How long the round waited after its last delta in time. */
static void name_waits(struct round *r, int64_t now)
{
	int64_t deadline = round_deadline(r), last = ROUND_NEVER;

	if (r->first_arrival != ROUND_NEVER)
		r->waited[WAIT_FIRST] = r->first_arrival - r->opened;
	for (size_t i = 0; i < r->ndeltas; i++)
		if (!r->deltas[i].late && r->deltas[i].at <= deadline &&
			(last == ROUND_NEVER || r->deltas[i].at > last))
			last = r->deltas[i].at;
	if (now > deadline)
		r->waited[WAIT_QUORUM] = now - deadline;
	if (last != ROUND_NEVER && (now >= deadline || r->expected))
		r->waited[WAIT_DEADLINE] = (now < deadline ? now : deadline) - last;
}

void round_close(struct round *r, int64_t now)
{
	if (r->phase != ROUND_OPEN)
		bug("a round is closed that is not open");
	name_waits(r, now);
	for (size_t i = 0; i < r->ndeltas; i++)
		if (r->deltas[i].turn == r->number)
			add_offset(r,
				r->deltas[i].at > r->opened ?
					r->deltas[i].at - r->opened :
					0);
	if (r->ndeltas)
		qsort(r->deltas, r->ndeltas, sizeof *r->deltas, by_member);
	round_touch_all(r, ROUND_DELTAS);
	r->phase = ROUND_CLOSED;
	r->began = now;
}

/* Those that are too far behind to be counted lose their ranges. */
static void drop_behind(struct round *r)
{
	for (size_t i = 0; i < r->nmembers; i++) {
		struct round_member *m = r->members + i;
		uint64_t keeps = m->work.turn + (r->policy.late_count ? 1 : 0);

		if (m->works && !r->policy.asynchronous && keeps < r->number) {
			take_work(r, m);
			promote(r, m);
		}
	}
}

void round_publish(struct round *r, int64_t now)
{
	if (r->phase != ROUND_CLOSED)
		bug("a round is published that is not closed");
	for (size_t i = 0; i < r->nmembers; i++)
		expect(r, r->members + i, false);
	round_touch_all(r, ROUND_DELTAS);
	round_touch_all(r, ROUND_LATER);
	r->number++;
	r->ndeltas = r->on_time = 0;
	r->opened_before = r->opened;
	r->opened = r->first_arrival = r->last_arrival = ROUND_NEVER;
	memset(r->waited, 0, sizeof r->waited);
	r->phase = ROUND_GATHERING;
	r->began = now;
	drop_behind(r);
	for (size_t i = 0; i < r->nlate; i++)
		add_delta(r, &r->late[i], r->number);
	r->nlate = 0;
}

void round_move(struct round *r, uint64_t first)
{
	r->next = first;
	r->nfree = 0;
	round_touch_all(r, ROUND_FREE);
}
