/* pool.c - the threads on which httpd runs handlers that take long (httpd_route.slow), so
 * that the connections of a loop do not wait for one of them. */
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/core.h"

#define WAITING_MAX 1024

/* A body from this size on may take seconds to read as JSON and tokens, where smaller ones take
 * milliseconds. */
#define LARGE_BODY 65536

struct httpd_pool {
	struct httpd *h;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct httpd_exchange *first, **end;
	int waiting;
	/* requests with large bodies that run, and how many may: a thread is left for the others */
	int large, large_max;
	bool stop;
	pthread_t *threads;
	int nthreads;
};

static bool is_large(const struct httpd_exchange *x)
{
	return x->q.body.len >= LARGE_BODY;
}

/* Finds the next request: the oldest of the clients that have the fewest handlers running, so that
 * a client that asks much does not make the others wait; nor do large requests make small ones of
 * the same client, which may be many behind a proxy. NULL: none may run now. */
static struct httpd_exchange **find_next(struct httpd_pool *p)
{
	struct httpd_exchange **best = NULL;

	for (struct httpd_exchange **at = &p->first; *at; at = &(*at)->next_job)
		if ((p->large < p->large_max || !is_large(*at)) &&
			(!best || (*at)->client->in_pool < (*best)->client->in_pool))
			best = at;
	return best;
}

/* Returns the next request; NULL: the pool ends, and what still waits is for a thread that has a
 * large one. */
static struct httpd_exchange *next(struct httpd_pool *p)
{
	struct httpd_exchange **at, *x = NULL;

	pthread_mutex_lock(&p->lock);
	while (!(at = find_next(p)) && !p->stop)
		pthread_cond_wait(&p->work, &p->lock);
	if (at) {
		x = *at;
		*at = x->next_job;
		if (!*at)
			p->end = at;
		p->waiting--;
		x->client->waiting--;
		p->large += is_large(x);
		x->client->in_pool++;
	}
	pthread_mutex_unlock(&p->lock);
	return x;
}

static void is_done(struct httpd_pool *p, struct httpd_client *client, bool large)
{
	pthread_mutex_lock(&p->lock);
	client->in_pool--;
	p->large -= large;
	/* this thread may find another client's request, and a large one goes to one that sleeps */
	if (large)
		pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
	struct httpd_pool *p = arg;
	struct httpd_exchange *x;

	while ((x = next(p))) {
		enum httpd_when when = HTTPD_NOW;
		bool large = is_large(x); /* the handler may take the body */

		if (!x->left) { /* otherwise nobody waits for it any more */
			x->begun = true;
			when = x->route->handler(p->h->config.ctx, &x->q, &x->r);
		}
		if (when == HTTPD_GO_ON)
			bug("a handler went on");
		is_done(p, x->client,
			large); /* before the next lines, which may free both */
		httpd_exchange_left_pool(x, when == HTTPD_NOW);
	}
	return NULL;
}

/* A client may have as many requests waiting as there are places left: alone half of them, and the
 * next one finds as many as half of the rest, so that no few fill them all. */
bool httpd_pool_add(struct httpd_pool *p, struct httpd_exchange *x)
{
	bool free_slot;

	pthread_mutex_lock(&p->lock);
	free_slot = x->client->waiting < WAITING_MAX - p->waiting;
	if (free_slot) {
		x->client->waiting++;
		x->next_job = NULL;
		*p->end = x;
		p->end = &x->next_job;
		p->waiting++;
		pthread_cond_signal(&p->work);
	}
	pthread_mutex_unlock(&p->lock);
	return free_slot;
}

struct httpd_pool *httpd_pool_start(struct httpd *h, int threads)
{
	struct httpd_pool *p = xcalloc(1, sizeof *p);

	p->h = h;
	p->end = &p->first;
	p->large_max = threads > 1 ? threads - 1 : 1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	p->threads = xcalloc((size_t)threads, sizeof *p->threads);
	for (; p->nthreads < threads; p->nthreads++)
		if (pthread_create(&p->threads[p->nthreads], NULL, work, p) != 0) {
			httpd_pool_stop(p);
			err_set(EX_OSERR, "cannot start a thread");
			return NULL;
		}
	return p;
}

void httpd_pool_stop(struct httpd_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->nthreads; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p->threads);
	free(p);
}
