/* ed25519.h - verifies Ed25519 signatures (RFC 8032) of messages of 64 bytes, eight at a time.
 *
 * Each verdict is that of libsodium's crypto_sign_verify_detached for the same signature, key and
 * message, whatever they are: S below L, no small order in A or R, A canonical and on the curve,
 * and the encoding of S B - h A equal to R's bytes (without the cofactor). Whoever recomputes an
 * epoch must come to the same verdicts (Chalkias, Garillot, Nikolaenko, "Taming the many EdDSAs",
 * 2020, on how they differ).
 *
 * No equation covers several signatures, as batch verification by random combination does. It would
 * differ from libsodium where points have torsion, unless each R is tested for it, and it must
 * decode each R, which takes 265 multiplications in the field. A key that signs by the hundred, as
 * those do that judge nodes, has a table instead (comb_ifma.h): one signature is then 64 additions
 * of 7 multiplications, 448, in place of 2,800 with doublings, and a part of one inversion that 64
 * signatures share. That is exact, and a liar's bad signatures cost what good ones do. Processor
 * time on an EPYC of Zen 4: 1.7 us with a table, 7.3 us without, libsodium 51 us (see
 * tests/bench/results).
 *
 * Nothing is secret here, and time depends on the input. Uses libsodium. */
#ifndef RNP_KERNELS_CRYPTO_ED25519_H
#define RNP_KERNELS_CRYPTO_ED25519_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dev/hd.h"

#define ED25519_KEY       32
#define ED25519_SIGNATURE 64
#define ED25519_MESSAGE   64  /* two SHA-256, as eddsa-jcs-2022 signs */
#define ED25519_BATCH     128 /* this many at once share an inversion */

/* One signature; what it points to is borrowed. */
struct ed25519 {
	const unsigned char *signature, *public_key, *message;
	const struct ed25519_table *table; /* of public_key, or NULL */
	bool good;                         /* the verdict */
};

KERNELS_BEGIN

/* Sets good of each of n signatures: eight at a time where the CPU has IFMA, RNP_ISA and
 * RNP_ISA_WITHOUT allow it and libsodium has the same rule, which is asked once; else one by one.
 * Any thread; sodium_init has been called. */
void ed25519_verify(struct ed25519 *s, size_t n);

/* Returns a table with which each signature of this key takes a quarter of the time: for keys that
 * have signed hundreds, because it takes the time of a hundred signatures and 516 KiB of memory.
 * NULL, which struct ed25519 may have, where it would not be used or the key is refused. The caller
 * frees it. */
struct ed25519_table *ed25519_table_new(const unsigned char key[ED25519_KEY]);

/* The versions: libsodium, which defines the verdicts, and eight lanes of AVX-512. */
void ed25519_verify_ref(struct ed25519 *s, size_t n);
void ed25519_verify_ifma(struct ed25519 *s, size_t n);
struct ed25519_table *ed25519_table_ifma(const unsigned char key[ED25519_KEY]);

/* SHA-512 of eight messages of 128 bytes; out[i] is the digest of in[i]. Needs AVX-512. */
void sha512_eight(unsigned char out[8][64], const unsigned char in[8][128]);

KERNELS_END

#endif
