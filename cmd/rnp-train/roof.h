/* roof.h - what a device's matrix products reach: what a model's speed is measured against. Uses
 * dev.h, clock. */
#ifndef RNP_TRAIN_ROOF_H
#define RNP_TRAIN_ROOF_H

#include "kernels/lm/ops.h"

/* The best rate of large products, operands in the type, measured for about a fifth of a second.
 * Returns 0 and *flop_per_s, or -1 with err_set(): the device's error. */
int roof_measure(struct dev *d, enum lm_dtype dtype, double *flop_per_s);

#endif
