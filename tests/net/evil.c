/* evil.c - what makes a hostile worker of `rnp-train join`: linked into it with --wrap=outer_delta, it
 * spoils each delta as RNP_EVIL says, and everything else is the real program, with good signatures. */
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/lm/train/outer.h"

void __real_outer_delta(float *delta, const float *began, const float *ended, uint64_t n);
void __wrap_outer_delta(float *delta, const float *began, const float *ended, uint64_t n);

void __wrap_outer_delta(float *delta, const float *began, const float *ended, uint64_t n)
{
	const char *how = getenv("RNP_EVIL");
	static struct rng rng;

	__real_outer_delta(delta, began, ended, n);
	if (!how)
		return;
	if (!rng.key[0])
		rng_seed(&rng, 20261122, 0);
	for (uint64_t i = 0; i < n; i++) {
		if (strcmp(how, "flip") == 0)
			delta[i] = -delta[i];
		else if (strcmp(how, "scale") == 0)
			delta[i] *= 100;
		else if (strcmp(how, "random") == 0)
			delta[i] = (float)(4e-3 * (rng_f64(&rng) - 0.5));
		else if (strcmp(how, "idle") == 0)
			delta[i] = (float)(1e-9 * (rng_f64(&rng) - 0.5));
	}
}
