/* stop.c - which running matches are stopped for a waiting job: those that agreed to it
 * (spot) and come after it, as few and with as little lost work as there can be. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/market/share.h"
#include "common/base/mem.h"

int match_rank(const struct match *m, const struct match_job *j)
{
	return 2 * j->render + (m->preempts && !j->spot);
}

const char *match_stop_why(const struct match_job *high, const struct match_job *low)
{
	if (high->render != low->render)
		return "rendering comes before computing";
	if (high->spot != low->spot)
		return "it may be interrupted, the other may not";
	return "its owner was served more for his share";
}

/* The time until its last checkpoint. */
static int64_t saved_ms(const struct running *r, const struct match_job *j,
	int64_t now_ms)
{
	int64_t ran = now_ms - r->start_ms;

	return j->checkpoint_ms > 0 ? ran / j->checkpoint_ms * j->checkpoint_ms : 0;
}

int64_t match_kept_ms(const struct running *r, const struct match_job *j, int64_t now_ms)
{
	int64_t saved = saved_ms(r, j, now_ms), length = r->end_ms - r->start_ms;

	if (r->work_ms == length)
		return saved;
	return (int64_t)((double)saved * (double)r->work_ms / (double)length);
}

/* What an owner was served until now, less `lost`, for his share. */
static double attained(const struct match *m, size_t owner, const struct match_job *j,
	double lost, int64_t now_ms)
{
	const struct owner *o = &m->owners[owner];
	double left = o->left_at_ms == now_ms ? o->left : 0;

	return share_attained((o->served - left - lost) * 1e6, (double)j->share_ppm);
}

/* Whether a match may be stopped at all: what started at this instant stays. */
static bool is_stoppable(const struct running *r, const struct match_job *jobs,
	int64_t now_ms)
{
	return r->job != MATCH_NO_JOB && r->start_ms < now_ms && jobs[r->job].spot;
}

static double lost_of(const struct running *r, const struct match_job *low,
	int64_t now_ms)
{
	return match_served(r, now_ms - r->start_ms - saved_ms(r, low, now_ms));
}

static int by_loss(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->lost != y->lost)
		return x->lost < y->lost ? -1 : 1;
	if (x->r.start_ms != y->r.start_ms)
		return x->r.start_ms > y->r.start_ms ? -1 : 1;
	return x->r.order > y->r.order ? -1 : x->r.order < y->r.order;
}

/* What each owner still gets of what runs. */
static void sum_up_left(struct match *m, int64_t now_ms)
{
	for (size_t i = 0; i < m->nrunning; i++) {
		struct owner *o = &m->owners[m->running[i].owner];

		o->left = 0;
		o->left_at_ms = now_ms;
	}
	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];

		m->owners[r->owner].left += match_served(r, r->end_ms - now_ms);
	}
}

/* Looks once an instant at all that runs. Until the next one it holds: what begins now stays, and
 * what an owner was served until now does not change. */
static void look_at_stoppable(struct match *m, const struct match_job *jobs,
	int64_t now_ms)
{
	struct stoppable *s = &m->stoppable;

	if (s->at_ms == now_ms)
		return;
	s->at_ms = now_ms;
	s->n = s->gone = s->nfailed = 0;
	sum_up_left(m, now_ms);
	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];
		const struct match_job *low;
		double lost, served;
		int rank;

		if (!is_stoppable(r, jobs, now_ms))
			continue;
		low = &jobs[r->job];
		lost = lost_of(r, low, now_ms);
		rank = match_rank(m, low);
		served = attained(m, r->owner, low, lost, now_ms);
		if (!s->n || rank < s->least_rank ||
			(rank == s->least_rank && served > s->most_served))
			s->most_served = served;
		if (!s->n || rank < s->least_rank)
			s->least_rank = rank;
		s->list = xgrow(s->list, &s->cap, s->n + 1, sizeof *s->list);
		s->list[s->n++] = (struct candidate){ *r, lost };
	}
	if (s->n)
		qsort(s->list, s->n, sizeof *s->list, by_loss);
}

/* Whether somebody may come after job j. */
static bool may_stop(const struct match *m, const struct match_job *j, size_t owner,
	int64_t now_ms)
{
	const struct stoppable *s = &m->stoppable;
	int rank = match_rank(m, j);

	if (s->n == s->gone || rank != s->least_rank)
		return s->n > s->gone && rank > s->least_rank;
	return match_is_fair(m) && s->most_served > attained(m, owner, j, 0, now_ms);
}

/* Whether job j comes before the match's job. Of equal ones under las and gavel it does if its
 * owner is behind by more than is lost. */
static bool comes_before(const struct match *m, const struct match_job *j, size_t owner,
	const struct candidate *c, const struct match_job *low, int64_t now_ms)
{
	int high = match_rank(m, j), other = match_rank(m, low);

	if (high != other || !match_is_fair(m) || owner == c->r.owner)
		return high > other;
	return attained(m, c->r.owner, low, c->lost, now_ms) >
		attained(m, owner, j, 0, now_ms);
}

/* Whether a node has what a job asks for, but perhaps the size and the price. */
static bool can_be_on(const struct match_index *ix, const struct match_job *j,
	size_t node)
{
	const struct group *g = &ix->groups[ix->facts[node].group];

	return match_group_fits(j, g) &&
		match_node_lacks(ix, j, node, match_group_units(g)) == MATCH_REASONS;
}

/* Whether stopping the match can help job j: it comes after it, on a node where j can be. */
static bool is_of_use(const struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, const struct candidate *c)
{
	const struct match_job *low = &jobs[c->r.job];

	if (!c->r.nparts || !comes_before(m, j, owner, c, low, m->stoppable.at_ms))
		return false;
	for (int i = 0; i < c->r.nparts; i++)
		if (can_be_on(&m->ix, j, c->r.parts[i].node))
			return true;
	return false;
}

/* --- what had no place ------------------------------------------------------------------------ */

/* Whether b asks for all that a asks for, and comes before nobody whom a does not come before. */
static bool asks_no_less(const struct match *m, const struct match_job *a, size_t owner_a,
	const struct match_job *b, size_t owner_b)
{
	if (match_is_fair(m) && (owner_a != owner_b || a->share_ppm != b->share_ppm))
		return false;
	if (a->gpus != b->gpus || a->milli != b->milli || a->nodes_max != b->nodes_max ||
		b->gpu_memory_bytes < a->gpu_memory_bytes ||
		b->reputation_ppm < a->reputation_ppm || b->limit_uusd > a->limit_uusd ||
		(a->compliance & ~b->compliance) || (b->spot && !a->spot) ||
		match_rank(m, b) > match_rank(m, a) || (a->nmodels && !b->nmodels) ||
		(a->nplaces && !b->nplaces))
		return false;
	for (int i = 0; i < b->nmodels; i++)
		if (!match_wants_model(a, b->models[i]))
			return false;
	for (int i = 0; i < b->nplaces; i++)
		if (!match_wants_place(a, b->places[i], NULL))
			return false;
	return true;
}

static bool has_failed(const struct match *m, const struct match_job *j, size_t owner)
{
	const struct stoppable *s = &m->stoppable;

	for (size_t i = 0; i < s->nfailed && i < MATCH_FAILED_MAX; i++)
		if (asks_no_less(m, s->failed[i].job, s->failed[i].owner, j, owner))
			return true;
	return false;
}

/* --- making room ------------------------------------------------------------------------------ */

/* Those that are tried for a job, in their order. The first `given` have given back their GPUs. */
struct picked {
	struct candidate **at;
	size_t n, cap, given;
	size_t next; /* in the list of all */
};

static void change_all(struct match *m, const struct match_part *parts, int n, int sign)
{
	for (int i = 0; i < n; i++)
		match_change(&m->ix, &parts[i], sign);
}

/* Gives back, or takes again, so that just the first n have given back. */
static void give_back(struct match *m, struct picked *p, size_t n)
{
	for (; p->given < n; p->given++)
		change_all(m, p->at[p->given]->r.parts, p->at[p->given]->r.nparts, -1);
	for (; p->given > n; p->given--)
		change_all(m, p->at[p->given - 1]->r.parts, p->at[p->given - 1]->r.nparts,
			1);
}

static bool are_free(const struct match *m, const struct running *r)
{
	for (int p = 0; p < r->nparts; p++)
		for (int i = 0; i < r->parts[p].gpus; i++)
			if (m->ix.nodes[r->parts[p].node].left[r->parts[p].gpu[i]] <
				r->parts[p].milli)
				return false;
	return true;
}

/* Of those that gave back, the ones whose GPUs the choice leaves free have them again; the others
 * are stopped, and no candidates any more. */
static size_t keep_most(struct match *m, struct picked *p, const struct choice *best,
	size_t *stopped)
{
	struct stoppable *s = &m->stoppable;
	size_t n = 0, left = 0;

	change_all(m, best->parts, best->nparts, 1);
	for (size_t i = p->given; i--;)
		if (are_free(m, &p->at[i]->r)) {
			change_all(m, p->at[i]->r.parts, p->at[i]->r.nparts, 1);
		} else {
			stopped[n++] = p->at[i]->r.order;
			p->at[i]->r.nparts = 0;
		}
	change_all(m, best->parts, best->nparts, -1);
	p->given = 0;
	s->nfailed = 0;
	s->gone += n;
	if (2 * s->gone <= s->n)
		return n;
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].r.nparts)
			s->list[left++] = s->list[i];
	s->n = left;
	s->gone = 0;
	return n;
}

/* Gives back the GPUs of twice as many candidates each time, until the job has a place: with the
 * last `*low` of them it had none. */
static bool find_enough(struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, struct picked *p, struct choice *best,
	size_t *low)
{
	struct stoppable *s = &m->stoppable;

	*low = 0;
	for (size_t want = 1;; want *= 2) {
		for (; p->n < want && p->next < s->n; p->next++) {
			struct candidate *c = &s->list[p->next];

			if (!is_of_use(m, jobs, j, owner, c))
				continue;
			p->at = xgrow(p->at, &p->cap, p->n + 1, sizeof *p->at);
			p->at[p->n++] = c;
		}
		if (p->n == *low)
			return false;
		give_back(m, p, p->n);
		if (match_choose(&m->ix, &m->chooser, j, best))
			return true;
		*low = p->n;
	}
}

size_t match_make_room(struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, int64_t now_ms, struct choice *best,
	size_t **stopped)
{
	struct stoppable *s = &m->stoppable;
	struct picked p = { .n = 0 };
	size_t low, high, out = 0;

	*stopped = NULL;
	look_at_stoppable(m, jobs, now_ms);
	if (!may_stop(m, j, owner, now_ms) || has_failed(m, j, owner) ||
		!match_could_fit(m, j))
		return 0;
	if (find_enough(m, jobs, j, owner, &p, best, &low)) {
		/* the fewest of the first that make room */
		for (high = p.n; high - low > 1;) {
			size_t mid = low + (high - low) / 2;

			give_back(m, &p, mid);
			if (match_choose(&m->ix, &m->chooser, j, best))
				high = mid;
			else
				low = mid;
		}
		give_back(m, &p, high);
		if (match_choose(&m->ix, &m->chooser, j, best)) {
			*stopped = xmalloc((high + 1) * sizeof **stopped);
			out = keep_most(m, &p, best, *stopped);
		}
	}
	if (!out) {
		give_back(m, &p, 0);
		s->failed[s->nfailed++ % MATCH_FAILED_MAX] = (struct failed){ j, owner };
	}
	free(p.at);
	return out;
}
