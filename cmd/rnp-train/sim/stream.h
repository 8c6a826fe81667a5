/* stream.h - Streaming DiLoCo (arXiv 2501.18512) with real steps and virtual time: fragments of
 * whole layers are exchanged one after the other while workers go on. Uses train.h, sim.h,
 * outer.h. */
#ifndef RNP_TRAIN_SIM_STREAM_H
#define RNP_TRAIN_SIM_STREAM_H

#include "cmd/rnp-train/sim/sim.h"
#include "cmd/rnp-train/sim/train.h"

struct sim_stream_options {
	uint32_t fragments; /* P, at least 1 */
	/* tau: steps from a delta's sending to its update's merge, < H/P */
	uint64_t overlap;
	double keep; /* a: theta <- a theta + (1 - a) published */
	uint64_t inner_steps, rounds, first_sequence;
};

/* Runs rounds of inner_steps in lockstep: in each every fragment is exchanged once. t is open and
 * started. links: of sim_run's options, worker by worker. After each round report is called.
 * Returns 0, or -1 with err_set(): 64 there are more fragments than layers or steps. */
int sim_stream(struct sim_train *t, const struct sim_stream_options *o,
	const struct sim_options *links,
	int (*report)(void *arg, const struct sim_round *s, bool *end), void *arg,
	struct sim_totals *out);

#endif
