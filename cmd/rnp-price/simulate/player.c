/* player.c - the one loop that plays traces of jobs, and its policies: see player.h. */
#include "cmd/rnp-price/simulate/player.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/market/share.h"
#include "common/base/mem.h"

#define QUEUE_1_S (8 * 3600.0)
#define QUEUE_2_S (80 * 3600.0)

/* --- one queue for GPUs that are all alike -------------------------------------------------- */

/* The function that orders a live market's jobs; all have equal shares here. */
static double queue_attained(const struct player_job *j)
{
	return share_attained(j->done_s * (double)j->gpus, 1);
}

static double queue_three(const struct player_job *j)
{
	double served = queue_attained(j);

	return served < QUEUE_1_S ? 0 : served < QUEUE_2_S ? 1 : 2;
}

static double queue_remaining(const struct player_job *j)
{
	return (j->duration_s - j->done_s) * (double)j->gpus;
}

static int by_key(const void *a, const void *b)
{
	const struct player_present *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

/* Only the keys of those that have just arrived or run change: they are sorted, and merged with the
 * others, whose order holds. */
static void sort_by_key(struct player *p)
{
	size_t kept = 0, moved = 0;

	for (size_t i = 0; i < p->nthere; i++) {
		struct player_present t = p->there[i];

		if (t.model < 0) {
			p->there[kept++] = t;
			continue;
		}
		t.key = p->policy->key(&p->jobs[t.job]);
		p->moved[moved++] = t;
	}
	qsort(p->moved, moved, sizeof *p->moved, by_key);
	for (size_t i = p->nthere; moved;)
		p->there[--i] = kept &&
				by_key(&p->there[kept - 1], &p->moved[moved - 1]) > 0 ?
			p->there[--kept] :
			p->moved[--moved];
}

/* Without a key, the running jobs are served first because they arrived first. */
static void queue_choose(struct player *p, double now_s)
{
	const bool sorts = p->policy->key;
	int64_t free_gpus = p->cluster->gpus[0];

	(void)now_s;
	if (sorts)
		sort_by_key(p);
	for (size_t i = 0; i < p->nthere; i++) {
		struct player_present *t = &p->there[i];
		int64_t gpus = free_gpus > 0 ? p->jobs[t->job].gpus : INT64_MAX;

		t->model = gpus <= free_gpus ? 0 : -1;
		if (t->model == 0)
			free_gpus -= gpus;
		else if (!sorts)
			free_gpus = 0;
	}
}

/* --- all policies --------------------------------------------------------------------------- */

#define QUEUE .round_s = 300, .ticks = true, .choose = queue_choose
#define GAVEL .models = true, .round_s = 360, .choose = gavel_choose

const struct player_policy player_policies[PLAYER_POLICIES] = {
	{ "fifo", QUEUE },
	/* least attained service (Nuyens and Wierman 2008; Tiresias, NSDI 2019) */
	{ "las", QUEUE, .key = queue_attained },
	/* the same in three queues, with borders at 8 and 80 GPU-hours */
	{ "las-queues", QUEUE, .key = queue_three },
	/* shortest remaining time: knows the future */
	{ "shortest", QUEUE, .key = queue_remaining },
	/* max-min fairness that takes all GPUs for equal: the baseline of Gavel's authors */
	{ "max-min", GAVEL, .rate = gavel_equal },
	/* max-min fairness over throughputs */
	{ "gavel", GAVEL, .rate = gavel_fair },
	/* the shortest time until all present jobs have ended */
	{ "gavel-makespan", GAVEL, .rate = gavel_makespan },
	/* rnp-price match --algorithm gavel --preempt, at equal prices; jobs are
	 * saved each round */
	{ "gavel-match", .models = true, .round_s = 360, .play = live_play },
};

bool player_policy_is(const struct player_policy *policy, const char *name, bool models)
{
	return policy->models == models &&
		(strcmp(name, "all") == 0 || strcmp(name, policy->name) == 0);
}

/* --- the loop ------------------------------------------------------------------------------- */

double player_speed(const struct player_cluster *c, const struct player_job *j, int model)
{
	return c->speed ? c->speed[j->type][model] : 1;
}

bool player_runs_on(const struct player_cluster *c, const struct player_job *j, int model)
{
	return j->gpus <= c->gpus[model] && player_speed(c, j, model) > 0;
}

bool player_is_possible(const struct player_cluster *c, const struct player_job *j)
{
	for (int m = 0; m < c->models; m++)
		if (player_runs_on(c, j, m))
			return true;
	return false;
}

/* Runs a job that was chosen. Returns for how long. */
static double run_job(struct player *p, struct player_job *j, int model, double now_s)
{
	const double speed = player_speed(p->cluster, j, model),
		     left = (j->duration_s - j->done_s) / speed,
		     run = left < p->policy->round_s ? left : p->policy->round_s,
		     counts = p->last_s - now_s;

	if (counts > 0)
		p->used_s += (run < counts ? run : counts) * (double)j->gpus;
	if (left <= p->policy->round_s)
		j->finish_s = now_s + left;
	j->done_s += run * speed;
	return run;
}

/* Plays the round that begins now. Returns its length. */
static double play_round(struct player *p, double now_s)
{
	double longest = 0;
	size_t kept = 0;

	p->policy->choose(p, now_s);
	for (size_t i = 0; i < p->nthere; i++) {
		struct player_present t = p->there[i];

		if (t.model >= 0) {
			struct player_job *j = &p->jobs[t.job];

			double ran = run_job(p, j, t.model, now_s);

			longest = ran > longest ? ran : longest;
			if (j->finish_s >= 0)
				continue;
		}
		p->there[kept++] = t;
	}
	p->changed |= kept < p->nthere;
	p->nthere = kept;
	return p->policy->ticks ? p->policy->round_s : longest;
}

/* When the next round begins if nobody is there: with the next arrival, or at the first tick that
 * is not before it. */
static double skip_idle(const struct player_policy *policy, double now_s,
	double arrival_s)
{
	if (arrival_s <= now_s)
		return now_s;
	return policy->ticks ?
		now_s + ceil((arrival_s - now_s) / policy->round_s) * policy->round_s :
		arrival_s;
}

static void arrive(struct player *p, size_t job, double arrival_s)
{
	struct player_job *j = &p->jobs[job];

	if (j->gpus <= 0 || j->duration_s <= 0) {
		j->finish_s = arrival_s;
	} else if (player_is_possible(p->cluster, j)) {
		p->there[p->nthere++] = (struct player_present){ 0, (uint32_t)job, 0 };
		p->changed = true;
	}
}

static void play_rounds(struct player *p)
{
	double zero = (double)p->jobs[0].arrival_s, now = 0, at;
	size_t next = 0, done = 0;

	while (done < p->end) {
		if (!p->nthere && next < p->n)
			now = skip_idle(p->policy, now,
				(double)p->jobs[next].arrival_s - zero);
		for (; next < p->n; next++) {
			at = (double)p->jobs[next].arrival_s - zero;
			if (at > now)
				break;
			arrive(p, next, at);
		}
		now += play_round(p, now);
		while (done < p->end && done < next &&
			(p->jobs[done].finish_s >= 0 ||
				!player_is_possible(p->cluster, &p->jobs[done])))
			done++;
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->jobs[i].finish_s >= 0)
			p->jobs[i].finish_s += zero;
}

/* --- what became of them -------------------------------------------------------------------- */

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sums up all but busy. Jobs that have not finished were refused. */
static void sum_up(const struct player_job *jobs, size_t n, struct player_result *out)
{
	double *times = xmalloc((n + 1) * sizeof *times),
	       *slow = xmalloc((n + 1) * sizeof *slow), first = (double)jobs[0].arrival_s,
	       speeds = 0, squares = 0;
	size_t k = 0, m = 0;

	for (size_t i = 0; i < n; i++) {
		const struct player_job *j = &jobs[i];
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
		out->makespan_s = fmax(out->makespan_s, j->finish_s - first);
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

void player_run(const struct player_policy *policy, const struct player_cluster *cluster,
	struct player_job *jobs, size_t n, size_t first, size_t count, uint64_t seed,
	struct player_result *out)
{
	struct player p = { .policy = policy,
		.cluster = cluster,
		.jobs = jobs,
		.n = n,
		.end = first + count,
		.seed = seed };
	double gpus = 0;

	memset(out, 0, sizeof *out);
	if (!count)
		return;
	for (size_t i = 0; i < n; i++) {
		jobs[i].done_s = 0;
		jobs[i].finish_s = -1;
	}
	p.last_s = (double)(jobs[p.end - 1].arrival_s - jobs[0].arrival_s);
	p.there = xmalloc(n * sizeof *p.there);
	p.moved = xmalloc(n * sizeof *p.moved);
	if (policy->play)
		policy->play(&p);
	else
		play_rounds(&p);
	free(p.there);
	free(p.moved);
	gavel_free(p.gavel);
	sum_up(jobs + first, count, out);
	for (int m = 0; m < cluster->models; m++)
		gpus += (double)cluster->gpus[m];
	if (p.last_s > 0)
		out->busy = p.used_s / (p.last_s * gpus);
}
