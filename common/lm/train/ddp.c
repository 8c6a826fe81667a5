/* ddp.c - the thread that sums gradients, and the queue between it and the training step. */
#include "common/lm/train/ddp.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/comm/gpu_allreduce.h"
#include "common/base/mem.h"
#include "common/hw/device.h"

/* A 64-bit word is sent as 4 floats of 16 bits each. They are whole numbers, so that adding the
 * zeros of the other ranks leaves them exact. */
#define WORD_FLOATS 4

struct sum {
	float *data;
	uint64_t count;
	void *event; /* recorded when the data is ready; NULL: the data is in host memory */
};

struct ddp {
	struct ddp_options o;
	/* used by the thread; rank and size may be read once it is open */
	struct comm comm;
	pthread_t thread;
	float *gradients, *words;
	uint64_t from,
		end; /* range that is ready but still too small to be sent; equal: none */
	unsigned all_flags; /* flags of all ranks, as of the last step */
	int64_t wait_ns;
	struct dev *d; /* device of the gradients; NULL: host memory */
	void **events; /* one for each range of a step, reused by the next */
	size_t events_cap, recorded;
	bool shared;                /* whether several ranks use one GPU */
	struct gpu_allreduce *sums; /* used by the thread; NULL: host memory */

	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t changed;
	struct sum *queue;
	/* ranges of this step; those before `released` may be summed */
	size_t cap, queued, released, done;
	bool open, ending, failed;
	int (*task)(struct ddp *p); /* what the thread is to run; NULL when done */
	int task_rc;
	void *shared_data; /* of ddp_broadcast */
	size_t shared_bytes;
	struct err error;
	int64_t sum_ns;
};

/* --- the thread --------------------------------------------------------------------------- */

static int sum_pieces(struct ddp *p, struct sum s)
{
	struct comm *c = &p->comm;
	int rc = 0;

	if (s.event)
		return gpu_allreduce_sum(p->sums, s.data, s.count, s.event);
	while (rc == 0 && s.count) {
		uint64_t n = s.count < DDP_BUCKET_MAX ? s.count : DDP_BUCKET_MAX;

		rc = comm_allreduce(c, s.data, n);
		s.data += n;
		s.count -= n;
	}
	return rc;
}

/* Sums the next range. Called with the lock held, and releases it while summing. */
static void sum_next(struct ddp *p)
{
	struct sum s = p->queue[p->done];
	int64_t from = clock_mono_ns();
	int rc;

	pthread_mutex_unlock(&p->lock);
	rc = sum_pieces(p, s);
	pthread_mutex_lock(&p->lock);
	p->sum_ns += clock_mono_ns() - from;
	p->done++;
	if (rc < 0) {
		p->failed = true;
		err_save(&p->error);
	}
	pthread_cond_broadcast(&p->changed);
}

/* Runs the task. Called with the lock held, and releases it while the task runs. */
static void do_task(struct ddp *p)
{
	int rc;

	pthread_mutex_unlock(&p->lock);
	rc = p->task(p);
	pthread_mutex_lock(&p->lock);
	p->task_rc = rc;
	if (rc < 0)
		err_save(&p->error);
	p->task = NULL;
	pthread_cond_broadcast(&p->changed);
}

static int open_sums(struct ddp *p)
{
	return gpu_allreduce_open(&p->sums, p->d->name, &p->comm, !p->shared);
}

static void *work(void *arg)
{
	struct ddp *p = arg;
	int rc = p->o.open(&p->comm, p->o.arg);

	/* also without overlap, so that the bits are the same */
	if (rc == 0)
		comm_be_patient(&p->comm);
	pthread_mutex_lock(&p->lock);
	p->open = rc == 0;
	p->failed = rc < 0;
	err_save(&p->error);
	pthread_cond_broadcast(&p->changed);
	while (!p->ending)
		if (!p->failed && p->task)
			do_task(p);
		else if (!p->failed && p->done < p->released)
			sum_next(p);
		else
			pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	gpu_allreduce_close(p->sums);
	comm_close(&p->comm);
	return NULL;
}

/* --- the step's side ---------------------------------------------------------------------- */

static void put(struct ddp *p, float *data, uint64_t count, void *event, bool now)
{
	pthread_mutex_lock(&p->lock);
	p->queue = xgrow(p->queue, &p->cap, p->queued + 1, sizeof *p->queue);
	p->queue[p->queued++] = (struct sum){ data, count, event };
	if (now)
		p->released = p->queued;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Waits until everything is summed. */
static int drain(struct ddp *p)
{
	int64_t from = clock_mono_ns();
	bool failed;

	pthread_mutex_lock(&p->lock);
	while (p->done < p->queued && !p->failed)
		pthread_cond_wait(&p->changed, &p->lock);
	p->queued = p->released = p->done = p->recorded = 0;
	failed = p->failed;
	pthread_mutex_unlock(&p->lock);
	p->wait_ns += clock_mono_ns() - from;
	return failed ? err_restore(&p->error) : 0;
}

int ddp_open(struct ddp **out, const struct ddp_options *o)
{
	struct ddp *p = xcalloc(1, sizeof *p);
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
	ddp_close(p);
	return -1;
}

void ddp_close(struct ddp *p)
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
	for (size_t i = 0; i < p->events_cap; i++)
		p->d->ops->event_free(p->d, p->events[i]);
	free(p->events);
	free(p->queue);
	free(p->words);
	free(p);
}

int ddp_rank(const struct ddp *p)
{
	return p->comm.rank;
}

int ddp_size(const struct ddp *p)
{
	return p->comm.size;
}

/* Finds out whether two ranks use the same GPU, by its uuid; a device without one counts as
 * unshared. */
static int find_shared(struct ddp *p)
{
	size_t size = (size_t)p->comm.size;
	uint64_t mine[2], *all = xcalloc(size, sizeof mine);
	int rc;

	memcpy(mine, p->d->uuid, sizeof mine);
	rc = ddp_allgather(p, mine, 2, all);
	for (size_t i = 0; i < size; i++)
		for (size_t k = 0; k < i; k++)
			p->shared = p->shared ||
				((all[2 * i] | all[2 * i + 1]) &&
					memcmp(all + 2 * i, all + 2 * k, sizeof mine) ==
						0);
	free(all);
	return rc;
}

/* Identifies a boot of a machine and a container on it: equal for processes that share both. */
static uint64_t machine(void)
{
	struct buf id = BUF_INIT;
	struct utsname u;
	uint64_t hash;

	if (io_read(&id, "/proc/sys/kernel/random/boot_id", 256) < 0)
		err_clear();
	if (uname(&u) == 0)
		buf_adds(&id, u.nodename);
	crypto_generichash((unsigned char *)&hash, sizeof hash,
		(const unsigned char *)buf_text(&id), id.len, NULL, 0);
	buf_release(&id);
	return hash;
}

int ddp_local_rank(struct ddp *p, int *local, int *ranks)
{
	uint64_t mine = machine(), *all = xcalloc((size_t)p->comm.size, sizeof *all);
	int rc = ddp_allgather(p, &mine, 1, all);

	*local = *ranks = 0;
	for (int r = 0; rc == 0 && r < p->comm.size; r++) {
		*local += all[r] == mine && r < p->comm.rank;
		*ranks += all[r] == mine;
	}
	free(all);
	return rc;
}

/* One rank's memory. */
struct rank_memory {
	uint64_t machine, gpu[2], need, there;
};

/* Of rank i and all that share its memory. */
static struct ddp_memory sum_memory(const struct rank_memory *all, int size, int i)
{
	struct ddp_memory m = { .there = UINT64_MAX };

	for (int k = 0; k < size; k++) {
		const struct rank_memory *r = &all[k];

		if (k != i &&
			(r->machine != all[i].machine ||
				memcmp(r->gpu, all[i].gpu, sizeof r->gpu) != 0))
			continue;
		m.need = r->need < UINT64_MAX - m.need ? m.need + r->need : UINT64_MAX;
		if (r->there < m.there)
			m.there = r->there;
		m.ranks++;
	}
	return m;
}

int ddp_memory(struct ddp *p, const struct dev *d, uint64_t need, uint64_t there,
	struct ddp_memory *m)
{
	struct rank_memory mine = { .machine = machine(), .need = need, .there = there };
	struct rank_memory *all = xcalloc((size_t)p->comm.size, sizeof *all);
	int rc;

	memcpy(mine.gpu, d->uuid, sizeof mine.gpu);
	/* a GPU without a name is nobody else's */
	if (!d->is_host && !(mine.gpu[0] | mine.gpu[1]))
		mine.gpu[0] = (uint64_t)p->comm.rank + 1;
	rc = ddp_allgather(p, (const uint64_t *)&mine, sizeof mine / sizeof(uint64_t),
		(uint64_t *)all);
	if (rc == 0)
		*m = sum_memory(all, p->comm.size, 0);
	for (int i = 1; rc == 0 && m->need <= m->there && i < p->comm.size; i++) {
		struct ddp_memory one = sum_memory(all, p->comm.size, i);

		if (one.need > one.there)
			*m = one;
	}
	free(all);
	return rc;
}

static int on_thread(struct ddp *p, int (*task)(struct ddp *p))
{
	int rc;

	pthread_mutex_lock(&p->lock);
	p->task = task;
	pthread_cond_broadcast(&p->changed);
	while (p->task && !p->failed)
		pthread_cond_wait(&p->changed, &p->lock);
	rc = p->failed ? -1 : p->task_rc;
	pthread_mutex_unlock(&p->lock);
	return rc < 0 ? err_restore(&p->error) : 0;
}

int ddp_bind(struct ddp *p, struct dev *d, float *gradients)
{
	p->gradients = gradients;
	if (d->is_host)
		return 0;
	p->d = d;
	return find_shared(p) < 0 ? -1 : on_thread(p, open_sums);
}

const char *ddp_backend(const struct ddp *p)
{
	return p->sums ? gpu_allreduce_backend(p->sums) : p->comm.ops->name;
}

const char *ddp_why(const struct ddp *p)
{
	if (p->shared)
		return "ranks share a GPU, of which NCCL wants one for each";
	return p->sums ? gpu_allreduce_why(p->sums) : "";
}

/* Queues a range for the thread, to be summed after the operations that the step has started so
 * far. */
static int put_range(struct ddp *p, uint64_t from, uint64_t count, bool now)
{
	size_t had = p->events_cap;
	void **event;

	if (!p->d) {
		put(p, p->gradients + from, count, NULL, now);
		return 0;
	}
	p->events = xgrow(p->events, &p->events_cap, p->recorded + 1, sizeof *p->events);
	memset(p->events + had, 0, (p->events_cap - had) * sizeof *p->events);
	event = &p->events[p->recorded++];
	if (p->d->ops->event_record(p->d, event) < 0)
		return device_failed(p->d);
	put(p, p->gradients + from, count, *event, now);
	return 0;
}

int ddp_grad_ready(void *arg, uint64_t from, uint64_t count)
{
	struct ddp *p = arg;

	if (p->from == p->end)
		p->end = from + count;
	else if (from + count != p->from)
		bug("gradients become final out of order");
	p->from = from;
	if (p->end - from < DDP_BUCKET_MIN)
		return 0;
	count = p->end - from;
	p->end = p->from;
	/* an error of the thread is reported by grad_sync */
	return put_range(p, from, count, p->o.overlap);
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

int ddp_allgather(struct ddp *p, const uint64_t *mine, size_t n, uint64_t *all)
{
	size_t size = (size_t)p->comm.size, count = size * n * WORD_FLOATS;
	size_t first = (size_t)p->comm.rank * n;

	p->words = xrealloc(p->words, count * sizeof *p->words);
	memset(p->words, 0, count * sizeof *p->words);
	for (size_t i = 0; i < n; i++)
		pack(p->words + (first + i) * WORD_FLOATS, mine[i]);
	put(p, p->words, count, NULL, true);
	if (drain(p) < 0)
		return -1;
	for (size_t i = 0; i < size * n; i++)
		all[i] = unpack(p->words + i * WORD_FLOATS);
	return 0;
}

static int broadcast(struct ddp *p)
{
	return comm_broadcast(&p->comm, p->shared_data, p->shared_bytes);
}

int ddp_broadcast(struct ddp *p, void *data, size_t bytes)
{
	p->shared_data = data;
	p->shared_bytes = bytes;
	return on_thread(p, broadcast);
}

int ddp_grad_sync(void *arg, double *loss_sum, uint64_t *targets)
{
	struct ddp *p = arg;
	uint64_t mine[3] = { 0, *targets, p->o.stop_flags ? p->o.stop_flags() : 0 };
	uint64_t *all = xcalloc((size_t)p->comm.size, sizeof mine);
	int rc = 0;

	memcpy(&mine[0], loss_sum, sizeof *loss_sum);
	if (p->from != p->end)
		rc = put_range(p, p->from, p->end - p->from, true);
	p->end = p->from;
	if (rc == 0)
		rc = ddp_allgather(p, mine, 3, all);
	*loss_sum = 0;
	*targets = 0;
	p->all_flags = 0;
	for (int r = 0; rc == 0 && r < p->comm.size; r++) {
		double loss;

		memcpy(&loss, &all[3 * r], sizeof loss);
		*loss_sum += loss;
		*targets += all[3 * r + 1];
		p->all_flags |= (unsigned)all[3 * r + 2];
	}
	free(all);
	return rc;
}

unsigned ddp_stop_flags(const struct ddp *p)
{
	return p->all_flags;
}

void ddp_times(struct ddp *p, struct ddp_times *out)
{
	pthread_mutex_lock(&p->lock);
	*out = (struct ddp_times){ p->sum_ns, p->wait_ns };
	pthread_mutex_unlock(&p->lock);
}
