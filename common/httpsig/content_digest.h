/* content_digest.h - the Content-Digest and Repr-Digest fields (RFC 9530), sha-256 and sha-512.
 *
 * Pure. Uses sf, buf, err, libsodium. */
#ifndef RNP_COMMON_HTTPSIG_CONTENT_DIGEST_H
#define RNP_COMMON_HTTPSIG_CONTENT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

#define CONTENT_DIGEST_SHA256_BYTES 32
#define CONTENT_DIGEST_SHA512_BYTES 64

/* The digests in a field; algorithms other than these two are ignored. */
struct content_digest {
	bool has_sha256, has_sha512;
	unsigned char sha256[CONTENT_DIGEST_SHA256_BYTES];
	unsigned char sha512[CONTENT_DIGEST_SHA512_BYTES];
};

/* Reads a field's value. Returns 0, or -1 with EX_DATAERR: it is malformed, a digest has the wrong
 * length or is given twice, or there is neither sha-256 nor sha-512. */
int content_digest_parse(struct content_digest *d, const char *value);

/* Appends the field's value with the digests that d contains, sha-256 first. */
void content_digest_write(struct buf *out, const struct content_digest *d);

/* Computes the sha-256 of a body. */
void content_digest_of(struct content_digest *d, const void *body, size_t bytes);

/* Whether each digest in d is that of the body. */
bool content_digest_fits(const struct content_digest *d, const void *body, size_t bytes);

#endif
