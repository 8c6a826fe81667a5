/* sample_cut.h - where top_k and top_p cut, for sample.c. Uses sample_scan.h. Pure. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_CUT_H
#define RNP_COMMON_LM_INFER_SAMPLE_CUT_H

#include <stdbool.h>

#include "common/lm/infer/sample_scan.h"

/* The least that stay: all logits above this one, and of those equal to it so many. */
struct cut {
	float logit;
	uint32_t equal;
};

/* Returns the cut that leaves the fewest of n > 0 finite logits whose weights add up to `needed`,
 * the largest first; at least one, and all if they do not add up to it. A weight is 1 (by_count),
 * or a share. Takes time for each logit, but does not sort. spare: room for n logits, may be x. */
struct cut cut_at(float *spare, const float *x, uint32_t n, const struct scan *how,
	double needed, bool by_count);

/* Takes out of n logits and their ids what the cut does not leave, of equal ones the last; returns
 * how many stay. */
uint32_t cut_apply(struct cut cut, float *x, uint32_t *ids, uint32_t n);

#endif
