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
	return "its owner had more GPU time for his share";
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

/* A running match that may be stopped. */
struct candidate {
	const struct running *r;
	double lost; /* GPU-milliseconds since its last checkpoint */
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

/* How much GPU time each owner had until now: his account less what running matches have left.
 * The caller frees it. */
static double *attained(const struct match *m, int64_t now_ms)
{
	double *had = xmalloc((m->nowners + 1) * sizeof *had);

	for (size_t i = 0; i < m->nowners; i++)
		had[i] = m->owners[i].gpu_ms;
	for (size_t i = 0; i < m->nrunning; i++)
		had[m->running[i].owner] -= match_gpu_ms(m->running[i].parts,
			m->running[i].nparts, m->running[i].end_ms - now_ms);
	return had;
}

/* Whether job j comes before the match's job. Of equal ones under las it does if its owner is
 * behind by more GPU time than is lost. */
static bool comes_before(const struct match *m, const struct match_job *j, size_t owner,
	const struct candidate *c, const struct match_job *low, const double *had)
{
	int high = match_rank(m, j), other = match_rank(m, low);

	if (high != other || m->algorithm != MATCH_LAS || owner == c->r->owner)
		return high > other;
	return sched_attained((had[c->r->owner] - c->lost) * 1e6,
		       (double)low->share_ppm) >
		sched_attained(had[owner] * 1e6, (double)j->share_ppm);
}

/* Lists who may be stopped for j, the least loss first. What started at this instant stays. */
static size_t list_candidates(const struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, int64_t now_ms, struct candidate *out)
{
	double *had = attained(m, now_ms);
	size_t n = 0;

	for (size_t i = 0; i < m->nrunning; i++) {
		const struct running *r = &m->running[i];
		struct candidate c = { .r = r };
		const struct match_job *low;

		if (r->job == MATCH_NO_JOB || r->start_ms >= now_ms)
			continue;
		low = &jobs[r->job];
		if (!low->spot || !match_wants_model(j, m->nodes[r->parts[0].node].model))
			continue;
		c.lost = match_gpu_ms(r->parts, r->nparts,
			now_ms - r->start_ms - saved_ms(r, low, now_ms));
		if (comes_before(m, j, owner, &c, low, had))
			out[n++] = c;
	}
	free(had);
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
	struct candidate *c = xmalloc((m->nrunning + 1) * sizeof *c);
	size_t n = list_candidates(m, jobs, j, owner, now_ms, c), low = 0, high = n,
	       out = 0;

	*stopped = NULL;
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
