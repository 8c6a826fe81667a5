/* service.c - the thread of an engine, its input queue and its outbox of events. */
#include "common/lm/engine/service.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/budget.h"

/* Sixteenths of step_ns that a step is meant to take where answers wait for it, as steps of the
 * same cost differ, and where none does: products of more rows are faster, and nobody but a new
 * request is held. */
#define BESIDE       9
#define ALONE        36
#define BUDGET_FIRST 32 /* rows of prompts in a step until their speed is known */

/* --- the outbox ------------------------------------------------------------------------------ */

struct lm_events {
	pthread_mutex_t lock;
	pthread_cond_t ready;
	struct lm_event_batch news;
	bool woken;
};

struct lm_events *lm_events_new(void)
{
	struct lm_events *o = xcalloc(1, sizeof *o);
	pthread_condattr_t monotonic;

	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->ready, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return o;
}

void lm_events_free(struct lm_events *o)
{
	if (!o)
		return;
	lm_event_batch_release(&o->news);
	pthread_cond_destroy(&o->ready);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void lm_event_batch_release(struct lm_event_batch *n)
{
	free(n->events);
	free(n->logprobs);
	*n = (struct lm_event_batch){ 0 };
}

static void empty(struct lm_event_batch *n)
{
	n->count = n->logprobs_count = 0;
}

/* While events are collected, they store the index of their logprobs + 1 instead of a pointer,
 * because the array moves as it grows. */
static void add(struct lm_event_batch *n, const struct lm_event *e)
{
	uintptr_t number = 0;

	if (e->logprobs) {
		n->logprobs = xgrow(n->logprobs, &n->logprobs_cap, n->logprobs_count + 1,
			sizeof *n->logprobs);
		n->logprobs[n->logprobs_count++] = *e->logprobs;
		number = n->logprobs_count;
	}
	n->events = xgrow(n->events, &n->cap, n->count + 1, sizeof *n->events);
	n->events[n->count++] = (struct lm_batch_event){ .answer = e->answer,
		.token = e->token,
		.of_prompt = e->of_prompt,
		.logprobs = (const struct lm_logprobs *)number };
}

static void resolve(struct lm_event_batch *n)
{
	for (size_t i = 0; i < n->count; i++) {
		uintptr_t number = (uintptr_t)n->events[i].logprobs;

		n->events[i].logprobs = number ? &n->logprobs[number - 1] : NULL;
	}
}

/* Appends the events that a step collected, and empties the collection. */
static void post(struct lm_events *o, struct lm_event_batch *from)
{
	if (!from->count)
		return;
	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < from->count; i++) {
		uintptr_t number = (uintptr_t)from->events[i].logprobs;
		struct lm_event e = { from->events[i].answer, from->events[i].token,
			from->events[i].of_prompt,
			number ? &from->logprobs[number - 1] : NULL };

		add(&o->news, &e);
	}
	pthread_cond_signal(&o->ready);
	pthread_mutex_unlock(&o->lock);
	empty(from);
}

void lm_events_take(struct lm_events *o, struct lm_event_batch *news, int timeout_ms)
{
	struct lm_event_batch swap;
	struct timespec until;

	clock_after(&until, CLOCK_MONOTONIC, timeout_ms * INT64_C(1000000));
	empty(news);
	pthread_mutex_lock(&o->lock);
	while (!o->news.count && !o->woken)
		if (pthread_cond_timedwait(&o->ready, &o->lock, &until) != 0)
			break;
	o->woken = false;
	swap = o->news;
	o->news = *news;
	*news = swap;
	pthread_mutex_unlock(&o->lock);
	resolve(news);
}

void lm_events_wake(struct lm_events *o)
{
	pthread_mutex_lock(&o->lock);
	o->woken = true;
	pthread_cond_signal(&o->ready);
	pthread_mutex_unlock(&o->lock);
}

/* --- the thread ------------------------------------------------------------------------------ */

struct lm_service {
	struct lm_engine *engine;
	struct lm_service_config config;
	pthread_t thread;

	pthread_mutex_t lock; /* protects all fields below */
	pthread_cond_t work;
	struct lm_answer *first, **end; /* submitted, not yet passed to the engine */
	uint32_t pending;               /* submitted and not yet admitted */
	bool stop;
	struct lm_service_counts counts;

	struct lm_event_batch news; /* only the thread's: events of this step */
	struct lm_budget budget;
};

static void on_event(void *arg, const struct lm_event *e)
{
	struct lm_service *s = arg;

	add(&s->news, e);
}

/* Waits until there is something to do, with the lock held, and prepares memory meanwhile. */
static void wait_for_work(struct lm_service *s)
{
	bool more = s->config.pages_ahead > 0;

	while (!s->stop && !s->first && lm_engine_idle(s->engine)) {
		if (!more) {
			pthread_cond_wait(&s->work, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		more = lm_engine_touch(s->engine, s->config.pages_ahead);
		pthread_mutex_lock(&s->lock);
	}
}

/* Passes submitted answers to the engine; waits if there is nothing to do. Returns false when
 * the service stops. */
static bool receive(struct lm_service *s)
{
	bool on;

	pthread_mutex_lock(&s->lock);
	wait_for_work(s);
	while (s->first) {
		struct lm_answer *a = s->first;

		s->first = a->next;
		lm_engine_submit(s->engine, a);
	}
	s->end = &s->first;
	on = !s->stop;
	pthread_mutex_unlock(&s->lock);
	return on;
}

static int64_t wanted_ns(const struct lm_service *s, bool beside)
{
	return s->config.step_ns * (beside ? BESIDE : ALONE) / 16;
}

/* Sets the budgets of steps with prompts alone, and of those with answers in progress. */
static void set_budget(struct lm_service *s)
{
	lm_engine_set_budget(s->engine, lm_budget_rows(&s->budget, wanted_ns(s, false)),
		lm_budget_rows(&s->budget, wanted_ns(s, true)));
}

/* Adapts the budget to how long the last step took. */
static void adapt(struct lm_service *s, int64_t ns)
{
	uint32_t load;
	bool full, beside;

	if (!s->config.step_ns)
		return;
	load = lm_engine_load(s->engine, &full, &beside);
	lm_budget_learn(&s->budget, load, full, ns, wanted_ns(s, beside));
	set_budget(s);
}

static void *run(void *arg)
{
	struct lm_service *s = arg;

	while (receive(s)) {
		int64_t begun = clock_mono_ns(), ns;
		uint32_t rows = lm_engine_step(s->engine);
		struct lm_engine_counts counts;

		ns = clock_mono_ns() - begun;
		if (rows)
			adapt(s, ns);
		lm_engine_count(s->engine, &counts);
		pthread_mutex_lock(&s->lock);
		s->counts.engine = counts;
		if (rows)
			s->counts.step_ns += (uint64_t)ns;
		s->pending = counts.waiting;
		for (struct lm_answer *a = s->first; a; a = a->next)
			s->pending++;
		pthread_mutex_unlock(&s->lock);
		/* who hears that an answer has ended finds its stream free */
		post(s->config.outbox, &s->news);
	}
	return NULL;
}

int lm_service_open(struct lm_service **out, const struct lm_weights *w,
	const struct lm_service_config *config)
{
	struct lm_service *s = xcalloc(1, sizeof *s);

	*out = NULL;
	s->config = *config;
	s->end = &s->first;
	if (lm_engine_open(&s->engine, w, &config->limits, config->ends,
		    config->ends_count, on_event, s) < 0 ||
		(config->draft && lm_engine_draft(s->engine, config->draft) < 0)) {
		lm_engine_close(s->engine);
		free(s);
		return -1;
	}
	s->config.ends = NULL;
	if (config->step_ns) {
		lm_budget_init(&s->budget, config->step_ns, BUDGET_FIRST);
		set_budget(s);
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	lm_engine_count(s->engine, &s->counts.engine);
	if (pthread_create(&s->thread, NULL, run, s) != 0) {
		lm_engine_close(s->engine);
		free(s);
		return err_set(EX_OSERR, "cannot start a thread");
	}
	*out = s;
	return 0;
}

void lm_service_close(struct lm_service *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	lm_engine_close(s->engine);
	lm_event_batch_release(&s->news);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int lm_service_accepts(const struct lm_service *s, const uint32_t *tokens, uint32_t n,
	bool generates)
{
	return lm_engine_accepts(s->engine, tokens, n, generates);
}

/* The caller holds the lock. */
static void append(struct lm_service *s, struct lm_answer *a)
{
	a->submitted_ns = clock_mono_ns();
	a->next = NULL;
	*s->end = a;
	s->end = &a->next;
	s->pending++;
	pthread_cond_signal(&s->work);
}

void lm_service_follow(struct lm_service *s, struct lm_answer *a)
{
	pthread_mutex_lock(&s->lock);
	append(s, a);
	pthread_mutex_unlock(&s->lock);
}

int lm_service_submit(struct lm_service *s, struct lm_answer *const *answers, uint32_t n)
{
	int rc = 0;
	/* answers that get a free stream at once do not count as waiting */
	uint32_t busy, max = s->config.queue;

	pthread_mutex_lock(&s->lock);
	busy = s->counts.engine.running;
	if (busy < s->config.limits.streams)
		max += s->config.limits.streams - busy;
	if (s->stop || s->pending + n > max) {
		rc = err_set(EX_TEMPFAIL, "the queue is full: %u answers wait",
			s->pending);
	} else {
		for (uint32_t i = 0; i < n; i++)
			append(s, answers[i]);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void lm_service_cancel(struct lm_service *s, struct lm_answer *a)
{
	(void)s;
	atomic_store(&a->cancel, true);
}

void lm_service_count(struct lm_service *s, struct lm_service_counts *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->counts;
	pthread_mutex_unlock(&s->lock);
}
