/* loop.h - a training loop without files: which sequences come next, a step on them, its learning
 * rate, the loss on other text. What `run`, and a worker of a run over a network, own. Uses
 * train.h, ddp.h, schedule.h.
 *
 * Values in, values out: sequences come from a callback, nothing is printed or written, and there
 * is no clock. Parameters and AdamW's state go in and out through flat.h and train.h, on l->train.
 * One thread at a time uses a loop. */
#ifndef RNP_COMMON_LM_TRAIN_LOOP_H
#define RNP_COMMON_LM_TRAIN_LOOP_H

#include <stdint.h>

#include "common/lm/train/ddp.h"
#include "common/lm/train/schedule.h"
#include "common/lm/train/train.h"

/* Sequence n of a text: `positions` tokens and the one that follows them, positions + 1 ids.
 * Returns 0, or -1 with err_set(). */
typedef int (*lm_sequence_fn)(void *arg, uint64_t n, uint32_t *ids);

struct lm_loop_options {
	/* batch: sequences of one pass, on this rank. With ranks the hooks are set by open. */
	struct lm_train_options train;
	uint64_t
		batch; /* sequences of a step, on all ranks: a multiple of passes times ranks */
	struct lm_schedule schedule;
	lm_sequence_fn sequence; /* of the training text */
	void *arg;
	struct ddp *ranks; /* whom the batch is shared with, borrowed; NULL: nobody */
	/* Bits that end the run when one rank has them: why, of the caller's making. NULL: none.
	 * With ranks they are those of ddp_options. */
	unsigned (*stop_flags)(void);
};

/* Sequences that are to be trained on, by their numbers: `count` from `first` on. */
struct lm_range {
	uint64_t first, count;
};

struct lm_loop {
	struct lm_loop_options o;
	struct lm_train *train;
	int rank, size; /* 0 and 1 without ranks */

	/* Where the loop is; set both after open to go on elsewhere. AdamW's own count is
	 * lm_train_steps(train). */
	uint64_t step;   /* of the schedule: the next, from 0 */
	uint64_t tokens; /* that were targets */

	/* private */
	struct lm_range *ranges; /* what is left of those given, in order */
	size_t nranges, ranges_room;
	uint32_t *inputs, *targets; /* [train.batch][positions] */
	uint32_t *window;           /* positions + 1 ids */
};

#define LM_LOOP_INIT          \
	{                     \
		.train = NULL \
	}

/* Opens the trainer on d, with parameters of zero; d is borrowed until close. Returns 0, or -1 with
 * err_set(): as lm_train_open, 64 the batch cannot be shared. Close either way. */
int lm_loop_open(struct lm_loop *l, struct dev *d, const struct lm_loop_options *o);
void lm_loop_close(struct lm_loop *l);

/* Adds a range to what the next steps take: a step may take the end of one and the beginning of the
 * next. Every rank is given the same. Sequences of a batch go to the ranks in turn. */
void lm_loop_give(struct lm_loop *l, struct lm_range range);
/* Forgets all ranges. */
void lm_loop_take_back(struct lm_loop *l);
/* Sequences left in all ranges, at most UINT64_MAX; the number of the next of them, only where
 * there is one. */
uint64_t lm_loop_left(const struct lm_loop *l);
uint64_t lm_loop_next(const struct lm_loop *l);

/* The learning rate of the next step. */
double lm_loop_rate(const struct lm_loop *l);

/* One optimiser step on the next `batch` sequences, of which each rank takes its part. Returns 0,
 * or -1 with err_set(): 65 the loss is not finite or less than a batch is left, 75 or 69 another
 * rank stalls or is gone, what `sequence` says. step, tokens and ranges have moved only after
 * success; without ranks the step can then be tried again (a sequence that could not be had). */
int lm_loop_step(struct lm_loop *l, struct lm_step *out);

/* The flags of all ranks as of the last step; of a process alone: as of now. */
unsigned lm_loop_stop_flags(const struct lm_loop *l);

/* The mean loss over windows 0 .. windows - 1 (at least 1) of another text. Parameters and
 * gradients stay as they are. Returns 0, or -1 with err_set(): 65 the loss is not finite. */
int lm_loop_eval(struct lm_loop *l, lm_sequence_fn sequence, void *arg, uint64_t windows,
	double *loss);

/* All ranks have the same parameters, optimiser, place and share of a step, and the same `bytes` of
 * `more`: or their sums would mean nothing. Every rank calls it. Returns 0, or -1 with err_set():
 * 65 rank N has another. Without ranks: 0. */
int lm_loop_agree(struct lm_loop *l, const void *more, size_t bytes);

#endif
