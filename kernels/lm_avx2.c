/* The language model's fast kernels for one instruction set. */
#include "kernels/lm_x86.h"

#ifdef __x86_64__
#include <math.h>

#define VEC_AVX2
#include "kernels/lm_vec.h"
#include "kernels/lm_rows.inc"
#include "kernels/lm_tile.inc"
#include "kernels/lm_attend.inc"
#include "kernels/lm_attend_one.inc"
#include "kernels/lm_project.inc"

static void nothing(void)
{
}

const struct lm_tiles lm_tiles_f32_avx2 = {
	.halves = false,
	.k_step = 1,
	.begin = nothing,
	.end = nothing,
	.mul = VEC(mul_f32),
	.pack_b = VEC(pack_b_f32),
	.pack_a = VEC(pack_a_f32),
	.done = VEC(done),
};
#endif
