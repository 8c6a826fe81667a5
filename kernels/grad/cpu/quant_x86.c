/* quant_x86.c - the quantisers for AVX2 and AVX-512. */
#include "kernels/grad/quant.h"

#ifdef __x86_64__
#include "kernels/grad/quant_parts.h"

/* Elements that are not finite have bins of their own, which are dropped at the end instead of
 * by a branch. There are four tables, because a count just stored cannot be loaded again at
 * once. */
#define SPREAD_TABLES 4
#define SPREAD_FINITE (0x7f800000 >> 18)

void quant_spread_tables(uint32_t *bins, const float *x, uint64_t n)
{
	static _Thread_local uint32_t table[SPREAD_TABLES][QUANT_BINS];
	uint64_t i = 0;

	memset(table, 0, sizeof table);
	for (; i + SPREAD_TABLES <= n; i += SPREAD_TABLES)
#pragma GCC unroll 4
		for (int t = 0; t < SPREAD_TABLES; t++)
			table[t][quant_bin(quant_magnitude(x[i + (uint64_t)t]))]++;
	for (; i < n; i++)
		table[0][quant_bin(quant_magnitude(x[i]))]++;
	for (int v = 0; v < SPREAD_FINITE; v++)
		bins[v] += table[0][v] + table[1][v] + table[2][v] + table[3][v];
}

#define TARGET  __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#include "kernels/grad/cpu/quant_loops.inc"
#undef TARGET
#undef NAME

#define TARGET  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))
#define NAME(x) x##_avx512
#include "kernels/grad/cpu/quant_loops.inc"
#endif
