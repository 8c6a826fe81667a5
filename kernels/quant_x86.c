#include "kernels/quant.h"

#ifdef __x86_64__
#include "kernels/quant_parts.h"

#define TARGET  __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#include "kernels/quant_loops.inc"
#undef TARGET
#undef NAME

#define TARGET  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2")))
#define NAME(x) x##_avx512
#include "kernels/quant_loops.inc"
#endif
