/* outer_x86.c - the loops of kernels/grad/outer.h for AVX2 and AVX-512. */
#include "kernels/grad/outer.h"

#ifdef __x86_64__
#define LOOP _Pragma("omp simd")

#define TARGET  __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#include "kernels/grad/outer_loops.inc"
#undef TARGET
#undef NAME

#define TARGET  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))
#define NAME(x) x##_avx512
#include "kernels/grad/outer_loops.inc"
#endif
