/* parent.c - what a coordinator below another one asks it for and sends it. */
#include "cmd/rnp-train/coordinator/parent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/lm/rounds/outer.h"

/* without an answer, before the group trains on; and between tries */
#define PATIENCE_MS 10000

/* --- opening ---------------------------------------------------------------------------------- */

/* What the group trains has to be what the parent asks for. */
static int check_parent(const struct coordinator *g, const struct lm_config *mine)
{
	const struct training *t = &g->parent->w.run;
	const struct coordinator_options *o = &g->o;
	char hex[PROTOCOL_HEX];

	coordinate_digest(&g->data, hex);
	if (memcmp(mine, &t->config, sizeof *mine) != 0)
		return err_set(EX_DATAERR, "%s: is not the model of the parent's run",
			o->model);
	if (strcmp(hex, t->digest) != 0)
		return err_set(EX_DATAERR, "%s: is not the text of the parent's run",
			o->data);
	if (training_streams(t) || t->outer == UPDATE_DN)
		return err_set(EX_DATAERR,
			"the parent's run has no rounds that a group could wait for");
	if ((o->given("seed") && o->seed != t->seed) ||
		(o->given("length") && o->length != (int64_t)t->length))
		return err_set(EX_USAGE, "the parent's run has --seed %llu --length %u",
			(unsigned long long)t->seed, t->length);
	return 0;
}

int coordinate_parent_open(struct coordinator *g, const struct lm_config *mine)
{
	struct parent *p = xcalloc(1, sizeof *p);
	struct coordinator_options *o = &g->o;
	const struct training group = { .quorum = (uint64_t)o->workers,
		.batch = (uint64_t)o->batch,
		.inner_steps = (uint64_t)o->inner_steps,
		.warm = (uint64_t)o->warm };
	char *state = coordinate_path(g, "parent");
	int rc;

	g->parent = p;
	p->w = (struct worker)WORKER_INIT;
	p->abort = (struct http_abort)HTTP_ABORT_INIT;
	p->w.o = (struct worker_options){ .url = o->parent,
		.state = state,
		.give_up_ms = o->give_up_ms,
		.ca = o->ca,
		.proxy = o->proxy };
	rc = http_abort_open(&p->abort);
	if (rc == 0)
		rc = worker_open_as(&p->w, &g->key, &p->abort, &p->stopped);
	p->w.o.state = NULL;
	free(state);
	if (rc == 0)
		rc = device_open(&p->w.d, "cpu");
	if (rc < 0)
		return err_add("the parent");
	if (check_parent(g, mine) < 0)
		return -1;
	o->seed = p->w.run.seed;
	o->length = p->w.run.length;
	o->rounds = (int64_t)training_rounds_below(&p->w.run, &group);
	if (o->rounds > PROTOCOL_ROUNDS_MAX)
		return err_set(EX_DATAERR,
			"the parent's run takes more rounds than will ever be");
	return 0;
}

void coordinate_parent_stop(struct coordinator *g)
{
	if (!g->parent)
		return;
	g->parent->stopped = 1;
	http_abort(&g->parent->abort);
}

void coordinate_parent_close(struct coordinator *g)
{
	if (!g->parent)
		return;
	worker_close(&g->parent->w);
	http_abort_close(&g->parent->abort);
	free(g->parent);
	g->parent = NULL;
}

/* Appends at most a buffer's worth of the URL, without what stands before an '@'. */
static void show_url(char *to, size_t size, const char *url)
{
	const char *host = strstr(url, "://"), *at;

	host = host ? host + 3 : url;
	at = memchr(host, '@', strcspn(host, "/"));
	snprintf(to, size, "%.*s%s", (int)(host - url), url, at ? at + 1 : host);
}

void coordinate_parent_facts(const struct coordinator *g, struct parent_facts *f)
{
	const struct parent *p = g->parent;

	*f = (struct parent_facts){ .turn = p->a.turn,
		.round = p->a.round,
		.answered_ms = p->w.client.answered_ms,
		.away_ms = p->away_ms,
		.sent = p->w.client.sent,
		.received = p->w.client.received };
	show_url(f->url, sizeof f->url, g->o.parent);
}

/* --- turns ------------------------------------------------------------------------------------ */

/* The next turn and its parameters, however long the parent has none. Returns 0; 1: its run is
 * over; -1. */
static int next_turn(struct parent *p, struct assignment *a)
{
	struct worker *w = &p->w;
	int rc = 1;

	while (rc && !p->stopped) {
		int64_t began_ns = clock_mono_ns();

		rc = worker_ask(w, false, a);
		if (rc == 2) {
			rc = worker_join(w);
			if (rc)
				return rc;
			rc = 1; /* a member again, without a turn yet */
		} else if (rc == 0) {
			rc = worker_fetch_params(w, a->base, a->round - 1);
		}
		if (rc >= 0 && worker_persisted(w) < 0)
			rc = -1;
		if (rc < 0)
			return -1;
		if (rc)
			client_pace(&w->client, began_ns);
	}
	return rc ? err_set(EX_TEMPFAIL, "stopped while it waited for a turn") : 0;
}

int coordinate_parent_begin(struct coordinator *g)
{
	struct parent *p = g->parent;
	int rc = worker_join(&p->w);

	if (rc == 0)
		rc = next_turn(p, &p->a);
	if (rc == 1)
		rc = err_set(EX_DATAERR, "its run is over");
	p->began = 1;
	p->began_ms = clock_now_ms();
	return rc < 0 ? err_add("the parent") : 0;
}

int coordinate_parent_due(struct coordinator *g, struct closed *x)
{
	struct parent *p = g->parent;
	uint64_t tokens = 0;

	if (!p)
		return 0;
	if (coordinate_db_turn_facts(g, p->began, &tokens, &x->up.loss_first,
		    &x->up.loss_last) < 0)
		return -1;
	for (size_t i = 0; i < x->k; i++)
		tokens += x->c[i].weight_tokens;
	x->up.again = tokens >= p->a.sequences * p->w.run.length;
	/* what was kept for the parent is tried again now and then */
	x->up.ends = x->up.again ||
		(p->w.state.unmerged == p->a.turn &&
			clock_mono_ns() - p->tried_ns > PATIENCE_MS * INT64_C(1000000));
	return 0;
}

/* An array of the state under a number. */
static int keep_array(const struct worker *w, const char *name, uint64_t number,
	const float *x)
{
	struct flatfile f = FLATFILE_INIT;
	int rc = worker_make_array(w, &f, name, number);

	if (rc == 0) {
		memcpy(f.x, x, f.n * sizeof *x);
		rc = flatfile_keep(&f);
	}
	flatfile_close(&f);
	return rc;
}

/* What the parent's parameters will be added to: theta as it was sent, or where nothing counts, the
 * parent's of then; and what the container left out. */
static int keep_sent(struct worker *w, uint64_t turn, const float *theta,
	const float *rest)
{
	uint64_t number = w->state.next++;
	int rc = keep_array(w, "theta", number, theta);

	if (rc == 0)
		rc = keep_array(w, "began", number, rest);
	if (rc == 0) {
		w->state.theta = number;
		w->state.unmerged = turn;
		rc = join_state_save(&w->state);
	}
	return rc;
}

/* The delta as a container in the parent's state, with what belongs to it. */
static int keep_delta(struct coordinator *g, const struct closed *x, const float *theta,
	const float *parent, const float *rest)
{
	struct parent *p = g->parent;
	struct worker *w = &p->w;
	struct delta *d = &w->state.delta;
	struct container_facts facts;
	uint64_t n = g->run.parameters;
	char *path = join_state_path(&w->state, "delta-%llu.rnpg",
		(unsigned long long)p->a.turn);
	float *delta = xmalloc(n * sizeof *delta), *left = xmalloc(n * sizeof *left);
	int rc;

	memcpy(left, rest, n * sizeof *left);
	outer_delta(delta, parent, theta, n);
	rc = container_write(&w->d, p->a.method, delta,
		worker_has_residual(p->a.method) ? left : NULL, n, path, &facts);
	if (rc == 0) {
		*d = (struct delta){ .turn = p->a.turn,
			.bytes = facts.bytes,
			.steps = p->a.steps,
			.tokens = p->a.sequences * w->run.length,
			.loss_first_micronats = x->up.loss_first,
			.loss_last_micronats = x->up.loss_last,
			.seconds = (clock_now_ms() - p->began_ms) / 1000 };
		if (d->seconds < 0)
			d->seconds = 0;
		memcpy(d->base, p->a.base, sizeof d->base);
		protocol_hex(d->sha256, facts.sha256);
		protocol_hex(d->root, facts.root);
		w->state.pending = true;
		rc = keep_sent(w, p->a.turn, theta, left);
	}
	free(delta);
	free(left);
	free(path);
	return rc;
}

/* Sends what is kept of the turn, which is made where it is not there yet. */
static int deliver(struct coordinator *g, const struct closed *x, const float *theta,
	const float *parent, const float *rest)
{
	struct parent *p = g->parent;
	struct worker *w = &p->w;
	int rc = 0;

	if (w->state.unmerged != p->a.turn)
		rc = keep_delta(g, x, theta, parent, rest);
	if (rc < 0 || !w->state.pending)
		return rc;
	prog_detail("turn %llu of the parent: delivering", (unsigned long long)p->a.turn);
	rc = worker_deliver(w);
	if (rc == 0)
		rc = worker_persisted(w);
	if (rc == 0 && w->delivery.dropped)
		rc = keep_sent(w, p->a.turn, parent, rest);
	return rc;
}

/* The parameters after the parent's round, in w.state.published, and the turn after it. */
static int follow_parent(struct coordinator *g, struct closed *x)
{
	struct parent *p = g->parent;
	struct worker *w = &p->w;
	uint64_t version = 0, rounds = training_rounds(&w->run);
	char base[PROTOCOL_HEX];
	int rc = worker_wait_round(w, p->a.round, base, &version);

	if (rc == 0)
		rc = worker_fetch_params(w, base, version);
	if (rc == 0)
		rc = worker_persisted(w);
	if (rc == 0 && rounds && version >= rounds)
		x->up.over = true;
	else if (rc == 2 && (rc = worker_join(w)) == 1)
		x->up.over = true; /* nobody tells what became of its last round */
	else if (rc >= 0)
		rc = next_turn(p, &x->up.next);
	if (rc == 1)
		x->up.over = true;
	x->up.round = w->state.version;
	memcpy(x->up.model, w->state.params_hash, sizeof x->up.model);
	return rc < 0 ? -1 : 0;
}

/* theta and parent become what the parent's round ended with; what the group has learnt since it
 * sent its delta, or all of it where that did not count, stays in theta and goes with the next one.
 */
static int take_parent(struct coordinator *g, struct closed *x, float *theta,
	float *parent, float *rest)
{
	struct worker *w = &g->parent->w;
	struct flatfile now = FLATFILE_INIT, sent = FLATFILE_INIT, left = FLATFILE_INIT;
	int rc = worker_open_array(w, &now, "pub", w->state.published);

	if (rc == 0)
		rc = worker_open_array(w, &sent, "theta", w->state.theta);
	if (rc == 0)
		rc = worker_open_array(w, &left, "began", w->state.theta);
	for (uint64_t i = 0; rc == 0 && i < now.n; i++) {
		x->up.counted |= sent.x[i] != parent[i];
		theta[i] = now.x[i] + (theta[i] - sent.x[i]);
		parent[i] = now.x[i];
		rest[i] = left.x[i];
	}
	flatfile_close(&now);
	flatfile_close(&sent);
	flatfile_close(&left);
	return rc;
}

/* Whether the last error says that nobody answers; then for how long is noted. */
static bool is_away(struct coordinator *g, int64_t patience_ms)
{
	struct parent *p = g->parent;
	int code = err_get()->code;
	int64_t now_ms = clock_now_ms();

	if (p->stopped || (code != EX_UNAVAILABLE && code != EX_TEMPFAIL))
		return false;
	p->tried_ns = clock_mono_ns();
	if (!p->away_ms) {
		p->away_ms = now_ms - patience_ms;
		prog_warn("the parent is away, the group trains on: %s", err_get()->text);
	}
	return now_ms - p->away_ms < g->o.give_up_ms;
}

int coordinate_parent_turn(struct coordinator *g, struct closed *x, float *theta,
	float *parent, float *rest)
{
	struct parent *p = g->parent;
	int64_t from_ns = clock_mono_ns(), patience_ms = PATIENCE_MS;
	int rc;

	if (p->away_ms)
		patience_ms = 0;
	else if (patience_ms > g->o.give_up_ms)
		patience_ms = g->o.give_up_ms;
	p->w.client.give_up_ms = patience_ms;
	rc = deliver(g, x, theta, parent, rest);
	if (rc == 0)
		rc = follow_parent(g, x);
	if (rc == 0)
		rc = take_parent(g, x, theta, parent, rest);
	if (rc < 0 && is_away(g, patience_ms)) {
		err_clear();
		x->up.away = true;
		x->up.next = p->a;
		rc = 0;
	} else if (rc == 0 && p->away_ms) {
		prog_info("the parent is back");
		p->away_ms = 0;
	}
	x->up.ms = (clock_mono_ns() - from_ns) / 1000000;
	return rc < 0 ? err_add("the parent") : 0;
}
