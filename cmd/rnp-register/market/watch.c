/* watch.c - requests that wait for news, in a table by subject; the thread that answers them. */
#include "cmd/rnp-register/market/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/index.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define BUCKETS 4096
#define TICK_NS INT64_C(500000000)

struct task {
	struct task *next;
	void (*fn)(void *ctx);
	void *ctx;
};

struct watch {
	struct registry *g;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool started, stopping;
	struct bucket {
		struct waiter *first;
		uint64_t news; /* increased by each; see waiter.seen */
		bool due;
	} buckets[BUCKETS];
	uint16_t due[BUCKETS]; /* those with news since they were last looked at */
	int ndue;
	struct task *tasks, **last;
	int64_t waiting, tick_ns;
};

static struct bucket *bucket_of(struct watch *t, const char *subject)
{
	return &t->buckets[fnv1a_text(hash_seed(), subject) % BUCKETS];
}

struct watch *watch_new(struct registry *g)
{
	struct watch *t = xcalloc(1, sizeof *t);
	pthread_condattr_t attr;

	t->g = g;
	t->last = &t->tasks;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	return t;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* With the lock. */
static void park(struct watch *t, struct bucket *b, struct waiter *w)
{
	w->next = b->first;
	b->first = w;
	t->waiting++;
}

/* Looks, without the lock, until there is no news that came meanwhile. Returns true when w was
 * answered, and false with the lock held and w in its bucket. */
static bool look_or_park(struct watch *t, struct waiter *w, bool last)
{
	struct bucket *b = bucket_of(t, w->subject);
	bool over;

	for (;;) {
		pthread_mutex_lock(&t->lock);
		w->seen = b->news;
		over = last || t->stopping || httpd_disconnected(w->q);
		pthread_mutex_unlock(&t->lock);
		if (w->look(t->g, w, over || clock_mono_ns() >= w->until_ns) || over)
			return true;
		pthread_mutex_lock(&t->lock);
		/* whoever leaves now is found in his bucket, by watch_gone */
		if (w->seen == b->news && !t->stopping && !httpd_disconnected(w->q))
			break;
		pthread_mutex_unlock(&t->lock);
	}
	park(t, b, w);
	return false;
}

/* With the lock. */
static void make_due(struct watch *t, struct bucket *b)
{
	if (b->due)
		return;
	b->due = true;
	t->due[t->ndue++] = (uint16_t)(b - t->buckets);
	pthread_cond_signal(&t->wake);
}

/* A stream begins when its handler has returned. */
static enum httpd_when begin_stream(struct watch *t, struct waiter *w)
{
	struct bucket *b = bucket_of(t, w->subject);

	pthread_mutex_lock(&t->lock);
	w->seen = b->news - 1;
	park(t, b, w);
	make_due(t, b);
	pthread_mutex_unlock(&t->lock);
	return HTTPD_LATER;
}

enum httpd_when watch_wait(struct watch *t, struct waiter *w)
{
	if (w->stream && t->started)
		return begin_stream(t, w);
	/* without a thread nobody would look again */
	if (look_or_park(t, w, !t->started)) {
		free(w);
		return HTTPD_NOW;
	}
	pthread_mutex_unlock(&t->lock);
	return HTTPD_LATER;
}

static void answer(struct waiter *w)
{
	httpd_finish(w->q);
	free(w);
}

void watch_gone(struct watch *t, struct httpd_request *q)
{
	struct waiter *found = NULL;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < BUCKETS && !found; i++)
		for (struct waiter **at = &t->buckets[i].first; *at; at = &(*at)->next)
			if ((*at)->q == q) {
				found = *at;
				*at = found->next;
				t->waiting--;
				break;
			}
	pthread_mutex_unlock(&t->lock);
	if (found)
		answer(found);
}

/* --- news --------------------------------------------------------------------------------- */

void watch_news(struct watch *t, const char *subject)
{
	struct bucket *b = bucket_of(t, subject);

	pthread_mutex_lock(&t->lock);
	b->news++;
	if (b->first)
		make_due(t, b);
	pthread_mutex_unlock(&t->lock);
}

void watch_later(struct watch *t, void (*fn)(void *ctx), void *ctx)
{
	struct task *task;

	pthread_mutex_lock(&t->lock);
	if (!t->started) {
		pthread_mutex_unlock(&t->lock);
		fn(ctx);
		return;
	}
	task = xcalloc(1, sizeof *task);
	*task = (struct task){ .fn = fn, .ctx = ctx };
	*t->last = task;
	t->last = &task->next;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

bool watch_runs(const struct watch *t)
{
	return t->started;
}

int64_t watch_waiting(struct watch *t)
{
	int64_t n;

	pthread_mutex_lock(&t->lock);
	n = t->waiting;
	pthread_mutex_unlock(&t->lock);
	return n;
}

int watch_wait_query(const struct httpd_request *q, struct httpd_reply *r,
	int64_t *wait_s)
{
	const char *text = httpd_query(q, "wait");

	*wait_s = 0;
	if (!text)
		return 0;
	if (num_i64(text, "wait", 0, 3600, wait_s) < 0) {
		httpd_error(r, 400, "%s", err_get()->text);
		err_clear();
		return -1;
	}
	if (*wait_s > WATCH_WAIT_MAX_S)
		*wait_s = WATCH_WAIT_MAX_S;
	return 0;
}

/* --- the thread --------------------------------------------------------------------------- */

/* Takes from a bucket whoever has news to look at, or whose time is over; with the lock. */
static struct waiter *take(struct watch *t, struct bucket *b, int64_t now_ns)
{
	struct waiter *taken = NULL;

	for (struct waiter **at = &b->first; *at;) {
		struct waiter *w = *at;

		if (w->seen == b->news && w->until_ns > now_ns && !t->stopping) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = taken;
		taken = w;
		t->waiting--;
	}
	return taken;
}

/* Called and returns with the lock. */
static void look_at(struct watch *t, struct bucket *b)
{
	struct waiter *list = take(t, b, clock_mono_ns()), *next;

	if (!list)
		return;
	pthread_mutex_unlock(&t->lock);
	for (; list; list = next) {
		next = list->next;
		if (look_or_park(t, list, false))
			answer(list);
		else
			pthread_mutex_unlock(&t->lock);
	}
	pthread_mutex_lock(&t->lock);
}

/* Called and returns with the lock. One at a time: whoever has news does not wait for all. */
static void run_task(struct watch *t)
{
	struct task *task = t->tasks;

	t->tasks = task->next;
	if (!t->tasks)
		t->last = &t->tasks;
	pthread_mutex_unlock(&t->lock);
	task->fn(task->ctx);
	free(task);
	pthread_mutex_lock(&t->lock);
}

static void *watch_run(void *arg)
{
	struct watch *t = arg;
	struct timespec until;

	pthread_mutex_lock(&t->lock);
	while (!t->stopping || t->tasks) {
		int64_t now_ns = clock_mono_ns();

		if (t->tasks)
			run_task(t);
		while (t->ndue) {
			struct bucket *b = &t->buckets[t->due[--t->ndue]];

			b->due = false;
			look_at(t, b);
		}
		if (now_ns >= t->tick_ns) {
			t->tick_ns = now_ns + TICK_NS;
			for (int i = 0; i < BUCKETS; i++)
				if (t->buckets[i].first)
					look_at(t, &t->buckets[i]);
		}
		if (t->tasks || t->ndue || t->stopping)
			continue;
		clock_after(&until, CLOCK_MONOTONIC, TICK_NS);
		pthread_cond_timedwait(&t->wake, &t->lock, &until);
	}
	for (int i = 0; i < BUCKETS; i++)
		look_at(t, &t->buckets[i]);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int watch_start(struct watch *t)
{
	t->started = true;
	if (pthread_create(&t->thread, NULL, watch_run, t) == 0)
		return 0;
	t->started = false;
	return err_set(EX_OSERR, "cannot start a thread");
}

void watch_stop(struct watch *t)
{
	if (!t || !t->started)
		return;
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	t->started = false;
}

void watch_free(struct watch *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->wake);
	free(t);
}
