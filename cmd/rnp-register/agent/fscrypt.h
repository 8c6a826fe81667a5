/* fscrypt.h - a folder whose files the kernel encrypts with a key that nobody else has. ext4 with
 * the feature encrypt; the kernel's Documentation/filesystems/fscrypt.rst. Uses libsodium, err.
 *
 * Contents (AES-256-XTS) and names (AES-256-CTS, padded to 32 bytes) are encrypted; sizes,
 * times, owners, permissions and extended attributes are not. */
#ifndef RNP_CMD_REGISTER_AGENT_FSCRYPT_H
#define RNP_CMD_REGISTER_AGENT_FSCRYPT_H

#include <stdbool.h>

/* Gives the kernel 64 random bytes for the file system on which the empty folder lies, makes them
 * the folder's key, and forgets them. Returns 0, or -1 with err_set: 69 this kernel or file system
 * cannot. */
int fscrypt_seal(const char *folder);

/* Whether the folder has a key and the kernel still holds it. Returns 1; 0: it is locked, or not
 * encrypted, *why says which; -1 with err_set. */
int fscrypt_is_open(const char *folder, const char **why);

/* Takes the folder's key from the kernel and drops what it had decrypted. *busy: files are still
 * open in it; the key goes with them, and a second call says whether it did. Returns 0, also where
 * there is none; -1 with err_set. */
int fscrypt_forget(const char *folder, bool *busy);

#endif
