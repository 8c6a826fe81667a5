/* key.h - Ed25519 keys: Solana keypair files, base58 addresses, did:key, encrypted files.
 *
 * Uses libsodium, io, json, err. Secret keys live in sodium_malloc memory and are wiped. */
#ifndef RNP_COMMON_RECORD_KEY_H
#define RNP_COMMON_RECORD_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/address.h"
#include "common/base/buf.h"

#define KEY_PUBLIC_BYTES    ADDRESS_BYTES
#define KEY_SECRET_BYTES    64 /* seed and public key, as in a Solana keypair file */
#define KEY_SIGNATURE_BYTES 64
#define KEY_ADDRESS_MAX     ADDRESS_MAX
#define KEY_DID_MAX         64
#define KEY_DID_PREFIX      "did:key:"
#define KEY_METHOD_MAX      128 /* did:key:z...#z... and the NUL */

/* A key that can sign; empty when secret is NULL. */
struct key {
	unsigned char public_key[KEY_PUBLIC_BYTES];
	unsigned char *secret; /* sodium_malloc */
	char address[KEY_ADDRESS_MAX];
};
/* clang-format off */
#define KEY_INIT { .secret = NULL }
/* clang-format on */

void key_release(struct key *k);

/* Makes a new random key. Returns 0, or -1 (71) when there is no randomness. */
int key_generate(struct key *k);

/* Makes the key of 64 secret bytes. Returns 0, or -1 (65): the public half is not the seed's. */
int key_from_secret(struct key *k, const unsigned char secret[KEY_SECRET_BYTES]);

/* Appends the path of the default key file, $XDG_CONFIG_HOME/rnp/key.json or
 * $HOME/.config/rnp/key.json. Returns 0, or -1 with err_set. */
int key_default_path(struct buf *out);

/* Loads a key file; path NULL: the default one, and where there is none the one that rnp-register
 * setup has made for this machine (/etc/rnp/key.json, or beside $RNP_NODE_ENV). An encrypted one
 * needs passphrase_file (NULL: none), which is not read for a plain one. Returns 0, or -1: 66
 * absent, 77 readable by group or others (by group is fine in $CREDENTIALS_DIRECTORY), 65
 * malformed, 77 wrong or missing passphrase. */
int key_load(struct key *k, const char *path, const char *passphrase_file);

/* Reads the one line of a file that holds a password of somebody else, such as a market's API
 * key. Returns it in sodium_malloc memory (sodium_free), or NULL: 66 absent, 77 readable by group
 * or others, 65 no line of printable ASCII. */
char *key_load_token(const char *path);

/* Returns how many of a file's bytes are such a line, without the line ends and spaces that may
 * follow it; 0: it is none. Pure. */
size_t key_token_length(const char *text, size_t len);

/* Writes a new key file, mode 0600, never over an existing one (73). passphrase_file not NULL:
 * encrypted with argon2id and XChaCha20-Poly1305 (rnp-json(5)). */
int key_save(const struct key *k, const char *path, const char *passphrase_file);

/* Reads a key from the bytes of a key file, as key_load does; path names it in errors. An encrypted
 * key without passphrase_file is 77. */
int key_from_text(struct key *k, const char *text, size_t len, const char *path,
	const char *passphrase_file);

/* Write and read a key as a DID (address.h has its base58 form). what names the value in the error.
 * One form only is accepted: did:key: with base58btc multibase of multicodec ed25519-pub. Whether
 * the bytes are a point of the curve shows when a signature is verified. */
void key_did(const unsigned char public_key[KEY_PUBLIC_BYTES], char out[KEY_DID_MAX]);
int key_parse_did(const char *text, const char *what,
	unsigned char public_key[KEY_PUBLIC_BYTES]);

#endif
