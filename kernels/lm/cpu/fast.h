/* fast.h - the part of the fast path that is the same for every instruction set: products in
 * blocks, and the output. Private to the sources of kernels/lm. */
#ifndef RNP_KERNELS_LM_CPU_FAST_H
#define RNP_KERNELS_LM_CPU_FAST_H

#include "kernels/lm/cpu/tile.h"

#define LM_OWN_BYTES       (UINT64_C(3456) << 10) /* scratch memory of a thread */
#define LM_BLOCK_BYTES_MAX (UINT64_C(1) << 20)

struct lm_scratch {
	int threads;
	/* of packed B that stays in a core's cache: at most LM_BLOCK_BYTES_MAX, and at least
	 * two panels of 4096 f32 */
	uint64_t block_bytes;
	char *own; /* threads x LM_OWN_BYTES */
};

/* struct lm_gemm with the additions that the output layer needs. */
struct lm_product {
	struct lm_gemm g; /* g.out is ignored */
	enum lm_out out;
	bool a_padded; /* rows of A are zero from k to the next multiple of 32 */
};

/* Computes the product, or queues it. */
int lm_product_fast(struct dev *d, const struct lm_scratch *s, const struct lm_tiles *t,
	const struct lm_product *p);

/* Returns this thread's own scratch memory. */
char *lm_own(const struct lm_scratch *s);

#endif
