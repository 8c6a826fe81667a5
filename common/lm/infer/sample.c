/* sample.c - draws tokens. There is no full sort: a histogram of the logits finds the bucket
 * with the limit of top_k and top_p, and only the tokens of that bucket are sorted. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define REACH \
	32.0 /* tokens less likely than e^-REACH of the most likely are never drawn */
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
	h->prompt = xcalloc(WORD(vocab) + 1, sizeof *h->prompt);
}

void lm_history_release(struct lm_history *h)
{
	free(h->generated);
	free(h->prompt);
	*h = (struct lm_history){ 0 };
}

void lm_history_prompt(struct lm_history *h, uint32_t token)
{
	h->prompt[WORD(token)] |= BIT(token);
}

void lm_history_add(struct lm_history *h, uint32_t token)
{
	h->generated[token]++;
}

/* --- logits --------------------------------------------------------------------------------- */

void lm_scratch_release(struct lm_scratch *w)
{
	free(w->logits);
	free(w->kept);
	*w = (struct lm_scratch){ 0 };
}

static void reserve(struct lm_scratch *w, uint32_t count)
{
	if (w->cap >= count)
		return;
	w->logits = xrealloc(w->logits, count * sizeof *w->logits);
	w->kept = xrealloc(w->kept, count * sizeof *w->kept);
	w->cap = count;
}

static void penalise(float *x, uint32_t count, const struct lm_sampling *s,
	const struct lm_history *history)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t times = history->generated[i];

		if (!times && !(history->prompt[WORD(i)] & BIT(i)))
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
	memcpy(x, logits, count * sizeof *x);
	if (penalises)
		penalise(x, count, s, history);
	for (uint32_t i = 0; i < s->bias_count; i++)
		if (s->bias[i].token < count)
			x[s->bias[i].token] += s->bias[i].bias;
	for (uint32_t i = 0; allowed && i < count; i++)
		if (!(allowed[WORD(i)] & BIT(i)))
			x[i] = -INFINITY;
	return x;
}

static uint32_t most_likely(const float *logits, uint32_t count)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < count; i++)
		if (logits[i] > logits[best] || isnan(logits[best]))
			best = i;
	return best;
}

/* --- selection ------------------------------------------------------------------------------ */

static int by_share(const void *a, const void *b)
{
	const struct lm_candidate *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit < y->logit ? 1 : -1;
	return x->id < y->id ? -1 : 1;
}

static int bucket_of(const struct lm_candidate *c, float max, double temperature)
{
	int b = (int)(((double)max - c->logit) / temperature * PER_UNIT);

	return b < BUCKETS ? b : BUCKETS - 1;
}

/* Collects all tokens within REACH, in the order of their ids; returns how many. */
static uint32_t collect(struct lm_scratch *w, const float *x, uint32_t count, float max,
	double temperature)
{
	double min = (double)max - REACH * temperature;
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (x[i] >= min)
			w->kept[n++] = (struct lm_candidate){ .logit = x[i], .id = i };
	return n;
}

static double weigh(struct lm_candidate *kept, uint32_t n, float max, double temperature)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		kept[i].share = exp(((double)kept[i].logit - max) / temperature);
		sum += kept[i].share;
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
static uint32_t cut(struct lm_scratch *w, uint32_t n, float max, double temperature,
	struct limit l, bool by_count)
{
	struct lm_candidate *kept = w->kept, *edge;
	uint32_t better = 0, in_bucket = 0;
	double taken = 0;

	/* Candidates of better buckets move to the front, each swapped with the first of the
	 * limit's bucket, which loses the order of ids; sorting restores it. */
	for (uint32_t i = 0; i < n; i++) {
		int b = bucket_of(&kept[i], max, temperature);
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

static uint32_t cut_top_k(struct lm_scratch *w, uint32_t n, float max,
	const struct lm_sampling *s)
{
	double counts[BUCKETS] = { 0 };

	if (!s->top_k || n <= s->top_k)
		return n;
	for (uint32_t i = 0; i < n; i++)
		counts[bucket_of(&w->kept[i], max, s->temperature)]++;
	return cut(w, n, max, s->temperature, find(counts, s->top_k), true);
}

static uint32_t cut_top_p(struct lm_scratch *w, uint32_t n, float max,
	const struct lm_sampling *s, double sum)
{
	double shares[BUCKETS] = { 0 };

	if (s->top_p >= 1)
		return n;
	for (uint32_t i = 0; i < n; i++)
		shares[bucket_of(&w->kept[i], max, s->temperature)] += w->kept[i].share;
	return cut(w, n, max, s->temperature, find(shares, s->top_p * sum), false);
}

static uint32_t cut_min_p(struct lm_candidate *kept, uint32_t n, double min_p)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++)
		if (kept[i].share >= min_p)
			kept[left++] = kept[i];
	return left;
}

uint32_t lm_draw(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count, uint64_t position)
{
	const float *x;
	uint32_t best, n, i;
	struct rng rng;
	double at, sum = 0;

	reserve(w, count);
	x = adjusted(w, s, history, allowed, logits, count);
	best = most_likely(x, count);
	if (s->temperature <= 0 || !isfinite(x[best]))
		return best;
	n = collect(w, x, count, x[best], s->temperature);
	n = cut_top_k(w, n, x[best], s);
	sum = weigh(w->kept, n, x[best], s->temperature);
	n = cut_top_p(w, n, x[best], s, sum);
	n = cut_min_p(w->kept, n, s->min_p);
	sum = 0;
	for (i = 0; i < n; i++)
		sum += w->kept[i].share;
	rng_seed(&rng, s->seed, s->choice);
	rng_seek(&rng, position);
	at = rng_f64(&rng) * sum;
	for (i = 0; i + 1 < n; i++) {
		at -= w->kept[i].share;
		if (at < 0)
			break;
	}
	return n ? w->kept[i].id : best;
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

void lm_logprobs(struct lm_logprobs *out, const float *logits, uint32_t count,
	uint32_t token, uint32_t n)
{
	double sum = 0, all;
	float max = logits[most_likely(logits, count)];

	*out = (struct lm_logprobs){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		if (!isnan(logits[i]))
			sum += exp((double)logits[i] - max);
		if (n && !isnan(logits[i]) &&
			(out->n < n || before(logits, i, out->top[out->n - 1])))
			insert(out, logits, i, n);
	}
	all = log(sum) + max;
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
