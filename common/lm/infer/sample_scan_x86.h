/* sample_scan_x86.h - a whole block of sample_scan.h with AVX2 and AVX-512, and the numbers that
 * all versions of its exponential share. For sample_scan.c only. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_SCAN_X86_H
#define RNP_COMMON_LM_INFER_SAMPLE_SCAN_X86_H

#include "common/lm/infer/sample_scan.h"

/* e^(d / temperature) = 2^k 2^f with k the whole number nearest to d * scale. Adding SCAN_ROUND
 * rounds to a whole number, which the low bits of the sum then hold; |f| <= 1/2, where the
 * polynomial that comes nearest to 2^f (Remez; its first coefficient is 1) is off by 3 10^-14. */
#define SCAN_LOG2E 0x1.71547652b82fep+0
#define SCAN_ROUND 0x1.8p52
#define SCAN_TERMS 10
extern const double scan_powers[SCAN_TERMS];

/* To be called only where cpu_chose() says that this CPU (and RNP_ISA) has the level. */
float scan_max_avx2(const float x[SCAN_BLOCK]);
double scan_shares_avx2(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how);
void scan_exclude_avx2(float to[SCAN_BLOCK], const float x[SCAN_BLOCK], uint64_t allowed);
uint64_t scan_at_least_avx2(const float x[SCAN_BLOCK], float min);
float scan_max_avx512(const float x[SCAN_BLOCK]);
double scan_shares_avx512(double share[SCAN_BLOCK], const float x[SCAN_BLOCK],
	const struct scan *how);
void scan_exclude_avx512(float to[SCAN_BLOCK], const float x[SCAN_BLOCK],
	uint64_t allowed);
uint32_t scan_keep_avx512(float *to, uint32_t *ids, const float x[SCAN_BLOCK],
	uint32_t first, float min);

#endif
