/* choose.h - chooses the tokens of several rows at once, over the team of threads. Uses sample.h,
 * kernels/dev/team.h.
 *
 * A choice depends on its own row alone (sample.h): not on the others, and not on which thread
 * makes it. */
#ifndef RNP_COMMON_LM_INFER_CHOOSE_H
#define RNP_COMMON_LM_INFER_CHOOSE_H

#include "common/lm/infer/sample.h"

/* One row. Without sampling the token is given, and only its logprobs are wanted. Of a mask
 * `allowed` is called, `accept` is not. All three may be NULL. */
struct lm_choice {
	const float *logits;
	const struct lm_sampling *sampling;
	const struct lm_history *history;
	const struct lm_mask *mask;
	uint64_t position; /* of the token to draw */
	bool wants_logprobs;
	uint32_t top; /* alternatives with them */

	uint32_t token; /* result, unless it is given */
	/* result, if wanted and the token's logit is finite or the token is given */
	struct lm_logprobs logprobs;
	bool ran_out; /* result: memory ran out while it was made (mem.h) */
};

/* Working memory of the threads. Initialise with zeros. */
struct lm_chooser {
	struct lm_scratch *of_thread;
	uint32_t threads;
};

void lm_chooser_release(struct lm_chooser *c);

/* Makes n choices among `count` tokens. Returns when all are made. */
void lm_choose(struct lm_chooser *c, struct lm_choice *all, uint32_t n, uint32_t count);

#endif
