/* Holds every version of the linear layers against its reference: exact or bounded cases,
 * edges, repeatability. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/kcheck.h"

static const char *const names[LM_WEIGHTS] = { "f32", "f16", "bf16", "q8_0", "q4_0" };

static int run(struct dev *d, void *out, const void *arguments)
{
	struct lm_project p = *(const struct lm_project *)arguments;

	p.y = out;
	return d->ops->lm->project(d, &p);
}

/* Random weights whose scales and numbers are finite and of about one size. */
static void make_weights(unsigned char *w, enum lm_weight type, uint64_t n, uint64_t k)
{
	uint64_t bytes = lm_weight_row_bytes(type, k) * n;
	uint64_t block = lm_weight_block_bytes(type);

	kcheck_random(w, bytes, k + n);
	if (type == LM_WEIGHT_F32 || type == LM_WEIGHT_F16 || type == LM_WEIGHT_BF16) {
		uint64_t each = block / 32;

		/* sign and fraction random, exponent near that of 1 */
		for (uint64_t i = each - 1; i < bytes; i += each)
			w[i] = (unsigned char)((w[i] & 0x81) | 0x3c);
		return;
	}
	for (uint64_t i = 0; i < bytes; i += block)
		w[i + 1] = 0x2c; /* scale about 0.06 */
}

static void one(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t n,
	uint64_t cols, bool more, unsigned offset)
{
	uint64_t row_bytes = lm_weight_row_bytes(type, cols), ldx = cols + 3, ldy = n;
	unsigned char *w = malloc(row_bytes * n + 1);
	float *x = malloc((rows * ldx + 1) * 4), *want = malloc((rows * ldy + 1) * 4);
	float *from = malloc((rows * ldy + 1) * 4), *bias = malloc((n + 1) * 4);
	float *bound = malloc((rows * ldy + 1) * 4);
	struct lm_project p = { .type = type,
		.rows = rows,
		.n = n,
		.k = cols,
		.ldx = ldx,
		.ldy = ldy,
		.x = x,
		.w = w,
		.from = more ? from : NULL,
		.bias = more ? bias : NULL,
		.y = want };
	struct kcase c = { .run = run, .arguments = &p, .want = want, .bound = bound };

	make_weights(w, type, n, cols);
	for (uint64_t i = 0; i < rows * ldx; i++)
		x[i] = (float)((int)(i * 2654435761u % 2001) - 1000) / 500;
	for (uint64_t i = 0; i < rows * ldy; i++)
		from[i] = (float)i / 7;
	for (uint64_t i = 0; i < n; i++)
		bias[i] = 1 - (float)i;
	for (uint64_t i = 0; i < rows * ldy; i++)
		want[i] = bound[i] = 0;
	lm_project_ref(&p, 0, n);
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t j = 0; j < n; j++) {
			double s = more ?
				fabs((double)from[r * ldy + j]) + fabs((double)bias[j]) :
				0;

			for (uint64_t t = 0; t < cols; t++)
				s += fabs((double)x[r * ldx + t] *
					lm_weight_at(type, w + j * row_bytes, t));
			bound[r * ldy + j] = (float)((double)(cols + 4) * 0x1p-22 * s);
		}
	c.out_bytes = rows * n * 4;
	c.offset = offset;
	c.work = 2 * (double)rows * (double)n * (double)cols;
	c.unit = "op";
	p.x = kcheck_put(k, x, rows * ldx * 4, 4);
	p.w = kcheck_put(k, w, row_bytes * n, 2);
	if (more) {
		p.from = kcheck_put(k, from, rows * ldy * 4, 0);
		p.bias = kcheck_put(k, bias, n * 4, 0);
	}
	snprintf(c.label, sizeof c.label, "project %s %llux%llux%llu%s", names[type],
		(unsigned long long)rows, (unsigned long long)n, (unsigned long long)cols,
		more ? " + from + bias" : "");
	kcheck_case(k, &c);
	free(w), free(x), free(want), free(from), free(bias), free(bound);
}

void check_lm_project(struct kcheck *k)
{
	uint64_t sizes[][3] = { { 1, 1, 32 }, { 1, 9, 64 }, { 3, 5, 96 }, { 4, 8, 64 },
		{ 6, 7, 160 } };

	(void)k->dev.ops->lm->prepare(&k->dev, NULL); /* the emulated GPU needs none */
	for (int type = 0; type < LM_WEIGHTS; type++) {
		for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
			one(k, (enum lm_weight)type, sizes[i][0], sizes[i][1],
				sizes[i][2], i % 2, 4 * i);
		if (type <= LM_WEIGHT_BF16) {
			one(k, (enum lm_weight)type, 1, 6, 43, true, 0);
			one(k, (enum lm_weight)type, 5, 6, 31, false, 4);
		}
		if (k->bench && !k->slow) {
			one(k, (enum lm_weight)type, 1, 2048, 768, false, 0);
			one(k, (enum lm_weight)type, 64, 2048, 768, false, 0);
		}
	}
}
