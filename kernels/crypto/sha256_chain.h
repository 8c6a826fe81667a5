/* sha256_chain.h - SHA-256 of SHA-256 of ... (FIPS 180-4) in many lanes at once.
 *
 * Formula: state = SHA-256(state), steps times, for each of count adjacent states of 32 bytes.
 * A chain is strictly sequential, so one lane measures the speed of a thread; to verify a chain
 * from its checkpoints all segments run in parallel, which is several times faster. Exact:
 * every version gives the same bytes. One thread. */
#ifndef RNP_KERNELS_CRYPTO_SHA256_CHAIN_H
#define RNP_KERNELS_CRYPTO_SHA256_CHAIN_H

#include <stdint.h>

#include "kernels/dev/hd.h"

KERNELS_BEGIN

typedef void (*sha256_chain_fn)(unsigned char *states, uint64_t count, uint64_t steps);

void sha256_chain_ref(unsigned char *states, uint64_t count, uint64_t steps);
void sha256_chain_shani(unsigned char *states, uint64_t count, uint64_t steps);
void sha256_chain_avx512(unsigned char *states, uint64_t count, uint64_t steps);

/* Returns the best version for this CPU at the level of RNP_ISA. */
sha256_chain_fn sha256_chain_fast(void);
/* Returns the name of the implementation that runs a single lane: "sha_ni" or "reference". */
const char *sha256_chain_name(void);

KERNELS_END

#endif
