/* init.h - random parameters for the start of training: the same bits on every machine. Uses
 * layout.h, rng. Pure.
 *
 * As in GPT-2 and Llama, parameters are normal with deviation 0.02; the two matrices that end a
 * residual branch (o and down) have deviation 0.02 / sqrt(2 layers); norms are 1, biases 0.
 * Element k of tensor i is the quantile of the uniform number that words 2k and 2k + 1 of
 * Philox's sequence i make, by Wichura's AS 241 (PPND7, good to 1e-7) with a logarithm of our
 * own: it uses only additions, multiplications, divisions and roots, which IEEE 754 rounds the
 * same way everywhere. */
#ifndef RNP_COMMON_LM_MODEL_INIT_H
#define RNP_COMMON_LM_MODEL_INIT_H

#include "common/lm/model/layout.h"

/* Fills elements from..from + count of tensor i of the layout. */
void lm_init_read(float *to, const struct lm_config *c, uint64_t seed, uint32_t i,
	uint64_t from, uint64_t count);

/* Returns the normal quantile of 0 < p < 1. */
double lm_init_quantile(double p);

#endif
