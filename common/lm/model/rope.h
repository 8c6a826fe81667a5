/* rope.h - rotary position embeddings (arXiv 2104.09864) as a table. Pure. */
#ifndef RNP_COMMON_LM_MODEL_ROPE_H
#define RNP_COMMON_LM_MODEL_ROPE_H

#include <stdint.h>

#include "common/lm/model/config.h"

/* Fills table [positions][lm_config_rotary / 2][2] with the cosine and sine of every position and
 * pair, computed in f64 and rounded once, for all kinds of enum lm_rope_kind. LM_ROPE_NTK stretches
 * by the number of positions, and LM_ROPE_LONG chooses its factors by it. local: of layers with a
 * window, where rope.local_base is not 0. */
void lm_rope_table(float *table, const struct lm_config *c, uint64_t positions,
	bool local);

#endif
