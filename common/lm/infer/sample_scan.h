/* sample_scan.h - passes over blocks of logits, for sample.c. Uses sample_scan_x86.h. Pure.
 *
 * On CPUs with AVX2 or AVX-512 they work on vectors. All versions give the same bits: each number comes
 * from the same operations, and a block is added up in the same order. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_SCAN_H
#define RNP_COMMON_LM_INFER_SAMPLE_SCAN_H

#include <stdint.h>

#define SCAN_BLOCK 64 /* as many logits as a word of a mask has bits */

/* How logits become shares: share(x) = e^((x - max) / temperature) if x >= min, else 0. The
 * exponent must not be below -SCAN_EXPONENT_MAX at min. */
#define SCAN_EXPONENT_MAX 700
struct scan {
	double max, min, temperature;
};

/* Returns the largest of n <= SCAN_BLOCK logits without NaN; -INFINITY if there are none. */
float scan_max(const float *x, uint32_t n);

/* Copies n <= SCAN_BLOCK logits to `to`, which may be x: those whose bit of `allowed` is not set as -INFINITY. */
void scan_exclude(float *to, const float *x, uint32_t n, uint64_t allowed);

/* Computes the shares of n <= SCAN_BLOCK logits; the rest of share is 0, as is that of a NaN.
 * Returns their sum. Relative error of a share: 10^-12. */
double scan_shares(double share[SCAN_BLOCK], const float *x, uint32_t n,
	const struct scan *how);

#endif
