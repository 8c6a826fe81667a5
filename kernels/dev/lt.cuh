/* lt.cuh - matrix products by cuBLASLt, which is opened on the first one: it has 517 MB, and a
 * node with just the driver works without it. */
#ifndef RNP_KERNELS_DEV_LT_CUH
#define RNP_KERNELS_DEV_LT_CUH

#include "kernels/dev/dev.h"

enum lt_type { LT_F32, LT_BF16, LT_F16, LT_F8, LT_I8, LT_I32 };

/* C = A B^T + from, row-major; A is m x k, or stored k x m when a_turned; B n x k, or k x n.
 * `from` has C's type and stride and may be NULL or c. Sums are in f32, or int32 where out is
 * I32. */
struct lt_product {
	enum lt_type in, out;
	bool a_turned, b_turned;
	uint64_t m, n, k, lda, ldb, ldc;
	void *c;
	const void *a, *b, *from;
};

/* Returns 0; 1: the library is not there or does not do this product, nothing was started; -1:
 * an error. */
int cuda_lt_multiply(struct dev *d, const struct lt_product *p);
/* Opens the library if it is there; bytes: what it then holds of the GPU's memory. */
int cuda_lt_prepare(struct dev *d, uint64_t *bytes);
void cuda_lt_close(struct dev *d);

#endif
