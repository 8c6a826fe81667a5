/* judge.c - the decisions of judge.h, and the losses that they are made from. */
#include "common/lm/rounds/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/json/json.h"
#include "common/lm/rounds/aggregate_x86.h"
#include "common/lm/train/flat.h"

#define MEDIAN_LEAST 3 /* judged deltas from which on their median says something */
#define WORST        (-JSON_SAFE_INTEGER_MAX)
/* pairs times elements whose products are summed for copies: some seconds of a core */
#define COPIES_WORK (UINT64_C(1) << 33)

/* --- verdicts ------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t median_of(const int64_t *values, size_t k)
{
	int64_t *sorted = xmalloc(k * sizeof *sorted), m;

	memcpy(sorted, values, k * sizeof *sorted);
	qsort(sorted, k, sizeof *sorted, by_size);
	m = k % 2 ? sorted[k / 2] :
		    sorted[k / 2 - 1] + (sorted[k / 2] - sorted[k / 2 - 1]) / 2;
	free(sorted);
	return m;
}

/* The reference values for a round's deltas; zeros if too few were judged. */
struct usual {
	int64_t own, lead, deviation; /* medians; deviation: of the leads from theirs */
};

static struct usual usual_of(const struct judge_losses *losses, size_t k)
{
	int64_t *v = xmalloc((k + 1) * sizeof *v);
	struct usual u = { 0 };

	if (k >= MEDIAN_LEAST) {
		for (size_t i = 0; i < k; i++)
			v[i] = losses[i].own;
		u.own = median_of(v, k);
		for (size_t i = 0; i < k; i++)
			v[i] = losses[i].own - losses[i].other;
		u.lead = median_of(v, k);
		for (size_t i = 0; i < k; i++)
			v[i] = llabs(v[i] - u.lead);
		u.deviation = median_of(v, k);
	}
	free(v);
	return u;
}

void judge_decide(enum judge_verdict *verdicts, const struct judge_losses *losses,
	size_t k)
{
	struct usual u = usual_of(losses, k);

	for (size_t i = 0; i < k; i++) {
		int64_t own = losses[i].own, lead = own - losses[i].other;

		if (own <= 0 || own < u.own / 20 ||
			own / JUDGE_CHANCES < losses[i].chance)
			verdicts[i] = JUDGE_USELESS;
		else if (u.lead > 2 * u.deviation &&
			lead + 2 * losses[i].error < u.lead / 3)
			verdicts[i] = JUDGE_OTHER_DATA;
		else
			verdicts[i] = JUDGE_GOOD;
	}
}

const char *judge_reason(enum judge_verdict v)
{
	static const char *const reasons[] = { [JUDGE_GOOD] = "",
		[JUDGE_USELESS] = "does not lower the loss on its own sequences",
		[JUDGE_OTHER_DATA] = "was not trained on its own sequences" };

	return reasons[v];
}

int64_t judge_score(int64_t score_ppm, enum judge_verdict v)
{
	return (9 * score_ppm + (v == JUDGE_GOOD ? 1000000 : -1000000)) / 10;
}

void judge_draw(bool *chosen, size_t k, size_t count, uint64_t seed)
{
	struct rng rng;
	size_t left = count < k ? count : k;

	rng_seed(&rng, seed, 0);
	/* each member with the probability that fills the places that are left (Knuth's S) */
	for (size_t i = 0; i < k; i++) {
		chosen[i] = rng_below(&rng, k - i) < left;
		left -= chosen[i];
	}
}

/* --- blocks --------------------------------------------------------------------------------- */

bool judge_block_turn(struct judge_block *b, uint64_t most, uint64_t drawn)
{
	if (!b->turns) {
		uint64_t turns = 1 + b->streak / JUDGE_STREAK;

		if (turns > most)
			turns = most ? most : 1;
		*b = (struct judge_block){ .turns = turns,
			.place = 1 + drawn % turns,
			.streak = b->streak };
	}
	return ++b->made == b->place;
}

enum judge_pay judge_block_pay(struct judge_block *b, bool judged, enum judge_verdict v)
{
	if (v != JUDGE_GOOD) {
		*b = (struct judge_block){ 0 };
		return JUDGE_FORFEIT;
	}
	/* one before its place is judged where the run ends: its member knew that it would be */
	if (judged && b->made < b->place)
		return JUDGE_ALONE;
	b->good |= judged;
	if (b->made < b->turns)
		return JUDGE_WAITS;
	*b = (struct judge_block){ .streak = b->streak + 1 };
	return JUDGE_PAID;
}

/* --- copies --------------------------------------------------------------------------------- */

void judge_copies_init(struct judge_copies *c, size_t k, uint64_t elements, uint64_t seed)
{
	size_t pairs = k * (k + 1) / 2;
	double work = (double)pairs * (double)elements;

	*c = (struct judge_copies){ .k = k, .seed = seed };
	c->gram = xcalloc(pairs + 1, sizeof *c->gram);
	c->share = (uint64_t)ceil(fmax(1, work / (double)COPIES_WORK));
}

void judge_copies_release(struct judge_copies *c)
{
	free(c->gram);
	*c = (struct judge_copies){ 0 };
}

static bool drawn(const struct judge_copies *c, uint64_t block)
{
	struct rng rng;

	if (c->share == 1)
		return true;
	rng_seed(&rng, c->seed, block);
	return rng_below(&rng, c->share) == 0;
}

static double product(const float *x, const float *y, uint64_t n)
{
	double lane[8] = { 0 }, sum = 0;

	for (uint64_t i = aggregate_product_fast(x, y, n, lane); i < n; i++)
		lane[i % 8] += (double)x[i] * (double)y[i];
	for (int j = 0; j < 8; j++)
		sum += lane[j];
	return sum;
}

void judge_copies_look(struct judge_copies *c, const float *const *x, uint64_t n)
{
	for (uint64_t at = 0; at < n; at += JUDGE_BLOCK, c->block++) {
		uint64_t count = n - at < JUDGE_BLOCK ? n - at : JUDGE_BLOCK;

		if (!drawn(c, c->block))
			continue;
#pragma omp parallel for schedule(dynamic) if (c->k > 8)
		for (size_t i = 0; i < c->k; i++)
			for (size_t j = 0; j <= i; j++)
				c->gram[i * (i + 1) / 2 + j] += product(x[i] + at,
					x[j] + at, count);
	}
}

int64_t judge_cosine_ppm(const struct judge_copies *c, size_t i, size_t j)
{
	size_t high = i > j ? i : j, low = i > j ? j : i;
	double norms = sqrt(c->gram[high * (high + 1) / 2 + high]) *
		sqrt(c->gram[low * (low + 1) / 2 + low]);
	double cosine = norms > 0 ? c->gram[high * (high + 1) / 2 + low] / norms : 0;

	return llround(1e6 * fmax(-1, fmin(1, cosine)));
}

void judge_copies_find(const struct judge_copies *c, bool *copied)
{
	for (size_t i = 0; i < c->k; i++)
		copied[i] = false;
	for (size_t i = 0; i < c->k; i++)
		for (size_t j = 0; j < i; j++)
			if (llabs(judge_cosine_ppm(c, i, j)) > JUDGE_COPY_PPM)
				copied[i] = copied[j] = true;
}

/* --- losses --------------------------------------------------------------------------------- */

double judge_mean(double *variance, const double *gain, const uint64_t *windows, int n)
{
	double mean = 0, all = 0, squares = 0;

	for (int g = 0; g < n; g++)
		all += (double)windows[g];
	for (int g = 0; g < n; g++)
		mean += gain[g] * ((double)windows[g] / all);
	for (int g = 0; g < n; g++)
		squares += (gain[g] - mean) * (gain[g] - mean);
	*variance = n > 1 ? squares / n / (n - 1) : INFINITY;
	return mean;
}

/* Sequence n of a group: the n-th of that part of a list. */
struct chosen {
	const struct judge_windows *w;
	const uint64_t *list;
};

static int read_chosen(void *arg, uint64_t n, uint32_t *ids)
{
	const struct chosen *c = arg;

	return c->w->sequence(c->w->arg, c->list[n], ids);
}

/* A list of windows in its groups. */
struct groups {
	const uint64_t *list;
	uint64_t windows[JUDGE_GROUPS];
	double before[JUDGE_GROUPS], after[JUDGE_GROUPS];
	int n;
};

static struct groups groups_of(const uint64_t *list, uint64_t windows)
{
	struct groups g = { .list = list,
		.n = windows < JUDGE_GROUPS ? (int)windows : JUDGE_GROUPS };

	for (int i = 0; i < g.n; i++) {
		uint64_t n = (uint64_t)g.n, at = (uint64_t)i;

		g.windows[i] = windows * (at + 1) / n - windows * at / n;
		g.before[i] = g.after[i] = INFINITY;
	}
	return g;
}

/* The loss on each group; not finite: INFINITY. */
static int losses_of(struct lm_loop *l, const struct judge_windows *w,
	const struct groups *g, double *out)
{
	struct chosen c = { w, g->list };

	for (int i = 0; i < g->n; c.list += g->windows[i], i++) {
		out[i] = 0;
		if (lm_loop_eval(l, read_chosen, &c, g->windows[i], &out[i]) == 0)
			continue;
		if (err_get()->code != EX_DATAERR || isfinite(out[i]))
			return -1;
		err_clear();
		out[i] = INFINITY;
	}
	return 0;
}

static double gain_of(const struct groups *g, double *variance)
{
	double gain[JUDGE_GROUPS];

	for (int i = 0; i < g->n; i++)
		gain[i] = g->before[i] - g->after[i];
	return judge_mean(variance, gain, g->windows, g->n);
}

static int64_t nanonats(double nats, int64_t otherwise)
{
	double n = 1e9 * nats;

	return isfinite(n) && fabs(n) < (double)JSON_SAFE_INTEGER_MAX ? llround(n) :
									otherwise;
}

/* The loop's parameters become published + scale * delta, with the signs of a control. */
static int set_control(struct lm_loop *l, const float *published, const float *delta,
	uint64_t seed, uint64_t control, float scale)
{
	uint64_t n = lm_flat_count(l->train), bits = 0;
	float *part = xmalloc(JUDGE_BLOCK * sizeof *part);
	struct rng rng;
	int rc = lm_flat_set(l->train, LM_STATE_PARAMETER, 0, n, published);

	rng_seed(&rng, seed, control);
	for (uint64_t at = 0; rc == 0 && at < n; at += JUDGE_BLOCK) {
		uint64_t count = n - at < JUDGE_BLOCK ? n - at : JUDGE_BLOCK;

		for (uint64_t i = 0; i < count; i++, bits >>= 1) {
			if (i % 64 == 0)
				bits = rng_u64(&rng);
			part[i] = bits & 1 ? -delta[at + i] : delta[at + i];
		}
		rc = lm_flat_add(l->train, LM_STATE_PARAMETER, at, count, part, scale);
	}
	free(part);
	return rc;
}

/* How far it goes for a control, and back: what a step does beyond first order, which in a step of
 * noise is most of it, is in both and goes. */
#define CONTROL_STEP 0.25F

/* The largest change of the loss by a control, in nats. */
static int measure_chance(struct lm_loop *l, const float *published, const float *delta,
	const struct judge_windows *w, struct groups *own, double *largest)
{
	*largest = 0;
	for (uint64_t i = 0; i < JUDGE_CONTROLS; i++) {
		double change = 0, all = 0;

		if (set_control(l, published, delta, w->seed, i, CONTROL_STEP) < 0 ||
			losses_of(l, w, own, own->before) < 0 ||
			set_control(l, published, delta, w->seed, i, -CONTROL_STEP) < 0 ||
			losses_of(l, w, own, own->after) < 0)
			return -1;
		for (int j = 0; j < own->n; j++) {
			change += (own->before[j] - own->after[j]) *
				(double)own->windows[j];
			all += (double)own->windows[j];
		}
		change = fabs(change / all / (double)(2 * CONTROL_STEP));
		/* what is not finite is more than any delta helps */
		if (!(change <= *largest))
			*largest = isnan(change) ? INFINITY : change;
	}
	return 0;
}

int judge_measure(struct lm_loop *l, const float *published, const float *delta,
	const struct judge_windows *w, struct judge_losses *out)
{
	struct groups own = groups_of(w->own, w->nown),
		      other = groups_of(w->other, w->nother);
	uint64_t n = lm_flat_count(l->train);
	double variance[2] = { 0 }, chance = 0;
	int rc = -1;

	*out = (struct judge_losses){ 0 };
	if (losses_of(l, w, &own, own.before) < 0 ||
		losses_of(l, w, &other, other.before) < 0 ||
		lm_flat_add(l->train, LM_STATE_PARAMETER, 0, n, delta, -1) < 0 ||
		losses_of(l, w, &own, own.after) < 0)
		goto out;
	rc = losses_of(l, w, &other, other.after);
	out->own = nanonats(gain_of(&own, &variance[0]), WORST);
	/* one that harms is refused without */
	if (rc == 0 && out->own > 0)
		rc = measure_chance(l, published, delta, w, &own, &chance);
out:
	if (lm_flat_set(l->train, LM_STATE_PARAMETER, 0, n, published) < 0)
		rc = -1;
	out->other = nanonats(gain_of(&other, &variance[1]), WORST);
	out->error = nanonats(sqrt(variance[0] + variance[1]), JSON_SAFE_INTEGER_MAX);
	out->chance = nanonats(chance, JSON_SAFE_INTEGER_MAX);
	return rc;
}
