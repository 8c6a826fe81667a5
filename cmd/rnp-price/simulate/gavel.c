/* gavel.c - policies of player.h after Gavel's mechanism (Narayanan et al., OSDI 2020, section 5).
 *
 * When jobs have come or gone, linear programs say which part of its time each job is to spend on
 * each model (fair.h); in each round the jobs that are furthest below their share run first,
 * while there are GPUs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/simulate/player.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define J       FAIR_MODELS_MAX
#define RESET_S 1920 /* an allocation is kept at least this long */

/* What a job is owed. */
struct owed {
	double x[J];    /* the part of its time that it is to spend on each model */
	double time[J]; /* that it spent there since the last answer, and half a round */
	double deficit[J]; /* what it is owed from before */
};

struct order {
	double priority, deficit, x;
	size_t index;
};

struct gavel {
	struct owed *owed; /* by job */
	double work[J];    /* time of all jobs on each model since the last answer */
	double answered_s;
	struct rng rng;
	/* room for as many as there are jobs */
	struct order *order;
	struct fair_class *classes;
	size_t *class_of,
		*example; /* the class of each job that is there; a job of each class */
};

static struct gavel *new_gavel(const struct player *p)
{
	struct gavel *g = xcalloc(1, sizeof *g);

	g->owed = xcalloc(p->n, sizeof *g->owed);
	g->order = xmalloc(p->n * sizeof *g->order);
	g->classes = xmalloc(p->n * sizeof *g->classes);
	g->class_of = xmalloc(p->n * sizeof *g->class_of);
	g->example = xmalloc(p->n * sizeof *g->example);
	rng_seed(&g->rng, p->seed, 0);
	return g;
}

void gavel_free(struct gavel *g)
{
	if (!g)
		return;
	free(g->owed);
	free(g->order);
	free(g->classes);
	free(g->class_of);
	free(g->example);
	free(g);
}

/* --- rates ---------------------------------------------------------------------------------- */

double gavel_equal(const struct player *p, const struct player_job *j, int model)
{
	(void)p;
	(void)model;
	return (double)j->gpus;
}

double gavel_fair(const struct player *p, const struct player_job *j, int model)
{
	const struct player_cluster *c = p->cluster;
	double equal = 0, all = 0;

	for (int k = 0; k < c->models; k++) {
		equal += player_speed(c, j, k) * (double)c->gpus[k];
		all += (double)c->gpus[k];
	}
	return player_speed(c, j, model) * (double)j->gpus * all / equal;
}

double gavel_makespan(const struct player *p, const struct player_job *j, int model)
{
	return player_speed(p->cluster, j, model) * 3600 / (j->duration_s - j->done_s);
}

/* --- answers -------------------------------------------------------------------------------- */

/* Jobs of one type and size are one class of the linear program, unless what is left of them
 * matters. */
static bool same_class(const struct player *p, const struct player_job *a,
	const struct player_job *b)
{
	return a->gpus == b->gpus && a->type == b->type &&
		p->policy->rate != gavel_makespan;
}

/* Asks the linear program anew. */
static void answer(struct player *p)
{
	const struct player_cluster *c = p->cluster;
	struct gavel *g = p->gavel;
	double capacity[J];
	size_t n = 0;

	for (size_t i = 0; i < p->nthere; i++) {
		const struct player_job *j = &p->jobs[p->there[i].job];
		size_t k = 0;

		while (k < n && !same_class(p, j, &p->jobs[g->example[k]]))
			k++;
		g->class_of[i] = k;
		if (k == n) {
			g->classes[n] = (struct fair_class){ .gpus = (double)j->gpus };
			for (int m = 0; m < c->models; m++)
				if (player_runs_on(c, j, m))
					g->classes[n].rate[m] = p->policy->rate(p, j, m);
			g->example[n++] = p->there[i].job;
		}
		g->classes[k].jobs++;
	}
	for (int m = 0; m < c->models; m++)
		capacity[m] = (double)c->gpus[m];
	if (n)
		fair_allocate(g->classes, n, capacity, c->models);
	for (size_t i = 0; i < p->nthere; i++)
		memcpy(g->owed[p->there[i].job].x, g->classes[g->class_of[i]].x,
			sizeof g->owed->x);
}

/* What a job had too little or too much stays as its deficit, and counting begins anew: with
 * half a round for each, so that nobody's part is 0. */
static void reset(struct player *p, double now_s)
{
	struct gavel *g = p->gavel;
	const double half = p->policy->round_s / 2;

	memset(g->work, 0, sizeof g->work);
	for (size_t i = 0; i < p->nthere; i++) {
		struct owed *o = &g->owed[p->there[i].job];

		for (int m = 0; m < p->cluster->models; m++) {
			o->deficit[m] += o->x[m] * (now_s - g->answered_s) -
				(o->time[m] - half);
			o->time[m] = half;
			g->work[m] += half;
		}
	}
	g->answered_s = now_s;
	p->changed = false;
	answer(p);
}

/* --- a round -------------------------------------------------------------------------------- */

static int by_priority(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (x->deficit != y->deficit)
		return x->deficit > y->deficit ? -1 : 1;
	if (x->x != y->x)
		return x->x > y->x ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Chooses who runs on a model: who had the least of what it was to have. */
static void choose_on(struct player *p, int model)
{
	struct gavel *g = p->gavel;
	int64_t free_gpus = p->cluster->gpus[model];
	size_t n = 0;

	for (size_t i = 0; i < p->nthere; i++) {
		const struct player_present *t = &p->there[i];
		const struct owed *o = &g->owed[t->job];

		if (t->model < 0 && player_runs_on(p->cluster, &p->jobs[t->job], model))
			g->order[n++] = (struct order){ o->x[model] * g->work[model] /
					o->time[model],
				o->deficit[model], o->x[model], i };
	}
	qsort(g->order, n, sizeof *g->order, by_priority);
	for (size_t i = 0; i < n && free_gpus > 0; i++) {
		struct player_present *t = &p->there[g->order[i].index];

		if (p->jobs[t->job].gpus > free_gpus)
			continue;
		free_gpus -= p->jobs[t->job].gpus;
		t->model = model;
	}
}

/* The baseline goes through the models in any order. */
static void shuffle(struct rng *rng, int *order, int n)
{
	for (int m = n; m > 1; m--) {
		int k = (int)rng_below(rng, (uint64_t)m), v = order[k];

		order[k] = order[m - 1];
		order[m - 1] = v;
	}
}

/* Counts what the jobs that were chosen will run in this round. */
static void count_times(struct player *p)
{
	struct gavel *g = p->gavel;

	for (size_t i = 0; i < p->nthere; i++) {
		const struct player_present *t = &p->there[i];
		const struct player_job *j = &p->jobs[t->job];
		double run;

		if (t->model < 0)
			continue;
		run = fmin((j->duration_s - j->done_s) /
				player_speed(p->cluster, j, t->model),
			p->policy->round_s);
		g->owed[t->job].time[t->model] += run;
		g->work[t->model] += run;
	}
}

void gavel_choose(struct player *p, double now_s)
{
	int models = p->cluster->models, order[J];
	struct gavel *g = p->gavel ? p->gavel : (p->gavel = new_gavel(p));

	for (size_t i = 0; i < p->nthere; i++) {
		struct player_present *t = &p->there[i];
		double *time = g->owed[t->job].time;

		for (int m = 0; m < models && !(time[m] > 0); m++) /* it is new */
			time[m] = p->policy->round_s / 2;
		t->model = -1;
	}
	if (p->changed && (now_s - g->answered_s >= RESET_S || g->answered_s <= 0))
		reset(p, now_s);
	for (int m = 0; m < models; m++)
		order[m] = m;
	if (p->policy->rate == gavel_equal)
		shuffle(&g->rng, order, models);
	for (int m = 0; m < models; m++)
		choose_on(p, order[m]);
	count_times(p);
}
