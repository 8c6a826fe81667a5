/* blake2b.h - BLAKE2b (RFC 7693) of several messages side by side.
 *
 * One message is a chain of blocks, each of which waits for the one before; the chunks of a
 * container are many messages, and so eight of them (AVX-512) or four (AVX2) share the
 * instructions. Exact: every version gives the same bytes. One thread. libc only. */
#ifndef RNP_KERNELS_GRAD_BLAKE2B_H
#define RNP_KERNELS_GRAD_BLAKE2B_H

#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/hd.h"

#define BLAKE2B_BLOCK 128
#define BLAKE2B_MAX   64 /* bytes of a digest or of a key */
#define BLAKE2B_LANES 8  /* messages that are hashed at a time at most */

struct blake2b_message {
	const unsigned char *in;
	uint64_t bytes;
	unsigned char out[BLAKE2B_MAX];
};

KERNELS_BEGIN

/* Fill in the first out_bytes (1 .. 64) of each out. key: of key_bytes, 0 .. 64. Messages of
 * much the same length go best together. */
void blake2b(enum cpu_level level, struct blake2b_message *m, uint64_t count,
	const unsigned char *key, unsigned key_bytes, unsigned out_bytes);

/* Blocks of some lanes: lane i reads `blocks` of them at at[i] (where it is not active too: any
 * that there are); count[i]: what the first one brings its bytes to. Bits of `last`: that one,
 * of a single, is its last. h: word by word, a lane each. */
typedef void (*blake2b_blocks_fn)(uint64_t h[8][BLAKE2B_LANES],
	const unsigned char *const at[BLAKE2B_LANES], const uint64_t count[BLAKE2B_LANES],
	uint64_t blocks, unsigned active, unsigned last);

extern const uint64_t blake2b_start[8];

/* What this CPU has of a level and how many lanes it is for; NULL: nothing. */
blake2b_blocks_fn blake2b_x86(enum cpu_level level, unsigned *lanes);

KERNELS_END

#endif
