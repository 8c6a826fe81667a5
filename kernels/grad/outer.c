/* outer.c - the reference of outer.h, and the choice of a level. */
#include "kernels/grad/outer.h"

#define TARGET
#define LOOP
#define NAME(x) x##_ref
#include "kernels/grad/outer_loops.inc"

const struct outer_kernels *outer_kernels(enum cpu_level level)
{
#ifdef __x86_64__
	if (level >= CPU_AVX512)
		return &outer_kernels_avx512;
	if (level >= CPU_AVX2)
		return &outer_kernels_avx2;
#endif
	(void)level;
	return &outer_kernels_ref;
}
