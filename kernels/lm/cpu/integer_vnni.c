/* integer_vnni.c - products with quantised weights on AVX-512 with VNNI. */
#ifdef __x86_64__
#define INTEGER_VNNI
#include "kernels/lm/integer.inc"
#else
#include "kernels/lm/x86.h"
#endif
