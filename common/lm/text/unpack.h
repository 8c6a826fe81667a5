/* unpack.h - the bytes of a file, unpacked where it is compressed by gzip (RFC 1952) or Zstandard
 * (RFC 8878), in one pass. Uses libc, err, io, and zlib and libzstd, each opened when a file needs
 * it.
 *
 * Memory is bounded whatever the file says: 32 KiB of window for gzip, at most 128 MiB for
 * Zstandard. Several members or frames behind each other are one text, as gunzip reads them. */
#ifndef RNP_COMMON_LM_TEXT_UNPACK_H
#define RNP_COMMON_LM_TEXT_UNPACK_H

#include <stddef.h>
#include <sys/types.h>

struct unpack;

/* Opens the file at path ("-": standard input), whose first bytes say how it is packed. path is
 * borrowed. Returns 0 and *out, or -1 with err_set(): 66, 77, 74, 69 without the library. */
int unpack_open(struct unpack **out, const char *path);
void unpack_close(struct unpack *u); /* NULL is allowed */

/* Reads up to n > 0 bytes into to. Returns how many, 0 at the end, or -1 with err_set(): 65 damaged
 * or cut, 74. */
ssize_t unpack_read(struct unpack *u, void *to, size_t n);

#endif
