/* weight.h - weights as they lie in a model file: their types, and how a block of 32 is read. libc
 * only.
 *
 * Plain types are f32, f16 and bf16. The others are ggml's (ggml-common.h and ggml-quants.c of
 * llama.cpp): a block of 32 weights is made of small whole numbers, its codes, and of the numbers
 * that scale and shift them. The K types keep eight such blocks together, with a scale and a
 * minimum for all of them. */
#ifndef RNP_KERNELS_LM_WEIGHT_H
#define RNP_KERNELS_LM_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/dev/half.h"

/* The order is that of enum lm_type. */
enum lm_weight {
	LM_WEIGHT_F32,
	LM_WEIGHT_F16,
	LM_WEIGHT_BF16,
	LM_WEIGHT_Q8_0, /* 34 bytes for 32: scale f16, 32 int8 */
	/* 18: scale f16, 16 bytes: low nibbles are 0..15, high ones 16..31; less 8 */
	LM_WEIGHT_Q4_0,
	LM_WEIGHT_Q4_1, /* 20: scale, minimum f16, nibbles */
	LM_WEIGHT_Q5_0, /* 22: scale f16, 32 fifth bits, nibbles; less 16 */
	LM_WEIGHT_Q5_1, /* 24: scale, minimum f16, fifth bits, nibbles */
	/* 144 for 256: scale, minimum f16, 8 scales and 8 minima of 6 bits, nibbles */
	LM_WEIGHT_Q4_K,
	LM_WEIGHT_Q5_K, /* 176: the same with fifth bits before the nibbles */
	/* 210: nibbles, pairs of upper bits, 16 scales int8 of 16 weights each, scale f16; less
	 * 32 */
	LM_WEIGHT_Q6_K,
	LM_WEIGHTS
};

#define LM_WEIGHT_BLOCK 32
#define LM_WEIGHT_SUPER 256 /* of a K type */

/* Whether products take their activations as int8. */
HD bool lm_weight_is_quantized(enum lm_weight type)
{
	return type > LM_WEIGHT_BF16;
}

HD bool lm_weight_is_super(enum lm_weight type)
{
	return type >= LM_WEIGHT_Q4_K;
}

/* Whether there is a minimum that is added to what the codes give. */
HD bool lm_weight_has_min(enum lm_weight type)
{
	return type == LM_WEIGHT_Q4_1 || type == LM_WEIGHT_Q5_1 ||
		type == LM_WEIGHT_Q4_K || type == LM_WEIGHT_Q5_K;
}

/* The offset that is subtracted from the codes of a quantised type. */
HD int lm_weight_offset(enum lm_weight type)
{
	switch (type) {
	case LM_WEIGHT_Q8_0:
		return 128;
	case LM_WEIGHT_Q4_0:
		return 8;
	case LM_WEIGHT_Q5_0:
		return 16;
	case LM_WEIGHT_Q6_K:
		return 32;
	default:
		return 0;
	}
}

/* Weights that a row must be a multiple of. */
HD uint32_t lm_weight_block(enum lm_weight type)
{
	return !lm_weight_is_quantized(type) ? 1 :
		lm_weight_is_super(type)     ? LM_WEIGHT_SUPER :
					       LM_WEIGHT_BLOCK;
}

/* Bytes of 32 plain weights, or of a block. */
HD uint64_t lm_weight_block_bytes(enum lm_weight type)
{
	switch (type) {
	case LM_WEIGHT_F32:
		return 128;
	case LM_WEIGHT_Q8_0:
		return 34;
	case LM_WEIGHT_Q4_0:
		return 18;
	case LM_WEIGHT_Q4_1:
		return 20;
	case LM_WEIGHT_Q5_0:
		return 22;
	case LM_WEIGHT_Q5_1:
		return 24;
	case LM_WEIGHT_Q4_K:
		return 144;
	case LM_WEIGHT_Q5_K:
		return 176;
	case LM_WEIGHT_Q6_K:
		return 210;
	default:
		return 64;
	}
}

/* bytes of a row of k weights */
HD uint64_t lm_weight_row_bytes(enum lm_weight type, uint64_t k)
{
	if (!lm_weight_is_quantized(type))
		return k * lm_weight_block_bytes(type) / 32;
	return k / lm_weight_block(type) * lm_weight_block_bytes(type);
}

/* 32 weights: weight t is scale part[t / 16] (code[t] - offset) + min. part is 1 but for Q6_K. */
struct lm_weight_32 {
	uint8_t code[LM_WEIGHT_BLOCK];
	int offset;
	int part[2];
	float scale, min;
};

HD float lm_weight_f16(const unsigned char *p)
{
	uint16_t half;

	memcpy(&half, p, 2);
	return f16_to_f32(half);
}

/* The scale and minimum of 6 bits of block s of a K type. */
HD void lm_weight_6_bits(const unsigned char *packed, unsigned s, unsigned *scale,
	unsigned *min)
{
	if (s < 4) {
		*scale = packed[s] & 63u;
		*min = packed[s + 4] & 63u;
	} else {
		*scale = (packed[s + 4] & 15u) | (packed[s - 4] >> 6 << 4);
		*min = (packed[s + 4] >> 4) | (packed[s] >> 6 << 4);
	}
}

HD void lm_weight_super_32(struct lm_weight_32 *w, enum lm_weight type,
	const unsigned char *p, unsigned s)
{
	if (type == LM_WEIGHT_Q6_K) {
		const unsigned char *low = p + s / 4 * 64 + s % 2 * 32;
		const unsigned char *high = p + 128 + s / 4 * 32;

		for (unsigned i = 0; i < 32; i++)
			w->code[i] = (uint8_t)((low[i] >> s % 4 / 2 * 4 & 15u) |
				(high[i] >> s % 4 * 2 & 3u) << 4);
		w->part[0] = (int8_t)p[192 + 2 * s];
		w->part[1] = (int8_t)p[192 + 2 * s + 1];
		w->scale = lm_weight_f16(p + 208);
	} else {
		const unsigned char *high = p + 16;
		const unsigned char *low = p + (type == LM_WEIGHT_Q5_K ? 48 : 16) +
			s / 2 * 32;
		unsigned scale, min;

		for (unsigned i = 0; i < 32; i++)
			w->code[i] = (uint8_t)((low[i] >> s % 2 * 4 & 15u) |
				(type == LM_WEIGHT_Q5_K ? (high[i] >> s & 1u) << 4 : 0u));
		lm_weight_6_bits(p + 4, s, &scale, &min);
		w->scale = lm_weight_f16(p) * (float)scale;
		w->min = -(lm_weight_f16(p + 2) * (float)min);
	}
}

/* Weights 32 b .. 32 b + 31 of a row of a quantised type. */
HD void lm_weight_read_32(struct lm_weight_32 *w, enum lm_weight type,
	const unsigned char *row, uint64_t b)
{
	const unsigned char *p = row + b * lm_weight_block_bytes(type);
	uint32_t fifth = 0;

	w->offset = lm_weight_offset(type);
	w->part[0] = w->part[1] = 1;
	w->min = 0;
	if (lm_weight_is_super(type)) {
		lm_weight_super_32(w, type, row + b / 8 * lm_weight_block_bytes(type),
			(unsigned)(b % 8));
		return;
	}
	w->scale = lm_weight_f16(p);
	p += 2;
	if (type == LM_WEIGHT_Q8_0) {
		for (unsigned i = 0; i < 32; i++)
			w->code[i] = (uint8_t)(p[i] ^ 128u);
		return;
	}
	if (lm_weight_has_min(type)) {
		w->min = lm_weight_f16(p);
		p += 2;
	}
	if (type == LM_WEIGHT_Q5_0 || type == LM_WEIGHT_Q5_1) {
		memcpy(&fifth, p, 4);
		p += 4;
	}
	for (unsigned i = 0; i < 16; i++) {
		w->code[i] = (uint8_t)((p[i] & 15u) | (fifth >> i & 1u) << 4);
		w->code[i + 16] = (uint8_t)(p[i] >> 4 | (fifth >> (i + 16) & 1u) << 4);
	}
}

/* Weight t of such a block: ggml's number, rounded where it rounds. */
HD float lm_weight_of_32(const struct lm_weight_32 *w, unsigned t)
{
	return w->scale * (float)w->part[t / 16] * (float)((int)w->code[t] - w->offset) +
		w->min;
}

/* Weight t of a row of a plain type. Exact. */
HD float lm_weight_plain_at(enum lm_weight type, const unsigned char *row, uint64_t t)
{
	uint16_t half;
	float whole;

	if (type == LM_WEIGHT_F32) {
		memcpy(&whole, row + 4 * t, 4);
		return whole;
	}
	memcpy(&half, row + 2 * t, 2);
	return type == LM_WEIGHT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/* Weight t of a row. */
HD float lm_weight_at(enum lm_weight type, const unsigned char *row, uint64_t t)
{
	struct lm_weight_32 w;

	if (!lm_weight_is_quantized(type))
		return lm_weight_plain_at(type, row, t);
	lm_weight_read_32(&w, type, row, t / 32);
	return lm_weight_of_32(&w, (unsigned)(t % 32));
}

#endif
