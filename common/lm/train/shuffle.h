/* order.h - in which order a text is read for training: which window of tokens is sequence n. Uses rng. Pure.
 *
 * The text is cut into windows of `length` tokens and the one that follows them; an epoch takes each once, in a random order that is a
 * function of seed and epoch (a Feistel network over the numbers of windows, walked until it lands among them: Black and Rogaway,
 * Ciphers with arbitrary finite domains, 2002), and begins where the cut leaves room. Nothing is kept: a run is resumed by a number. */
#ifndef RNP_COMMON_LM_TRAIN_SHUFFLE_H
#define RNP_COMMON_LM_TRAIN_SHUFFLE_H

#include <stdint.h>

struct shuffle {
	uint64_t windows; /* of an epoch */
	uint64_t spare;   /* tokens that the cut leaves over */
	uint64_t seed;
	uint32_t length;
};

/* For a text of count tokens. Returns 0, or -1 with err_set(EX_DATAERR): it is shorter than one window. */
int shuffle_init(struct shuffle *o, uint64_t count, uint32_t length, uint64_t seed);

/* The place of the first token of sequence n (from 0, through all epochs); length + 1 tokens follow from there. */
uint64_t shuffle_at(const struct shuffle *o, uint64_t n);

#endif
