/* schedule.c - the formulas of the learning rate. The order of the operations is part of a run's
 * bits. */
#include "common/lm/train/schedule.h"

#include <math.h>

static double run_rate(const struct lm_schedule *s, uint64_t step)
{
	double part, done = (double)step, warmup = (double)s->warmup;

	if (done < warmup)
		return s->lr * (done + 1) / warmup;
	if (!s->steps || step >= s->steps)
		return s->steps ? s->lr * s->lr_min : s->lr;
	part = (done - warmup) / ((double)s->steps - warmup);
	return s->lr * (s->lr_min + (1 - s->lr_min) * (1 + cos(M_PI * part)) / 2);
}

double lm_schedule_rate(const struct lm_schedule *s, uint64_t step,
	uint64_t optimiser_steps)
{
	double rate = run_rate(s, step);

	if (optimiser_steps < s->fresh_warmup)
		rate *= (double)(optimiser_steps + 1) / (double)s->fresh_warmup;
	return rate;
}
