/* roof.h - what a device's matrix products reach: what a model's speed is measured against. One
 * figure for all programs, kept (figure.h). Uses dev.h, figure. */
#ifndef RNP_COMMON_HW_ROOF_H
#define RNP_COMMON_HW_ROOF_H

#include "common/hw/figure.h"
#include "kernels/bulk/ops.h"

/* Reads the rate of large products of the type, in FLOP/s, or measures it for one to two
 * seconds: warm, until it is known within 2%. again: measures in any case; a better rate that is
 * known stays. Returns 0, or -1 with err_set(): the device's error. */
int roof_of(struct figure *out, struct dev *d, enum product_type type, bool again);

/* Keeps what a program has measured with care: n rates of large products, in FLOP/s. */
void roof_offer(const struct dev *d, enum product_type type, const double *rates,
	size_t n);

#endif
