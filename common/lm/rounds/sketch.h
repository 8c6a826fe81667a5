/* sketch.h - a short vector of a delta, by which deltas of different rounds are compared when the
 * elements of the older are gone. Pure.
 *
 * A count sketch (Charikar, Chen, Farach-Colton 2002): each element goes, with a random sign, into
 * one of SKETCH_N sums. A sketch is linear, so that a multiple of a delta has the multiple of its
 * sketch, and the cosine of two sketches is that of their deltas with a deviation of
 * (1 - cosine^2) / sqrt(SKETCH_N) at most: nearly none for copies, 0.06 for strangers. Whoever
 * knows the seed can make a copy that is not found: it is a secret of who compares. */
#ifndef RNP_COMMON_LM_ROUNDS_SKETCH_H
#define RNP_COMMON_LM_ROUNDS_SKETCH_H

#include <stdint.h>

#include "common/base/rng.h"

#define SKETCH_N 256

/* A cosine above it, or below its opposite: a copy of an earlier delta. Honest deltas of one
 * worker, one after the other, have 0.6 after ten steps of AdamW, 0.75 after five, and up to 0.98
 * after one, or where large batches of simple text are all alike (a nano); a copy packed with q4
 * has 0.994. */
#define SKETCH_COPY_PPM 990000

struct sketch {
	double sums[SKETCH_N];
	/* private */
	struct rng rng;
	uint64_t at; /* elements so far */
	uint32_t signs[SKETCH_N / 32], turned;
};

/* Begins a sketch of a run's deltas. */
void sketch_begin(struct sketch *s, uint64_t seed);
/* Adds the next n elements. */
void sketch_add(struct sketch *s, const float *x, uint64_t n);
/* The vector, of length 1; zeros where all elements are 0. */
void sketch_end(const struct sketch *s, float out[SKETCH_N]);

/* The cosine of two vectors of sketch_end, from -1000000 to 1000000. */
int64_t sketch_cosine_ppm(const float *a, const float *b);

#endif
