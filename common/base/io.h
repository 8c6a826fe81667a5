/* io.h - whole files, in and out: limits, and nothing half written. Uses libc, buf, err. */
#ifndef RNP_COMMON_BASE_IO_H
#define RNP_COMMON_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"

/* Append the file at path ("-": standard input) to out. Returns 0, or -1: 66 or 77 when it
 * cannot be opened, 65 when it is larger than max_bytes, 74 when reading fails. */
int io_read(struct buf *out, const char *path, size_t max_bytes);

/* A device, pipe or socket that has the name already is refused (73) by all that follow, not replaced. */

/* Whether a file could be written at path, before the work whose result it is to hold: the same errors as below. Something may
 * still change until then. */
int io_check_place(const char *path);

/* Replace the file at path by len bytes with permissions mode: written beside it, flushed,
 * renamed, the directory flushed; at every instant path holds the old or the new content.
 * Returns 0, or -1 (74, 77) with the old file untouched. */
int io_replace(const char *path, const void *data, size_t len, mode_t mode);

/* As io_replace, but an existing path is an error (73, EX_CANTCREAT) and is left alone. */
int io_create(const char *path, const void *data, size_t len, mode_t mode);

/* A file written piece by piece that appears whole, as io_replace does it: beside the target
 * until io_part_close. The state of zeros is releasable. */
struct io_part {
	char *path, *temporary;
	struct io_beside *beside; /* removes it at a signal */
	int fd;                   /* -1: flushed */
	uint64_t written;         /* bytes so far */
};
int io_part_open(struct io_part *p, const char *path, mode_t mode);
int io_part_write(struct io_part *p, const void *data, size_t len);
/* All that was written is on the disk, and only io_part_close is to come: of several files that belong together none appears before
 * there is room for all. Returns 0, or -1 (74). */
int io_part_flush(struct io_part *p);
int io_part_close(struct io_part *p); /* failed or not, p is empty afterwards */
void io_part_drop(struct io_part *p); /* forget what was written; also when closed */

/* A signal that ends the process by default (SIGTERM, SIGINT, SIGHUP, SIGQUIT; not where it is ignored) first removes the files that
 * are still beside their targets, in this process and not in its children. Once, from main. */
void io_watch_signals(void);
/* The same as a handler: for who has one of their own, and then wants to end the process after all. */
void io_end_by_signal(int number);

/* Make directory path and its parents with permissions mode, less the umask: 0700 for what is secret, 0777 for what
 * others read. An existing one is fine and keeps its own. */
int io_make_dirs(const char *path, mode_t mode);

/* write(2) until all is written. Returns 0, or -1 with errno set and no err_set. */
int io_write_all(int fd, const void *data, size_t len);

#endif
