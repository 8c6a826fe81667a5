/* schedule.h - the learning rate of a step: linear warm-up, then a cosine. Pure.
 *
 * The schedule counts the steps of the run. AdamW counts its own for its bias correction: the
 * two differ if an optimiser joins a run that others began. */
#ifndef RNP_COMMON_LM_TRAIN_SCHEDULE_H
#define RNP_COMMON_LM_TRAIN_SCHEDULE_H

#include <stdint.h>

struct lm_schedule {
	double lr;
	double lr_min;   /* fraction of lr that the cosine ends with, 0 to 1 */
	uint64_t warmup; /* steps of linear warm-up */
	/* where the cosine ends; 0: lr stays constant after the warm-up */
	uint64_t steps;
	/* Steps of a second linear warm-up, for an optimiser that starts from zeros within the
	 * run; 0: none. */
	uint64_t fresh_warmup;
};

/* Returns the learning rate of a step of the run, counted from 0. optimiser_steps: the number
 * AdamW has made before it. */
double lm_schedule_rate(const struct lm_schedule *s, uint64_t step,
	uint64_t optimiser_steps);

#endif
