/* avx512.c - the language model's fast kernels, compiled for AVX-512. */
#include "kernels/lm/cpu/x86.h"

#ifdef __x86_64__
#define VEC_AVX512
#include "kernels/lm/cpu/set.inc"
#endif
