/* evil.c - what makes a hostile worker of `rnp-train join`: linked into it with --wrap=lm_flat_delta, it
 * spoils each delta as RNP_EVIL says, and everything else is the real program, with good signatures. It
 * trains on the CPU, whose memory is the host's. */
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/lm/train/flat.h"

int __real_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out);
int __wrap_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out);

int __wrap_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out)
{
	const char *how = getenv("RNP_EVIL");
	static struct rng rng;
	int rc = __real_lm_flat_delta(t, from, count, began, out);

	if (!how || rc < 0)
		return rc;
	if (!rng.key[0])
		rng_seed(&rng, 20261122, 0);
	for (uint64_t i = 0; i < count; i++) {
		if (strcmp(how, "flip") == 0)
			out[i] = -out[i];
		else if (strcmp(how, "scale") == 0)
			out[i] *= 100;
		else if (strcmp(how, "random") == 0)
			out[i] = (float)(4e-3 * (rng_f64(&rng) - 0.5));
		else if (strcmp(how, "idle") == 0)
			out[i] = (float)(1e-9 * (rng_f64(&rng) - 0.5));
	}
	return rc;
}
