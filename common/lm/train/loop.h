/* loop.h - a training loop without files: it decides which sequences come next, makes steps at
 * their learning rate, and measures the loss on other text. Used by `run`, and by a worker that
 * trains over a network. Uses train.h, ddp.h, schedule.h.
 *
 * Values in, values out: sequences come from a callback, nothing is printed or written, and
 * there is no clock. Parameters and AdamW's state go in and out through flat.h and train.h, on
 * l->train. One thread at a time uses a loop. */
#ifndef RNP_COMMON_LM_TRAIN_LOOP_H
#define RNP_COMMON_LM_TRAIN_LOOP_H

#include <stdint.h>

#include "common/lm/train/ddp.h"
#include "common/lm/train/schedule.h"
#include "common/lm/train/train.h"

/* Fetches sequence n of a text: `positions` tokens and the one that follows them, positions + 1
 * ids. Returns 0, or -1 with err_set(). */
typedef int (*lm_sequence_fn)(void *arg, uint64_t n, uint32_t *ids);

struct lm_loop_options {
	/* batch is the number of sequences of one pass on this rank. With ranks, open sets the
	 * hooks. */
	struct lm_train_options train;
	/* sequences of a step on all ranks: a multiple of passes times ranks */
	uint64_t batch;
	struct lm_schedule schedule;
	lm_sequence_fn sequence; /* of the training text */
	void *arg;
	/* the ranks that share the batch, borrowed; NULL: one process */
	struct ddp *ranks;
	/* Returns the caller's bits for why the run is to stop; it stops as soon as one rank
	 * has any. NULL: none. With ranks, those of ddp_options are used. */
	unsigned (*stop_flags)(void);
};

/* Sequences to train on, by number: `count` from `first` on. */
struct lm_range {
	uint64_t first, count;
};

struct lm_loop {
	struct lm_loop_options o;
	struct lm_train *train;
	int rank, size; /* 0 and 1 without ranks */

	/* Progress; set both after open to continue an earlier run. AdamW's own count is
	 * lm_train_steps(train). */
	uint64_t step;   /* next step of the schedule, from 0 */
	uint64_t tokens; /* number of targets so far */

	/* private */
	/* remaining parts of the ranges that were added, in order */
	struct lm_range *ranges;
	size_t nranges, ranges_cap;
	uint32_t *inputs, *targets; /* [train.batch][positions] */
	uint32_t *window;           /* positions + 1 ids */
};

#define LM_LOOP_INIT          \
	{                     \
		.train = NULL \
	}

/* Opens the trainer on d, with parameters of zero; d is borrowed until close. Returns 0, or -1
 * with err_set(): as lm_train_open, 64 the batch cannot be divided among ranks and passes.
 * Close either way. */
int lm_loop_open(struct lm_loop *l, struct dev *d, const struct lm_loop_options *o);
void lm_loop_close(struct lm_loop *l);

/* Adds a range for the next steps; a step may use the end of one range and the beginning of the
 * next. Every rank adds the same ranges. Sequences of a batch go to the ranks in turn. */
void lm_loop_give(struct lm_loop *l, struct lm_range range);
/* Removes all ranges. */
void lm_loop_take_back(struct lm_loop *l);
/* Return the number of sequences that remain in all ranges, at most UINT64_MAX; and the number
 * of the next one, which must exist. */
uint64_t lm_loop_left(const struct lm_loop *l);
uint64_t lm_loop_next(const struct lm_loop *l);

/* Returns the learning rate of the next step. */
double lm_loop_rate(const struct lm_loop *l);

/* Makes one optimiser step on the next `batch` sequences, of which each rank takes its part.
 * Returns 0, or -1 with err_set(): 65 the loss is not finite or less than a batch remains, 75
 * or 69 another rank stalls or is gone, or the error of `sequence`. step, tokens and ranges
 * advance only after success. Without ranks, the step can be tried again (if a sequence could
 * not be fetched). */
int lm_loop_step(struct lm_loop *l, struct lm_step *out);

/* Returns the flags of all ranks as of the last step, or those of a single process as of now. */
unsigned lm_loop_stop_flags(const struct lm_loop *l);

/* Computes the mean loss over windows 0 .. windows - 1 (at least 1) of another text. Parameters
 * and gradients stay as they are. Returns 0, or -1 with err_set(): 65 the loss is not finite. */
int lm_loop_eval(struct lm_loop *l, lm_sequence_fn sequence, void *arg, uint64_t windows,
	double *loss);

/* Checks that all ranks have the same parameters, optimiser state, progress and batch sizes,
 * and the same `bytes` of `more`; their sums would be meaningless otherwise. Every rank calls
 * it. Returns 0, or -1 with err_set(): 65 rank N differs. Without ranks: 0. */
int lm_loop_agree(struct lm_loop *l, const void *more, size_t bytes);

#endif
