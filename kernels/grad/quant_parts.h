/* quant_parts.h - what quant.c and kernels/grad/cpu/quant_x86.c share. Private to the two. */
#ifndef RNP_KERNELS_GRAD_QUANT_PARTS_H
#define RNP_KERNELS_GRAD_QUANT_PARTS_H

#include "kernels/grad/quant.h"

/* Writer of the bits beside symbols, lowest first. */
struct quant_bits {
	unsigned char *at;
	uint64_t held;
	int count;
};

static inline void quant_bits_put(struct quant_bits *b, uint32_t v, int n)
{
	b->held |= (uint64_t)v << b->count;
	for (b->count += n; b->count >= 8; b->count -= 8) {
		*b->at++ = (unsigned char)b->held;
		b->held >>= 8;
	}
}

/* Flushes; returns the bytes since start. */
static inline uint32_t quant_bits_end(struct quant_bits *b, const unsigned char *start)
{
	if (b->count)
		*b->at++ = (unsigned char)b->held;
	return (uint32_t)(b->at - start);
}

/* The largest magnitude that at least k of the n have. */
typedef uint32_t (*quant_threshold_fn)(const float *x, uint32_t n, uint32_t k);

/* Encodes a chunk of topk. */
void quant_topk(unsigned char *const p[], const float *x, uint32_t n, uint32_t block,
	quant_threshold_fn threshold);

#endif
