/* ed25519.h - verifies Ed25519 signatures (RFC 8032) of messages of 64 bytes, eight at a time.
 *
 * Each verdict is that of libsodium's crypto_sign_verify_detached for the same signature, key and
 * message, whatever they are: S below L, no small order in A or R, A canonical and on the curve,
 * and the encoding of S B - h A equal to R's bytes (without the cofactor). No equation covers
 * several signatures, as batch verification by random combination does: that one differs from
 * libsodium where points have torsion, and whoever recomputes an epoch must come to the same
 * verdicts. Nothing is secret here, and time depends on the input. Uses libsodium. */
#ifndef RNP_KERNELS_SIG_ED25519_H
#define RNP_KERNELS_SIG_ED25519_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dev/hd.h"

#define ED25519_KEY       32
#define ED25519_SIGNATURE 64
#define ED25519_MESSAGE   64 /* two SHA-256, as eddsa-jcs-2022 signs */
#define ED25519_BATCH     64 /* this many at once share an inversion */

/* One signature; what it points to is borrowed. */
struct ed25519 {
	const unsigned char *signature, *public_key, *message;
	bool good; /* the verdict */
};

KERNELS_BEGIN

/* Sets good of each of n signatures: eight at a time where the CPU has IFMA, RNP_ISA and
 * RNP_ISA_WITHOUT allow it and libsodium has the same rule, which is asked once; else one by one. Any thread; sodium_init has been
 * called. */
void ed25519_verify(struct ed25519 *s, size_t n);

/* The versions: libsodium, which defines the verdicts, and eight lanes of AVX-512. */
void ed25519_verify_ref(struct ed25519 *s, size_t n);
void ed25519_verify_ifma(struct ed25519 *s, size_t n);

/* SHA-512 of eight messages of 128 bytes; out[i] is the digest of in[i]. Needs AVX-512. */
void sha512_eight(unsigned char out[8][64], const unsigned char in[8][128]);

KERNELS_END

#endif
