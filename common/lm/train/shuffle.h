/* shuffle.h - the order in which a text is read for training: which window of tokens is
 * sequence n. Uses rng. Pure.
 *
 * A window is `length` tokens and the one that follows them. An epoch takes each window once,
 * in a random order that is a function of seed and epoch (a Feistel network over the numbers of
 * windows, applied until the result is one of them: Black and Rogaway, Ciphers with arbitrary
 * finite domains, 2002). The first window of an epoch begins at a random offset within the
 * tokens that whole windows leave over. There is no state: a run is resumed by the number of
 * its next sequence. */
#ifndef RNP_COMMON_LM_TRAIN_SHUFFLE_H
#define RNP_COMMON_LM_TRAIN_SHUFFLE_H

#include <stdint.h>

struct shuffle {
	uint64_t windows; /* per epoch */
	uint64_t spare;   /* tokens left over by whole windows */
	uint64_t seed;
	uint32_t length;
};

/* Initialises the shuffle of a text of count tokens. Returns 0, or -1 with err_set(EX_DATAERR):
 * the text is shorter than one window. */
int shuffle_init(struct shuffle *o, uint64_t count, uint32_t length, uint64_t seed);

/* Returns the position of the first token of sequence n (from 0, through all epochs); the sequence
 * is the length + 1 tokens from there on. */
uint64_t shuffle_at(const struct shuffle *o, uint64_t n);

#endif
