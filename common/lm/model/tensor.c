/* tensor.c - conversion of numbers of every type to f32 and back. */
#include "common/lm/model/tensor.h"

#include <math.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/tensor_x86.h"
#include "kernels/dev/half.h"

static const struct {
	const char *name;
	uint32_t block, bytes;
} types[LM_TYPES] = {
	[LM_F32] = { "f32", 1, 4 },
	[LM_F16] = { "f16", 1, 2 },
	[LM_BF16] = { "bf16", 1, 2 },
	[LM_Q8_0] = { "q8_0", LM_QUANT_BLOCK, LM_Q8_0_BYTES },
	[LM_Q4_0] = { "q4_0", LM_QUANT_BLOCK, LM_Q4_0_BYTES },
	[LM_Q4_1] = { "q4_1", LM_QUANT_BLOCK, 20 },
	[LM_Q5_0] = { "q5_0", LM_QUANT_BLOCK, 22 },
	[LM_Q5_1] = { "q5_1", LM_QUANT_BLOCK, 24 },
	[LM_Q4_K] = { "q4_k", LM_SUPER_BLOCK, 144 },
	[LM_Q5_K] = { "q5_k", LM_SUPER_BLOCK, 176 },
	[LM_Q6_K] = { "q6_k", LM_SUPER_BLOCK, 210 },
	[LM_F64] = { "f64", 1, 8 },
	[LM_I8] = { "i8", 1, 1 },
	[LM_I16] = { "i16", 1, 2 },
	[LM_I32] = { "i32", 1, 4 },
	[LM_I64] = { "i64", 1, 8 },
	[LM_U8] = { "u8", 1, 1 },
	[LM_BOOL] = { "bool", 1, 1 },
	[LM_OTHER] = { "other", 0, 0 },
};

const char *lm_type_name(enum lm_type type)
{
	return types[type].name;
}

uint32_t lm_type_block(enum lm_type type)
{
	return types[type].block;
}

uint32_t lm_type_block_bytes(enum lm_type type)
{
	return types[type].bytes;
}

int lm_type_bytes(enum lm_type type, uint64_t count, uint64_t *bytes)
{
	uint32_t block = types[type].block;

	if (!block || count % block ||
		__builtin_mul_overflow(count / block, types[type].bytes, bytes) ||
		*bytes > INT64_MAX)
		return -1;
	return 0;
}

_Static_assert((int)LM_F32 == LM_WEIGHT_F32 && (int)LM_Q4_0 == LM_WEIGHT_Q4_0 &&
		(int)LM_Q6_K == LM_WEIGHT_Q6_K,
	"the kernels list the types in the same order");

enum lm_weight lm_weight_of(enum lm_type type)
{
	if (!lm_type_computes(type))
		bug("a weight of type %s", types[type].name);
	return (enum lm_weight)type;
}

bool lm_type_computes(enum lm_type type)
{
	return type <= LM_Q6_K;
}

bool lm_type_converts(enum lm_type type)
{
	return type <= LM_Q4_0;
}

/* --- the definitions ---------------------------------------------------------------------- */

static uint16_t get16(const unsigned char *from)
{
	uint16_t v;

	memcpy(&v, from, sizeof v);
	return v;
}

static void f16_to(float *to, const unsigned char *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		to[i] = f16_to_f32(get16(from + 2 * i));
}

static void bf16_to(float *to, const unsigned char *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		to[i] = bf16_to_f32(get16(from + 2 * i));
}

static void q8_0_to(float *to, const unsigned char *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; from += LM_Q8_0_BYTES) {
		float scale = f16_to_f32(get16(from));

		for (int k = 0; k < LM_QUANT_BLOCK; k++)
			to[i++] = (float)(int8_t)from[2 + k] * scale;
	}
}

static void q4_0_to(float *to, const unsigned char *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i += LM_QUANT_BLOCK, from += LM_Q4_0_BYTES) {
		float scale = f16_to_f32(get16(from));

		for (int k = 0; k < LM_QUANT_BLOCK / 2; k++) {
			to[i + (uint64_t)k] = (float)((from[2 + k] & 15) - 8) * scale;
			to[i + 16 + (uint64_t)k] = (float)((from[2 + k] >> 4) - 8) *
				scale;
		}
	}
}

/* The other quantised types: the kernels' definition of a block of 32. */
static void blocks_to(float *to, const unsigned char *from, enum lm_weight type,
	uint64_t count)
{
	for (uint64_t b = 0; b < count / LM_WEIGHT_BLOCK; b++) {
		struct lm_weight_32 w;

		lm_weight_read_32(&w, type, from, b);
		for (unsigned i = 0; i < LM_WEIGHT_BLOCK; i++)
			*to++ = lm_weight_of_32(&w, i);
	}
}

static void f16_from(unsigned char *to, const float *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint16_t h = f16_from_f32(from[i]);

		memcpy(to + 2 * i, &h, sizeof h);
	}
}

static void bf16_from(unsigned char *to, const float *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint16_t h = bf16_from_f32(from[i]);

		memcpy(to + 2 * i, &h, sizeof h);
	}
}

/* Returns the element of a block with the largest magnitude, with its sign. */
static float extreme(const float *x)
{
	float max = 0, value = 0;

	for (int k = 0; k < LM_QUANT_BLOCK; k++) {
		if (fabsf(x[k]) > max) {
			max = fabsf(x[k]);
			value = x[k];
		}
	}
	return value;
}

/* Returns v as an integer of low..high, rounded toward zero; NaN, which a block with an
 * infinity produces, becomes 0. */
static int clamped(float v, int low, int high)
{
	if (isnan(v))
		return 0;
	return v <= (float)low ? low : v >= (float)high ? high : (int)v;
}

/* The largest magnitude of a block becomes 127. The codes use the scale before it is rounded to
 * f16. */
static void q8_0_from(unsigned char *to, const float *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i += LM_QUANT_BLOCK, to += LM_Q8_0_BYTES) {
		float scale = fabsf(extreme(from + i)) / 127;
		float inverse = scale != 0 ? 1 / scale : 0;
		uint16_t h = f16_from_f32(scale);

		memcpy(to, &h, sizeof h);
		for (uint64_t k = 0; k < LM_QUANT_BLOCK; k++) {
			int code = clamped(roundf(from[i + k] * inverse), -127, 127);

			to[2 + k] = (unsigned char)(int8_t)code;
		}
	}
}

/* The element with the largest magnitude becomes -8, because the negative side has one level
 * more. */
static void q4_0_from(unsigned char *to, const float *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i += LM_QUANT_BLOCK, to += LM_Q4_0_BYTES) {
		const float *x = from + i;
		float scale = extreme(x) / -8, inverse = scale != 0 ? 1 / scale : 0;
		uint16_t h = f16_from_f32(scale);

		memcpy(to, &h, sizeof h);
		for (int k = 0; k < LM_QUANT_BLOCK / 2; k++) {
			int low = clamped(x[k] * inverse + 8.5f, 0, 15);
			int high = clamped(x[k + 16] * inverse + 8.5f, 0, 15);

			to[2 + k] = (unsigned char)(low | high << 4);
		}
	}
}

void lm_to_f32(float *to, const void *from, enum lm_type type, uint64_t count)
{
	uint64_t done = lm_to_f32_fast(to, from, type, count);
	const unsigned char *rest = from;

	to += done;
	count -= done;
	switch (type) {
	case LM_F32:
		if (count)
			memcpy(to, rest + 4 * done, count * sizeof *to);
		break;
	case LM_F16:
		f16_to(to, rest + 2 * done, count);
		break;
	case LM_BF16:
		bf16_to(to, rest + 2 * done, count);
		break;
	case LM_Q8_0:
		q8_0_to(to, rest + done / LM_QUANT_BLOCK * LM_Q8_0_BYTES, count);
		break;
	case LM_Q4_0:
		q4_0_to(to, rest + done / LM_QUANT_BLOCK * LM_Q4_0_BYTES, count);
		break;
	case LM_Q4_1:
	case LM_Q5_0:
	case LM_Q5_1:
	case LM_Q4_K:
	case LM_Q5_K:
	case LM_Q6_K:
		blocks_to(to, rest, lm_weight_of(type), count);
		break;
	default:
		bug("type %s to f32", types[type].name);
	}
}

void lm_from_f32(void *to, const float *from, enum lm_type type, uint64_t count)
{
	uint64_t done = lm_from_f32_fast(to, from, type, count);
	unsigned char *rest = to;

	from += done;
	count -= done;
	switch (type) {
	case LM_F32:
		if (count)
			memcpy(rest + 4 * done, from, count * sizeof *from);
		break;
	case LM_F16:
		f16_from(rest + 2 * done, from, count);
		break;
	case LM_BF16:
		bf16_from(rest + 2 * done, from, count);
		break;
	case LM_Q8_0:
		q8_0_from(rest, from, count);
		break;
	case LM_Q4_0:
		q4_0_from(rest, from, count);
		break;
	default:
		bug("f32 to type %s", types[type].name);
	}
}
