/* sha256.h - SHA-256 (FIPS 180-4) of bytes in memory, with the CPU's instructions for it where it
 * has them, in a fifth of libsodium's time; and of a message in pieces. Uses libsodium,
 * kernels/crypto. */
#ifndef RNP_COMMON_BASE_SHA256_H
#define RNP_COMMON_BASE_SHA256_H

#include <sodium.h>
#include <stddef.h>

#include "kernels/crypto/sha256_each.h"

/* Writes the digest of len bytes. From any thread. */
void sha256(unsigned char out[SHA256_BYTES], const void *data, size_t len);

/* Writes the digests of n messages of any lengths, in less time than one after the other. From any
 * thread. */
void sha256_each(const struct sha256_message *m, size_t n);

/* A message that comes in pieces. It may be copied, to go on from there in several ways. */
struct sha256_state {
	crypto_hash_sha256_state sodium;
};

static inline void sha256_init(struct sha256_state *s)
{
	crypto_hash_sha256_init(&s->sodium);
}

void sha256_update(struct sha256_state *s, const void *data, size_t len);

static inline void sha256_final(struct sha256_state *s, unsigned char out[SHA256_BYTES])
{
	crypto_hash_sha256_final(&s->sodium, out);
}

#endif
