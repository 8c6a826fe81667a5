/* ahead.h - reads a large file ahead, past the page cache, in a thread of its own. Uses libc,
 * pthreads.
 *
 * A file that memory does not hold goes through the page cache at the cost of a page to find, to
 * clear and to drop for each 4 KiB: `cat` of 19.7 GB took 33 s of the processor, and what others
 * had in the cache is gone after it. O_DIRECT (open(2)) takes a twentieth of that. It does not read
 * ahead, so that a thread does, into a few buffers. */
#ifndef RNP_COMMON_BASE_AHEAD_H
#define RNP_COMMON_BASE_AHEAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ahead;

/* Returns from how many bytes of files on it pays: half of this machine's memory; fewer may be in
 * the page cache, or be wanted there the next time. */
int64_t ahead_bytes_min(void);

/* Begins to read the regular file fd at its start, if it has min bytes or more and its file system
 * can; NULL: it is to be read by read(2). fd is borrowed until ahead_close, and has O_DIRECT set
 * and its offset left alone meanwhile. */
struct ahead *ahead_open(int fd, int64_t min);

/* Copies the next bytes, at most n, as read(2) does: returns how many, 0 at the end, -1 with errno.
 * One thread at a time. */
ssize_t ahead_read(struct ahead *a, char *out, size_t n);

/* Ends the thread, wherever it is; NULL is fine. */
void ahead_close(struct ahead *a);

#endif
