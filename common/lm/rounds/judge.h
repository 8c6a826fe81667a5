/* judge.h - whether a delta counts: what it does to the loss, and whether it is somebody's copy.
 * Pure but for judge_measure. Uses loop.h.
 *
 * With L(x, W) the mean loss on windows W:  own = L(published, W_own) - L(published - delta, W_own)
 * on windows of the member's assignment, other = the same on windows of nobody's (after
 * Covenant-72B's loss score). A delta helps and fits its data: that it took H steps is not
 * proved. */
#ifndef RNP_COMMON_LM_ROUNDS_JUDGE_H
#define RNP_COMMON_LM_ROUNDS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/lm/train/loop.h"

enum judge_verdict {
	JUDGE_GOOD,
	JUDGE_USELESS,   /* own <= 0, or no more than chance makes: does not count */
	JUDGE_OTHER_DATA /* own - other below a third of the median: not its assignment */
};

/* In nanonats, as signed records have them: a later judge that reads the records computes with
 * the same numbers. */
struct judge_losses {
	int64_t own, other;
	int64_t error; /* standard error of own - other, which are means over windows */
	/* by how much the same numbers with signs that are drawn change the loss on the same
	 * windows, to first order: the larger of JUDGE_CONTROLS drawings. What chance alone makes
	 * of a delta of this size */
	int64_t chance;
};

#define JUDGE_CONTROLS 2
#define JUDGE_CHANCES  4 /* own has to be more than so many times what chance makes */

/* Decides on the k judged deltas of a round. verdicts[k] out. With fewer than three judged medians
 * say nothing, and own alone decides: it has to be above 0, and above JUDGE_CHANCES times what
 * chance makes. Noise, of whatever size, is above 0 every second time; it is no other than its
 * control, and so far above that in 2 of 100 cases. An honest delta is 8 to some hundred times
 * above it: its signs are those of the gradient. Two guards go beyond that rule: a delta with less
 * than a twentieth of the median own is useless, too; and the median of own - other must be above
 * two of their median deviations to be held against anybody, for at the start of a run, or on text
 * that is all alike, it is itself noise. Nobody is refused by the luck of the draw: own - other has
 * to be below the third by two of its errors. */
void judge_decide(enum judge_verdict *verdicts, const struct judge_losses *losses,
	size_t k);
const char *judge_reason(enum judge_verdict v); /* for records: "" for good */

/* score <- 0.9 score + 0.1 sign, in ppm, rounded toward zero: sign is 1 for good, else -1. A
 * member begins with 0. */
int64_t judge_score(int64_t score_ppm, enum judge_verdict v);

/* Draws `count` different of k members by a seed that nobody knows before the deltas are there;
 * chosen[k] out. count >= k: all. */
void judge_draw(bool *chosen, size_t k, size_t count, uint64_t seed);

/* --- blocks --------------------------------------------------------------------------------- */

/* Turns of a member, one after the other, that one verdict speaks for: that of a turn at a place
 * that is drawn when the block begins. Nobody but the coordinator knows it, nor that it was reached
 * and found good, before all of the block's turns were made: whatever its member does, it is paid
 * for a block with the probability that its share of good turns is. One that is not good ends the
 * block, and its turns are not paid.
 *
 * A member grows into longer blocks: its first JUDGE_STREAK are of one turn, the next of two, and
 * so on; one verdict that is not good takes it back to one turn. Without that whoever ends with a
 * key once it was caught, and begins with another, could have its noise come first in each block,
 * and work after it. With it nobody is paid for more than 1.21 times the turns that were good,
 * however many keys it uses, but for noise that is found good by luck (the best of all such ways to
 * play, by dynamic programming over streaks, for longest blocks of 2, 4 and 10; it would be 1.61
 * with a streak of 1, and 1.36 with 2). */
#define JUDGE_STREAK 4

struct judge_block {
	uint64_t turns;  /* of the block that is open; 0: there is none */
	uint64_t made;   /* of them so far */
	uint64_t place;  /* of the one that is judged, from 1 */
	uint64_t streak; /* blocks that were good since the last that was not */
	bool good;       /* that one was judged, and was good */
};

enum judge_pay {
	JUDGE_WAITS,  /* the block goes on */
	JUDGE_PAID,   /* its turns are paid */
	JUDGE_ALONE,  /* this turn is paid, and says nothing of others */
	JUDGE_FORFEIT /* its turns are not paid */
};

/* The member's next turn; where no block is open one begins, of at most `most` turns (0 is 1), with
 * the place that a random number draws. Returns whether the turn is judged. */
bool judge_block_turn(struct judge_block *b, uint64_t most, uint64_t drawn);
/* What follows from that turn. v: of it; JUDGE_GOOD where it was not judged. */
enum judge_pay judge_block_pay(struct judge_block *b, bool judged, enum judge_verdict v);

/* --- copies --------------------------------------------------------------------------------- */

#define JUDGE_COPY_PPM 950000 /* a cosine above it, or below its opposite: a copy */

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
/* copied[k] out: those with a cosine above JUDGE_COPY_PPM to another, or to its opposite. */
void judge_copies_find(const struct judge_copies *c, bool *copied);

/* --- losses --------------------------------------------------------------------------------- */

/* Windows to judge on: sequences by their numbers. */
struct judge_windows {
	lm_sequence_fn sequence;
	void *arg;
	const uint64_t *own, *other; /* [nown], [nother]: at least 1 each */
	uint64_t nown, nother;
	/* of the controls' signs: nobody knows it before the delta is there */
	uint64_t seed;
};

/* The windows of a list are measured in so many groups, whose spread is the error; the loop's
 * batch had better be no larger than a group. */
#define JUDGE_GROUPS 8

/* The mean gain of n groups (n <= JUDGE_GROUPS) with these gains and numbers of windows, and the
 * variance of that mean; a single group has no spread: INFINITY. */
double judge_mean(double *variance, const double *gain, const uint64_t *windows, int n);

/* Measures a delta. The loop's parameters are published, before and after, bit for bit; delta,
 * published: host memory, lm_flat_count elements. Returns 0, or -1 with err_set(): the device's
 * error; a loss that is not finite is not one: it is INT64_MIN of improvement. */
int judge_measure(struct lm_loop *l, const float *published, const float *delta,
	const struct judge_windows *w, struct judge_losses *out);

#endif
