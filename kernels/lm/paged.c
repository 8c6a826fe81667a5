/* paged.c - reference of attention over a paged cache. Scores are computed again wherever they
 * are used. */
#include <math.h>
#include <string.h>

#include "kernels/lm/ref.h"

void lm_paged_put_ref(const struct lm_paged_put *p, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++) {
		memcpy(p->keys + p->slot[r] * p->width, p->k + r * p->width,
			p->width * sizeof(float));
		memcpy(p->values + p->slot[r] * p->width, p->v + r * p->width,
			p->width * sizeof(float));
	}
}

/* Returns the offset of key j of row r, in numbers. */
static uint64_t place_of(const struct lm_paged_attend *a, uint64_t r, uint64_t j)
{
	uint64_t block = a->blocks[a->table[r] + j / LM_PAGE];

	return (block * LM_PAGE + j % LM_PAGE) * a->ldk;
}

static double score(const struct lm_paged_attend *a, uint64_t r, uint64_t h, uint64_t j)
{
	const float *q = a->q + r * a->ldq + h * a->head_dim;
	const float *k = a->keys + place_of(a, r, j) +
		h / (a->heads / a->kv_heads) * a->head_dim;
	double sum = 0;

	for (uint64_t i = 0; i < a->head_dim; i++)
		sum += (double)q[i] * k[i];
	sum *= a->scale;
	return a->softcap > 0 ? a->softcap * tanh(sum / a->softcap) : sum;
}

static void attend(const struct lm_paged_attend *a, uint64_t r, uint64_t h)
{
	uint64_t last = a->position[r], kv = h / (a->heads / a->kv_heads) * a->head_dim;
	uint64_t first = a->window && last + 1 > a->window ? last + 1 - a->window : 0;
	double largest = -HUGE_VAL, sum = 0;

	for (uint64_t j = first; j <= last; j++)
		largest = fmax(largest, score(a, r, h, j));
	for (uint64_t j = first; j <= last; j++)
		sum += exp(score(a, r, h, j) - largest);
	for (uint64_t i = 0; i < a->head_dim; i++) {
		double out = 0;

		for (uint64_t j = first; j <= last; j++)
			out += exp(score(a, r, h, j) - largest) / sum *
				a->values[place_of(a, r, j) + kv + i];
		a->out[r * a->ldo + h * a->head_dim + i] = (float)out;
	}
}

void lm_paged_attend_ref(const struct lm_paged_attend *a, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		attend(a, n % a->rows, n / a->rows);
}
