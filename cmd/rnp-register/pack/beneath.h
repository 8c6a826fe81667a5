/* beneath.h - opens what lies below a directory, and nothing that a link leads to. Uses libc. */
#ifndef RNP_CMD_REGISTER_PACK_BENEATH_H
#define RNP_CMD_REGISTER_PACK_BENEATH_H

#include <sys/types.h>

/* As openat(2), but no part of the path may be a symbolic link (ELOOP) or lead out of the
 * directory: openat2(2), and part by part where the kernel has none (before 5.6). path: without "."
 * and "..". Returns a descriptor, or -1 with errno. */
int beneath_open(int dir, const char *path, int flags, mode_t mode);

/* Removes a file, or a directory with all below it, without following links. Returns 0, or -1 with
 * errno. */
int beneath_remove(int dir, const char *name);

#endif
