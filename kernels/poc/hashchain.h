/* hashchain.h - SHA-256 of SHA-256 of ...: strictly sequential work that reads the speed of one
 * CPU thread. Formula: state = SHA-256(state), steps times, the state being a message of 32
 * bytes (FIPS 180-4: one block). */
#ifndef RNP_KERNELS_POC_HASHCHAIN_H
#define RNP_KERNELS_POC_HASHCHAIN_H

#include <stdint.h>

typedef void (*hashchain_fn)(unsigned char state[32], uint64_t steps);

struct hashchain {
	const char *name; /* "reference", "sha_ni" */
	hashchain_fn run;
};

extern const struct hashchain hashchain_reference;
extern const uint32_t hashchain_k[64]; /* SHA-256's round constants, 64-byte aligned */
extern const uint32_t hashchain_start[8];

const struct hashchain *hashchain_fast(void);

#endif
