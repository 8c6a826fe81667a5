/* tensor.c - lm/tensor: sizes of types, and conversions that give the same bits on every CPU.
 * With the name of a type it converts blocks from standard input. */
#include "common/lm/model/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/dev/half.h"
#include "tests/unit/test.h"

static void check_sizes(void)
{
	uint64_t bytes = 0;

	CHECK_TEXT("q8_0", lm_type_name(LM_Q8_0));
	CHECK_I64(0, lm_type_bytes(LM_BF16, 7, &bytes));
	CHECK_I64(14, (int64_t)bytes);
	CHECK_I64(0, lm_type_bytes(LM_Q8_0, 64, &bytes));
	CHECK_I64(68, (int64_t)bytes);
	CHECK_I64(0, lm_type_bytes(LM_Q4_0, 96, &bytes));
	CHECK_I64(54, (int64_t)bytes);
	CHECK_I64(0, lm_type_bytes(LM_F64, UINT64_C(1) << 59, &bytes));
	CHECK_I64(-1, lm_type_bytes(LM_F64, UINT64_C(1) << 60, &bytes)); /* 2^63 */
	CHECK_I64(-1, lm_type_bytes(LM_F64, UINT64_MAX, &bytes));
	CHECK_I64(-1, lm_type_bytes(LM_Q8_0, 33, &bytes));
	CHECK_I64(-1, lm_type_bytes(LM_OTHER, 1, &bytes));
	CHECK_I64(0, lm_type_bytes(LM_Q6_K, 512, &bytes));
	CHECK_I64(420, (int64_t)bytes);
	CHECK_I64(-1, lm_type_bytes(LM_Q4_K, 32, &bytes));
	CHECK(lm_type_computes(LM_Q6_K) && !lm_type_computes(LM_F64));
	CHECK(lm_type_converts(LM_Q4_0) && !lm_type_converts(LM_Q4_1));
}

/* a and b are the same number, or both are none */
static bool same(float a, float b)
{
	return half_bits_of_float(a) == half_bits_of_float(b) || (isnan(a) && isnan(b));
}

/* All numbers of 16 bits there are, from an odd address, and back. */
static void check_halves(enum lm_type type, float (*to)(uint16_t))
{
	unsigned char *from = xmalloc(2 * 65536 + 1), *back = xmalloc(2 * 65536 + 1);
	float *x = xmalloc(65536 * sizeof *x);
	int wrong = 0;

	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i;

		memcpy(from + 1 + 2 * i, &h, 2);
	}
	lm_to_f32(x, from + 1, type, 65536);
	lm_from_f32(back + 1, x, type, 65536);
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h;

		memcpy(&h, back + 1 + 2 * i, 2);
		wrong += !same(x[i], to((uint16_t)i)) || (h != i && !isnan(x[i]));
	}
	CHECK_I64(0, wrong);
	free(from);
	free(back);
	free(x);
}

/* Rounding of random bits, ties and neighbours of the limits against kernels/dev/half.h. */
static void check_rounding(enum lm_type type, uint16_t (*from)(float),
	float (*to)(uint16_t))
{
	enum { N = 40003 };
	float *x = xmalloc(N * sizeof *x);
	uint16_t *h = xmalloc(N * sizeof *h);
	struct rng r;
	int wrong = 0;

	rng_seed(&r, 1, (uint64_t)type);
	for (int i = 0; i < N; i++) {
		uint32_t bits = rng_u32(&r);

		if (i % 4 == 0)
			bits = (bits & 0xffff0000) | 0x8000; /* a tie of bf16 */
		if (i % 4 == 1) /* about f16's limits, ties among them */
			bits = (bits & 0x80000000) | ((bits & 0x3ff000) + 0x477fd000);
		x[i] = half_float_of_bits(bits);
	}
	lm_from_f32(h, x, type, N);
	for (int i = 0; i < N; i++)
		wrong += !same(to(h[i]), to(from(x[i])));
	CHECK_I64(0, wrong);
	free(x);
	free(h);
}

/* Worked out by hand. */
static void check_q8_0(void)
{
	float x[64] = { 0 }, back[64];
	unsigned char blocks[68];
	uint16_t scale;

	x[0] = -254; /* the scale is 2 */
	x[1] = 1;    /* halves away from zero: 0.5 -> 1 */
	x[2] = -1;
	x[3] = 7;
	x[31] = 253;
	lm_from_f32(blocks, x, LM_Q8_0, 64);
	memcpy(&scale, blocks, 2);
	CHECK_I64(0x4000, scale);
	CHECK_I64(-127, (int8_t)blocks[2]);
	CHECK_I64(1, (int8_t)blocks[3]);
	CHECK_I64(-1, (int8_t)blocks[4]);
	CHECK_I64(4, (int8_t)blocks[5]);
	CHECK_I64(127, (int8_t)blocks[33]);
	for (int i = 34; i < 68; i++) /* a block of zeros is zeros */
		CHECK_I64(0, blocks[i]);
	lm_to_f32(back, blocks, LM_Q8_0, 64);
	CHECK(back[0] == -254 && back[1] == 2 && back[3] == 8 && back[31] == 254);
}

static void check_q4_0(void)
{
	float x[32] = { 0 }, back[32];
	unsigned char blocks[18];
	uint16_t scale;

	x[0] = 16; /* the largest becomes -8, so that the scale is -2 */
	x[1] = -2;
	x[16] = 3; /* -1.5 + 8.5 = 7 */
	x[31] = -15;
	lm_from_f32(blocks, x, LM_Q4_0, 32);
	memcpy(&scale, blocks, 2);
	CHECK_I64(0xc000, scale);
	CHECK_I64(0x70, blocks[2]); /* elements 0 and 16 */
	CHECK_I64(0x89, blocks[3]);
	CHECK_I64(0xf8, blocks[17]); /* 7.5 + 8.5 is 16: the end of the scale */
	lm_to_f32(back, blocks, LM_Q4_0, 32);
	CHECK(back[0] == 16 && back[1] == -2 && back[2] == 0 && back[16] == 2 &&
		back[31] == -14);
}

/* Values that are not finite become codes of the format, not traps. */
static void check_not_finite(void)
{
	float x[32], back[32];
	unsigned char blocks[34];

	for (int i = 0; i < 32; i++)
		x[i] = i % 3 == 0 ? INFINITY : i % 3 == 1 ? NAN : -1e38f;
	lm_from_f32(blocks, x, LM_Q8_0, 32);
	lm_to_f32(back, blocks, LM_Q8_0, 32);
	lm_from_f32(blocks, x, LM_Q4_0, 32);
	lm_to_f32(back, blocks, LM_Q4_0, 32);
	CHECK(!isfinite(back[0]) || back[0] == 0);
}

/* Blocks of random bytes, as they come from a file: the fast versions give the definition's
 * bits. */
static void check_blocks(enum lm_type type)
{
	enum { N = 32 * 999 };
	uint64_t bytes = 0;
	unsigned char *from;
	float *fast = xmalloc(N * sizeof *fast);
	struct rng r;
	int wrong = 0;

	CHECK_I64(0, lm_type_bytes(type, N, &bytes));
	from = xmalloc(bytes);
	rng_seed(&r, 2, (uint64_t)type);
	rng_bytes(&r, from, bytes);
	lm_to_f32(fast, from, type, N);
	for (uint64_t b = 0; b < N / 32; b++) {
		const unsigned char *block = from + b * lm_type_block_bytes(type);
		uint16_t h;
		float scale;

		memcpy(&h, block, 2);
		scale = f16_to_f32(h);
		for (uint64_t k = 0; k < 32; k++) {
			int code = type == LM_Q8_0 ? (int8_t)block[2 + k] :
				k < 16             ? (block[2 + k] & 15) - 8 :
						     (block[2 + k - 16] >> 4) - 8;

			wrong += !same(fast[32 * b + k], (float)code * scale);
		}
	}
	CHECK_I64(0, wrong);
	free(from);
	free(fast);
}

/* Writes blocks of a type as f32, for tests/rnp-train/lm-parity.bats. */
static int convert(const char *name)
{
	unsigned char block[LM_SUPER_BLOCK];
	float x[LM_SUPER_BLOCK];

	for (int t = 0; t < LM_OTHER; t++) {
		enum lm_type type = (enum lm_type)t;

		while (strcmp(lm_type_name(type), name) == 0 &&
			fread(block, lm_type_block_bytes(type), 1, stdin) == 1) {
			lm_to_f32(x, block, type, lm_type_block(type));
			fwrite(x, sizeof *x, lm_type_block(type), stdout);
		}
	}
	return fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return convert(argv[1]);
	check_sizes();
	check_halves(LM_F16, f16_to_f32);
	check_halves(LM_BF16, bf16_to_f32);
	check_rounding(LM_F16, f16_from_f32, f16_to_f32);
	check_rounding(LM_BF16, bf16_from_f32, bf16_to_f32);
	check_q8_0();
	check_q4_0();
	check_not_finite();
	check_blocks(LM_Q8_0);
	check_blocks(LM_Q4_0);
	TEST_END();
}
