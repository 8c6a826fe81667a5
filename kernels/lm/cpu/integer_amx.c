/* integer_amx.c - products of many rows with quantised weights on AVX-512 with int8 tiles (AMX:
 * Sapphire Rapids and later). tests/kernels/amx_emu.c compiles it a second time with tiles in
 * memory (INTEGER_EMULATED), for CPUs that have none. */
#if defined __x86_64__ && defined __linux__
#define INTEGER_VNNI
#define INTEGER_AMX
#ifdef INTEGER_EMULATED
#define SET(name) name##_amx_emulated
#define TARGET                                                                 \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni," \
			      "avx2,fma,f16c")))
#else
#define SET(name) name##_amx
#define TARGET                                                                        \
	__attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl," \
			      "avx512vnni,avx2,fma,f16c")))
#endif
#include "kernels/lm/cpu/integer.inc"
#else
#include "kernels/lm/cpu/x86.h"
#endif
