/* sample.c - draws tokens. One pass finds the largest logit of each block of 64. Blocks whose
 * largest is too small for top_k, top_p or min_p are not read again; of what is left, a histogram
 * finds the bucket with the limit, and only the tokens of that bucket are sorted. Without any of
 * these limits there are no candidates at all, only sums of blocks. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/infer/sample_scan.h"

/* tokens less likely than e^-REACH of the most likely are never drawn */
#define REACH    32.0
#define PER_UNIT 64 /* buckets per unit of log probability */
#define BUCKETS  ((int)REACH * PER_UNIT)
#define WORD(id) ((id) / 64)
#define BIT(id)  (UINT64_C(1) << (id) % 64)

struct lm_candidate {
	double share; /* exp((logit - most) / temperature) */
	float logit;
	uint32_t id;
};

void lm_sampling_defaults(struct lm_sampling *s, uint64_t seed)
{
	*s = (struct lm_sampling){ .temperature = 1,
		.top_p = 1,
		.repetition_penalty = 1,
		.seed = seed };
}

bool lm_sampling_penalises(const struct lm_sampling *s)
{
	return s->frequency_penalty != 0 || s->presence_penalty != 0 ||
		s->repetition_penalty != 1;
}

/* --- what was said ------------------------------------------------------------------------- */

void lm_history_init(struct lm_history *h, uint32_t vocab)
{
	h->generated = xcalloc(vocab, sizeof *h->generated);
	h->seen = xcalloc(WORD(vocab) + 1, sizeof *h->seen);
}

void lm_history_release(struct lm_history *h)
{
	free(h->generated);
	free(h->seen);
	*h = (struct lm_history){ 0 };
}

void lm_history_prompt(struct lm_history *h, uint32_t token)
{
	h->seen[WORD(token)] |= BIT(token);
}

void lm_history_add(struct lm_history *h, uint32_t token)
{
	h->generated[token]++;
	h->seen[WORD(token)] |= BIT(token);
}

/* --- logits --------------------------------------------------------------------------------- */

void lm_scratch_release(struct lm_scratch *w)
{
	free(w->logits);
	free(w->kept);
	free(w->max);
	free(w->sums);
	*w = (struct lm_scratch){ 0 };
}

static uint32_t blocks_of(uint32_t count)
{
	return (count + SCAN_BLOCK - 1) / SCAN_BLOCK;
}

/* Returns how many logits block b has. */
static uint32_t block_size(uint32_t b, uint32_t count)
{
	uint32_t left = count - b * SCAN_BLOCK;

	return left < SCAN_BLOCK ? left : SCAN_BLOCK;
}

static void reserve(struct lm_scratch *w, uint32_t count)
{
	if (w->cap >= count)
		return;
	w->logits = xrealloc(w->logits, count * sizeof *w->logits);
	w->kept = xrealloc(w->kept, count * sizeof *w->kept);
	w->max = xrealloc(w->max, blocks_of(count) * sizeof *w->max);
	w->sums = xrealloc(w->sums, blocks_of(count) * sizeof *w->sums);
	w->cap = count;
}

static void penalise_block(float *x, uint32_t first, uint32_t size,
	const struct lm_sampling *s, const struct lm_history *history)
{
	for (uint32_t i = first; i < first + size; i++) {
		uint32_t times = history->generated[i];

		if (!(history->seen[WORD(i)] & BIT(i)))
			continue;
		x[i] = (float)(x[i] > 0 ? x[i] / s->repetition_penalty :
					  x[i] * s->repetition_penalty);
		if (times)
			x[i] = (float)(x[i] - times * s->frequency_penalty -
				s->presence_penalty);
	}
}

/* Returns the logits changed by bias, penalties and mask, or the model's own if none of these
 * apply. */
static const float *adjusted(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count)
{
	bool penalises = history && lm_sampling_penalises(s);
	float *x = w->logits;

	if (!penalises && !s->bias_count && !allowed)
		return logits;
	if (penalises || s->bias_count) {
		memcpy(x, logits, count * sizeof *x);
		logits = x;
	}
	for (uint32_t b = 0; penalises && b < blocks_of(count); b++)
		if (history->seen[b])
			penalise_block(x, b * SCAN_BLOCK, block_size(b, count), s,
				history);
	for (uint32_t i = 0; i < s->bias_count; i++)
		if (s->bias[i].token < count)
			x[s->bias[i].token] += s->bias[i].bias;
	for (uint32_t b = 0; allowed && b < blocks_of(count); b++)
		scan_exclude(x + b * SCAN_BLOCK, logits + b * SCAN_BLOCK,
			block_size(b, count), allowed[b]);
	return x;
}

/* Returns the most likely token, of equal ones the lowest; notes the largest logit of each
 * block. */
static uint32_t most_likely(struct lm_scratch *w, const float *x, uint32_t count)
{
	uint32_t best = 0, i;

	for (uint32_t b = 0; b < blocks_of(count); b++) {
		w->max[b] = scan_max(x + b * SCAN_BLOCK, block_size(b, count));
		if (w->max[b] > w->max[best])
			best = b;
	}
	for (i = best * SCAN_BLOCK; i + 1 < count && x[i] != w->max[best]; i++)
		;
	return i;
}

/* --- selection ------------------------------------------------------------------------------ */

static int by_share(const void *a, const void *b)
{
	const struct lm_candidate *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit < y->logit ? 1 : -1;
	return x->id < y->id ? -1 : 1;
}

static int bucket_of(float logit, const struct scan *how)
{
	int b = (int)((how->max - logit) / how->temperature * PER_UNIT);

	return b < BUCKETS ? b : BUCKETS - 1;
}

/* Collects all tokens from how->min on, in the order of their ids; returns how many. */
static uint32_t collect(struct lm_scratch *w, const float *x, uint32_t count,
	const struct scan *how)
{
	uint32_t n = 0;

	for (uint32_t b = 0; b < blocks_of(count); b++) {
		uint32_t first = b * SCAN_BLOCK, size = block_size(b, count);

		for (uint32_t i = first; w->max[b] >= how->min && i < first + size; i++)
			if (x[i] >= how->min)
				w->kept[n++] = (struct lm_candidate){ .logit = x[i],
					.id = i };
	}
	return n;
}

/* Adds up the shares of all tokens from how->min on, block by block. */
static double add_up(struct lm_scratch *w, const float *x, uint32_t count,
	const struct scan *how)
{
	double share[SCAN_BLOCK], sum = 0;

	for (uint32_t b = 0; b < blocks_of(count); b++) {
		w->sums[b] = w->max[b] >= how->min ?
			scan_shares(share, x + b * SCAN_BLOCK, block_size(b, count),
				how) :
			0;
		sum += w->sums[b];
	}
	return sum;
}

static double weigh(struct lm_candidate *kept, uint32_t n, const struct scan *how)
{
	double share[SCAN_BLOCK], sum = 0;
	float logit[SCAN_BLOCK];

	for (uint32_t b = 0; b < blocks_of(n); b++) {
		struct lm_candidate *c = kept + b * SCAN_BLOCK;
		uint32_t size = block_size(b, n);

		for (uint32_t i = 0; i < size; i++)
			logit[i] = c[i].logit;
		scan_shares(share, logit, size, how);
		for (uint32_t i = 0; i < size; i++) {
			c[i].share = share[i];
			sum += share[i];
		}
	}
	return sum;
}

/* The place of a limit: all buckets before `bucket` are within it, and `needed` of `bucket`
 * itself. */
struct limit {
	int bucket;
	double needed; /* count, or sum of shares */
};

/* Finds the limit at which the histogram sums up to total: k tokens, or a sum of shares. */
static struct limit find(const double *of_bucket, double total)
{
	struct limit l = { .needed = total };

	while (l.bucket < BUCKETS - 1 && of_bucket[l.bucket] < l.needed)
		l.needed -= of_bucket[l.bucket++];
	return l;
}

/* Keeps the candidates up to the limit, of its bucket the most likely. by_count: each counts 1,
 * else its share. */
static uint32_t cut(struct lm_scratch *w, uint32_t n, const struct scan *how,
	struct limit l, bool by_count)
{
	struct lm_candidate *kept = w->kept, *edge;
	uint32_t better = 0, in_bucket = 0;
	double taken = 0;

	/* Candidates of better buckets move to the front, each swapped with the first of the
	 * limit's bucket, which loses the order of ids; sorting restores it. */
	for (uint32_t i = 0; i < n; i++) {
		int b = bucket_of(kept[i].logit, how);
		struct lm_candidate c = kept[i];

		if (b > l.bucket)
			continue;
		if (b == l.bucket) {
			kept[better + in_bucket++] = c;
			continue;
		}
		kept[better + in_bucket] = kept[better];
		kept[better++] = c;
	}
	edge = kept + better;
	qsort(edge, in_bucket, sizeof *edge, by_share);
	n = better;
	for (uint32_t i = 0; i < in_bucket && taken < l.needed; i++) {
		taken += by_count ? 1 : edge[i].share;
		n++;
	}
	return n;
}

static uint32_t cut_top_k(struct lm_scratch *w, uint32_t n, const struct scan *how,
	uint32_t top_k)
{
	double counts[BUCKETS] = { 0 };

	if (!top_k || n <= top_k)
		return n;
	for (uint32_t i = 0; i < n; i++)
		counts[bucket_of(w->kept[i].logit, how)]++;
	return cut(w, n, how, find(counts, top_k), true);
}

static uint32_t cut_top_p(struct lm_scratch *w, uint32_t n, const struct scan *how,
	double top_p, double sum)
{
	double shares[BUCKETS] = { 0 };

	if (top_p >= 1)
		return n;
	for (uint32_t i = 0; i < n; i++)
		shares[bucket_of(w->kept[i].logit, how)] += w->kept[i].share;
	return cut(w, n, how, find(shares, top_p * sum), false);
}

static uint32_t cut_min_p(struct lm_candidate *kept, uint32_t n, double min_p)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++)
		if (kept[i].share >= min_p)
			kept[left++] = kept[i];
	return left;
}

/* --- the draw ------------------------------------------------------------------------------- */

/* Leaves out the tokens that are less likely than e^-units of the most likely. One bucket more
 * than that stays, and tokens of the last one are complete: rounding decides nothing. */
static void narrow(struct scan *how, double units)
{
	double min = how->max - (units + 2. / PER_UNIT) * how->temperature;

	if (min > how->min)
		how->min = min;
}

/* More than k tokens are in the best buckets that hold the largest logits of more than k blocks:
 * leaves out what is in no such bucket. */
static void narrow_to_top_k(const struct lm_scratch *w, uint32_t count, uint32_t k,
	struct scan *how)
{
	double counts[BUCKETS] = { 0 };

	for (uint32_t b = 0; b < blocks_of(count); b++)
		if (w->max[b] >= how->min)
			counts[bucket_of(w->max[b], how)]++;
	narrow(how, (double)find(counts, (double)k + 1).bucket / PER_UNIT);
}

/* Draws one of all tokens: finds its block by the sums of the blocks, then it. */
static uint32_t draw_of_all(struct lm_scratch *w, const float *x, uint32_t count,
	uint32_t best, const struct scan *how, double part)
{
	double at = part * add_up(w, x, count, how), share[SCAN_BLOCK];
	uint32_t b = 0, size, id = best;

	for (; b + 1 < blocks_of(count) && at >= w->sums[b]; b++)
		at -= w->sums[b];
	size = block_size(b, count);
	scan_shares(share, x + b * SCAN_BLOCK, size, how);
	for (uint32_t i = 0; i < size && at >= 0; i++) {
		at -= share[i];
		if (share[i] > 0)
			id = b * SCAN_BLOCK + i;
	}
	return id;
}

/* Draws one of the tokens that top_k, top_p and min_p leave. Those that are surely cut are never
 * candidates. */
static uint32_t draw_of_some(struct lm_scratch *w, const struct lm_sampling *s,
	const float *x, uint32_t count, uint32_t best, struct scan *how, double part)
{
	double all = 0, sum = 0, at;
	uint32_t n, i;

	if (s->top_k) {
		narrow_to_top_k(w, count, s->top_k, how);
	} else {
		if (s->top_p < 1) {
			all = add_up(w, x, count, how);
			/* the tokens below this share less than 1 - top_p of all */
			narrow(how, log(count / ((1 - s->top_p) * all)));
		}
		if (s->min_p > 0)
			narrow(how, -log(s->min_p));
	}
	n = collect(w, x, count, how);
	n = cut_top_k(w, n, how, s->top_k);
	sum = weigh(w->kept, n, how);
	n = cut_top_p(w, n, how, s->top_p, s->top_k ? sum : all);
	n = cut_min_p(w->kept, n, s->min_p);
	sum = 0;
	for (i = 0; i < n; i++)
		sum += w->kept[i].share;
	at = part * sum;
	for (i = 0; i + 1 < n; i++) {
		at -= w->kept[i].share;
		if (at < 0)
			break;
	}
	return n ? w->kept[i].id : best;
}

uint32_t lm_draw(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count, uint64_t position)
{
	struct scan how = { .temperature = s->temperature };
	const float *x;
	uint32_t best;
	struct rng rng;

	reserve(w, count);
	x = adjusted(w, s, history, allowed, logits, count);
	best = most_likely(w, x, count);
	if (s->temperature <= 0 || !isfinite(x[best]))
		return best;
	how.max = x[best];
	how.min = how.max - REACH * s->temperature;
	rng_seed(&rng, s->seed, s->choice);
	rng_seek(&rng, position);
	if (!s->top_k && s->top_p >= 1 && s->min_p <= 0)
		return draw_of_all(w, x, count, best, &how, rng_f64(&rng));
	return draw_of_some(w, s, x, count, best, &how, rng_f64(&rng));
}

/* --- what the model said --------------------------------------------------------------------- */

static bool before(const float *x, uint32_t a, uint32_t b)
{
	return x[a] > x[b] || (x[a] == x[b] && a < b);
}

static void insert(struct lm_logprobs *out, const float *x, uint32_t id, uint32_t n)
{
	uint32_t at = out->n < n ? out->n++ : n - 1;

	for (; at && before(x, id, out->top[at - 1]); at--)
		out->top[at] = out->top[at - 1];
	out->top[at] = id;
}

/* Inserts those of a block that belong to the n most likely. */
static void insert_block(struct lm_logprobs *out, const float *x, uint32_t first,
	uint32_t size, uint32_t n)
{
	for (uint32_t i = first; i < first + size; i++)
		if (!isnan(x[i]) && (out->n < n || before(x, i, out->top[out->n - 1])))
			insert(out, x, i, n);
}

void lm_logprobs(struct lm_logprobs *out, const float *logits, uint32_t count,
	uint32_t token, uint32_t n)
{
	struct scan how = { .max = -INFINITY, .temperature = 1 };
	double share[SCAN_BLOCK], sum = 0, all;

	*out = (struct lm_logprobs){ 0 };
	for (uint32_t b = 0; b < blocks_of(count); b++) {
		const float *x = logits + b * SCAN_BLOCK;
		uint32_t size = block_size(b, count);
		float max = scan_max(x, size);

		if (max > how.max)
			how.max = max;
		if (n && (out->n < n || max > logits[out->top[out->n - 1]]))
			insert_block(out, logits, b * SCAN_BLOCK, size, n);
	}
	how.min = how.max - SCAN_EXPONENT_MAX;
	for (uint32_t b = 0; b < blocks_of(count); b++)
		sum += scan_shares(share, logits + b * SCAN_BLOCK, block_size(b, count),
			&how);
	all = log(sum) + how.max;
	out->token = (float)(logits[token] - all);
	for (uint32_t i = 0; i < out->n; i++)
		out->top_logprob[i] = (float)(logits[out->top[i]] - all);
}

/* --- one text ------------------------------------------------------------------------------- */

void lm_sampler_init(struct lm_sampler *s, uint64_t seed)
{
	*s = (struct lm_sampler){ 0 };
	lm_sampling_defaults(&s->how, seed);
}

void lm_sampler_release(struct lm_sampler *s)
{
	lm_scratch_release(&s->scratch);
}

uint32_t lm_sample(struct lm_sampler *s, const float *logits, uint32_t count)
{
	return lm_draw(&s->scratch, &s->how, NULL, NULL, logits, count, s->position++);
}
