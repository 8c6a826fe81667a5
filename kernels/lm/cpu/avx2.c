/* avx2.c - the language model's fast kernels, compiled for AVX2. */
#include "kernels/lm/cpu/x86.h"

#ifdef __x86_64__
#define VEC_AVX2
#include "kernels/lm/cpu/set.inc"
#endif
