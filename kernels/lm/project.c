/* project.c - reference of linear layers whose weights stay in the types of a model file. */
#include "kernels/lm/project.h"

void lm_project_ref(const struct lm_project *p, uint64_t from, uint64_t to)
{
	uint64_t bytes = lm_weight_row_bytes(p->type, p->k);

	for (uint64_t r = 0; r < p->rows; r++)
		for (uint64_t j = from; j < to; j++) {
			const unsigned char *w = (const unsigned char *)p->w + j * bytes;
			double sum = 0;

			for (uint64_t t = 0; t < p->k; t++)
				sum += (double)p->x[r * p->ldx + t] *
					lm_weight_at(p->type, w, t);
			if (p->bias)
				sum += p->bias[j];
			if (p->from)
				sum += p->from[r * p->ldy + j];
			p->y[r * p->ldy + j] = (float)sum;
		}
}
