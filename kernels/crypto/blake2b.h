/* blake2b.h - BLAKE2b (RFC 7693) of several messages at once.
 *
 * One message is a chain of blocks, each of which depends on the one before. The chunks of a
 * container are many messages, so eight of them (AVX-512) or four (AVX2) share the
 * instructions. Exact: every version gives the same bytes. One thread. libc only. */
#ifndef RNP_KERNELS_CRYPTO_BLAKE2B_H
#define RNP_KERNELS_CRYPTO_BLAKE2B_H

#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/hd.h"

#define BLAKE2B_BLOCK 128
#define BLAKE2B_MAX   64 /* bytes of a digest or of a key */
#define BLAKE2B_LANES 8  /* most messages hashed at a time */

struct blake2b_message {
	const unsigned char *in;
	uint64_t bytes;
	const unsigned char *key; /* of its own; NULL: that of all */
	unsigned char out[BLAKE2B_MAX];
};

KERNELS_BEGIN

/* Hash n messages into the first out_bytes (1 .. 64) of each out. Keys have key_bytes, 0 .. 64.
 * Fastest if the messages have about the same length. */
void blake2b(enum cpu_level level, struct blake2b_message *m, uint64_t count,
	const unsigned char *key, unsigned key_bytes, unsigned out_bytes);

/* Compresses blocks in some lanes: lane i reads `blocks` blocks at at[i], which must be
 * readable even if the lane is not active. count[i] is the byte counter after the first block.
 * Bits of `last` mark lanes whose single block is the final one. h is stored word by word, one
 * lane each. */
typedef void (*blake2b_blocks_fn)(uint64_t h[8][BLAKE2B_LANES],
	const unsigned char *const at[BLAKE2B_LANES], const uint64_t count[BLAKE2B_LANES],
	uint64_t blocks, unsigned active, unsigned last);

extern const uint64_t blake2b_start[8];

/* Returns the best function of a level on this CPU and its number of lanes, or NULL. */
blake2b_blocks_fn blake2b_x86(enum cpu_level level, unsigned *lanes);

KERNELS_END

#endif
