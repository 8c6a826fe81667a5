/* head.c - reference of the output layer and the loss, one row at a time with its logits in
 * f64; dw is updated once per row, in f32. */
#include <math.h>
#include <string.h>

#include "kernels/lm/ref.h"

static double logits(const struct lm_head *h, uint64_t r, double *l)
{
	double largest = -HUGE_VAL, sum = 0;

	for (uint64_t v = 0; v < h->vocab; v++) {
		l[v] = 0;
		for (uint64_t i = 0; i < h->dim; i++)
			l[v] += lm_at(h->dtype, h->h, r * h->dim + i) *
				lm_at(h->dtype, h->w, v * h->dim + i);
		largest = l[v] > largest ? l[v] : largest;
	}
	for (uint64_t v = 0; v < h->vocab; v++)
		sum += exp(l[v] - largest);
	return largest + log(sum);
}

void lm_head_ref(const struct lm_head *h)
{
	double *l = h->scratch, *dh = l + h->vocab;

	if (h->dh && h->dw && h->fresh)
		memset(h->dw, 0, h->vocab * h->dim * sizeof *h->dw);
	for (uint64_t r = 0; r < h->rows; r++) {
		uint32_t target = h->target[r];
		double lse = target == LM_NO_TARGET ? 0 : logits(h, r, l);

		h->loss[r] = target == LM_NO_TARGET ? 0 : (float)(lse - l[target]);
		if (!h->dh)
			continue;
		for (uint64_t i = 0; i < h->dim; i++)
			dh[i] = 0;
		for (uint64_t v = 0; v < h->vocab && target != LM_NO_TARGET; v++) {
			double dl = h->scale * (exp(l[v] - lse) - (v == target));

			for (uint64_t i = 0; i < h->dim; i++) {
				dh[i] += dl * lm_at(h->dtype, h->w, v * h->dim + i);
				if (h->dw)
					h->dw[v * h->dim + i] += (float)(dl *
						lm_at(h->dtype, h->h, r * h->dim + i));
			}
		}
		for (uint64_t i = 0; i < h->dim; i++)
			lm_set(h->dtype, h->dh, r * h->dim + i, dh[i]);
	}
}
