/* sha256_each.h - SHA-256 (FIPS 180-4) of several messages of different lengths, two at a time: one
 * alone waits for the latency of its rounds. */
#ifndef RNP_KERNELS_CRYPTO_SHA256_EACH_H
#define RNP_KERNELS_CRYPTO_SHA256_EACH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/dev/hd.h"

#define SHA256_BYTES 32

struct sha256_message {
	const void *data; /* borrowed, of len bytes, at any address */
	size_t len;
	unsigned char *digest; /* SHA256_BYTES, which no message overlaps */
};

KERNELS_BEGIN

/* Writes the digest of each of n messages. Needs the SHA extensions. */
void sha256_each_shani(const struct sha256_message *m, size_t n);

/* Hashes n blocks of 64 bytes into a state of eight words, as FIPS 180-4 numbers them. Needs the
 * SHA extensions. */
void sha256_blocks_shani(uint32_t state[8], const void *data, size_t n);

KERNELS_END

#endif
