/* gemm.c - reference of the matrix products of a language model. */
#include "kernels/lm/ref.h"

void lm_gemm_ref(const struct lm_gemm *g, uint64_t from, uint64_t to)
{
	double scale = lm_gemm_scale(g);

	for (uint64_t i = from; i < to; i++)
		for (uint64_t j = 0; j < g->n; j++) {
			double sum = g->from ? g->from[i * g->ldc + j] : 0;

			if (g->bias)
				sum += g->bias[j];
			for (uint64_t t = 0; t < g->k; t++) {
				uint64_t a = g->form == LM_XTX ? t * g->lda + i :
								 i * g->lda + t;
				uint64_t b = g->form == LM_XWT ? j * g->ldb + t :
								 t * g->ldb + j;

				sum += scale * lm_at(g->dtype, g->a, a) *
					lm_at(g->dtype, g->b, b);
			}
			lm_set(g->out, g->c, i * g->ldc + j, sum);
		}
}
