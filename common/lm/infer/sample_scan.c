/* sample_scan.c - the definition of the passes; blocks that are not full are filled up with
 * -INFINITY, whose share is 0. */
#include "common/lm/infer/sample_scan.h"

#include <math.h>
#include <string.h>

#include "common/lm/infer/sample_scan_x86.h"
#include "kernels/dev/cpu.h"

const double scan_taylor[SCAN_TERMS] = { 1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120,
	1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800 };

/* Returns x itself if it is a whole block, else room with its logits. */
static const float *whole(float room[SCAN_BLOCK], const float *x, uint32_t n)
{
	if (n == SCAN_BLOCK)
		return x;
	memcpy(room, x, n * sizeof *x);
	for (; n < SCAN_BLOCK; n++)
		room[n] = -INFINITY;
	return room;
}

float scan_max(const float *x, uint32_t n)
{
	float room[SCAN_BLOCK], max = -INFINITY;

	x = whole(room, x, n);
	if (cpu_chose(CPU_AVX512))
		return scan_max_avx512(x);
	if (cpu_chose(CPU_AVX2))
		return scan_max_avx2(x);
	for (uint32_t i = 0; i < SCAN_BLOCK; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

void scan_exclude(float *to, const float *x, uint32_t n, uint64_t allowed)
{
	if (n == SCAN_BLOCK && cpu_chose(CPU_AVX512)) {
		scan_exclude_avx512(to, x, allowed);
		return;
	}
	if (n == SCAN_BLOCK && cpu_chose(CPU_AVX2)) {
		scan_exclude_avx2(to, x, allowed);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		to[i] = allowed >> i & 1 ? x[i] : -INFINITY;
}

static double exponential(double d)
{
	double sum = d * SCAN_LOG2E + SCAN_ROUND;
	double r = d - (sum - SCAN_ROUND) * SCAN_LN2, p = scan_taylor[SCAN_TERMS - 1];
	uint64_t k, bits;

	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = p * r + scan_taylor[i];
	memcpy(&k, &sum, sizeof k);
	memcpy(&bits, &p, sizeof bits);
	bits += k << 52; /* times 2^k */
	memcpy(&p, &bits, sizeof p);
	return p;
}

double scan_shares(double share[SCAN_BLOCK], const float *x, uint32_t n,
	const struct scan *how)
{
	double sum[4] = { 0 };
	float room[SCAN_BLOCK];

	x = whole(room, x, n);
	if (cpu_chose(CPU_AVX512))
		return scan_shares_avx512(share, x, how);
	if (cpu_chose(CPU_AVX2))
		return scan_shares_avx2(share, x, how);
	for (uint32_t i = 0; i < SCAN_BLOCK; i++) {
		share[i] = x[i] >= how->min ?
			exponential((x[i] - how->max) / how->temperature) :
			0;
		sum[i % 4] += share[i];
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
