/* rng.h - repeatable random numbers: Philox-4x32-10, counter-based. Pure.
 *
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). Block i of
 * a sequence is a function of seed and i alone, so that any part of it can be computed
 * directly, on any device. Not for secrets: those come from libsodium. */
#ifndef RNP_COMMON_BASE_RNG_H
#define RNP_COMMON_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#define RNG_SEED_BYTES 32

/* Philox itself: four words of output for a counter and a key. */
void rng_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* A position in a sequence. Copying it copies the position. */
struct rng {
	uint32_t key[2];
	uint32_t stream[2]; /* the upper half of the counter */
	uint64_t block;     /* the lower half: the next block to compute */
	uint32_t words[4];
	int left; /* words of the last block not yet used */
};

/* Starts sequence `stream` of a seed. key is the seed, lower word first. */
void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);

/* Starts the sequence of a hash: key is its first 8 bytes and stream the next 8, little-endian;
 * the rest is not used. */
void rng_seed_bytes(struct rng *r, const unsigned char seed[RNG_SEED_BYTES]);

/* Moves to the first word of block i. */
void rng_seek(struct rng *r, uint64_t i);

uint32_t rng_u32(struct rng *r);
uint64_t rng_u64(struct rng *r); /* two words, lower first */

/* Returns 0 <= result < n, every value equally likely; n > 0. Takes at least one 64-bit number. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* Returns 0 <= result < 1, a multiple of 2^-53. */
double rng_f64(struct rng *r);

/* Writes the next len bytes: words in little-endian order; the rest of the last word is
 * discarded. */
void rng_bytes(struct rng *r, void *out, size_t len);

#endif
