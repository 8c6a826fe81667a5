/* key.h - Ed25519 keys: Solana keypair files, base58 addresses, did:key, encrypted files.
 *
 * Uses libsodium, io, json, err. Secret keys live in sodium_malloc memory and are wiped. */
#ifndef RNP_COMMON_KEY_H
#define RNP_COMMON_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

#define KEY_PUBLIC_BYTES    32
#define KEY_SECRET_BYTES    64 /* seed and public key, as in a Solana keypair file */
#define KEY_SIGNATURE_BYTES 64
#define KEY_ADDRESS_MAX     45 /* base58 of 32 bytes and the NUL */
#define KEY_DID_MAX         64
#define KEY_METHOD_MAX      128 /* did:key:z...#z... and the NUL */

/* A key that can sign. secret is NULL in an empty one. */
struct key {
	unsigned char public_key[KEY_PUBLIC_BYTES];
	unsigned char *secret; /* sodium_malloc */
	char address[KEY_ADDRESS_MAX];
};
/* clang-format off */
#define KEY_INIT { .secret = NULL }
/* clang-format on */

void key_release(struct key *k);

/* A new random key. Returns 0, or -1 (71) when there is no randomness. */
int key_generate(struct key *k);

/* The key of 64 secret bytes; they are checked (public half matches the seed). */
int key_from_secret(struct key *k, const unsigned char secret[KEY_SECRET_BYTES]);

/* The default key file: $XDG_CONFIG_HOME/rnp/key.json or $HOME/.config/rnp/key.json. */
int key_default_path(struct buf *out);

/* Load a key file; path NULL: the default. An encrypted one needs passphrase_file (NULL: none).
 * Returns 0, or -1: 66 absent, 77 readable by group or others, 65 malformed, 77 wrong
 * passphrase. */
int key_load(struct key *k, const char *path, const char *passphrase_file);

/* Write a new key file, mode 0600, never over an existing one (73). passphrase_file not NULL:
 * encrypted with argon2id and XChaCha20-Poly1305. */
int key_save(const struct key *k, const char *path, const char *passphrase_file);

/* Text forms. key_parse_address: what names the value in the error; canonical 32 bytes. */
void key_address(const unsigned char public_key[KEY_PUBLIC_BYTES],
	char out[KEY_ADDRESS_MAX]);
int key_parse_address(const char *text, const char *what,
	unsigned char public_key[KEY_PUBLIC_BYTES]);
void key_did(const unsigned char public_key[KEY_PUBLIC_BYTES], char out[KEY_DID_MAX]);
int key_parse_did(const char *text, const char *what,
	unsigned char public_key[KEY_PUBLIC_BYTES]);

#endif
