/* lt.cuh - matrix products by cuBLASLt, which is opened by the first one: it has 517 MB, and a
 * node with only the driver works without it. */
#ifndef RNP_KERNELS_DEV_LT_CUH
#define RNP_KERNELS_DEV_LT_CUH

#include "kernels/dev/dev.h"

enum lt_type { LT_F32, LT_BF16, LT_F16, LT_F8, LT_I8, LT_I32 };

/* C = A B^T + from, row-major; A is m x k, or stored k x m if a_turned; B is n x k, or k x n.
 * `from` has C's type and stride and may be NULL or c. Sums are f32, or int32 if out is I32. */
struct lt_product {
	enum lt_type in, out;
	bool a_turned, b_turned;
	uint64_t m, n, k, lda, ldb, ldc;
	void *c;
	const void *a, *b, *from;
};

/* Returns 0; 1: the library is missing or does not support this product, nothing was started;
 * -1: an error. */
int cuda_lt_multiply(struct dev *d, const struct lt_product *p);
/* Opens the library if it is installed; bytes: how much of the GPU's memory it then takes. */
int cuda_lt_prepare(struct dev *d, uint64_t *bytes);
void cuda_lt_close(struct dev *d);

#endif
