/* ops.h - the operations that measure memory and arithmetic: the table `bulk` of a device.
 *
 * Reached as d->ops->bulk. The rules of dev.h hold; formulas are in the header of each kernel. */
#ifndef RNP_KERNELS_BULK_OPS_H
#define RNP_KERNELS_BULK_OPS_H

#include "kernels/bulk/bulk.h"
#include "kernels/bulk/product.h"
#include "kernels/dev/ops.h"

#define BULK_OPS(OP, t)                                                                 \
	OP(t, triad,                                                                    \
		(struct dev * d, double *a, const double *b, const double *c, double s, \
			uint64_t n),                                                    \
		(d, a, b, c, s, n))                                                     \
	OP(t, random, (struct dev * d, uint64_t * sum, const struct bulk_random *r),    \
		(d, sum, r))                                                            \
	OP(t, product, (struct dev * d, const struct product *p), (d, p))

struct bulk_ops {
	BULK_OPS(DEV_SLOT, bulk)
};

#endif
