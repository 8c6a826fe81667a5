#include "kernels/matmul.h"

#include <string.h>

/* The order of the loops (i, p, j) adds in ascending p and reads B along its rows. */
#define DEFINE(name, in, out, load)                                                     \
	static void name(int64_t m, int64_t n, int64_t k, const in *a, const in *b,     \
		out *c)                                                                 \
	{                                                                               \
		_Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < m; \
								  i++)                  \
		{                                                                       \
			memset(c + i * n, 0, (size_t)n * sizeof *c);                    \
			for (int64_t p = 0; p < k; p++)                                 \
				for (int64_t j = 0; j < n; j++)                         \
					c[i * n + j] += load(a[i * k + p]) *            \
						load(b[p * n + j]);                     \
		}                                                                       \
	}

#define SAME(v) (v)
/* unsigned: wrapping is defined */
#define WRAP(v) ((uint32_t)(int32_t)(v))

DEFINE(f32, float, float, SAME)
DEFINE(bf16_to_f32, bf16, float, matmul_bf16_to_f32)
DEFINE(i8_wrapping, int8_t, uint32_t, WRAP)

static void i8_to_i32(int64_t m, int64_t n, int64_t k, const int8_t *a, const int8_t *b,
	int32_t *c)
{
	i8_wrapping(m, n, k, a, b, (uint32_t *)c);
}

const struct matmul matmul_reference = {
	.f32_name = "reference",
	.bf16_name = "reference",
	.i8_name = "reference",
	.f32 = f32,
	.bf16 = bf16_to_f32,
	.i8 = i8_to_i32,
};
