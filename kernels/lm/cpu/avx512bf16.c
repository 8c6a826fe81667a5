/* avx512bf16.c - the language model's fast kernels, compiled for AVX-512 with BF16. */
#include "kernels/lm/cpu/x86.h"

#ifdef __x86_64__
#define VEC_AVX512BF16
#include "kernels/lm/cpu/set.inc"

const struct lm_tiles lm_tiles_bf16_avx512bf16 = {
	.halves = true,
	.k_step = 32,
	.begin = nothing,
	.end = nothing,
	.mul = VEC(mul_half),
	.pack_b = VEC(pack_b_half),
	.pack_a = VEC(pack_a_half),
	.done = VEC(done),
};

const struct lm_tiles lm_tiles_bf16_amx = {
	.halves = true,
	.k_step = 32,
	.begin = lm_amx_begin,
	.end = lm_amx_end,
	.mul = lm_amx_mul,
	.pack_b = VEC(pack_b_half),
	.pack_a = VEC(pack_a_half),
	.done = VEC(done),
};
#endif
