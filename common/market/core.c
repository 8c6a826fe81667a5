/* core.c - matches jobs with nodes as time passes: see core.h. */
#include "common/market/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/market/share.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define ORDER_TRIES     60000 /* placements with which an order is improved */
#define ORDER_TRIES_MIN 20    /* with fewer orders than this it is left as it is */
#define LESS            0.06 /* of the gain, that may be lost on the way to a better order */

const char *const match_host_names[MATCH_HOSTS] = { "any", "data-center", "miner",
	"partner" };
const char *const match_names[MATCH_ALGORITHMS] = { "cheapest", "rotation", "las",
	"gavel", "fgd" };

/* --- order --------------------------------------------------------------------------------- */

struct waiting {
	size_t job, owner;
	double key;
	int rank;
	int gpus;
	int64_t since_ms;
	size_t order;
	bool fits; /* when orders were last tried */
};

static bool is_before(const struct waiting *x, const struct waiting *y)
{
	if (x->rank != y->rank)
		return x->rank > y->rank;
	if (x->key != y->key)
		return x->key < y->key;
	if (x->gpus != y->gpus)
		return x->gpus > y->gpus;
	if (x->since_ms != y->since_ms)
		return x->since_ms < y->since_ms;
	if (x->order != y->order)
		return x->order < y->order;
	return x->job < y->job;
}

static int by_turn(const void *a, const void *b)
{
	return is_before(a, b) ? -1 : is_before(b, a);
}

/* The job that pays most per GPU comes first; of equal ones the largest, which is hardest to
 * place. */
static double turn_of(const struct match *m, const struct match_job *j, size_t owner)
{
	if (m->ix.algorithm == MATCH_CHEAPEST)
		return j->limit_uusd == MATCH_NO_LIMIT ? -MATCH_HEAP_NONE :
							 -(double)j->limit_uusd *
				MATCH_MILLI / (match_gpus_of(j) * j->milli);
	if (match_is_fair(m))
		return share_attained(m->owners[owner].served * 1e6,
			(double)j->share_ppm);
	return 0;
}

/* --- time ---------------------------------------------------------------------------------- */

struct run {
	struct match *m;
	const struct match_job *jobs;
	struct waiting *queue;
	size_t nqueue;
	int64_t *left_ms; /* of each job's work */
	int64_t now_ms;
	bool stopped; /* a match was, so that others may fit */
	match_emit emit;
	void *ctx;
};

/* Whether a job may not begin any more. */
static bool is_late(const struct run *r, const struct match_job *j)
{
	return j->start_by_ms && r->now_ms > j->start_by_ms;
}

static void enqueue(struct run *r, size_t job)
{
	const struct match_job *j = &r->jobs[job];

	r->queue[r->nqueue++] = (struct waiting){ job, match_owner_of(r->m, j->owner), 0,
		match_rank(r->m, j), r->m->ix.algorithm == MATCH_CHEAPEST ? j->gpus : 0,
		j->since_ms, j->order, false };
}

/* How fast the job's work goes there, relative to the first model that it names. */
static double rate_of(const struct match *m, const struct match_job *j,
	const struct match_part *parts)
{
	return match_work_of(&m->ix, j, m->ix.nodes[parts[0].node].model) /
		match_work_of(&m->ix, j, j->nmodels ? j->models[0] : NULL);
}

static int begin_job(struct run *r, const struct waiting *w, struct choice *c,
	int64_t now_ms)
{
	const struct match_job *j = &r->jobs[w->job];
	struct match *m = r->m;
	int64_t left = r->left_ms[w->job];
	int64_t length = (int64_t)fmin((double)left / rate_of(m, j, c->parts),
		MATCH_MS_MAX);
	struct match_result out = { .job = w->job,
		.start_ms = now_ms,
		.end_ms = now_ms + length,
		.uusd_per_hour = c->uusd,
		.nparts = c->nparts,
		.parts = c->parts };
	struct running x = { .start_ms = now_ms,
		.end_ms = out.end_ms,
		.job = w->job,
		.owner = w->owner,
		.uusd = c->uusd,
		.work_ms = left,
		.speed = match_speed(&m->ix, j, m->ix.nodes[c->parts[0].node].model),
		.parts = c->parts,
		.nparts = c->nparts };

	match_start(m, &x);
	for (int i = 0; i < c->nparts; i++)
		match_count_work(m, &c->parts[i], length);
	match_account(m, w->owner, match_served(&x, length), now_ms);
	return r->emit(r->ctx, &out);
}

/* Stops a match whose GPUs were given back: its job keeps the work up to its last checkpoint and
 * waits again. */
static int stop_match(struct run *r, size_t order, const struct match_job *high,
	int64_t now_ms)
{
	struct match *m = r->m;
	struct running x = match_take_out(m, order);
	const struct match_job *low = &r->jobs[x.job];
	int64_t rest = x.end_ms - now_ms;
	struct match_result out = { .job = x.job,
		.start_ms = x.start_ms,
		.end_ms = now_ms,
		.uusd_per_hour = x.uusd,
		.nparts = x.nparts,
		.parts = x.parts,
		.stopped_for = high,
		.why = match_stop_why(high, low) };
	int rc;

	r->left_ms[x.job] = out.left_ms = x.work_ms - match_kept_ms(&x, low, now_ms);
	match_account(m, x.owner, -match_served(&x, rest), now_ms);
	for (int i = 0; i < x.nparts; i++)
		match_count_work(m, &x.parts[i], -rest);
	r->stopped = true;
	rc = r->emit(r->ctx, &out);
	free(x.parts);
	if (!low->elsewhere)
		enqueue(r, x.job);
	return rc;
}

/* Begins a job for which there is no place, by stopping others. began: whether there is one then.
 * Returns 0, or emit's error. */
static int begin_by_stopping(struct run *r, const struct waiting *w, struct choice *c,
	int64_t now_ms, bool *began)
{
	const struct match_job *j = &r->jobs[w->job];
	const struct waiting own = *w; /* the queue grows */
	size_t *stopped;
	size_t n = match_make_room(r->m, r->jobs, j, own.owner, now_ms, c, &stopped);
	int rc = 0;

	*began = n > 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = stop_match(r, stopped[i], j, now_ms);
	free(stopped);
	return n && !rc ? begin_job(r, &own, c, now_ms) : rc;
}

/* --- a better order ------------------------------------------------------------------------- */

/* A customer's gain: the most he would pay minus the price he pays. Without a limit he would
 * pay twice the dearest price. */
static double gain_of(const struct match *m, const struct match_job *j, int64_t left_ms,
	const struct choice *c)
{
	double max = j->limit_uusd == MATCH_NO_LIMIT ?
		2 * m->dearest * match_gpus_of(j) * j->milli / MATCH_MILLI :
		(double)j->limit_uusd;

	return (max - (double)c->uusd) * (double)left_ms;
}

/* Copies those of n that have a place now to `fit`: the others will have none either when these
 * have taken theirs. Returns how many; *alone becomes the sum of what each would gain if it were
 * the only one. */
static size_t those_that_fit(struct run *r, struct waiting *queue, size_t n,
	struct waiting *fit, struct choice *c, double *alone)
{
	size_t k = 0;

	*alone = 0;
	for (size_t i = 0; i < n; i++) {
		const struct match_job *j = &r->jobs[queue[i].job];

		queue[i].fits = !is_late(r, j) &&
			match_choose(&r->m->ix, &r->m->chooser, j, c);
		if (!queue[i].fits)
			continue;
		fit[k++] = queue[i];
		*alone += gain_of(r->m, j, r->left_ms[queue[i].job], c);
	}
	return k;
}

/* Places n jobs in this order and takes everything back. Returns the sum of gains. */
static double try_order(struct run *r, const struct waiting *order, size_t n,
	struct choice *choices)
{
	struct match *m = r->m;
	size_t placed = 0;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct match_job *j = &r->jobs[order[i].job];

		if (!match_choose(&m->ix, &m->chooser, j, &choices[placed]))
			continue;
		sum += gain_of(m, j, r->left_ms[order[i].job], &choices[placed]);
		for (int k = 0; k < choices[placed].nparts; k++)
			match_change(&m->ix, &choices[placed].parts[k], 1);
		placed++;
	}
	while (placed--)
		for (int k = choices[placed].nparts; k--;)
			match_change(&m->ix, &choices[placed].parts[k], -1);
	return sum;
}

static void move_one(struct waiting *order, size_t n, struct rng *rng)
{
	size_t from = rng_below(rng, n), to = rng_below(rng, n);
	struct waiting w = order[from];

	if (w.rank != order[to].rank)
		return;
	memmove(order + from, order + from + 1, (n - from - 1) * sizeof *order);
	memmove(order + to + 1, order + to, (n - to - 1) * sizeof *order);
	order[to] = w;
}

static int by_size(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	if (x->rank == y->rank && x->gpus != y->gpus)
		return x->gpus > y->gpus ? -1 : 1;
	return by_turn(a, b);
}

/* Looks for an order of n jobs in which they gain more together; tries so many orders. At first
 * the search also continues from an order that gains a little less (threshold accepting, Dueck and
 * Scheuer 1990). `work` has room for 2 n. */
static void search_order(struct run *r, struct waiting *best, size_t n, size_t tries,
	double alone, struct waiting *work, struct choice *choices)
{
	struct waiting *now = work, *other = work + n;
	double max = try_order(r, best, n, choices), sum = max;
	struct rng rng;

	rng_seed(&rng, 1, 1);
	memcpy(now, best, n * sizeof *now);
	for (size_t t = 0; t < tries && max < alone * (1 - 1e-12); t++) {
		double less = max * LESS * (1 - (double)(t + 1) / (double)tries), got;

		memcpy(other, now, n * sizeof *other);
		if (t == 0)
			qsort(other, n, sizeof *other, by_size);
		else
			move_one(other, n, &rng);
		got = try_order(r, other, n, choices);
		if (got < sum - less)
			continue;
		sum = got;
		memcpy(now, other, n * sizeof *now);
		if (got > max) {
			max = got;
			memcpy(best, other, n * sizeof *best);
		}
	}
}

/* Serving first who pays most per GPU comes within a few percent of the most that all can gain
 * together, because jobs that need several GPUs leave some over. This puts the jobs that fit
 * into a better order. Some order is the best there is: take the best plan, and place the jobs of
 * its cheapest node first, then those of the next. Jobs of a higher rank stay before the others. */
static void improve_order(struct run *r, size_t from)
{
	size_t n = r->nqueue - from, tries = n < 2 ? 0 : ORDER_TRIES / n, k;
	struct waiting *queue = r->queue + from, *fit;
	struct choice *choices;
	double alone;

	if (tries < ORDER_TRIES_MIN)
		return;
	fit = xmalloc(3 * n * sizeof *fit);
	choices = xcalloc(n, sizeof *choices);
	k = those_that_fit(r, queue, n, fit, choices, &alone);
	if (k > 1)
		search_order(r, fit, k, tries, alone, fit + n, choices);
	for (size_t i = 0, at = 0; i < n && k > 1; i++)
		if (queue[i].fits)
			queue[i] = fit[at++];
	for (size_t i = 0; i < n; i++)
		choice_release(&choices[i]);
	free(choices);
	free(fit);
}

/* Begins a job that waits if there is a place, or one is made. Returns 0, or emit's error. */
static int try_one(struct run *r, const struct waiting *w, struct choice *c,
	int64_t now_ms, bool *began)
{
	const struct match_job *j = &r->jobs[w->job];

	*began = false;
	if (is_late(r, j))
		return 0;
	*began = match_choose(&r->m->ix, &r->m->chooser, j, c);
	if (*began)
		return begin_job(r, w, c, now_ms);
	return r->m->preempts ? begin_by_stopping(r, w, c, now_ms, began) : 0;
}

/* One pass over those that wait, from index `from` on: the ones before it were refused since
 * GPUs were last given back. Returns 0, or emit's error. */
static int pass(struct run *r, size_t from, struct choice *c, int64_t now_ms)
{
	size_t left = from;
	int rc = 0;

	for (size_t i = from; i < r->nqueue; i++)
		r->queue[i].key = turn_of(r->m, &r->jobs[r->queue[i].job],
			r->queue[i].owner);
	qsort(r->queue + from, r->nqueue - from, sizeof *r->queue, by_turn);
	if (r->m->ix.algorithm == MATCH_CHEAPEST)
		improve_order(r, from);
	for (size_t i = from; i < r->nqueue; i++) {
		bool began = false;

		if (!rc)
			rc = try_one(r, &r->queue[i], c, now_ms, &began);
		if (!began)
			r->queue[left++] = r->queue[i];
	}
	r->nqueue = left;
	return rc;
}

/* --- in turn -------------------------------------------------------------------------------- */

/* Moves entry i of a heap of n down to its place. */
static void sift_down(struct waiting *heap, size_t n, size_t i)
{
	struct waiting w = heap[i];

	for (size_t c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && is_before(&heap[c + 1], &heap[c]))
			c++;
		if (!is_before(&heap[c], &w))
			break;
		heap[i] = heap[c];
	}
	heap[i] = w;
}

/* Takes the queue from `from` on into a heap of n, whose keys are set anew. Returns how many it
 * has then. */
static size_t take_in(struct run *r, size_t from, struct waiting *heap, size_t n)
{
	while (r->nqueue > from)
		heap[n++] = r->queue[--r->nqueue];
	for (size_t i = 0; i < n; i++)
		heap[i].key = turn_of(r->m, &r->jobs[heap[i].job], heap[i].owner);
	for (size_t i = n / 2; i--;)
		sift_down(heap, n, i);
	return n;
}

/* The same pass where each match moves its owner's other jobs back. A match only raises keys, so
 * that the first of the heap is the next one if its key still holds; a stop also lowers some. */
static int pass_in_turn(struct run *r, size_t from, struct choice *c, int64_t now_ms)
{
	struct waiting *heap = xmalloc((r->nqueue + r->m->nrunning + 1) * sizeof *heap);
	size_t n = take_in(r, from, heap, 0);
	int rc = 0;

	while (n && !rc) {
		struct waiting w = heap[0];
		size_t refused = r->nqueue;
		bool began;

		heap[0].key = turn_of(r->m, &r->jobs[w.job], w.owner);
		if (heap[0].key > w.key) {
			sift_down(heap, n, 0);
			continue;
		}
		heap[0] = heap[--n];
		if (n)
			sift_down(heap, n, 0);
		rc = try_one(r, &w, c, now_ms, &began);
		if (r->nqueue > refused) /* matches were stopped */
			n = take_in(r, refused, heap, n);
		if (!began)
			r->queue[r->nqueue++] = w;
	}
	while (n)
		r->queue[r->nqueue++] = heap[--n];
	free(heap);
	return rc;
}

/* Passes until nobody is stopped: what is stopped may leave more room than was wanted. */
static int passes(struct run *r, size_t from, int64_t now_ms)
{
	struct choice c = { .nparts = 0 };
	int rc;

	r->now_ms = now_ms;
	do {
		r->stopped = false;
		rc = match_is_fair(r->m) ? pass_in_turn(r, from, &c, now_ms) :
					   pass(r, from, &c, now_ms);
		from = 0;
	} while (rc == 0 && r->stopped);
	choice_release(&c);
	return rc;
}

static int by_job(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	return x->job < y->job ? -1 : x->job > y->job;
}

/* Emits those that still wait, in the order of the input. */
static int emit_waiting(struct run *r)
{
	int rc = 0;

	qsort(r->queue, r->nqueue, sizeof *r->queue, by_job);
	for (size_t i = 0; i < r->nqueue && rc == 0; i++) {
		struct match_result out = { .job = r->queue[i].job };

		rc = r->emit(r->ctx, &out);
	}
	return rc;
}

int match_run(struct match *m, const struct match_job *jobs, size_t n, int64_t until_ms,
	match_emit emit, void *ctx)
{
	struct run r = { .m = m,
		.jobs = jobs,
		.queue = xmalloc((n + 1) * sizeof *r.queue),
		.left_ms = xmalloc((n + 1) * sizeof *r.left_ms),
		.emit = emit,
		.ctx = ctx };
	size_t at = 0;
	int rc = 0;

	if (m->ix.algorithm == MATCH_FGD)
		match_classify(&m->ix, jobs, n);
	for (size_t i = 0; i < n; i++)
		r.left_ms[i] = jobs[i].length_ms;
	for (size_t i = 0; i < m->nrunning; i++) { /* what earlier calls began */
		struct running *x = &m->running[i];

		if (x->job == MATCH_NO_JOB)
			continue;
		/* of a job that is known, what was left of it when it began */
		x->work_ms = jobs[x->job].elsewhere ? x->end_ms - x->start_ms :
						      jobs[x->job].length_ms;
		x->speed = match_speed(&m->ix, &jobs[x->job],
			m->ix.nodes[x->parts[0].node].model);
	}
	while (rc == 0 && (at < n || (r.nqueue && m->nrunning))) {
		int64_t now_ms = at < n ? jobs[at].at_ms : INT64_MAX;
		size_t from = r.nqueue;

		if (r.nqueue && m->nrunning && m->running[0].end_ms < now_ms)
			now_ms = m->running[0].end_ms;
		if (now_ms > until_ms)
			break;
		/* with time others may be stopped for those that wait, too */
		if (match_give_back(m, now_ms) || m->preempts)
			from = 0;
		for (; at < n && jobs[at].at_ms <= now_ms; at++)
			if (!jobs[at].begun)
				enqueue(&r, at);
		rc = passes(&r, from, now_ms);
	}
	for (; at < n; at++)
		if (!jobs[at].begun)
			enqueue(&r, at);
	rc = rc ? rc : emit_waiting(&r);
	free(r.queue);
	free(r.left_ms);
	return rc;
}
