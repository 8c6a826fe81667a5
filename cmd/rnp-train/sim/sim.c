/* sim.c - simulates the events of sim.h, with a heap ordered by time. A site is a coordinator;
 * a group's coordinator is also a worker of the root, whose work is done when its own rounds
 * are. */
#include "cmd/rnp-train/sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/wire/protocol.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/rounds/outer.h"

/* Bytes of a socket beyond containers: requests, records, headers, TLS. Beside a coordinator with
 * four workers on the loopback (nano, q4, five rounds) the sums are 0.4% above what it received and
 * 1.6% below what it sent. */
#define JOIN_BYTES    4200        /* join, the run's record, a TLS handshake */
#define TURN_UP       1900        /* poll, signed delta, the request of its answer */
#define TURN_DOWN     2300        /* assignment, answers */
#define PIECE_MORE    900         /* a piece's request and answer */
#define REQUEST_BYTES (256 << 10) /* of a container, where its pieces are smaller */
#define TLS_PART      1.0035      /* records of 16 KiB with header and tag */
/* Round trips of a transfer beside its bytes. Down: the assignment and the first range, a
 * connection, its range. Up, over connections that are there: the pieces, the record, the next
 * assignment's question. tests/bench/sim_real holds them against a real run. */
#define TRIPS_DOWN 3
#define TRIPS_UP   3
#define LOST_AFTER 30000 /* ms without contact after which a member is dropped */
#define NOBODY     UINT64_MAX

enum event_kind { JOIN, READY, COMPUTED, DELIVERED, LEAVE, LOST, PUBLISH, TICK };

struct event {
	int64_t at;
	uint64_t order; /* breaks ties of time: order of creation */
	enum event_kind kind;
	uint64_t who;  /* worker; PUBLISH and TICK: site; LOST: member */
	uint64_t more; /* the worker's generation; LOST: its site */
};

struct worker {
	const struct sim_link *link;
	uint64_t site, group; /* its site; the site that it is itself, NOBODY: none */
	uint64_t member, life, version;
	bool parked;
	struct round_assignment work;
	int64_t delta_bytes, began, compute_ms;
	int64_t here_since;
	uint64_t rounds_left; /* of a group, until its work is done */
};

struct site {
	struct round round;
	uint64_t worker; /* its number as a worker of the root; NOBODY: it is the root */
	uint64_t *worker_of; /* [members] */
	size_t members_cap;
	uint64_t *parked, nparked; /* workers that wait for an assignment */
	size_t parked_cap;
	double up_free, down_free; /* when its link becomes free, ms */
	uint64_t received, sent, round_received, round_sent;
	uint64_t *updates; /* bytes by turn */
	size_t updates_cap;
	uint64_t done; /* inner steps of all rounds so far */
	int64_t tick_at,
		opened; /* tick_at: when the next tick is due, ROUND_NEVER: none */
};

struct sim {
	const struct sim_options *o;
	const struct sim_callbacks *c;
	struct event *heap;
	size_t nheap, sim_heap_cap;
	uint64_t order;
	int64_t now;
	struct worker *workers;
	uint64_t nworkers;
	struct site *sites;
	uint64_t nsites;
	struct rng rng;
	struct sim_totals t;
	bool end, failed;
};

/* --- events --------------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct sim *s, int64_t at, enum event_kind kind, uint64_t who,
	uint64_t more)
{
	struct event e = { at, s->order++, kind, who, more };
	size_t i = s->nheap++;

	s->heap = xgrow(s->heap, &s->sim_heap_cap, s->nheap, sizeof *s->heap);
	for (; i && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct event pop(struct sim *s)
{
	struct event first = s->heap[0], e = s->heap[--s->nheap];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < s->nheap && before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (child >= s->nheap || !before(&s->heap[child], &e))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = e;
	return first;
}

/* --- transfers -------------------------------------------------------------------------------- */

static uint64_t on_the_wire(uint64_t bytes)
{
	uint64_t piece_bytes = protocol_piece_bytes(bytes);
	uint64_t pieces = protocol_pieces(bytes,
		piece_bytes < REQUEST_BYTES ? REQUEST_BYTES : piece_bytes);

	return (uint64_t)((double)(bytes + pieces * PIECE_MORE) * TLS_PART);
}

/* Returns when a transfer ends: the coordinator's link serves transfers one after the other,
 * the worker's runs in parallel; requests and their answers take round trips. */
static int64_t transfer(struct sim *s, double *free, int64_t server_bps,
	const struct sim_link *l, int64_t bps, uint64_t bytes, int trips)
{
	double start = fmax(*free, (double)s->now);
	double served = start + (double)bytes * 8000 / (double)server_bps;
	double arrived = (double)s->now + (double)bytes * 8000 / sim_bps(l, bps);

	*free = served;
	return (int64_t)ceil(fmax(served, arrived)) + 2 * trips * l->latency_ms;
}

static int64_t upload(struct sim *s, struct worker *w, uint64_t bytes)
{
	struct site *t = &s->sites[w->site];
	uint64_t all = on_the_wire(bytes) + TURN_UP;

	t->round_received += all;
	t->round_sent += TURN_DOWN;
	return transfer(s, &t->down_free, s->o->server_down_bps, w->link, w->link->up_bps,
		all, TRIPS_UP);
}

static int64_t download(struct sim *s, struct worker *w, uint64_t bytes, int trips)
{
	struct site *t = &s->sites[w->site];
	uint64_t all = on_the_wire(bytes);

	t->round_sent += all;
	return transfer(s, &t->up_free, s->o->server_up_bps, w->link, w->link->down_bps,
		all, trips);
}

/* --- workers -------------------------------------------------------------------------------- */

static double exponential(struct sim *s, int64_t mean_s)
{
	return -log(1 - rng_f64(&s->rng)) * (double)mean_s * 1000;
}

static void join(struct sim *s, uint64_t i)
{
	struct worker *w = &s->workers[i];
	struct site *t = &s->sites[w->site];
	int64_t member = round_join(&t->round, (uint64_t)w->link->tokens_per_s, s->now);

	if (member < 0) { /* no free place: retry later */
		err_clear();
		push(s, s->now + 60000, JOIN, i, w->life);
		return;
	}
	t->worker_of = xgrow(t->worker_of, &t->members_cap, (size_t)member + 1,
		sizeof *t->worker_of);
	t->worker_of[member] = i;
	w->member = (uint64_t)member;
	w->version = t->round.number;
	w->here_since = s->now;
	s->t.joins++;
	t->round_received += JOIN_BYTES / 2;
	push(s, download(s, w, s->o->whole_bytes + JOIN_BYTES / 2, TRIPS_DOWN), READY, i,
		w->life);
	if (w->link->up_s)
		push(s, s->now + (int64_t)exponential(s, w->link->up_s), LEAVE, i,
			w->life);
}

/* Returns the bytes from a worker's parameters to those of a turn: the chain of updates, or all
 * parameters. */
static uint64_t bytes_to(const struct sim *s, const struct site *t,
	const struct worker *w, uint64_t turn)
{
	uint64_t bytes = 0;

	for (uint64_t v = w->version; v < turn && bytes < s->o->whole_bytes; v++)
		bytes += t->updates[v];
	return bytes < s->o->whole_bytes ? bytes : s->o->whole_bytes;
}

static int64_t compute_ms(const struct sim *s, const struct worker *w)
{
	double tokens = (double)w->work.range.count * (double)s->o->policy.length;

	return (int64_t)ceil(tokens * 1000 / (double)w->link->tokens_per_s);
}

/* A worker gets its assignment: it fetches what it lacks, and computes. A group's work is its
 * own rounds, which continue meanwhile. */
static void begin_work(struct sim *s, uint64_t i)
{
	struct worker *w = &s->workers[i];
	struct site *t = &s->sites[w->site];
	uint64_t bytes = bytes_to(s, t, w, w->work.turn);
	int64_t at = bytes ? download(s, w, bytes, TRIPS_DOWN) :
			     s->now + 2 * w->link->latency_ms;

	w->version = w->work.turn;
	w->began = s->now;
	w->compute_ms = w->group == NOBODY ? compute_ms(s, w) : 0;
	w->delta_bytes = s->c->work(s->c->arg, i, &w->work);
	if (w->delta_bytes < 0)
		s->failed = true;
	if (w->group == NOBODY)
		push(s, at + w->compute_ms + w->link->turn_ms, COMPUTED, i, w->life);
	else
		w->rounds_left = s->o->group_rounds;
}

static void ask(struct sim *s, uint64_t i)
{
	struct worker *w = &s->workers[i];
	struct site *t = &s->sites[w->site];

	switch (round_ask(&t->round, w->member, s->now, &w->work)) {
	case ROUND_WORK:
		begin_work(s, i);
		break;
	case ROUND_WAIT:
		t->parked = xgrow(t->parked, &t->parked_cap, t->nparked + 1,
			sizeof *t->parked);
		t->parked[t->nparked++] = i;
		w->parked = true;
		break;
	case ROUND_GONE:
		w->life++;
		push(s, s->now, JOIN, i, w->life);
	}
}

static void deliver(struct sim *s, uint64_t i)
{
	struct worker *w = &s->workers[i];

	round_deliver(&s->sites[w->site].round, w->member, w->work.turn, w->work.steps,
		s->now);
	ask(s, i);
}

static void leave(struct sim *s, uint64_t i)
{
	struct worker *w = &s->workers[i];

	w->life++;
	w->parked = false;
	s->t.present_ms += (double)(s->now - w->here_since);
	w->here_since = -1;
	push(s, s->now + LOST_AFTER, LOST, w->member, w->site);
	push(s, s->now + (int64_t)exponential(s, w->link->away_s), JOIN, i, w->life);
}

/* --- rounds --------------------------------------------------------------------------------- */

static uint64_t delta_bytes(const struct sim *s, const struct site *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->round.ndeltas; i++)
		sum += (uint64_t)s->workers[t->worker_of[t->round.deltas[i].member]]
			       .delta_bytes;
	return sum;
}

static void close_round(struct sim *s, uint64_t site)
{
	struct site *t = &s->sites[site];
	double ns = s->o->update_ns + s->o->update_ns_byte * (double)delta_bytes(s, t);

	t->opened = t->round.opened;
	round_close(&t->round, s->now);
	push(s, s->now + (int64_t)ceil(ns / 1e6), PUBLISH, site, 0);
}

/* Reports the round before it is reset. */
static void describe(struct sim *s, struct site *t, struct sim_round *d)
{
	double share = 0;

	*d = (struct sim_round){ .r = &t->round,
		.from = t->opened,
		.to = s->now,
		.received = t->round_received,
		.sent = t->round_sent };
	for (size_t i = 0; i < t->round.ndeltas; i++) {
		const struct round_delta *e = &t->round.deltas[i];
		const struct worker *w = &s->workers[t->worker_of[e->member]];

		if (e->refused)
			continue;
		d->workers++;
		d->tokens += e->range.count * s->o->policy.length;
		if (s->now > w->began)
			share += fmin(1,
				(double)w->compute_ms / (double)(s->now - w->began));
		s->t.compute_ms += (double)w->compute_ms;
	}
	for (uint64_t m = 0; m < t->round.nmembers; m++)
		d->dropped += round_absent(&t->round, m);
	d->compute_ppm = d->workers ? llround(1e6 * share / (double)d->workers) : 0;
}

static void count_bytes(struct site *t)
{
	t->received += t->round_received;
	t->sent += t->round_sent;
	t->round_received = t->round_sent = 0;
}

/* A group's rounds are the work that it gets from the root. */
static void count_group_round(struct sim *s, const struct site *t)
{
	struct worker *w = t->worker == NOBODY ? NULL : &s->workers[t->worker];

	if (w && w->rounds_left && --w->rounds_left == 0)
		push(s, s->now, COMPUTED, t->worker, w->life);
}

static void wake(struct sim *s, struct site *t)
{
	uint64_t n = t->nparked, *parked = t->parked;

	t->parked = NULL;
	t->nparked = t->parked_cap = 0;
	for (uint64_t i = 0; i < n; i++) {
		bool waits = s->workers[parked[i]].parked;

		s->workers[parked[i]].parked = false;
		if (waits)
			ask(s, parked[i]);
	}
	free(parked);
}

/* Schedules a check of the site, after everything that happens at the same time. */
static void tick_at(struct sim *s, uint64_t site, int64_t at)
{
	struct site *t = &s->sites[site];

	if (at >= t->tick_at)
		return;
	t->tick_at = at;
	push(s, at, TICK, site, 0);
}

/* Opens and closes rounds that are due. */
static void tick(struct sim *s, uint64_t site)
{
	struct site *t = &s->sites[site];
	enum round_phase was = t->round.phase;
	int64_t next;

	t->tick_at = ROUND_NEVER;
	if (round_tick(&t->round, s->now)) {
		close_round(s, site);
		return;
	}
	if (was == ROUND_GATHERING && t->round.phase == ROUND_OPEN)
		wake(s, t);
	next = round_next(&t->round);
	if (next != ROUND_NEVER)
		tick_at(s, site, next > s->now ? next : s->now + 1);
}

static void publish(struct sim *s, uint64_t site)
{
	struct site *t = &s->sites[site];
	uint64_t turn = t->round.number;
	struct sim_round d;
	int64_t bytes = s->c->update(s->c->arg, &t->round, t->worker_of);

	if (bytes < 0) {
		s->failed = true;
		return;
	}
	describe(s, t, &d);
	t->updates = xgrow(t->updates, &t->updates_cap, turn + 1, sizeof *t->updates);
	t->updates[turn] = (uint64_t)bytes;
	count_bytes(t);
	t->done += t->round.policy.steps;
	if (site == 0) {
		s->t.rounds++;
		s->failed = s->c->report(s->c->arg, &d, &s->end) < 0;
	}
	if (site != 0 || !s->o->groups)
		s->t.tokens += d.tokens;
	t->round.policy.steps = outer_round_steps(s->o->policy.steps, s->o->warm,
		t->done);
	round_publish(&t->round, s->now);
	count_group_round(s, t);
	tick_at(s, site, s->now);
}

/* --- all of it ------------------------------------------------------------------------------ */

static void handle(struct sim *s, const struct event *e)
{
	struct worker *w = &s->workers[e->who < s->nworkers ? e->who : 0];
	uint64_t site = e->kind == LOST ? e->more : w->site;

	if (e->kind == TICK || e->kind == PUBLISH)
		site = e->who;
	else if (e->kind != LOST && e->more != w->life)
		return; /* the event belongs to an earlier generation */
	switch (e->kind) {
	case JOIN:
		join(s, e->who);
		break;
	case READY:
		ask(s, e->who);
		break;
	case COMPUTED:
		push(s, upload(s, w, (uint64_t)w->delta_bytes), DELIVERED, e->who,
			w->life);
		break;
	case DELIVERED:
		deliver(s, e->who);
		break;
	case LEAVE:
		leave(s, e->who);
		break;
	case LOST:
		round_leave(&s->sites[site].round, e->who, s->now);
		break;
	case PUBLISH:
		publish(s, site);
		return;
	case TICK:
		if (s->sites[site].tick_at == s->now)
			tick(s, site);
		return;
	}
	tick_at(s, site, s->now);
}

/* Returns the link of worker i of n: the one whose share contains its position. */
const struct sim_link *sim_link_of(const struct sim_options *o, uint64_t i)
{
	double sum = 0, at, upto = 0;

	for (size_t l = 0; l < o->nlinks; l++)
		sum += o->links[l].share;
	at = ((double)i + 0.5) / (double)o->workers * sum;
	for (size_t l = 0; l < o->nlinks; l++) {
		upto += o->links[l].share;
		if (at < upto)
			return &o->links[l];
	}
	return &o->links[o->nlinks - 1];
}

static void open_site(struct sim *s, uint64_t i, uint64_t worker)
{
	struct round_policy p = s->o->policy;
	struct site *t = &s->sites[i];

	*t = (struct site){ .worker = worker, .tick_at = ROUND_NEVER };
	p.steps = outer_round_steps(p.steps, s->o->warm, 0);
	if (i == 0 && s->o->groups && p.quorum > s->o->groups)
		p.quorum = s->o->groups;
	if (i > 0 && p.quorum > s->o->workers / s->o->groups)
		p.quorum = s->o->workers / s->o->groups;
	round_init(&t->round, &p, s->o->first_sequence, 0);
}

static void begin(struct sim *s)
{
	const struct sim_options *o = s->o;

	s->nsites = o->groups + 1;
	s->nworkers = o->workers + o->groups;
	s->workers = xcalloc(s->nworkers, sizeof *s->workers);
	s->sites = xcalloc(s->nsites, sizeof *s->sites);
	open_site(s, 0, NOBODY);
	for (uint64_t g = 0; g < o->groups; g++) {
		open_site(s, g + 1, o->workers + g);
		s->workers[o->workers + g] = (struct worker){ .link = o->trunk,
			.group = g + 1,
			.here_since = -1 };
	}
	for (uint64_t i = 0; i < o->workers; i++)
		s->workers[i] = (struct worker){ .link = sim_link_of(o, i),
			.site = o->groups ? 1 + i % o->groups : 0,
			.group = NOBODY,
			.here_since = -1 };
	rng_seed(&s->rng, o->seed, 0);
	for (uint64_t i = 0; i < s->nworkers; i++)
		push(s, 0, JOIN, i, 0);
}

static void release(struct sim *s)
{
	for (uint64_t i = 0; i < s->nsites; i++) {
		round_release(&s->sites[i].round);
		free(s->sites[i].worker_of);
		free(s->sites[i].parked);
		free(s->sites[i].updates);
	}
	free(s->sites);
	free(s->workers);
	free(s->heap);
}

static void sum_up(struct sim *s, struct sim_totals *out)
{
	*out = s->t;
	out->ms = s->now;
	out->received = s->sites[0].received;
	out->sent = s->sites[0].sent;
	for (uint64_t i = 1; i < s->nsites; i++) {
		out->near_received += s->sites[i].received;
		out->near_sent += s->sites[i].sent;
	}
	for (uint64_t i = 0; i < s->nworkers; i++)
		if (s->workers[i].group == NOBODY && s->workers[i].here_since >= 0)
			out->present_ms += (double)(s->now - s->workers[i].here_since);
}

int sim_run(const struct sim_options *o, const struct sim_callbacks *c,
	struct sim_totals *out)
{
	struct sim s = { .o = o, .c = c };

	begin(&s);
	while (s.nheap && !s.failed && !s.end && s.t.rounds < o->rounds) {
		struct event e = pop(&s);

		s.now = e.at;
		s.t.events++;
		handle(&s, &e);
	}
	sum_up(&s, out);
	release(&s);
	if (s.failed)
		return -1;
	if (!s.end && out->rounds < o->rounds)
		return err_set(EX_TEMPFAIL,
			"round %llu waits for workers that do not come",
			(unsigned long long)out->rounds);
	return 0;
}
