/* sample.h - the next token out of a model's logits. Uses rng. Pure.
 *
 * Temperature, then top-k, then top-p (nucleus sampling: Holtzman et al., arXiv 1904.09751). The
 * same seed, settings and logits give the same tokens. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_H
#define RNP_COMMON_LM_INFER_SAMPLE_H

#include <stdint.h>

#include "common/base/rng.h"

struct lm_sampler {
	double temperature; /* 0: the most likely one, of equal ones the lowest id */
	double top_p;       /* the fewest tokens whose shares add up to this; 1: all */
	uint32_t top_k;     /* at most this many; 0: all */
	struct rng rng;
	struct lm_candidate *room; /* grows to the vocabulary */
	uint32_t room_count;
};

void lm_sampler_init(struct lm_sampler *s, uint64_t seed);
void lm_sampler_release(struct lm_sampler *s);

/* One of count > 0 tokens; logits that are NaN are never taken, unless all are. */
uint32_t lm_sample(struct lm_sampler *s, const float *logits, uint32_t count);

#endif
