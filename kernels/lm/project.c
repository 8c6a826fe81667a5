/* project.c - the references of linear layers with weights as they lie in a model file, and of the
 * activations that go with quantised ones. */
#include "kernels/lm/project.h"

#include <math.h>
#include <string.h>

void lm_quantize_ref(const struct lm_quantize *q, uint64_t from, uint64_t to)
{
	uint64_t blocks = q->k / LM_WEIGHT_BLOCK;

	for (uint64_t n = from; n < to; n++) {
		const float *x = q->x + n / blocks * q->ldx +
			n % blocks * LM_WEIGHT_BLOCK;
		struct lm_block8 *b = &q->to[n];
		float max = 0, inverse;

		for (int i = 0; i < LM_WEIGHT_BLOCK; i++)
			max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
		b->scale = max < 0x1p-100f ? 0 : max / 127;
		inverse = b->scale > 0 ? 1 / b->scale : 0;
		b->minus[0] = b->minus[1] = 0;
		for (int i = 0; i < LM_WEIGHT_BLOCK; i++) {
			/* an infinity, or what is not a number, becomes some number */
			float v = fminf(fmaxf(x[i] * inverse, -127), 127);

			b->q[i] = (int8_t)rintf(v);
			b->minus[0] -= b->q[i];
			b->minus[1] -= i < 16 ? 0 : b->q[i];
		}
		b->sum = b->scale * (float)-b->minus[0];
	}
}

static void project_plain(const struct lm_project *p, uint64_t r, uint64_t j,
	const unsigned char *w)
{
	double sum = 0;

	for (uint64_t t = 0; t < p->k; t++)
		sum += (double)p->x[r * p->ldx + t] * lm_weight_at(p->type, w, t);
	if (p->bias)
		sum += p->bias[j];
	if (p->from)
		sum += p->from[r * p->ldy + j];
	p->y[r * p->ldy + j] = (float)sum;
}

static void project_quantized(const struct lm_project *p, uint64_t r, uint64_t j,
	const unsigned char *row)
{
	uint64_t blocks = p->k / LM_WEIGHT_BLOCK;
	float y = 0;

	for (uint64_t b = 0; b < blocks; b++) {
		const struct lm_block8 *x = &p->x8[r * blocks + b];
		struct lm_weight_32 w;
		int32_t sum = 0;

		lm_weight_read_32(&w, p->type, row, b);
		for (int i = 0; i < LM_WEIGHT_BLOCK; i++)
			sum += w.part[i / 16] * (w.code[i] - w.offset) * x->q[i];
		y = fmaf(w.scale * x->scale, (float)sum, y);
		if (lm_weight_has_min(p->type))
			y = fmaf(w.min, x->sum, y);
	}
	if (p->bias)
		y += p->bias[j];
	if (p->from)
		y += p->from[r * p->ldy + j];
	p->y[r * p->ldy + j] = y;
}

/* Copies a field of a row's block. */
static void pack_field(unsigned char *to, const unsigned char *block, uint64_t bytes,
	uint64_t at, uint64_t packed_at, uint32_t row, uint32_t outputs)
{
	if (bytes == 4)
		memcpy(to + packed_at * outputs + 4 * row, block + at, 4);
	else
		memcpy(to + packed_at * outputs + 2 * row, block + at, 2);
}

/* Copies a block of a row; `to` is that of the first row of its group. */
static void pack_block(unsigned char *to, const unsigned char *block, enum lm_weight type,
	uint32_t row, uint32_t outputs)
{
	uint64_t bytes = lm_weight_block_bytes(type), at = 0;

	if (type == LM_WEIGHT_Q6_K) {
		for (; at < 208; at += 4)
			pack_field(to, block, 4, at, lm_packed_6_k(at), row, outputs);
		pack_field(to, block, 2, at, lm_packed_6_k(at), row, outputs);
		return;
	}
	if (bytes % 4) {
		pack_field(to, block, 2, 0, 0, row, outputs);
		at = 2;
	}
	for (; at < bytes; at += 4)
		pack_field(to, block, 4, at, at, row, outputs);
}

void lm_pack(void *to, const void *w, enum lm_weight type, uint64_t n, uint64_t k,
	uint32_t outputs)
{
	uint64_t row_bytes = lm_weight_row_bytes(type, k), done = n / outputs * outputs;
	uint64_t block = lm_weight_block_bytes(type);

	for (uint64_t j = 0; j < done; j += outputs) {
		const unsigned char *from = (const unsigned char *)w + j * row_bytes;
		unsigned char *out = (unsigned char *)to + j * row_bytes;

		for (uint64_t b = 0; b < row_bytes; b += block)
			for (uint32_t i = 0; i < outputs; i++)
				pack_block(out + b * outputs, from + i * row_bytes + b,
					type, i, outputs);
	}
	memcpy((unsigned char *)to + done * row_bytes,
		(const unsigned char *)w + done * row_bytes, (n - done) * row_bytes);
}

void lm_project_ref(const struct lm_project *p, uint64_t from, uint64_t to)
{
	uint64_t bytes = lm_weight_row_bytes(p->type, p->k);

	for (uint64_t r = 0; r < p->rows; r++)
		for (uint64_t j = from; j < to; j++) {
			const unsigned char *w = (const unsigned char *)p->w + j * bytes;

			if (lm_weight_is_quantized(p->type))
				project_quantized(p, r, j, w);
			else
				project_plain(p, r, j, w);
		}
}
