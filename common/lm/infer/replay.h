/* replay.h - operations of a device that are the same again and again, replayed as a graph: one
 * launch instead of hundreds. Uses kernels/dev/dev.h.
 *
 * What varies lies in the device's memory, or is the key: operations of one kind (a number below
 * LM_REPLAYS) with the same key have the same arguments. They are launched one by one the first
 * time, which loads what they need, captured the second, and replayed from then on; with another
 * key all begins again. A device that captures nothing, or does not launch what it captured,
 * launches them one by one, with one warning. */
#ifndef RNP_COMMON_LM_INFER_REPLAY_H
#define RNP_COMMON_LM_INFER_REPLAY_H

#include <stdbool.h>

#include "kernels/dev/dev.h"

#define LM_REPLAYS 8

struct lm_replays {
	bool off; /* this device captures nothing, or replays nothing */
	struct {
		void *graph; /* NULL: not captured */
		uint64_t key;
		bool seen; /* with this key, once */
	} kinds[LM_REPLAYS];
};

/* The operations; on -1 the device holds the error. */
typedef int (*lm_replay_fn)(void *arg);

/* To be called before a batch that replays `kind` is begun: captures the operations of `all`, if it
 * is time. */
void lm_replay_prepare(struct lm_replays *r, struct dev *d, unsigned kind, uint64_t key,
	lm_replay_fn all, void *arg);
/* Runs the operations, which prepare was called for, in any way. Returns 0, or -1: the device holds
 * the error. */
int lm_replay_run(struct lm_replays *r, struct dev *d, unsigned kind, lm_replay_fn all,
	void *arg);
void lm_replays_free(struct lm_replays *r, struct dev *d);

#endif
