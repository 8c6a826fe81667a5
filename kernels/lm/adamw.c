/* adamw.c - reference of AdamW and of the gradient norm. */
#include <math.h>

#include "kernels/lm/ref.h"

void lm_squares_ref(const struct lm_squares *s, uint64_t from, uint64_t to)
{
	for (uint64_t b = from; b < to; b++) {
		uint64_t end = (b + 1) * LM_SQUARES_BLOCK;
		double sum = 0;

		for (uint64_t i = b * LM_SQUARES_BLOCK; i < s->n && i < end; i++)
			sum += (double)s->g[i] * s->g[i];
		s->part[b] = sum;
	}
}

void lm_clip_ref(const struct lm_clip *c)
{
	struct lm_rates *r = c->rates;
	double sum = 0;

	for (uint64_t b = 0; b < c->parts; b++)
		sum += c->part[b];
	r->norm = (float)(r->unit * sqrt(sum));
	r->scale = r->unit;
	if (r->clip > 0 && r->norm > r->clip)
		r->scale = r->unit * r->clip / r->norm;
}

void lm_adamw_ref(const struct lm_adamw *a, uint64_t from, uint64_t to)
{
	const struct lm_rates *r = a->rates;

	if (!isfinite(r->norm))
		return;
	for (uint64_t i = from; i < to; i++) {
		bool spared = a->spared && a->spared[i / LM_SPARED];
		double g = (double)r->scale * a->g[i];
		double m = a->m[i] + (1 - (double)a->beta1) * (g - a->m[i]);
		double v = (double)a->beta2 * a->v[i] + (1 - (double)a->beta2) * g * g;
		double p = a->p[i] * (1 - (double)r->lr * (spared ? 0 : a->decay));

		p -= (double)r->lr * r->correct1 * m /
			(sqrt((double)r->correct2 * v) + a->eps);
		a->m[i] = (float)m;
		a->v[i] = (float)v;
		a->p[i] = (float)p;
		if (a->copy)
			a->copy[i] = bf16_from_f32((float)p);
	}
}
