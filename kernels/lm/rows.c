/* rows.c - reference of the operations on rows: norm, rotation, SwiGLU and their backward
 * passes. */
#include <math.h>

#include "kernels/lm/ref.h"

void lm_embed_ref(const struct lm_embed *e, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++)
		for (uint64_t i = 0; i < e->dim; i++)
			e->x[r * e->dim + i] = (float)lm_at(e->dtype, e->w,
				e->token[r] * e->dim + i);
}

void lm_embed_back_ref(const struct lm_embed_back *e, uint64_t from, uint64_t to)
{
	for (uint64_t r = 0; r < e->rows; r++)
		for (uint64_t i = from; i < to; i++)
			e->dw[e->token[r] * e->dim + i] += e->dx[r * e->dim + i];
}

void lm_norm_ref(const struct lm_norm *n, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++) {
		const float *x = n->x + r * n->dim;
		double squares = 0, rms;

		for (uint64_t i = 0; i < n->dim; i++)
			squares += (double)x[i] * x[i];
		rms = 1 / sqrt(squares / (double)n->dim + n->eps);
		if (n->rms)
			n->rms[r] = (float)rms;
		for (uint64_t i = 0; i < n->dim; i++)
			lm_set(n->dtype, n->y, r * n->dim + i,
				x[i] * rms * n->w[i] +
					(n->from ? n->from[r * n->dim + i] : 0));
	}
}

void lm_norm_back_rows_ref(const struct lm_norm_back *n, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++) {
		uint64_t at = r * n->dim;
		double rms = n->rms[r], dot = 0;

		for (uint64_t i = 0; i < n->dim; i++)
			dot += lm_at(n->dtype, n->dy, at + i) * n->w[i] * n->x[at + i];
		dot *= rms * rms / (double)n->dim;
		for (uint64_t i = 0; i < n->dim; i++) {
			double dx = rms *
				(lm_at(n->dtype, n->dy, at + i) * n->w[i] -
					n->x[at + i] * dot);

			if (n->halves)
				dx += (double)bf16_to_f32(n->copy[at + i]) +
					bf16_to_f32(n->rest[at + i]);
			else if (n->from)
				dx += n->from[at + i];
			if (n->dx)
				n->dx[at + i] = (float)dx;
			if (n->copy && !n->whole)
				n->copy[at + i] = bf16_from_f32((float)dx);
			if (n->rest && !n->whole)
				n->rest[at + i] = bf16_from_f32(
					(float)dx - bf16_to_f32(n->copy[at + i]));
		}
	}
}

void lm_norm_back_columns_ref(const struct lm_norm_back *n, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		double sum = n->fresh ? 0 : n->dw[i];

		for (uint64_t r = 0; r < n->rows; r++)
			sum += lm_at(n->dtype, n->dy, r * n->dim + i) *
				n->x[r * n->dim + i] * n->rms[r];
		n->dw[i] = (float)sum;
	}
}

void lm_rotate_ref(const struct lm_rotate *r, uint64_t from, uint64_t to)
{
	uint64_t half = r->head_dim / 2;

	for (uint64_t row = from; row < to; row++) {
		const float *table = r->table + lm_rotate_position(r, row) * r->head_dim;

		for (uint64_t h = 0; h < r->heads; h++)
			for (uint64_t i = 0; i < half; i++) {
				uint64_t base = row * r->ld + h * lm_rotate_stride(r);
				uint64_t at = base + (r->interleaved ? 2 * i : i);
				uint64_t bt = r->interleaved ? at + 1 : at + half;
				double a = lm_at(r->dtype, r->x, at);
				double b = lm_at(r->dtype, r->x, bt);
				double c = table[2 * i];
				double s = r->inverse ? -table[2 * i + 1] :
							table[2 * i + 1];

				lm_set(r->dtype, r->x, at, a * c - b * s);
				lm_set(r->dtype, r->x, bt, a * s + b * c);
			}
	}
}

void lm_swiglu_ref(const struct lm_swiglu *s, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++)
		for (uint64_t i = 0; i < s->hidden; i++) {
			double g = lm_at(s->dtype, s->x, r * 2 * s->hidden + i);
			double u = lm_at(s->dtype, s->x, (r * 2 + 1) * s->hidden + i);

			double z = s->gelu ? LM_GELU_1 * (g + LM_GELU_3 * g * g * g) : g;

			lm_set(s->dtype, s->y, r * s->hidden + i, g / (1 + exp(-z)) * u);
		}
}

void lm_swiglu_back_ref(const struct lm_swiglu_back *s, uint64_t from, uint64_t to)
{
	for (uint64_t r = from; r < to; r++)
		for (uint64_t i = 0; i < s->hidden; i++) {
			uint64_t at = r * 2 * s->hidden + i, bt = at + s->hidden;
			double g = lm_at(s->dtype, s->x, at),
			       u = lm_at(s->dtype, s->x, bt);
			double dy = lm_at(s->dtype, s->dy, r * s->hidden + i);
			double sig = 1 / (1 + exp(-g));

			if (s->y)
				lm_set(s->dtype, s->y, r * s->hidden + i, g * sig * u);
			lm_set(s->dtype, s->dx, at, dy * u * sig * (1 + g * (1 - sig)));
			lm_set(s->dtype, s->dx, bt, dy * g * sig);
		}
}

void lm_bias_back_ref(const struct lm_bias_back *b, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		double sum = b->fresh ? 0 : b->db[i];

		for (uint64_t r = 0; r < b->rows; r++)
			sum += lm_at(b->dtype, b->dy, r * b->ld + i);
		b->db[i] = (float)sum;
	}
}

void lm_softcap_ref(const struct lm_softcap *s, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		s->x[i] = (float)(s->cap * tanh((double)s->x[i] / s->cap));
}

void lm_narrow_ref(const struct lm_narrow *n, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		n->to[i] = bf16_from_f32(n->from[i]);
}
