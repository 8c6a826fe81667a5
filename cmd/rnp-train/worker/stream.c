/* stream.c - a streaming worker (Streaming DiLoCo, arXiv 2501.18512): it trains on while a thread
 * of its own keeps and delivers its last delta, waits for what all deltas made of the fragment, and
 * asks for the turn after the present one.
 *
 * A turn ends where a fragment is due: what it made is copied, and the next turn begins at once.
 * The thread measures the delta on the copies and makes it durable with all that follows from it
 * (residual, parameters, AdamW's state, and last state.json, which names them) before its first
 * byte leaves: a worker that is killed earlier makes the turn again from the one before, and nobody
 * has seen the delta; later it has the same delta. `overlap` steps into the next turn the thread
 * has to be done; the update is then applied to the parameters of that moment. Between its start
 * and its end the thread alone uses the client, the state, the copies, and what deltas are measured
 * from. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/worker/worker.h"
#include "cmd/rnp-train/worker/ranks.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"
#include "kernels/grad/ops.h"

/* A turn that is made: kept is what the thread does first. */
struct made {
	bool waits; /* it is not durable yet */
	struct assignment a;
	struct delta d;
	uint64_t adam_steps;
	float *theta, *m, *v; /* [parameters] at its end */
};

struct stream {
	struct worker *w;
	float *began;        /* [parameters] that deltas are measured from */
	struct assignment a; /* of the present turn */
	struct made made;
	/* the thread, and what came of it: */
	pthread_t thread;
	bool running;
	struct assignment next;
	int asked; /* 0: next is the turn behind; else as worker_ask */
	int rc;
	struct err error;
};

/* --- the delta -------------------------------------------------------------------------------- */

struct cut {
	struct stream *s;
	struct update_range *ranges;
	size_t n;
	uint64_t elements;
	float *rest; /* [elements]; NULL: the method leaves nothing out */
	struct update_walk walk;
};

/* delta = began - theta of the fragment, one range after the other. */
static int fill_delta(void *arg, uint64_t from, uint64_t n, float *out)
{
	struct cut *c = arg;
	struct dev *d = &c->s->w->coder;
	uint64_t at, some;

	if (!from) /* every pass begins there */
		c->walk = (struct update_walk){ .ranges = c->ranges, .n = c->n };
	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(&c->walk, n - done, &at);
		if (d->ops->outer->delta(d, out + done, c->s->began + at,
			    c->s->made.theta + at, some) < 0)
			return err_set(d->code, "%s", d->error);
	}
	return 0;
}

/* What the fragment's last container left out, from its place among all, and back. */
static void move_rest(const struct cut *c, float *all, bool out)
{
	float *rest = c->rest;

	for (size_t i = 0; i < c->n; rest += c->ranges[i++].count)
		memcpy(out ? rest : all + c->ranges[i].first,
			out ? all + c->ranges[i].first : rest,
			c->ranges[i].count * sizeof *rest);
}

static int write_delta(struct stream *s, struct cut *c, struct flatfile *residual)
{
	struct worker *w = s->w;
	struct delta *d = &s->made.d;
	struct container_facts facts;
	char *path = join_state_path(&w->state, "delta-%llu.rnpg",
		(unsigned long long)d->turn);
	int rc = c->rest ? worker_copy_residual(w, residual) : 0;

	if (rc == 0 && c->rest)
		move_rest(c, residual->x, true);
	if (rc == 0)
		rc = container_write_filled(&w->coder, s->made.a.method, fill_delta, c,
			c->rest, c->elements, path, false, &facts);
	if (rc == 0 && c->rest)
		move_rest(c, residual->x, false);
	if (rc == 0) {
		d->bytes = facts.bytes;
		protocol_hex(d->sha256, facts.sha256);
		protocol_hex(d->root, facts.root);
	}
	free(path);
	return rc;
}

static int save_copy(struct worker *w, const char *name, const float *x)
{
	struct flatfile f = FLATFILE_INIT;
	int rc = worker_make_array(w, &f, name, w->state.next);

	if (rc == 0) {
		memcpy(f.x, x, f.n * sizeof *f.x);
		rc = flatfile_keep(&f);
	}
	flatfile_close(&f);
	return rc;
}

static int save_all(struct stream *s, struct flatfile *residual)
{
	struct worker *w = s->w;

	if ((residual->x && flatfile_keep(residual) < 0) ||
		save_copy(w, "began", s->began) < 0 ||
		save_copy(w, "theta", s->made.theta) < 0 ||
		save_copy(w, "m", s->made.m) < 0 || save_copy(w, "v", s->made.v) < 0)
		return -1;
	w->state.theta = w->state.next;
	w->state.done = w->state.unmerged = s->made.a.round;
	return 0;
}

/* Everything of the turn that was made that a kill must not lose is on the disk. */
static int keep_turn(struct stream *s)
{
	struct flatfile residual = FLATFILE_INIT;
	struct made *made = &s->made;
	struct cut c = { .s = s };
	int64_t from_ns = clock_mono_ns();
	int rc;

	if (!made->waits)
		return 0;
	if (worker_persisted(s->w) < 0)
		return -1;
	c.n = training_ranges(&s->w->run, made->a.round - 1, &c.ranges, &c.elements);
	if (worker_has_residual(made->a.method))
		c.rest = xmalloc(c.elements * sizeof *c.rest);
	rc = write_delta(s, &c, &residual);
	if (rc == 0)
		rc = save_all(s, &residual);
	if (rc == 0) {
		worker_state_delta(s->w, &made->d, made->adam_steps, residual.x);
		rc = join_state_save(&s->w->state);
	}
	if (rc == 0)
		made->waits = false;
	if (rc == 0)
		worker_count_beside(s->w, from_ns);
	flatfile_close(&residual);
	free(c.ranges);
	free(c.rest);
	return rc;
}

/* The end of a turn: what it made, copied, so that the next one may begin. */
static int copy_turn(struct stream *s, const struct delta *d)
{
	struct lm_train *t = s->w->loop.train;
	struct made *made = &s->made;
	uint64_t n = s->w->state.n;

	if (lm_flat_get(t, LM_STATE_PARAMETER, 0, n, made->theta) < 0 ||
		lm_flat_get(t, LM_STATE_M, 0, n, made->m) < 0 ||
		lm_flat_get(t, LM_STATE_V, 0, n, made->v) < 0)
		return -1;
	made->a = s->a;
	made->d = *d;
	made->adam_steps = lm_train_steps(t);
	made->waits = true;
	return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static int read_member(struct worker *w, const struct buf *body, char base[PROTOCOL_HEX],
	uint64_t *version)
{
	json_t *member = json_parse_object(buf_text(body), body->len, "rnp.member");
	const char *is = json_string_value(json_object_get(member, "base"));
	int64_t round = 0;
	int rc = member ?
		protocol_check(member, "rnp.member", "rnp.member", w->run.name) :
		-1;

	if (rc == 0 &&
		strcmp(json_string_value(json_object_get(member, "node")), w->run.node) !=
			0)
		rc = err_set(EX_DATAERR, "rnp.member: is not the coordinator's");
	if (rc == 0)
		rc = json_get_i64(member, "rnp.member", "round", 1, JSON_SAFE_INTEGER_MAX,
			&round);
	if (rc == 0) {
		memcpy(base, is, PROTOCOL_HEX);
		*version = (uint64_t)round - 1;
	}
	json_decref(member);
	return rc;
}

int worker_wait_round(struct worker *w, uint64_t round, char base[PROTOCOL_HEX],
	uint64_t *version)
{
	struct client_request q = { .method = "GET",
		.sign = true,
		.has = "kind",
		.may_be_empty = true,
		.timeout_ms = PROTOCOL_POLL_MS + 15000 };
	char path[160];
	int rc = 1;

	snprintf(path, sizeof path, "/v1/base?member=%s&round=%llu", w->key.address,
		(unsigned long long)round);
	q.path = path;
	while (rc == 1 && !*w->stopped) {
		struct http_response r = HTTP_RESPONSE_INIT;
		int64_t began_ns = clock_mono_ns();

		rc = client_send(&w->client, &q, &r);
		if (rc == 0 && r.status == 204) {
			client_pace(&w->client, began_ns);
			rc = 1;
		} else if (rc == 0 && r.status == 410) {
			rc = 2;
		} else if (rc == 0 && r.status != 200) {
			rc = client_refused(&r, EX_DATAERR, "waiting for a round");
		} else if (rc == 0) {
			rc = read_member(w, &r.body, base, version);
		}
		http_response_release(&r);
	}
	return rc;
}

/* Keeps, delivers, waits, fetches the update. Returns 0; 1, 2: the coordinator has gone on without
 * us; -1. */
static int exchange(struct stream *s)
{
	struct worker *w = s->w;
	char base[PROTOCOL_HEX];
	uint64_t version = 0;
	int rc = keep_turn(s);

	if (rc == 0 && w->state.pending)
		rc = worker_deliver(w);
	if (rc || !w->state.unmerged)
		return rc;
	rc = worker_wait_round(w, w->state.unmerged, base, &version);
	return rc ? rc : worker_fetch_params(w, base, version);
}

static void *run_exchange(void *arg)
{
	struct stream *s = arg;

	s->rc = exchange(s);
	/* the other thread changes the state, too */
	if (s->rc >= 0 && worker_persisted(s->w) < 0)
		s->rc = -1;
	s->asked = 1;
	if (s->rc == 0)
		s->asked = worker_ask(s->w, true, &s->next);
	if (s->asked == 0)
		s->rc = worker_get_text(s->w, &s->next, &s->w->text.next);
	if (s->rc < 0 || s->asked < 0)
		err_save(&s->error);
	return NULL;
}

static int start_exchange(struct stream *s)
{
	s->running = pthread_create(&s->thread, NULL, run_exchange, s) == 0;
	return s->running ? 0 : err_sys(EX_OSERR, "cannot start a thread");
}

/* As exchange. */
static int end_exchange(struct stream *s)
{
	if (!s->running)
		return 0;
	pthread_join(s->thread, NULL);
	s->running = false;
	return s->rc < 0 || s->asked < 0 ? err_restore(&s->error) : s->rc;
}

/* --- the update ------------------------------------------------------------------------------- */

/* theta_p <- a theta_p + (1 - a) pub_p, from which the fragment's next delta is measured. */
static int merge_range(struct stream *s, const struct flatfile *published,
	struct update_walk *walk)
{
	struct lm_train *t = s->w->loop.train;
	double keep = training_keep(&s->w->run);
	uint64_t at, n;

	while ((n = update_walk_step(walk, CONTAINER_FLOATS, &at)))
		if (lm_flat_merge(t, at, n, published->x + at, keep) < 0 ||
			lm_flat_get(t, LM_STATE_PARAMETER, at, n, s->began + at) < 0)
			return -1;
	return 0;
}

static int merge(struct stream *s)
{
	struct worker *w = s->w;
	struct flatfile published = FLATFILE_INIT;
	struct update_range *ranges;
	uint64_t elements;
	size_t n;
	int rc;

	if (!w->state.unmerged)
		return 0;
	n = training_ranges(&w->run, w->state.unmerged - 1, &ranges, &elements);
	rc = worker_open_array(w, &published, "pub", w->state.published);
	if (rc == 0)
		rc = merge_range(s, &published,
			&(struct update_walk){ .ranges = ranges, .n = n });
	w->state.unmerged = 0;
	flatfile_close(&published);
	free(ranges);
	return rc == 0 ? worker_lead_state(w, false) : rc;
}

/* The update is needed before step `overlap`: what is waited for it is said. */
static int before_step(void *arg, uint64_t i)
{
	struct stream *s = arg;
	int64_t from_ns = clock_mono_ns(), ms;
	int rc;

	if (i != s->w->run.overlap)
		return 0;
	rc = end_exchange(s);
	ms = (clock_mono_ns() - from_ns) / 1000000;
	if (ms >= 1000)
		prog_detail("waited %lld ms for round %llu", (long long)ms,
			(unsigned long long)s->w->state.unmerged);
	if (rc == 0)
		rc = merge(s);
	return rc == 0 ? worker_quota(s->w) : rc;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Parameters and what deltas are measured from: its own where the turn follows its last one, else
 * those that all have. */
static int load(struct stream *s, bool goes_on)
{
	struct worker *w = s->w;
	struct flatfile f = FLATFILE_INIT;
	uint64_t number = goes_on ? w->state.theta : w->state.published;
	int rc = worker_open_array(w, &f, goes_on ? "began" : "pub", number);

	if (rc == 0)
		memcpy(s->began, f.x, f.n * sizeof *f.x);
	flatfile_close(&f);
	if (rc == 0)
		rc = worker_load_array(w, LM_STATE_PARAMETER, goes_on ? "theta" : "pub",
			number);
	if (rc == 0)
		rc = worker_load_adam(w, &s->a);
	return rc == 0 ? worker_lead_state(w, true) : rc;
}

static int first_turn(struct stream *s)
{
	struct worker *w = s->w;
	bool goes_on;
	int rc = worker_ask(w, false, &s->a);

	if (rc)
		return rc;
	goes_on = w->state.theta && s->a.round == w->state.done + 1;
	if (!goes_on) {
		w->state.unmerged = 0;
		rc = worker_fetch_params(w, s->a.base, s->a.round - 1);
	}
	if (rc == 0)
		rc = worker_get_text(w, &s->a, &w->text.now);
	w->text.first = s->a.first;
	return rc ? rc : load(s, goes_on);
}

/* Returns as worker_stream: 0 the delta is kept. */
static int make_turn(struct stream *s)
{
	struct worker *w = s->w;
	struct delta d = { .turn = s->a.turn };
	int rc;

	memcpy(d.node, w->key.address, sizeof d.node);
	memcpy(d.base, s->a.base, sizeof d.base);
	prog_detail("turn %llu: %llu steps from sequence %llu",
		(unsigned long long)s->a.turn, (unsigned long long)s->a.steps,
		(unsigned long long)s->a.first);
	worker_set_place(w, &s->a);
	rc = start_exchange(s);
	if (rc == 0)
		rc = worker_make_steps(w, &s->a, &d, before_step, s);
	/* stopped, or failed, before the update was needed */
	if (s->running) {
		struct err failed;

		err_save(&failed);
		if (rc < 0)
			http_abort(w->client.abort);
		if (end_exchange(s) < 0 && s->made.waits && rc >= 0)
			prog_warn("the last turn is not kept: %s", err_get()->text);
		err_clear();
		if (rc < 0)
			err_restore(&failed);
	}
	return rc == 0 ? copy_turn(s, &d) : rc;
}

static void take_next(struct stream *s)
{
	struct worker *w = s->w;
	struct buf was = w->text.now;

	w->text.now = w->text.next;
	w->text.next = was;
	w->text.first = s->next.first;
	s->a = s->next;
}

/* The CPU's own handle: the other thread computes on w->d. */
static int open_stream(struct stream *s)
{
	uint64_t bytes = s->w->state.n * sizeof(float);

	s->began = xmalloc(bytes);
	s->made.theta = xmalloc(bytes);
	s->made.m = xmalloc(bytes);
	s->made.v = xmalloc(bytes);
	return s->w->coder.ops ? 0 : device_open(&s->w->coder, "cpu");
}

static void close_stream(struct stream *s)
{
	free(s->began);
	free(s->made.theta);
	free(s->made.m);
	free(s->made.v);
}

int worker_stream(struct worker *w)
{
	struct stream s = { .w = w };
	int rc = worker_persisted(w) < 0 ? -1 : open_stream(&s);

	if (rc == 0)
		rc = first_turn(&s);
	while (rc == 0) {
		rc = make_turn(&s);
		if (rc || s.asked || w->o.once || *w->stopped)
			break;
		take_next(&s);
	}
	/* nothing follows: the last delta is kept and delivered now */
	if (rc == 0)
		rc = keep_turn(&s);
	close_stream(&s);
	return rc == 0 ? worker_deliver(w) : rc;
}
