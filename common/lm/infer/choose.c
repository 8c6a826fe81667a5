/* choose.c - see choose.h. */
#include "common/lm/infer/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/dev/team.h"

/* Up to so many logits one thread reads them all sooner than others wake up: some 15 us. One whose
 * share is computed counts as WEIGHED. */
#define ALONE_LOGITS 131072
#define WEIGHED      8
#define PIECES       4 /* of a thread's share: what rows cost differs */

struct work {
	struct lm_chooser *chooser;
	struct lm_choice *all;
	uint32_t count;
};

static void choose_one(struct lm_scratch *w, struct lm_choice *c, uint32_t count)
{
	const uint64_t *allowed = NULL;

	if (c->mask && c->mask->allowed)
		allowed = c->mask->allowed(c->mask->ctx);
	if (c->sampling)
		c->token = lm_draw(w, c->sampling, c->history, allowed, c->logits, count,
			c->position);
	if (c->wants_logprobs && (!c->sampling || isfinite(c->logits[c->token])))
		lm_logprobs(&c->logprobs, c->logits, count, c->token, c->top);
	c->ran_out = mem_ran_out();
}

static void choose_some(void *arg, uint64_t from, uint64_t to)
{
	struct work *w = arg;

	for (uint64_t i = from; i < to; i++)
		choose_one(&w->chooser->of_thread[team_me()], &w->all[i], w->count);
}

static void make_room(struct lm_chooser *c, uint32_t threads)
{
	if (c->threads >= threads)
		return;
	c->of_thread = xrealloc(c->of_thread, threads * sizeof *c->of_thread);
	memset(c->of_thread + c->threads, 0,
		(threads - c->threads) * sizeof *c->of_thread);
	c->threads = threads;
}

/* Whether it is not worth waking the team. A mask may take milliseconds, whatever the
 * vocabulary. */
static bool is_little(const struct lm_choice *all, uint32_t n, uint32_t count)
{
	uint64_t logits = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct lm_choice *c = &all[i];
		bool weighs = c->wants_logprobs ||
			(c->sampling && c->sampling->temperature > 0);

		if (c->mask && c->mask->allowed)
			logits = ALONE_LOGITS;
		logits += (uint64_t)count * (weighs ? WEIGHED : 1);
	}
	return n < 2 || logits <= ALONE_LOGITS;
}

void lm_choose(struct lm_chooser *c, struct lm_choice *all, uint32_t n, uint32_t count)
{
	struct work w = { c, all, count };
	struct team_op op = { choose_some, &w, n, 1, PIECES, 1 };

	if (is_little(all, n, count)) {
		make_room(c, 1);
		choose_some(&w, 0, n);
		return;
	}
	make_room(c, (uint32_t)team_size());
	team_run(&op, 1);
}

void lm_chooser_release(struct lm_chooser *c)
{
	while (c->threads)
		lm_scratch_release(&c->of_thread[--c->threads]);
	free(c->of_thread);
	*c = (struct lm_chooser){ 0 };
}
