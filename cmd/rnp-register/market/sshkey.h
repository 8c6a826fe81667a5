/* sshkey.h - public keys of SSH, as people write them and as a node's address is one; and the file
 * in which ssh(1) reads a node's secret key. Uses libsodium, key, err, buf. Pure. */
#ifndef RNP_CMD_REGISTER_MARKET_SSHKEY_H
#define RNP_CMD_REGISTER_MARKET_SSHKEY_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/record/key.h"

#define SSHKEY_TYPE_MAX 40
#define SSHKEY_BLOB_MAX 512 /* of base64, with the NUL */
#define SSHKEY_TEXT_MAX (SSHKEY_TYPE_MAX + SSHKEY_BLOB_MAX)
#define SSHKEY_HASH_MAX 64 /* "SHA256:..." and the NUL */

/* The key types that are let in: those whose strength the type alone says. */
#define SSHKEY_TYPES                                                  \
	"ssh-ed25519,sk-ssh-ed25519@openssh.com,ecdsa-sha2-nistp256," \
	"ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,"                    \
	"sk-ecdsa-sha2-nistp256@openssh.com"

struct sshkey {
	char type[SSHKEY_TYPE_MAX]; /* "ssh-ed25519" */
	char blob[SSHKEY_BLOB_MAX]; /* base64, in its one form */
};

/* Reads the one line of a public key file, "TYPE BASE64 [comment]", and drops the comment. Returns
 * 0, or -1 (65): another type, options before the key, a key that is not what its type says. where
 * names it in the error. */
int sshkey_parse(const char *text, const char *where, struct sshkey *out);

/* The key of a node to SSH: the same Ed25519 key that its address is. */
void sshkey_of_node(const unsigned char public_key[KEY_PUBLIC_BYTES], struct sshkey *out);

/* Writes the key's fingerprint as ssh-keygen -l shows it, "SHA256:...". */
void sshkey_fingerprint(const struct sshkey *k, char out[SSHKEY_HASH_MAX]);

/* Appends a node's secret key as OpenSSH's private key file has it, without a passphrase. The
 * caller wipes out. */
void sshkey_private(struct buf *out, const struct key *k);

#endif
