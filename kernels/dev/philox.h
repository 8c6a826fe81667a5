/* philox.h - fills memory with reproducible random bytes: Philox-4x32-10.
 *
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). Block i of
 * a sequence is the four words philox(counter, key) with counter = { low(i), high(i),
 * low(stream), high(stream) } and key = { low(seed), high(seed) }; its 16 bytes are the words
 * in order, each little-endian. The same as rng_bytes() of common/base/rng.h after
 * rng_seed(seed, stream) and rng_seek(i).
 *
 * Shape: out is any number of bytes at any address; the last block may be incomplete. Exact:
 * every version gives the same bytes. The block number wraps at 2^64. Not for secrets. */
#ifndef RNP_KERNELS_DEV_PHILOX_H
#define RNP_KERNELS_DEV_PHILOX_H

#include <stdint.h>

#include "kernels/dev/hd.h"

#define PHILOX_BLOCK_BYTES 16
#define PHILOX_ROUNDS      10
#define PHILOX_M0          0xd2511f53u
#define PHILOX_M1          0xcd9e8d57u
#define PHILOX_W0          0x9e3779b9u /* the golden ratio */
#define PHILOX_W1          0xbb67ae85u /* sqrt(3) - 1 */

struct philox {
	uint64_t seed, stream;
	uint64_t block; /* the first one */
};

/* Computes the four words of output for a counter and a key. */
HD void philox_words(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int i = 0; i < PHILOX_ROUNDS; i++) {
		uint64_t a = (uint64_t)PHILOX_M0 * c0, b = (uint64_t)PHILOX_M1 * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Computes block i of the sequence of p, whatever p->block is. */
HD void philox_block(uint32_t out[4], const struct philox *p, uint64_t i)
{
	uint32_t counter[4], key[2];

	counter[0] = (uint32_t)i, counter[1] = (uint32_t)(i >> 32);
	counter[2] = (uint32_t)p->stream, counter[3] = (uint32_t)(p->stream >> 32);
	key[0] = (uint32_t)p->seed, key[1] = (uint32_t)(p->seed >> 32);
	philox_words(out, counter, key);
}

KERNELS_BEGIN

/* Write the bytes from the first byte of block p->block on. */
typedef void (*philox_fill_fn)(void *out, uint64_t bytes, const struct philox *p);

void philox_fill_ref(void *out, uint64_t bytes, const struct philox *p);
void philox_fill_avx2(void *out, uint64_t bytes, const struct philox *p);
void philox_fill_avx512(void *out, uint64_t bytes, const struct philox *p);

KERNELS_END

#endif
