/* matrices.h - multiplies square matrices on a device again and again, and checks the result. */
#ifndef RNP_BENCH_SUITES_MATRICES_H
#define RNP_BENCH_SUITES_MATRICES_H

#include <stdint.h>

#include "kernels/bulk/ops.h"

/* clang-format off */
#define MATRICES_INIT { 0 }
/* clang-format on */

struct matrices {
	struct dev *dev; /* borrowed */
	struct product product;
	void *a, *b, *c; /* memory of the device */
};

/* Opens C = A B^T, n x n, of integers so small that every sum is exact in f32. Returns 0, or -1
 * with err_set and nothing to close. */
int matrices_open(struct matrices *m, struct dev *d, enum product_type type, uint64_t n);
void matrices_close(struct matrices *m); /* harmless when not open */

/* Multiplies `times` times and waits. Returns 0, or -1 with err_set. */
int matrices_step(struct matrices *m, int times);
double matrices_work(const struct matrices *m); /* operations of one product */

/* Checks elements of the last row of C against plain loops over A and B: to the bit, f8 within
 * product.h's bound. Returns 0, or -1 with err_set; a wrong product is a bug (70). */
int matrices_check(struct matrices *m);

#endif
