/* hashlanes.h - SHA-256 of SHA-256 of ... (FIPS 180-4) in many lanes at once.
 *
 * Formula: state = SHA-256(state), steps times, for each of count states of 32 bytes that lie one
 * after the other. A chain is strictly sequential, so one lane reads the speed of a thread; to
 * check a chain from its checkpoints all segments run side by side, which is several times
 * faster. Exact: every version gives the same bytes. One thread. */
#ifndef RNP_KERNELS_POC_SHA256_CHAIN_H
#define RNP_KERNELS_POC_SHA256_CHAIN_H

#include <stdint.h>

#include "kernels/dev/hd.h"

KERNELS_BEGIN

typedef void (*hashlanes_fn)(unsigned char *states, uint64_t count, uint64_t steps);

void hashlanes_ref(unsigned char *states, uint64_t count, uint64_t steps);
void hashlanes_shani(unsigned char *states, uint64_t count, uint64_t steps);
void hashlanes_avx512(unsigned char *states, uint64_t count, uint64_t steps);

/* The best for this CPU. */
hashlanes_fn hashlanes_fast(void);

KERNELS_END

#endif
