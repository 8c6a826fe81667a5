/* sample_scan.c - the definition of the passes; blocks that are not full are filled up with
 * -INFINITY, whose share is 0. */
#include "common/lm/infer/sample_scan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/lm/infer/sample_scan_x86.h"
#include "kernels/dev/cpu.h"

const double scan_powers[SCAN_TERMS] = { 1, 0x1.62e42fefa3752p-1, 0x1.ebfbdff81570dp-3,
	0x1.c6b08d70d2001p-5, 0x1.3b2ab72a109abp-7, 0x1.5d87fd9012291p-10,
	0x1.43088fca973e3p-13, 0x1.ffce2460748e8p-17, 0x1.63edf10821f17p-20,
	0x1.b3f421e0bad39p-24 };

void scan_init(struct scan *how, double max, double temperature, double units)
{
	double scale = SCAN_LOG2E / temperature;

	*how = (struct scan){ .max = max,
		.temperature = temperature,
		.scale = scale < DBL_MAX ? scale : DBL_MAX, /* 0 times it is 0 */
		.min = -INFINITY };
	scan_raise(how, max - units * temperature);
}

void scan_raise(struct scan *how, double min)
{
	float least = (float)min;

	if (least < min)
		least = nextafterf(least, INFINITY);
	if (!(how->min >= least))
		how->min = least;
}

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

/* Returns e^(d / temperature). */
static double power(double d, double scale)
{
	double sum = fma(d, scale, SCAN_ROUND), f = fma(d, scale, SCAN_ROUND - sum);
	double p = scan_powers[SCAN_TERMS - 1];
	uint64_t k, bits;

	for (int i = SCAN_TERMS - 2; i >= 0; i--)
		p = fma(p, f, scan_powers[i]);
	memcpy(&k, &sum, sizeof k);
	memcpy(&bits, &p, sizeof bits);
	bits += k << 52; /* times 2^k */
	memcpy(&p, &bits, sizeof p);
	return p;
}

double scan_shares(double share[SCAN_BLOCK], const float *x, uint32_t n,
	const struct scan *how)
{
	double sum[8] = { 0 };
	float room[SCAN_BLOCK];

	x = whole(room, x, n);
	if (cpu_chose(CPU_AVX512))
		return scan_shares_avx512(share, x, how);
	if (cpu_chose(CPU_AVX2))
		return scan_shares_avx2(share, x, how);
	for (uint32_t i = 0; i < SCAN_BLOCK; i++) {
		share[i] = x[i] >= how->min ? power(x[i] - how->max, how->scale) : 0;
		sum[i % 8] += share[i];
	}
	for (uint32_t i = 0; i < 4; i++)
		sum[i] += sum[i + 4];
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static uint64_t at_least(const float x[SCAN_BLOCK], float min)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < SCAN_BLOCK; i++)
		bits |= (uint64_t)(x[i] >= min) << i;
	return bits;
}

uint32_t scan_keep(float *to, uint32_t *ids, const float *x, uint32_t n, uint32_t first,
	float min)
{
	float room[SCAN_BLOCK];
	uint32_t kept = 0;
	uint64_t bits;

	x = whole(room, x, n);
	if (cpu_chose(CPU_AVX512))
		return scan_keep_avx512(to, ids, x, first, min);
	bits = cpu_chose(CPU_AVX2) ? scan_at_least_avx2(x, min) : at_least(x, min);
	for (; bits; bits &= bits - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(bits);

		to[kept] = x[i];
		ids[kept++] = first + i;
	}
	return kept;
}
