/* hetero.c - plays jobs on several GPU models: see hetero.h. */
#include "cmd/rnp-price/hetero.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/match_core.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define J FAIR_MODELS_MAX

const char *const hetero_names[HETERO_ALGORITHMS] = { "max-min", "gavel",
	"gavel-makespan", "gavel-match" };

/* --- rounds --------------------------------------------------------------------------------- */

/* A job that has arrived and not ended. */
struct present {
	size_t job;
	double x[J];       /* the part of its time that it is to spend on each model */
	double time[J];    /* that it spent there since the policy's last answer */
	double deficit[J]; /* what it is owed from before */
	bool chosen;
	int model; /* on which it runs in this round */
};

struct play {
	enum hetero_algorithm a;
	const struct hetero_cluster *cluster;
	struct sched_job *jobs;
	struct present *there;
	size_t nthere;
	double work[J]; /* time of all jobs on each model since the last answer */
	double answered_s;
	bool changed; /* jobs came or went since */
	struct rng rng;
	struct entry {
		double priority, deficit, x;
		size_t index;
	} * order;
	struct fair_class *classes;
	double used_s, until;
};

static const double *speeds(const struct hetero_cluster *c, const struct sched_job *j)
{
	return c->speed[j->type];
}

static bool runs_on(const struct hetero_cluster *c, const struct sched_job *j, int model)
{
	return j->gpus <= c->gpus[model] && speeds(c, j)[model] > 0;
}

/* What a whole share of a model's time is worth to a job: see fair.h. */
static double rate_of(const struct play *p, const struct sched_job *j, int model)
{
	const struct hetero_cluster *c = p->cluster;
	double equal = 0, all = 0;

	if (!runs_on(c, j, model))
		return 0;
	if (p->a == HETERO_MAX_MIN)
		return (double)j->gpus;
	if (p->a == HETERO_MAKESPAN)
		return speeds(c, j)[model] * 3600 / (j->duration_s - j->done_s);
	for (int k = 0; k < c->models; k++) {
		equal += speeds(c, j)[k] * (double)c->gpus[k];
		all += (double)c->gpus[k];
	}
	return speeds(c, j)[model] * (double)j->gpus * all / equal;
}

static bool same_class(const struct play *p, size_t a, size_t b)
{
	const struct sched_job *x = &p->jobs[p->there[a].job],
			       *y = &p->jobs[p->there[b].job];

	return x->gpus == y->gpus && x->type == y->type && p->a != HETERO_MAKESPAN;
}

/* Asks the policy anew. Jobs of one type and size are one class of the linear program. */
static void answer(struct play *p)
{
	const struct hetero_cluster *c = p->cluster;
	size_t *of = xmalloc((p->nthere + 1) * sizeof *of), n = 0,
	       *of_class = xmalloc((p->nthere + 1) * sizeof *of_class);
	double capacity[J];

	for (size_t i = 0; i < p->nthere; i++) {
		const struct sched_job *j = &p->jobs[p->there[i].job];
		size_t k = 0;

		while (k < n && !same_class(p, i, of_class[k]))
			k++;
		of[i] = k;
		if (k == n) {
			p->classes[n] = (struct fair_class){ .gpus = (double)j->gpus };
			for (int m = 0; m < c->models; m++)
				p->classes[n].rate[m] = rate_of(p, j, m);
			of_class[n++] = i;
		}
		p->classes[k].jobs++;
	}
	for (int m = 0; m < c->models; m++)
		capacity[m] = (double)c->gpus[m];
	if (n)
		fair_allocate(p->classes, n, capacity, c->models);
	for (size_t i = 0; i < p->nthere; i++)
		memcpy(p->there[i].x, p->classes[of[i]].x, sizeof p->there[i].x);
	free(of);
	free(of_class);
}

/* What a job had too little or too much stays as its deficit, and counting begins anew: with
 * half a round for each, so that nobody's part is 0. */
static void reset(struct play *p, double now)
{
	memset(p->work, 0, sizeof p->work);
	for (size_t i = 0; i < p->nthere; i++) {
		struct present *t = &p->there[i];

		for (int m = 0; m < p->cluster->models; m++) {
			t->deficit[m] += t->x[m] * (now - p->answered_s) -
				(t->time[m] - HETERO_ROUND_S / 2.0);
			t->time[m] = HETERO_ROUND_S / 2.0;
			p->work[m] += t->time[m];
		}
	}
	p->answered_s = now;
	p->changed = false;
	answer(p);
}

static int by_priority(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (x->deficit != y->deficit)
		return x->deficit > y->deficit ? -1 : 1;
	if (x->x != y->x)
		return x->x > y->x ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Chooses who runs on a model: who had the least of what he was to have. */
static void choose(struct play *p, int model)
{
	int64_t free_gpus = p->cluster->gpus[model];
	size_t n = 0;

	for (size_t i = 0; i < p->nthere; i++) {
		const struct present *t = &p->there[i];

		if (!t->chosen && runs_on(p->cluster, &p->jobs[t->job], model))
			p->order[n++] = (struct entry){ t->x[model] * p->work[model] /
					t->time[model],
				t->deficit[model], t->x[model], i };
	}
	qsort(p->order, n, sizeof *p->order, by_priority);
	for (size_t i = 0; i < n && free_gpus > 0; i++) {
		struct present *t = &p->there[p->order[i].index];

		if (p->jobs[t->job].gpus > free_gpus)
			continue;
		free_gpus -= p->jobs[t->job].gpus;
		t->chosen = true;
		t->model = model;
	}
}

/* Runs those that were chosen. Returns how long the round takes: until the last one pauses. */
static double run_chosen(struct play *p, double now)
{
	double longest = 0;

	for (size_t i = 0; i < p->nthere; i++) {
		struct present *t = &p->there[i];
		struct sched_job *j = &p->jobs[t->job];
		double speed, left, run;

		if (!t->chosen)
			continue;
		speed = speeds(p->cluster, j)[t->model];
		left = (j->duration_s - j->done_s) / speed;
		run = fmin(left, HETERO_ROUND_S);
		if (left <= HETERO_ROUND_S)
			j->finish_s = now + left;
		j->done_s += run * speed;
		t->time[t->model] += run;
		p->work[t->model] += run;
		longest = fmax(longest, run);
		if (now < p->until)
			p->used_s += fmin(run, p->until - now) * (double)j->gpus;
	}
	return longest;
}

static double play_round(struct play *p, double now)
{
	int models = p->cluster->models, order[J];
	double length;
	size_t kept = 0;

	if (p->changed && (now - p->answered_s >= HETERO_RESET_S || p->answered_s <= 0))
		reset(p, now);
	for (int m = 0; m < models; m++)
		order[m] = m;
	for (int m = models; p->a == HETERO_MAX_MIN && m > 1; m--) {
		int k = (int)rng_below(&p->rng, (uint64_t)m), v = order[k];

		order[k] = order[m - 1];
		order[m - 1] = v;
	}
	for (size_t i = 0; i < p->nthere; i++)
		p->there[i].chosen = false;
	for (int m = 0; m < models; m++)
		choose(p, order[m]);
	length = run_chosen(p, now);
	for (size_t i = 0; i < p->nthere; i++)
		if (p->jobs[p->there[i].job].finish_s < 0)
			p->there[kept++] = p->there[i];
	p->changed |= kept < p->nthere;
	p->nthere = kept;
	return length;
}

/* --- the trace ------------------------------------------------------------------------------ */

static bool is_possible(const struct hetero_cluster *c, const struct sched_job *j)
{
	for (int m = 0; m < c->models; m++)
		if (runs_on(c, j, m))
			return true;
	return false;
}

static void arrive(struct play *p, size_t job)
{
	struct present *t = &p->there[p->nthere++];

	*t = (struct present){ .job = job };
	for (int m = 0; m < p->cluster->models; m++)
		t->time[m] = HETERO_ROUND_S / 2.0;
	p->changed = true;
}

static bool ended(const struct sched_job *j)
{
	return j->finish_s >= 0;
}

static void play_rounds(struct play *p, size_t n, size_t end)
{
	double zero = (double)p->jobs[0].arrival_s, now = 0;
	size_t next = 0, done = 0;

	p->until = (double)p->jobs[end - 1].arrival_s - zero;
	while (done < end) {
		if (!p->nthere && next < n)
			now = fmax(now, (double)p->jobs[next].arrival_s - zero);
		for (; next < n && (double)p->jobs[next].arrival_s - zero <= now;
			next++) {
			struct sched_job *j = &p->jobs[next];

			if (j->gpus <= 0 || j->duration_s <= 0)
				j->finish_s = (double)j->arrival_s - zero;
			else if (is_possible(p->cluster, j))
				arrive(p, next);
		}
		now += play_round(p, now);
		while (done < end && done < next &&
			(ended(&p->jobs[done]) ||
				!is_possible(p->cluster, &p->jobs[done])))
			done++;
	}
	for (size_t i = 0; i < n; i++)
		if (ended(&p->jobs[i]))
			p->jobs[i].finish_s += zero;
}

/* --- by match ------------------------------------------------------------------------------- */

struct matching {
	struct play *play;
	const size_t *index; /* of match's jobs */
	int64_t *end_ms;     /* when each is to end */
};

/* Adds a span of a job's time, as far as it counts: sign 1, or -1 for what is not used. */
static void add_used(struct play *p, const struct sched_job *j, int sign, int64_t from_ms,
	int64_t to_ms)
{
	double zero = (double)p->jobs[0].arrival_s, from = (double)from_ms / 1000 - zero,
	       to = fmin((double)to_ms / 1000 - zero, p->until);

	p->used_s += sign * fmax(0, to - from) * (double)j->gpus;
}

static int keep_match(void *ctx, const struct match_result *r)
{
	struct matching *m = ctx;
	struct sched_job *j = &m->play->jobs[m->index[r->job]];

	if (!r->nparts)
		return 0;
	if (r->stopped_for) {
		j->finish_s = -1;
		add_used(m->play, j, -1, r->end_ms, m->end_ms[r->job]);
		return 0;
	}
	j->finish_s = (double)r->end_ms / 1000;
	m->end_ms[r->job] = r->end_ms;
	add_used(m->play, j, 1, r->start_ms, r->end_ms);
	return 0;
}

/* The cluster as nodes for sale at one price, and the jobs as rnp.job records have them: each of a
 * customer of its own, saved every round, and to be stopped for one that was served less. */
static void play_match(struct play *p, size_t n, size_t end)
{
	const struct hetero_cluster *c = p->cluster;
	struct sched_job *jobs = p->jobs;
	size_t nnodes = 0, njobs = 0, *index = xmalloc((n + 1) * sizeof *index);
	struct match_job *asked = xcalloc(n + 1, sizeof *asked);
	struct match_node *nodes;
	char *owners = xcalloc(n + 1, 1); /* names that only their places tell apart */
	struct matching ctx = { p, index, xcalloc(n + 1, sizeof *ctx.end_ms) };
	struct match *m;

	for (int k = 0; k < c->models; k++)
		nnodes += (size_t)(c->gpus[k] + HETERO_MATCH_GPUS - 1) /
			HETERO_MATCH_GPUS;
	nodes = xcalloc(nnodes, sizeof *nodes);
	nnodes = 0;
	for (int k = 0; k < c->models; k++)
		for (int64_t left = c->gpus[k]; left > 0; left -= HETERO_MATCH_GPUS)
			nodes[nnodes++] = (struct match_node){ .id = c->names[k],
				.model = c->names[k],
				.uusd = 1000000,
				.reputation_ppm = -1,
				.uptime_ppm = 1000000,
				.gpus = (int)(left < HETERO_MATCH_GPUS ?
						left :
						HETERO_MATCH_GPUS) };
	for (size_t i = 0; i < n; i++) {
		const struct sched_job *j = &jobs[i];
		struct match_job *to = &asked[njobs];

		if (j->gpus <= 0 || j->duration_s <= 0)
			jobs[i].finish_s = (double)j->arrival_s;
		else if (!is_possible(c, j))
			continue;
		*to = (struct match_job){ .id = "",
			.owner = &owners[i],
			.limit_uusd = MATCH_NO_LIMIT,
			.at_ms = j->arrival_s * 1000,
			.since_ms = j->arrival_s * 1000,
			.order = njobs,
			.checkpoint_ms = HETERO_ROUND_S * 1000,
			.spot = true,
			.length_ms = (int64_t)(j->duration_s * 1000),
			.share_ppm = 1000000,
			.gpus = (int)j->gpus,
			.milli = MATCH_MILLI,
			.nodes_max = 1 };
		for (int k = 0; k < c->models; k++)
			if (runs_on(c, j, k)) {
				to->throughput[to->nmodels] = speeds(c, j)[k];
				to->models[to->nmodels++] = c->names[k];
			}
		/* the length is that on the first model of the list */
		to->length_ms = (int64_t)fmin((double)to->length_ms / to->throughput[0],
			MATCH_MS_MAX);
		index[njobs] = i;
		njobs += !ended(&jobs[i]);
	}
	p->until = (double)jobs[end - 1].arrival_s - (double)jobs[0].arrival_s;
	m = match_open(MATCH_GAVEL, nodes, nnodes);
	match_preempt(m);
	match_run(m, asked, njobs, INT64_MAX, keep_match, &ctx);
	match_close(m);
	free(nodes);
	free(asked);
	free(index);
	free(owners);
	free(ctx.end_ms);
}

void hetero_run(enum hetero_algorithm a, const struct hetero_cluster *cluster,
	struct sched_job *jobs, size_t n, size_t first, size_t count, uint64_t seed,
	struct sched_result *out)
{
	struct play p = { .a = a, .cluster = cluster, .jobs = jobs };

	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < n; i++) {
		jobs[i].done_s = 0;
		jobs[i].finish_s = -1;
	}
	if (!count)
		return;
	if (a == HETERO_MATCH) {
		play_match(&p, n, first + count);
	} else {
		p.there = xmalloc(n * sizeof *p.there);
		p.order = xmalloc(n * sizeof *p.order);
		p.classes = xmalloc(n * sizeof *p.classes);
		rng_seed(&p.rng, seed, 0);
		play_rounds(&p, n, first + count);
		free(p.there);
		free(p.order);
		free(p.classes);
	}
	sched_sum_up(jobs + first, count, out);
	if (p.until > 0) {
		int64_t gpus = 0;

		for (int m = 0; m < cluster->models; m++)
			gpus += cluster->gpus[m];
		out->busy = p.used_s / (p.until * (double)gpus);
	}
}
