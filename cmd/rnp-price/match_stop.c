/* match_stop.c - which running matches are stopped for a waiting job: those that agreed to it
 * (spot) and come after it, as few and with as little lost work as there can be. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/match_parts.h"
#include "cmd/rnp-price/sched.h"
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

	return sched_attained((o->served - left - lost) * 1e6, (double)j->share_ppm);
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

/* Looks once an instant at all that runs. Until the next one the bounds hold: what begins now stays,
 * and what an owner was served until now does not change. */
static void look_at_stoppable(struct match *m, const struct match_job *jobs,
	int64_t now_ms)
{
	struct stoppable *s = &m->stoppable;

	if (s->at_ms == now_ms)
		return;
	*s = (struct stoppable){ .at_ms = now_ms };
	for (size_t i = 0; i < m->nrunning; i++) {
		struct owner *o = &m->owners[m->running[i].owner];

		o->left = 0;
		o->left_at_ms = now_ms;
	}
	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];

		m->owners[r->owner].left += match_served(r, r->end_ms - now_ms);
	}
	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];
		const struct match_job *low;
		double served;
		int rank;

		if (!is_stoppable(r, jobs, now_ms))
			continue;
		low = &jobs[r->job];
		rank = match_rank(m, low);
		served = attained(m, r->owner, low, lost_of(r, low, now_ms), now_ms);
		if (!s->any || rank < s->least_rank ||
			(rank == s->least_rank && served > s->most_served))
			s->most_served = served;
		if (!s->any || rank < s->least_rank)
			s->least_rank = rank;
		s->any = true;
	}
}

/* Whether somebody may come after job j. */
static bool may_stop(const struct match *m, const struct match_job *j, size_t owner,
	int64_t now_ms)
{
	const struct stoppable *s = &m->stoppable;
	int rank = match_rank(m, j);

	if (!s->any || rank != s->least_rank)
		return s->any && rank > s->least_rank;
	return match_is_fair(m) && s->most_served > attained(m, owner, j, 0, now_ms);
}

/* A running match that may be stopped. */
struct candidate {
	const struct running *r;
	double lost; /* of what it served since its last checkpoint */
};

static int by_loss(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->lost != y->lost)
		return x->lost < y->lost ? -1 : 1;
	if (x->r->start_ms != y->r->start_ms)
		return x->r->start_ms > y->r->start_ms ? -1 : 1;
	return x->r->order > y->r->order ? -1 : x->r->order < y->r->order;
}

/* Whether job j comes before the match's job. Of equal ones under las and gavel it does if its
 * owner is behind by more than is lost. */
static bool comes_before(const struct match *m, const struct match_job *j, size_t owner,
	const struct candidate *c, const struct match_job *low, int64_t now_ms)
{
	int high = match_rank(m, j), other = match_rank(m, low);

	if (high != other || !match_is_fair(m) || owner == c->r->owner)
		return high > other;
	return attained(m, c->r->owner, low, c->lost, now_ms) >
		attained(m, owner, j, 0, now_ms);
}

/* Lists who may be stopped for j, the least loss first. */
static size_t list_candidates(const struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, int64_t now_ms, struct candidate *out)
{
	size_t n = 0;

	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];
		struct candidate c = { .r = r };
		const struct match_job *low;

		if (!is_stoppable(r, jobs, now_ms) ||
			!match_wants_model(j, m->nodes[r->parts[0].node].model))
			continue;
		low = &jobs[r->job];
		c.lost = lost_of(r, low, now_ms);
		if (comes_before(m, j, owner, &c, low, now_ms))
			out[n++] = c;
	}
	qsort(out, n, sizeof *out, by_loss);
	return n;
}

static void change_all(struct match *m, const struct match_part *parts, int n, int sign)
{
	for (int i = 0; i < n; i++)
		match_change(m, &parts[i], sign);
}

/* Gives back (to > from) or takes again the GPUs of candidates. */
static void release(struct match *m, const struct candidate *c, size_t from, size_t to)
{
	for (; from < to; from++)
		change_all(m, c[from].r->parts, c[from].r->nparts, -1);
	for (; from > to; from--)
		change_all(m, c[from - 1].r->parts, c[from - 1].r->nparts, 1);
}

static bool are_free(const struct match *m, const struct running *r)
{
	for (int p = 0; p < r->nparts; p++)
		for (int i = 0; i < r->parts[p].gpus; i++)
			if (m->nodes[r->parts[p].node].left[r->parts[p].gpu[i]] <
				r->parts[p].milli)
				return false;
	return true;
}

/* Of the n released candidates, those whose GPUs the choice leaves free have them again. */
static size_t keep_most(struct match *m, const struct candidate *c, size_t n,
	const struct choice *best, size_t *stopped)
{
	size_t left = 0;

	change_all(m, best->parts, best->nparts, 1);
	for (size_t i = n; i--;)
		if (are_free(m, c[i].r))
			change_all(m, c[i].r->parts, c[i].r->nparts, 1);
		else
			stopped[left++] = c[i].r->order;
	change_all(m, best->parts, best->nparts, -1);
	return left;
}

size_t match_make_room(struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, int64_t now_ms, struct choice *best,
	size_t **stopped)
{
	struct candidate *c;
	size_t n, low = 0, high, out = 0;

	*stopped = NULL;
	look_at_stoppable(m, jobs, now_ms);
	if (!may_stop(m, j, owner, now_ms))
		return 0;
	c = xmalloc((m->nrunning + 1) * sizeof *c);
	high = n = list_candidates(m, jobs, j, owner, now_ms, c);
	release(m, c, 0, n);
	if (n && match_choose(m, j, best)) {
		/* the fewest of the first that make room: with `low` of them there is none */
		release(m, c, n, low);
		while (high - low > 1) {
			size_t mid = low + (high - low) / 2;

			release(m, c, 0, mid);
			if (match_choose(m, j, best))
				high = mid;
			else
				low = mid;
			release(m, c, mid, 0);
		}
		release(m, c, 0, high);
		if (match_choose(m, j, best)) {
			*stopped = xmalloc((high + 1) * sizeof **stopped);
			out = keep_most(m, c, high, best, *stopped);
		} else
			release(m, c, high, 0);
	} else
		release(m, c, n, 0);
	free(c);
	return out;
}
