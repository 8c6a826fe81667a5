/* attend.c - reference of attention. It computes scores again wherever they are used: slow, but
 * without memory for positions x keys. */
#include <math.h>

#include "kernels/lm/ref.h"

#define CHUNK 64 /* columns of a head that are summed together */

static double dot(enum lm_dtype dtype, const void *a, uint64_t i, const void *b,
	uint64_t j, uint64_t n)
{
	double sum = 0;

	for (uint64_t t = 0; t < n; t++)
		sum += lm_at(dtype, a, i + t) * lm_at(dtype, b, j + t);
	return sum;
}

/* One query of one head: offsets of its rows of q and out, and the keys it sees. */
struct query {
	uint64_t b, h, kv_h, i;
	uint64_t q, o;        /* elements */
	uint64_t first, last; /* first and last key it sees, inclusive */
};

static struct query query_of(const struct lm_attend *a, uint64_t n)
{
	uint64_t position;
	struct query q = { .i = n % a->positions,
		.h = n / a->positions % a->heads,
		.b = n / a->positions / a->heads };

	position = a->keys - a->positions + q.i;
	q.kv_h = q.h / (a->heads / a->kv_heads);
	q.q = (q.b * a->positions + q.i) * a->ldq + q.h * a->head_dim;
	q.o = (q.b * a->positions + q.i) * a->ldo + q.h * a->head_dim;
	q.last = position;
	q.first = a->window && position + 1 > a->window ? position + 1 - a->window : 0;
	return q;
}

static uint64_t key_of(const struct lm_attend *a, uint64_t b, uint64_t kv_h, uint64_t j)
{
	return (b * a->keys + j) * a->ldk + kv_h * a->head_dim;
}

static double score(const struct lm_attend *a, const struct query *q, uint64_t j)
{
	return a->scale *
		dot(a->dtype, a->q, q->q, a->k, key_of(a, q->b, q->kv_h, j), a->head_dim);
}

void lm_attend_ref(const struct lm_attend *a, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		struct query q = query_of(a, n);
		double largest = -HUGE_VAL, sum = 0, lse;

		for (uint64_t j = q.first; j <= q.last; j++) {
			double s = score(a, &q, j), more = s > largest ? s : largest;

			sum = sum * exp(largest - more) + exp(s - more);
			largest = more;
		}
		lse = largest + log(sum);
		if (a->lse)
			a->lse[n] = (float)lse;
		for (uint64_t c = 0; c < a->head_dim; c += CHUNK) {
			uint64_t width = a->head_dim - c < CHUNK ? a->head_dim - c :
								   CHUNK;
			double out[CHUNK] = { 0 };

			for (uint64_t j = q.first; j <= q.last; j++) {
				double p = exp(score(a, &q, j) - lse);
				uint64_t v = key_of(a, q.b, q.kv_h, j) + c;

				for (uint64_t t = 0; t < width; t++)
					out[t] += p * lm_at(a->dtype, a->v, v + t);
			}
			for (uint64_t t = 0; t < width; t++)
				lm_set(a->dtype, a->out, q.o + c + t, out[t]);
		}
	}
}

/* Computes p and ds of one query and one key. */
static void weights(const struct lm_attend_back *a, const struct query *q, uint64_t n,
	uint64_t j, double *p, double *ds)
{
	const struct lm_attend *f = &a->forward;
	double d = dot(f->dtype, a->dout, q->o, f->out, q->o, f->head_dim);
	double dp = dot(f->dtype, a->dout, q->o, f->v, key_of(f, q->b, q->kv_h, j),
		f->head_dim);

	*p = exp(score(f, q, j) - f->lse[n]);
	*ds = *p * (dp - d);
}

void lm_attend_back_q_ref(const struct lm_attend_back *a, uint64_t from, uint64_t to)
{
	const struct lm_attend *f = &a->forward;

	for (uint64_t n = from; n < to; n++) {
		struct query q = query_of(f, n);

		for (uint64_t c = 0; c < f->head_dim; c += CHUNK) {
			uint64_t width = f->head_dim - c < CHUNK ? f->head_dim - c :
								   CHUNK;
			double dq[CHUNK] = { 0 }, p, ds;

			for (uint64_t j = q.first; j <= q.last; j++) {
				uint64_t k = key_of(f, q.b, q.kv_h, j) + c;

				weights(a, &q, n, j, &p, &ds);
				for (uint64_t t = 0; t < width; t++)
					dq[t] += ds * lm_at(f->dtype, f->k, k + t);
			}
			for (uint64_t t = 0; t < width; t++)
				lm_set(f->dtype, a->dq, q.q + c + t, f->scale * dq[t]);
		}
	}
}

void lm_attend_back_kv_ref(const struct lm_attend_back *a, uint64_t from, uint64_t to)
{
	const struct lm_attend *f = &a->forward;
	uint64_t group = f->heads / f->kv_heads;

	for (uint64_t n = from; n < to; n++) {
		uint64_t j = n % f->keys, kv_h = n / f->keys % f->kv_heads;
		uint64_t b = n / f->keys / f->kv_heads, at = key_of(f, b, kv_h, j);

		for (uint64_t c = 0; c < f->head_dim; c += CHUNK) {
			uint64_t width = f->head_dim - c < CHUNK ? f->head_dim - c :
								   CHUNK;
			double dk[CHUNK] = { 0 }, dv[CHUNK] = { 0 }, p, ds;

			for (uint64_t h = kv_h * group; h < (kv_h + 1) * group; h++)
				for (uint64_t i = 0; i < f->positions; i++) {
					uint64_t m = (b * f->heads + h) * f->positions +
						i;
					struct query q = query_of(f, m);

					if (j < q.first || j > q.last)
						continue;
					weights(a, &q, m, j, &p, &ds);
					for (uint64_t t = 0; t < width; t++) {
						dk[t] += ds *
							lm_at(f->dtype, f->q,
								q.q + c + t);
						dv[t] += p *
							lm_at(f->dtype, a->dout,
								q.o + c + t);
					}
				}
			for (uint64_t t = 0; t < width; t++) {
				lm_set(f->dtype, a->dk, at + c + t, f->scale * dk[t]);
				lm_set(f->dtype, a->dv, at + c + t, dv[t]);
			}
		}
	}
}
