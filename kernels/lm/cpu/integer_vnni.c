/* integer_vnni.c - products with quantised weights on AVX-512 with VNNI. */
#ifdef __x86_64__
#define INTEGER_VNNI
#include "kernels/lm/cpu/integer.inc"
#else
#include "kernels/lm/cpu/x86.h"
#endif
