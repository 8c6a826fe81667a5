/* httpd_pool.c - the threads on which httpd runs handlers that take long (httpd_route.slow), so
 * that the connections of a loop do not wait for one of them. */
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/net/httpd_core.h"

#define WAITING_MAX 1024

struct httpd_pool {
	struct httpd *h;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct httpd_exchange *first, **end;
	int waiting;
	bool stop;
	pthread_t *threads;
	int nthreads;
};

/* Finds the next request: the oldest of the clients that have the fewest handlers running, so
 * that a client that asks much does not make the others wait. */
static struct httpd_exchange **find_next(struct httpd_pool *p)
{
	struct httpd_exchange **best = &p->first;

	for (struct httpd_exchange **at = best; *at; at = &(*at)->next_job)
		if ((*at)->client->in_pool < (*best)->client->in_pool)
			best = at;
	return best;
}

/* Returns the next request; NULL: the pool ends. */
static struct httpd_exchange *next(struct httpd_pool *p)
{
	struct httpd_exchange **at, *x;

	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->stop)
		pthread_cond_wait(&p->work, &p->lock);
	at = find_next(p);
	x = *at;
	if (x) {
		*at = x->next_job;
		if (!*at)
			p->end = at;
		p->waiting--;
		x->client->in_pool++;
	}
	pthread_mutex_unlock(&p->lock);
	return x;
}

static void is_done(struct httpd_pool *p, struct httpd_client *client)
{
	pthread_mutex_lock(&p->lock);
	client->in_pool--;
	pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
	struct httpd_pool *p = arg;
	struct httpd_exchange *x;

	while ((x = next(p))) {
		enum httpd_when when = HTTPD_NOW;

		if (!x->left) { /* otherwise nobody waits for it any more */
			x->begun = true;
			when = x->route->handler(p->h->config.ctx, &x->q, &x->r);
		}
		if (when == HTTPD_GO_ON)
			bug("a handler went on");
		is_done(p, x->client); /* before the next lines, which may free both */
		httpd_exchange_left_pool(x, when == HTTPD_NOW);
	}
	return NULL;
}

bool httpd_pool_add(struct httpd_pool *p, struct httpd_exchange *x)
{
	bool free_slot;

	pthread_mutex_lock(&p->lock);
	free_slot = p->waiting < WAITING_MAX;
	if (free_slot) {
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
