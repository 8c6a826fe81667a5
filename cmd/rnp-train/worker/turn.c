/* turn.c - the inner steps of a turn, and the delta that they make. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/worker/worker.h"
#include "cmd/rnp-train/worker/ranks.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/grad/grad.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"

#define FRESH_WARMUP_MAX 50 /* steps of a joiner's own warm-up */

int worker_open_array(const struct worker *w, struct flatfile *f, const char *what,
	uint64_t number)
{
	char name[64];

	snprintf(name, sizeof name, "%s-%llu.f32", what, (unsigned long long)number);
	return flatfile_open(f, w->state.dir, name, w->state.n);
}

int worker_make_array(const struct worker *w, struct flatfile *f, const char *what,
	uint64_t number)
{
	char name[64];

	snprintf(name, sizeof name, "%s-%llu.f32", what, (unsigned long long)number);
	return flatfile_make(f, w->state.dir, name, w->state.n);
}

int worker_load_array(struct worker *w, enum lm_state what, const char *name,
	uint64_t number)
{
	struct flatfile f = FLATFILE_INIT;
	int rc = worker_open_array(w, &f, name, number);

	if (rc == 0)
		rc = lm_flat_set(w->loop.train, what, 0, f.n, f.x);
	flatfile_close(&f);
	return rc;
}

/* AdamW's state as the last turn that was made durable left it, or zeros. */
static int load_adam(struct worker *w)
{
	struct lm_train *t = w->loop.train;
	float *zeros;
	int rc = 0;

	lm_train_set_steps(t, w->state.adam ? w->state.adam_steps : 0);
	if (w->state.adam)
		return worker_load_array(w, LM_STATE_M, "m", w->state.adam) < 0 ||
				worker_load_array(w, LM_STATE_V, "v", w->state.adam) < 0 ?
			-1 :
			0;
	zeros = xcalloc(CONTAINER_FLOATS, sizeof *zeros);
	for (uint64_t at = 0; rc == 0 && at < w->state.n; at += CONTAINER_FLOATS) {
		uint64_t n = w->state.n - at < CONTAINER_FLOATS ? w->state.n - at :
								  CONTAINER_FLOATS;

		rc = lm_flat_set(t, LM_STATE_M, at, n, zeros) < 0 ||
				lm_flat_set(t, LM_STATE_V, at, n, zeros) < 0 ?
			-1 :
			0;
	}
	free(zeros);
	return rc;
}

/* AdamW's state of the run that this one goes on with, for who is there from the first round. */
static int fetch_adam(struct worker *w)
{
	uint64_t n = w->state.n;
	char *path = join_state_path(&w->state, "params-state"), request[128];
	float *values = xmalloc(CONTAINER_FLOATS * sizeof *values);
	struct container c = CONTAINER_INIT;
	int rc;

	snprintf(request, sizeof request, "/v1/state/%s", w->run.state);
	rc = client_fetch(&w->client, request, path, container_bytes_max("bf16", 2 * n),
		NULL);
	if (rc == 1)
		rc = err_set(EX_DATAERR, "the coordinator has not its own state");
	if (rc == 0)
		rc = worker_check_file(path, w->run.state);
	if (rc == 0)
		rc = container_open(&c, &w->d, path, "bf16", 2 * n);
	for (int what = 0; rc == 0 && what < 2; what++)
		for (uint64_t at = 0; rc == 0 && at < n; at += CONTAINER_FLOATS) {
			uint64_t part = n - at < CONTAINER_FLOATS ? n - at :
								    CONTAINER_FLOATS;

			rc = container_read(&c, values, part);
			if (rc == 0)
				rc = lm_flat_set(w->loop.train,
					what ? LM_STATE_V : LM_STATE_M, at, part, values);
		}
	if (rc == 0)
		lm_train_set_steps(w->loop.train, w->run.adam_steps);
	container_close(&c);
	unlink(path);
	free(values);
	free(path);
	return rc;
}

int worker_load_adam(struct worker *w, const struct assignment *a)
{
	if (load_adam(w) < 0)
		return -1;
	if (w->state.adam)
		return 0;
	if ((w->run.state[0] && a->round == 1 && fetch_adam(w) < 0) ||
		worker_persisted(w) < 0)
		return -1;
	w->state.fresh = a->round > 1;
	return 0;
}

void worker_set_place(struct worker *w, const struct assignment *a)
{
	uint64_t h = w->run.inner_steps;

	w->loop.step = a->step;
	w->loop.o.schedule.fresh_warmup = !w->state.fresh ? 0 :
		h < FRESH_WARMUP_MAX                      ? h :
							    FRESH_WARMUP_MAX;
	lm_loop_take_back(&w->loop);
	lm_loop_give(&w->loop, (struct lm_range){ a->first, a->sequences });
}

static int report(const struct worker *w, const struct lm_step *step, int64_t ns,
	double rate)
{
	json_t *r;
	int rc;

	if (w->loop.step % (uint64_t)w->o.every)
		return 0;
	r = json_record("rnp.step");
	json_set_i64(r, "step", (int64_t)w->loop.step);
	json_set_f64(r, "loss", step->loss);
	json_set_i64(r, "tokens", (int64_t)(w->work.tokens + w->loop.tokens));
	json_set_i64(r, "tokens_per_s",
		(int64_t)((double)step->targets * 1e9 / (double)(ns ? ns : 1)));
	json_set_f64(r, "gradient_norm", step->norm);
	json_set_f64(r, "learning_rate", rate);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

/* The mean of the first and of the last tenth of the losses, at least one. */
static void tenths(const double *losses, uint64_t n, struct delta *d)
{
	uint64_t part = n / 10 ? n / 10 : 1;
	double first = 0, last = 0;

	for (uint64_t i = 0; i < part; i++) {
		first += losses[i];
		last += losses[n - 1 - i];
	}
	d->loss_first_micronats = llround(first / (double)part * 1e6);
	d->loss_last_micronats = llround(last / (double)part * 1e6);
}

int worker_make_steps(struct worker *w, const struct assignment *a, struct delta *d,
	int (*before)(void *arg, uint64_t i), void *arg)
{
	double *losses = xcalloc(a->steps, sizeof *losses);
	int64_t began_ns = clock_mono_ns(), all_ns;
	int rc = 0;

	w->loop.tokens = 0;
	for (uint64_t i = 0; rc == 0 && i < a->steps && !*w->stopped; i++) {
		double rate = lm_loop_rate(&w->loop);
		struct lm_step step;
		int64_t from_ns;

		rc = before ? before(arg, i) : 0;
		from_ns = clock_mono_ns();
		if (rc == 0)
			rc = worker_lead_step(w);
		if (rc == 0)
			rc = worker_make_step(w, &step);
		if (rc == 0)
			losses[i] = step.loss;
		if (rc == 0)
			rc = report(w, &step, clock_mono_ns() - from_ns, rate);
	}
	all_ns = clock_mono_ns() - began_ns;
	if (rc == 0 && w->loop.step != a->step + a->steps)
		rc = 1;
	if (rc == 0) {
		tenths(losses, a->steps, d);
		d->tokens = w->loop.tokens;
		w->work.tokens += d->tokens;
		w->loop.tokens = 0;
		d->steps = a->steps;
		d->seconds = all_ns / 1000000000 + (all_ns % 1000000000 != 0);
		w->work.tokens_per_s = (uint64_t)((double)d->tokens * 1e9 /
			(double)(all_ns ? all_ns : 1));
	}
	free(losses);
	return rc;
}

/* --- the delta ------------------------------------------------------------------------------ */

static int copy_array(struct worker *w, enum lm_state what, const char *name,
	struct flatfile *f)
{
	if (worker_make_array(w, f, name, w->state.next) < 0)
		return -1;
	return lm_flat_get(w->loop.train, what, 0, f->n, f->x);
}

/* What a delta is measured from. */
struct from_pub {
	struct worker *w;
	struct flatfile published;
};

/* published less what the steps made of it, on the device. */
static int fill_delta(void *arg, uint64_t from, uint64_t n, float *out)
{
	const struct from_pub *f = arg;

	return lm_flat_delta(f->w->loop.train, from, n, f->published.x + from, out);
}

bool worker_has_residual(const char *method)
{
	return strcmp(method, "none") != 0 && strcmp(method, "lossless") != 0;
}

int worker_copy_residual(struct worker *w, struct flatfile *residual)
{
	struct flatfile was = FLATFILE_INIT;
	int rc = worker_make_array(w, residual, "e", w->state.next);

	if (rc == 0 && w->state.residual) {
		rc = worker_open_array(w, &was, "e", w->state.residual);
		if (rc == 0)
			memcpy(residual->x, was.x, residual->n * sizeof *residual->x);
		flatfile_close(&was);
	}
	return rc;
}

static int write_container(struct worker *w, const struct assignment *a, struct delta *d,
	struct flatfile *residual)
{
	struct from_pub from = { w, FLATFILE_INIT };
	struct container_facts facts;
	char *path = join_state_path(&w->state, "delta-%llu.rnpg",
		(unsigned long long)a->turn);
	bool feedback = worker_has_residual(a->method);
	int rc = worker_open_array(w, &from.published, "pub", w->state.published);

	if (rc == 0 && feedback)
		rc = worker_copy_residual(w, residual);
	if (rc == 0)
		rc = container_write_filled(&w->d, a->method, fill_delta, &from,
			feedback ? residual->x : NULL, w->state.n, path, true, &facts);
	if (rc == 0) {
		w->persisting.container = path; /* the link does not wait for the disk */
		path = NULL;
		d->bytes = facts.bytes;
		protocol_hex(d->sha256, facts.sha256);
		protocol_hex(d->root, facts.root);
	}
	flatfile_close(&from.published);
	free(path);
	return rc;
}

void worker_state_delta(struct worker *w, const struct delta *d, uint64_t adam_steps,
	bool residual)
{
	struct join_state *s = &w->state;

	s->residual = residual ? s->next : 0;
	s->adam = s->next++;
	s->adam_steps = adam_steps;
	s->turns++;
	s->tokens += d->tokens;
	s->pending = true;
	s->delta = *d;
	w->delivery.made = d->turn;
}

void worker_count_beside(struct worker *w, int64_t from_ns)
{
	w->work.overhead_ns += clock_mono_ns() - from_ns;
	/* simulate takes it as a link's turn_ms */
	prog_detail("turn %llu: %lld ms beside steps and transfers",
		(unsigned long long)w->state.delta.turn,
		(long long)(w->work.overhead_ns / 1000000));
	w->work.overhead_ns = 0;
}

/* Container, AdamW's state and residual become durable together, while the container is sent. */
static int keep_turn(struct worker *w, const struct assignment *a, struct delta *d)
{
	struct flatfile f[3] = { FLATFILE_INIT, FLATFILE_INIT, FLATFILE_INIT };
	int64_t from_ns = clock_mono_ns();
	int rc = worker_persisted(w), n = 2;

	if (rc == 0)
		rc = write_container(w, a, d, &f[2]);
	/* the link is at work while the rest is copied */
	if (rc == 0)
		rc = worker_deliver_begin(w, d);
	if (rc == 0)
		rc = copy_array(w, LM_STATE_M, "m", &f[0]);
	if (rc == 0)
		rc = copy_array(w, LM_STATE_V, "v", &f[1]);
	if (rc == 0 && f[2].x)
		n = 3;
	if (rc == 0) {
		worker_state_delta(w, d, lm_train_steps(w->loop.train), n == 3);
		rc = worker_persist(w, f, n);
	}
	for (int i = 0; i < 3; i++)
		flatfile_close(&f[i]);
	if (rc < 0)
		worker_deliver_drop(w);
	if (rc == 0)
		worker_count_beside(w, from_ns);
	return rc;
}

int worker_train(struct worker *w, const struct assignment *a)
{
	struct delta d = { .turn = a->turn };
	int64_t from_ns = clock_mono_ns();
	int rc = worker_load_array(w, LM_STATE_PARAMETER, "pub", w->state.published);

	if (rc == 0)
		rc = worker_load_adam(w, a);
	if (rc == 0)
		rc = worker_lead_state(w, true);
	worker_set_place(w, a);

	memcpy(d.node, w->key.address, sizeof d.node);
	memcpy(d.base, a->base, sizeof d.base);
	prog_detail("turn %llu: %llu steps from sequence %llu",
		(unsigned long long)a->turn, (unsigned long long)a->steps,
		(unsigned long long)a->first);
	w->work.overhead_ns += clock_mono_ns() - from_ns;
	if (rc == 0)
		rc = worker_make_steps(w, a, &d, NULL, NULL);
	return rc == 0 ? keep_turn(w, a, &d) : rc;
}
