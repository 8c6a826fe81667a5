/* sample.c - temperature, top-k and top-p over candidates. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"

struct lm_candidate {
	double share; /* first exp(logit - most), then of 1 */
	uint32_t id;
};

void lm_sampler_init(struct lm_sampler *s, uint64_t seed)
{
	*s = (struct lm_sampler){ .temperature = 1, .top_p = 1 };
	rng_seed(&s->rng, seed, 0);
}

void lm_sampler_release(struct lm_sampler *s)
{
	free(s->room);
	s->room = NULL;
	s->room_count = 0;
}

static uint32_t most_likely(const float *logits, uint32_t count)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < count; i++)
		if (logits[i] > logits[best] || isnan(logits[best]))
			best = i;
	return best;
}

static int by_share(const void *a, const void *b)
{
	const struct lm_candidate *x = a, *y = b;

	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return x->id < y->id ? -1 : 1;
}

/* Every token with its share, in the order of ids; returns the sum. */
static double weigh(struct lm_sampler *s, const float *logits, uint32_t count, float most)
{
	double sum = 0;

	if (s->room_count < count) {
		s->room = xrealloc(s->room, count * sizeof *s->room);
		s->room_count = count;
	}
	for (uint32_t i = 0; i < count; i++) {
		double share = exp(((double)logits[i] - most) / s->temperature);

		s->room[i] = (struct lm_candidate){ share > 0 ? share : 0, i };
		sum += s->room[i].share;
	}
	return sum;
}

/* Those that could be among the first k, or within top_p, are few: only they are sorted. What is
 * left is at the front, most likely first; returns how many, and their sum. */
static uint32_t cut(struct lm_sampler *s, uint32_t count, double *sum)
{
	/* a token below this leaves so little to all below it that top_p is reached without them */
	double least = *sum * (1 - s->top_p) / count, kept = 0;
	uint32_t n = 0, end = 0;

	for (uint32_t i = 0; i < count; i++)
		if (s->room[i].share >= least && s->room[i].share > 0)
			s->room[n++] = s->room[i];
	qsort(s->room, n, sizeof *s->room, by_share);
	if (s->top_k && n > s->top_k) {
		n = s->top_k;
		*sum = 0;
		for (uint32_t i = 0; i < n; i++)
			*sum += s->room[i].share;
	}
	while (end < n && kept < s->top_p * *sum)
		kept += s->room[end++].share;
	*sum = kept;
	return end;
}

uint32_t lm_sample(struct lm_sampler *s, const float *logits, uint32_t count)
{
	uint32_t best = most_likely(logits, count), i;
	double sum, at;

	if (s->temperature <= 0 || !isfinite(logits[best]))
		return best;
	sum = weigh(s, logits, count, logits[best]);
	if (s->top_p < 1 || s->top_k)
		count = cut(s, count, &sum);
	at = rng_f64(&s->rng) * sum;
	for (i = 0; i + 1 < count; i++) {
		at -= s->room[i].share;
		if (at < 0)
			break;
	}
	return count ? s->room[i].id : best;
}
