#include "common/lm/parallel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/mem.h"

/* A word of 64 bits is 4 floats of 16 bits each: whole numbers, which a sum with the zeros of the other ranks leaves as they are. */
#define WORD_FLOATS 4

struct sum {
	float *data;
	uint64_t count;
};

struct lm_parallel {
	struct lm_parallel_options o;
	struct comm comm; /* the thread's; rank and size are ours once it is open */
	pthread_t thread;
	float *gradients, *words;
	uint64_t from, end; /* ready, but too small so far to be sent; empty: equal */
	unsigned said;
	int64_t wait_ns;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct sum *queue;
	size_t room, queued, released, done; /* of this step; released: may be summed */
	bool open, ending, failed;
	struct err error;
	int64_t sum_ns;
};

/* --- the thread --------------------------------------------------------------------------- */

static int sum_pieces(struct comm *c, struct sum s)
{
	int rc = 0;

	while (rc == 0 && s.count) {
		uint64_t n = s.count < LM_PARALLEL_MOST ? s.count : LM_PARALLEL_MOST;

		rc = comm_allreduce(c, s.data, n);
		s.data += n;
		s.count -= n;
	}
	return rc;
}

/* The lock is held, but not while it sums. */
static void sum_next(struct lm_parallel *p)
{
	struct sum s = p->queue[p->done];
	int64_t from = clock_mono_ns();
	int rc;

	pthread_mutex_unlock(&p->lock);
	rc = sum_pieces(&p->comm, s);
	pthread_mutex_lock(&p->lock);
	p->sum_ns += clock_mono_ns() - from;
	p->done++;
	if (rc < 0) {
		p->failed = true;
		err_save(&p->error);
	}
	pthread_cond_broadcast(&p->changed);
}

static void *work(void *arg)
{
	struct lm_parallel *p = arg;
	int rc = p->o.open(&p->comm, p->o.arg);

	pthread_mutex_lock(&p->lock);
	p->open = rc == 0;
	p->failed = rc < 0;
	err_save(&p->error);
	pthread_cond_broadcast(&p->changed);
	while (!p->ending)
		if (!p->failed && p->done < p->released)
			sum_next(p);
		else
			pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	comm_close(&p->comm);
	return NULL;
}

/* --- the step's side ---------------------------------------------------------------------- */

static void put(struct lm_parallel *p, float *data, uint64_t count, bool now)
{
	pthread_mutex_lock(&p->lock);
	p->queue = xgrow(p->queue, &p->room, p->queued + 1, sizeof *p->queue);
	p->queue[p->queued++] = (struct sum){ data, count };
	if (now)
		p->released = p->queued;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Until everything is summed. */
static int drain(struct lm_parallel *p)
{
	int64_t from = clock_mono_ns();
	bool failed;

	pthread_mutex_lock(&p->lock);
	while (p->done < p->queued && !p->failed)
		pthread_cond_wait(&p->changed, &p->lock);
	p->queued = p->released = p->done = 0;
	failed = p->failed;
	pthread_mutex_unlock(&p->lock);
	p->wait_ns += clock_mono_ns() - from;
	return failed ? err_restore(&p->error) : 0;
}

int lm_parallel_open(struct lm_parallel **out, const struct lm_parallel_options *o)
{
	struct lm_parallel *p = xcalloc(1, sizeof *p);
	bool open;

	*out = NULL;
	p->o = *o;
	p->comm = (struct comm)COMM_INIT;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	if (pthread_create(&p->thread, NULL, work, p) != 0) {
		free(p);
		return err_set(EX_OSERR, "cannot start a thread");
	}
	pthread_mutex_lock(&p->lock);
	while (!p->open && !p->failed)
		pthread_cond_wait(&p->changed, &p->lock);
	open = p->open;
	pthread_mutex_unlock(&p->lock);
	if (open) {
		*out = p;
		return 0;
	}
	err_restore(&p->error);
	lm_parallel_close(p);
	return -1;
}

void lm_parallel_close(struct lm_parallel *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p->queue);
	free(p->words);
	free(p);
}

int lm_parallel_rank(const struct lm_parallel *p)
{
	return p->comm.rank;
}

int lm_parallel_size(const struct lm_parallel *p)
{
	return p->comm.size;
}

void lm_parallel_bind(struct lm_parallel *p, float *gradients)
{
	p->gradients = gradients;
}

int lm_parallel_ready(void *arg, uint64_t from, uint64_t count)
{
	struct lm_parallel *p = arg;

	if (p->from == p->end)
		p->end = from + count;
	else if (from + count != p->from)
		bug("gradients become final out of order");
	p->from = from;
	if (p->end - from < LM_PARALLEL_JOIN)
		return 0;
	put(p, p->gradients + from, p->end - from, p->o.overlap);
	p->end = p->from;
	return 0; /* an error of the thread is settle's */
}

static void pack(float *to, uint64_t word)
{
	for (int i = 0; i < WORD_FLOATS; i++)
		to[i] = (float)(word >> 16 * i & 0xffff);
}

static uint64_t unpack(const float *from)
{
	uint64_t word = 0;

	for (int i = 0; i < WORD_FLOATS; i++)
		word |= (uint64_t)from[i] << 16 * i;
	return word;
}

int lm_parallel_gather(struct lm_parallel *p, const uint64_t *mine, size_t n,
	uint64_t *all)
{
	size_t size = (size_t)p->comm.size, count = size * n * WORD_FLOATS;
	size_t first = (size_t)p->comm.rank * n;

	p->words = xrealloc(p->words, count * sizeof *p->words);
	memset(p->words, 0, count * sizeof *p->words);
	for (size_t i = 0; i < n; i++)
		pack(p->words + (first + i) * WORD_FLOATS, mine[i]);
	put(p, p->words, count, true);
	if (drain(p) < 0)
		return -1;
	for (size_t i = 0; i < size * n; i++)
		all[i] = unpack(p->words + i * WORD_FLOATS);
	return 0;
}

int lm_parallel_settle(void *arg, double *loss_sum, uint64_t *targets)
{
	struct lm_parallel *p = arg;
	uint64_t mine[3] = { 0, *targets, p->o.say ? p->o.say() : 0 };
	uint64_t *all = xcalloc((size_t)p->comm.size, sizeof mine);
	int rc;

	memcpy(&mine[0], loss_sum, sizeof *loss_sum);
	if (p->from != p->end)
		put(p, p->gradients + p->from, p->end - p->from, true);
	p->end = p->from;
	rc = lm_parallel_gather(p, mine, 3, all);
	*loss_sum = 0;
	*targets = 0;
	p->said = 0;
	for (int r = 0; rc == 0 && r < p->comm.size; r++) {
		double loss;

		memcpy(&loss, &all[3 * r], sizeof loss);
		*loss_sum += loss;
		*targets += all[3 * r + 1];
		p->said |= (unsigned)all[3 * r + 2];
	}
	free(all);
	return rc;
}

unsigned lm_parallel_said(const struct lm_parallel *p)
{
	return p->said;
}

void lm_parallel_times(struct lm_parallel *p, struct lm_parallel_times *out)
{
	pthread_mutex_lock(&p->lock);
	*out = (struct lm_parallel_times){ p->sum_ns, p->wait_ns };
	pthread_mutex_unlock(&p->lock);
}
