/* sched.c - plays traces of jobs under scheduling algorithms: see sched.h. */
#include "cmd/rnp-price/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define QUEUE_1_S (8 * 3600.0)
#define QUEUE_2_S (80 * 3600.0)

const char *const sched_names[SCHED_ALGORITHMS] = { "fifo", "las", "las-queues",
	"shortest" };

double sched_attained(double served, double share)
{
	return served / (share > 0 ? share : 1);
}

static double key_of(enum sched_algorithm a, const struct sched_job *j)
{
	double served = sched_attained(j->done_s * (double)j->gpus, j->share);

	switch (a) {
	case SCHED_LAS:
		return served;
	case SCHED_LAS_QUEUES:
		return served < QUEUE_1_S ? 0 : served < QUEUE_2_S ? 1 : 2;
	case SCHED_SHORTEST:
		return (j->duration_s - j->done_s) * (double)j->gpus;
	default:
		return 0;
	}
}

static int by_key(const void *a, const void *b)
{
	const struct sched_entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

/* Few keys change from one round to the next: if the order still holds, sorting takes n
 * comparisons. */
static bool ordered(const struct sched_entry *e, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (by_key(&e[i - 1], &e[i]) > 0)
			return false;
	return true;
}

void sched_order(enum sched_algorithm a, const struct sched_job *jobs,
	struct sched_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		e[i].key = key_of(a, &jobs[e[i].job]);
	if (!ordered(e, n))
		qsort(e, n, sizeof *e, by_key);
}

/* --- a trace -------------------------------------------------------------------------------- */

struct play {
	enum sched_algorithm a;
	struct sched_job *jobs;
	/* jobs that have arrived and not ended, including running ones */
	struct sched_entry *there;
	size_t nthere;
	int64_t gpus;
	double used_s; /* GPU-seconds used until the last arrival */
};

/* Runs the job for the round that begins at now, or until it ends. */
static void run_job(struct play *p, struct sched_job *j, double now, double until)
{
	double left = j->duration_s - j->done_s,
	       run = left < SCHED_ROUND_S ? left : SCHED_ROUND_S;

	if (now < until)
		p->used_s += (now + run < until ? run : until - now) * (double)j->gpus;
	j->done_s += run;
	if (left <= SCHED_ROUND_S)
		j->finish_s = now + left;
}

/* One round. FIFO serves running jobs first, in the order of arrival, and stops at the first
 * that does not fit; the others start whatever fits. */
static void play_round(struct play *p, double now, double until)
{
	int64_t free_gpus = p->gpus;
	size_t kept = 0;

	sched_order(p->a, p->jobs, p->there, p->nthere);
	for (size_t i = 0; i < p->nthere && free_gpus > 0; i++) {
		struct sched_job *j = &p->jobs[p->there[i].job];

		if (j->gpus <= free_gpus) {
			free_gpus -= j->gpus;
			run_job(p, j, now, until);
		} else if (p->a == SCHED_FIFO) {
			break;
		}
	}
	for (size_t i = 0; i < p->nthere; i++)
		if (p->jobs[p->there[i].job].finish_s < 0)
			p->there[kept++] = p->there[i];
	p->nthere = kept;
}

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void sched_sum_up(const struct sched_job *jobs, size_t n, struct sched_result *out)
{
	double *times = xmalloc((n + 1) * sizeof *times),
	       *slow = xmalloc((n + 1) * sizeof *slow), first = (double)jobs[0].arrival_s,
	       speeds = 0, squares = 0;
	size_t k = 0, m = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sched_job *j = &jobs[i];
		double t = j->finish_s - (double)j->arrival_s;

		if (j->finish_s < 0)
			continue;
		times[k++] = t;
		if (j->gpus > 0 && j->duration_s > 0) {
			double speed = j->duration_s / t;

			slow[m++] = t / j->duration_s;
			speeds += speed;
			squares += speed * speed;
		}
		out->mean_s += t;
		out->wait_mean_s += t - j->duration_s;
		if (j->finish_s - first > out->makespan_s)
			out->makespan_s = j->finish_s - first;
	}
	out->jobs = k;
	out->refused = n - k;
	if (k) {
		qsort(times, k, sizeof *times, by_double);
		out->mean_s /= (double)k;
		out->wait_mean_s /= (double)k;
		out->p50_s = times[k / 2];
		out->p99_s = times[k * 99 / 100];
	}
	if (m) {
		qsort(slow, m, sizeof *slow, by_double);
		out->slowdown_p99 = slow[m * 99 / 100];
		out->fairness = speeds * speeds / ((double)m * squares);
	}
	free(slow);
	free(times);
}

void sched_run(enum sched_algorithm a, struct sched_job *jobs, size_t n, int64_t gpus,
	struct sched_result *out)
{
	struct play p = { .a = a, .jobs = jobs, .gpus = gpus };
	double now, until;
	size_t next = 0;

	memset(out, 0, sizeof *out);
	if (!n)
		return;
	p.there = xmalloc(n * sizeof *p.there);
	for (size_t i = 0; i < n; i++) {
		jobs[i].done_s = 0;
		jobs[i].finish_s = -1;
	}
	now = (double)jobs[0].arrival_s;
	until = (double)jobs[n - 1].arrival_s;
	while (next < n || p.nthere) {
		/* idle until the round of the next arrival */
		if (!p.nthere && (double)jobs[next].arrival_s > now)
			now += ceil(((double)jobs[next].arrival_s - now) /
				       SCHED_ROUND_S) *
				SCHED_ROUND_S;
		for (; next < n && (double)jobs[next].arrival_s <= now; next++) {
			if (jobs[next].gpus <= 0 || jobs[next].duration_s <= 0)
				jobs[next].finish_s = (double)jobs[next].arrival_s;
			else if (jobs[next].gpus <= gpus)
				p.there[p.nthere++].job = next;
		}
		play_round(&p, now, until);
		now += SCHED_ROUND_S;
	}
	sched_sum_up(jobs, n, out);
	if (until > (double)jobs[0].arrival_s)
		out->busy = p.used_s /
			((until - (double)jobs[0].arrival_s) * (double)gpus);
	free(p.there);
}
