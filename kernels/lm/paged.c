/* paged.c - reference of attention over a paged cache. Scores are computed again wherever they
 * are used: no memory depends on how many keys there are. */
#include <math.h>
#include <string.h>

#include "kernels/lm/ref.h"

#define AT_ONCE 64 /* columns of a value that share one computation of a score */

/* Stores `width` numbers as a row. */
static void put_row(enum lm_cache_type type, char *to, const float *from, uint64_t width)
{
	for (uint64_t g = 0; g < (width + 31) / 32; g++)
		lm_cache_put_32(type, to, from, g, width);
}

void lm_paged_put_ref(const struct lm_paged_put *p, uint64_t from, uint64_t to)
{
	uint64_t width = p->by_head ? p->by_head : p->width;

	for (uint64_t r = from; r < to; r++)
		for (uint64_t c = 0; c < p->width; c += width) {
			uint64_t at = lm_cache_place(p->type, p->slot[r], p->width,
				p->by_head, p->stride, c);

			put_row(p->type, (char *)p->keys + at, p->k + r * p->width + c,
				width);
			put_row(p->type, (char *)p->values + at, p->v + r * p->width + c,
				width);
		}
}

/* Row of key j of row r, in bytes; that of the head that begins with number `column` where heads
 * lie apart. */
static uint64_t place_of(const struct lm_paged_attend *a, uint64_t r, uint64_t j,
	uint64_t column)
{
	uint64_t block = a->blocks[a->table[r] + j / LM_PAGE];

	return lm_cache_place(a->type, block * LM_PAGE + j % LM_PAGE, a->ldk,
		a->by_head ? a->head_dim : 0, a->stride, column);
}

static double score(const struct lm_paged_attend *a, uint64_t r, uint64_t h, uint64_t j)
{
	const float *q = a->q + r * a->ldq + h * a->head_dim;
	uint64_t kv = h / (a->heads / a->kv_heads) * a->head_dim;
	const void *k = (const char *)a->keys + place_of(a, r, j, kv);
	double sum = 0;

	kv = a->by_head ? 0 : kv;
	for (uint64_t i = 0; i < a->head_dim; i++)
		sum += (double)q[i] * lm_cache_at(a->type, k, kv + i);
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
	for (uint64_t i = 0; i < a->head_dim; i += AT_ONCE) {
		uint64_t columns = a->head_dim - i < AT_ONCE ? a->head_dim - i : AT_ONCE;
		double out[AT_ONCE] = { 0 };

		for (uint64_t j = first; j <= last; j++) {
			const char *v = (const char *)a->values + place_of(a, r, j, kv);
			uint64_t at = a->by_head ? i : kv + i;
			double p = exp(score(a, r, h, j) - largest) / sum;

			for (uint64_t c = 0; c < columns; c++)
				out[c] += p * lm_cache_at(a->type, v, at + c);
		}
		for (uint64_t c = 0; c < columns; c++)
			a->out[r * a->ldo + h * a->head_dim + i + c] = (float)out[c];
	}
}

void lm_paged_attend_ref(const struct lm_paged_attend *a, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		attend(a, n % a->rows, n / a->rows);
}
