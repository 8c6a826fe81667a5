/* rope.c - the table of rotary positions: cosines and sines by which queries and keys are
 * rotated. */
#include "common/lm/model/rope.h"

#include <math.h>

/* Applies Llama 3.1's scaling: stretches wavelengths beyond the original context by factor,
 * leaves short ones unchanged, and interpolates in between. */
static double llama3(const struct lm_rope *r, double frequency)
{
	double wave = 2 * M_PI / frequency, context = r->original_context;
	double ramp;

	if (wave < context / r->high_freq_factor)
		return frequency;
	if (wave > context / r->low_freq_factor)
		return frequency / r->factor;
	ramp = (context / wave - r->low_freq_factor) /
		(r->high_freq_factor - r->low_freq_factor);
	return (1 - ramp) * frequency / r->factor + ramp * frequency;
}

void lm_rope_table(float *table, const struct lm_config *c, uint64_t positions)
{
	const struct lm_rope *r = &c->rope;
	double base = r->base, dim = c->head_dim, context = r->original_context;

	if (r->kind == LM_ROPE_NTK && (double)positions > context)
		base *= pow(r->factor * (double)positions / context - (r->factor - 1),
			dim / (dim - 2));
	for (uint64_t i = 0; i < c->head_dim / 2; i++) {
		double frequency = pow(base, -2.0 * (double)i / dim);

		if (r->kind == LM_ROPE_LINEAR)
			frequency /= r->factor;
		else if (r->kind == LM_ROPE_LLAMA3)
			frequency = llama3(r, frequency);
		for (uint64_t p = 0; p < positions; p++) {
			float *at = table + p * c->head_dim + 2 * i;

			at[0] = (float)cos((double)p * frequency);
			at[1] = (float)sin((double)p * frequency);
		}
	}
}
