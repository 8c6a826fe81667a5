/* sample_scan.h - passes over blocks of logits, for sample.c. Uses sample_scan_x86.h. Pure.
 *
 * On CPUs with AVX2 or AVX-512 they work on vectors. All versions give the same bits: each number
 * comes from the same operations, and a block is added up in the same order. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_SCAN_H
#define RNP_COMMON_LM_INFER_SAMPLE_SCAN_H

#include <stdint.h>

#define SCAN_BLOCK 64 /* as many logits as a word of a mask has bits */

/* How logits become shares: share(x) = e^((x - max) / temperature) if x >= min, else 0. The
 * exponent must not be below -SCAN_EXPONENT_MAX at min. */
#define SCAN_EXPONENT_MAX 700
struct scan {
	double max, temperature;
	double scale; /* 1 / (temperature * ln 2) */
	float min;
};

/* Sets how; min is -units * temperature from max. */
void scan_init(struct scan *how, double max, double temperature, double units);

/* Raises how->min, never lowers it: to the least float that is not below min. */
void scan_raise(struct scan *how, double min);

/* Returns the largest of n <= SCAN_BLOCK logits without NaN; -INFINITY if there are none. */
float scan_max(const float *x, uint32_t n);

/* Copies n <= SCAN_BLOCK logits to `to`, which may be x: those whose bit of `allowed` is not set as
 * -INFINITY. */
void scan_exclude(float *to, const float *x, uint32_t n, uint64_t allowed);

/* Computes the shares of n <= SCAN_BLOCK logits; the rest of share is 0, as is that of a NaN.
 * Returns their sum. Relative error of a share: 10^-12; that of max is 1. */
double scan_shares(double share[SCAN_BLOCK], const float *x, uint32_t n,
	const struct scan *how);

/* Appends to `to` those of n <= SCAN_BLOCK logits that are at least min > -INFINITY, and to ids
 * which they are, counted from first; returns how many. Both have room for SCAN_BLOCK. */
uint32_t scan_keep(float *to, uint32_t *ids, const float *x, uint32_t n, uint32_t first,
	float min);

#endif
