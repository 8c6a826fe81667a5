/* The language model's fast kernels for one instruction set. */
#include "kernels/lm/x86.h"

#ifdef __x86_64__
#define VEC_AVX512
#include "kernels/lm/set.inc"
#endif
