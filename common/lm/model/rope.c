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

void lm_rope_table(float *table, const struct lm_config *c, uint64_t positions,
	bool local)
{
	const struct lm_rope *r = &c->rope;
	double base = local ? r->local_base : r->base, context = r->original_context;
	double dim = lm_config_rotary(c), magnitude = r->magnitude > 0 ? r->magnitude : 1;
	const float *factors = (double)positions > context ? r->long_factors :
							     r->short_factors;
	enum lm_rope_kind kind = local ? LM_ROPE_PLAIN : r->kind;

	if (kind == LM_ROPE_NTK && (double)positions > context)
		base *= pow(r->factor * (double)positions / context - (r->factor - 1),
			dim / (dim - 2));
	for (uint64_t i = 0; i < lm_config_rotary(c) / 2; i++) {
		double frequency = pow(base, -2.0 * (double)i / dim);

		if (kind == LM_ROPE_LONG)
			frequency /= (double)factors[i];
		else if (kind == LM_ROPE_LINEAR)
			frequency /= r->factor;
		else if (kind == LM_ROPE_LLAMA3)
			frequency = llama3(r, frequency);
		for (uint64_t p = 0; p < positions; p++) {
			float *at = table + p * lm_config_rotary(c) + 2 * i;

			at[0] = (float)(magnitude * cos((double)p * frequency));
			at[1] = (float)(magnitude * sin((double)p * frequency));
		}
	}
}
