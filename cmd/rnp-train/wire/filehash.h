/* filehash.h - hashes of files of any size, which are read a part at a time. */
#ifndef RNP_TRAIN_WIRE_FILEHASH_H
#define RNP_TRAIN_WIRE_FILEHASH_H

#include "cmd/rnp-train/wire/protocol.h"

/* Both write the hash of all that the file at path has. Return 0, or -1 with err_set(): it cannot
 * be opened, or read. */
int filehash_blake2b(const char *path, char hex[PROTOCOL_HEX]); /* BLAKE2b-256 */
int filehash_sha256(const char *path, char hex[PROTOCOL_HEX]);

#endif
