/* sample_scan_x86.h - a whole block of sample_scan.h with AVX2, and the numbers that both
 * versions of its exponential share. For sample_scan.c only. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_SCAN_X86_H
#define RNP_COMMON_LM_INFER_SAMPLE_SCAN_X86_H

#include <stdbool.h>

#include "common/lm/infer/sample_scan.h"

/* e^d = 2^k e^r with k the whole number nearest to d / ln 2. Adding SCAN_ROUND rounds to a whole
 * number, which the low bits of the sum then hold; |r| <= ln 2 / 2, where the polynomial of
 * Taylor's first SCAN_TERMS coefficients is off by r^11 / 11! < 3 10^-13. */
#define SCAN_LOG2E 0x1.71547652b82fep+0
#define SCAN_LN2   0x1.62e42fefa39efp-1
#define SCAN_ROUND 0x1.8p52
#define SCAN_TERMS 11
extern const double scan_taylor[SCAN_TERMS]; /* 1 / n! */

/* Whether this CPU (and RNP_ISA) has fast versions; the others may only be called then. */
bool scan_is_fast(void);
float scan_max_fast(const float x[SCAN_BLOCK]);
double scan_shares_fast(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how);

#endif
