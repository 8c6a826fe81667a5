/* product.c - reference of matrix products: plain loops, in the order of additions that the
 * header states. */
#include "kernels/bulk/product.h"

#include "kernels/dev/half.h"

const char *const product_type_names[PRODUCT_TYPES] = { "f32", "bf16", "f16", "f8",
	"i8" };

static double element(enum product_type type, const void *p, uint64_t i)
{
	switch (type) {
	case PRODUCT_F32:
		return ((const float *)p)[i];
	case PRODUCT_BF16:
		return bf16_to_f32(((const uint16_t *)p)[i]);
	case PRODUCT_F16:
		return f16_to_f32(((const uint16_t *)p)[i]);
	case PRODUCT_F8:
		return f8_to_f32(((const uint8_t *)p)[i]);
	default:
		return ((const int8_t *)p)[i];
	}
}

void product_ref(const struct product *p)
{
	for (uint64_t i = 0; i < p->m; i++)
		for (uint64_t j = 0; j < p->n; j++) {
			double sum = 0; /* exact for int8 */

			for (uint64_t t = 0; t < p->k; t++)
				sum += element(p->type, p->a, i * p->lda + t) *
					element(p->type, p->b, j * p->ldb + t);
			if (p->type == PRODUCT_I8)
				((int32_t *)p->c)[i * p->ldc + j] = (int32_t)sum;
			else
				((float *)p->c)[i * p->ldc + j] = (float)sum;
		}
}
