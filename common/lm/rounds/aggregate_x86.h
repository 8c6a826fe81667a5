/* aggregate_x86.h - the sums of a round's deltas with AVX2. For common/lm/rounds alone. The results
 * have the same bits as the plain loops beside which they are called: the same lanes, in the same
 * order, and every product and sum rounded by itself. */
#ifndef RNP_COMMON_LM_ROUNDS_AGGREGATE_X86_H
#define RNP_COMMON_LM_ROUNDS_AGGREGATE_X86_H

#include <stdint.h>

/* Each takes the leading elements that fill whole vectors, and returns how many: 0 where this CPU
 * (or RNP_ISA) has no fast version. Sums are added to 8 lanes: element i to lane i mod 8. */

/* norm += x x ;  dot += x d */
uint64_t aggregate_norm_and_dot_fast(const float *x, const double *d, uint64_t n,
	double norm[8], double dot[8]);
/* sum += x y */
uint64_t aggregate_product_fast(const float *x, const float *y, uint64_t n,
	double sum[8]);

#endif
