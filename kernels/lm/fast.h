/* fast.h - what of the fast path is the same for every instruction set: products in blocks,
 * and the output. Private to the sources of kernels/lm. */
#ifndef RNP_KERNELS_LM_FAST_H
#define RNP_KERNELS_LM_FAST_H

#include "kernels/lm/tile.h"

#define LM_OWN_BYTES       (UINT64_C(3456) << 10) /* of a thread */
#define LM_BLOCK_BYTES_MAX (UINT64_C(1) << 20)

struct lm_scratch {
	int threads;
	uint64_t
		/* of packed B that a core keeps close: at most LM_BLOCK_BYTES_MAX, and room for
		 * two panels of 4096 f32 */
		block_bytes;
	char *own; /* threads x LM_OWN_BYTES */
};

/* struct lm_gemm with what the output needs besides. */
struct lm_product {
	struct lm_gemm g; /* g.out is not looked at */
	enum lm_out out;
	bool a_padded; /* rows of A hold zeros from k to the next multiple of 32 */
};

/* Does the product, or notes it. */
int lm_product_fast(struct dev *d, const struct lm_scratch *s, const struct lm_tiles *t,
	const struct lm_product *p);

/* This thread's own bytes. */
char *lm_own(const struct lm_scratch *s);

#endif
