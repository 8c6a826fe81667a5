/* judge.h - whether a delta counts: what it does to the loss, and whether it is somebody's copy.
 * Pure but for judge_measure. Uses loop.h.
 *
 * With L(x, W) the mean loss on windows W:  own = L(pub, W_own) - L(pub - delta, W_own)  on windows
 * of the member's assignment, other = the same on windows of nobody's (training.md, What is
 * counted; after Covenant-72B's loss score). A delta helps and fits its data: that it took H steps
 * is not proved. */
#ifndef RNP_COMMON_LM_TRAIN_JUDGE_H
#define RNP_COMMON_LM_TRAIN_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/lm/train/loop.h"

enum judge_verdict {
	JUDGE_GOOD,
	JUDGE_USELESS,   /* own <= 0: does not count */
	JUDGE_OTHER_DATA /* own - other below a third of the median: not its assignment */
};

/* In nanonats, as signed records have them: a later judge that reads the records computes with
 * the same numbers. */
struct judge_losses {
	int64_t own, other;
	int64_t error; /* standard error of own - other, which are means over windows */
};

/* Decides on the k judged deltas of a round. verdicts[k] out. With fewer than three judged medians
 * say nothing, and only own <= 0 is decided. Two guards go beyond training.md's rule: a delta with
 * less than a twentieth of the median own is useless, too (noise about 0 is what an idle worker
 * sends); and the median of own - other must be above two of their median deviations to be held
 * against anybody, for at the start of a run, or on text that is all alike, it is itself noise.
 * Nobody is refused by the luck of the draw: own - other has to be below the third by two of its
 * errors. */
void judge_decide(enum judge_verdict *verdicts, const struct judge_losses *losses,
	size_t k);
const char *judge_reason(enum judge_verdict v); /* for records: "" for good */

/* score <- 0.9 score + 0.1 sign, in ppm, rounded toward zero: sign is 1 for good, else -1. A
 * member begins with 0. */
int64_t judge_score(int64_t score_ppm, enum judge_verdict v);

/* Draws `count` different of k members by a seed that nobody knows before the deltas are there;
 * chosen[k] out. count >= k: all. */
void judge_draw(bool *chosen, size_t k, size_t count, uint64_t seed);

/* --- copies --------------------------------------------------------------------------------- */

#define JUDGE_COPY_PPM 950000 /* a cosine above it: one operator's copy */

/* Cosines of all pairs of k deltas, from blocks of JUDGE_BLOCK elements that a seed draws:
 * their number keeps pairs times elements below a bound; all blocks if the bound allows. */
#define JUDGE_BLOCK 4096
struct judge_copies {
	size_t k;
	double *gram; /* [k (k + 1) / 2]: <delta_i, delta_j>, j <= i */
	/* private */
	uint64_t seed, block; /* the next block */
	uint64_t share;       /* one of this number of blocks is drawn */
};

/* elements: of a whole delta. Release after use. */
void judge_copies_init(struct judge_copies *c, size_t k, uint64_t elements,
	uint64_t seed);
void judge_copies_release(struct judge_copies *c);
/* The next chunk of all deltas, as aggregate_chunk takes it: chunks are multiples of JUDGE_BLOCK,
 * but the last. */
void judge_copies_look(struct judge_copies *c, const float *const *x, uint64_t n);
/* The cosine of a pair; 0 where one of them is 0. */
int64_t judge_cosine_ppm(const struct judge_copies *c, size_t i, size_t j);
/* copied[k] out: those with a cosine above JUDGE_COPY_PPM to another. */
void judge_copies_find(const struct judge_copies *c, bool *copied);

/* --- losses --------------------------------------------------------------------------------- */

/* Windows to judge on: sequences by their numbers. */
struct judge_windows {
	lm_sequence_fn sequence;
	void *arg;
	const uint64_t *own, *other; /* [nown], [nother]: at least 1 each */
	uint64_t nown, nother;
};

/* The windows of a list are measured in so many groups, whose spread is the error; the loop's
 * batch had better be no larger than a group. */
#define JUDGE_GROUPS 8

/* The mean gain of n groups (n <= JUDGE_GROUPS) with these gains and numbers of windows, and the
 * variance of that mean; a single group has no spread: INFINITY. */
double judge_mean(double *variance, const double *gain, const uint64_t *windows, int n);

/* Measures a delta. The loop's parameters are pub, before and after, bit for bit; delta, pub: host
 * memory, lm_flat_count elements. Returns 0, or -1 with err_set(): the device's error; a loss that
 * is not finite is not one: it is INT64_MIN of improvement. */
int judge_measure(struct lm_loop *l, const float *pub, const float *delta,
	const struct judge_windows *w, struct judge_losses *out);

#endif
