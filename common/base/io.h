/* io.h - reads and writes whole files, with limits and atomically. Uses libc, buf, err. */
#ifndef RNP_COMMON_BASE_IO_H
#define RNP_COMMON_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"

/* Says on a terminal that standard input is read: who forgot a file would wait for ever. */
void io_say_typed(void);

/* Appends the file at path ("-": standard input) to out. Returns 0, or -1: 66 or 77 if it
 * cannot be opened, 65 if it is larger than max_bytes, 74 if reading fails. */
int io_read(struct buf *out, const char *path, size_t max_bytes);

/* All functions below refuse (73) to replace a device, pipe or socket. */

/* Checks that a file can be written at path, before computing its contents. The errors are
 * those of the functions below. The result may change until then. */
int io_check_place(const char *path);

/* Replaces the file at path by len bytes with permissions mode: writes beside it, flushes,
 * renames, and flushes the directory. At every instant path holds the old or the new content.
 * Returns 0, or -1 (74, 77) with the old file untouched. */
int io_replace(const char *path, const void *data, size_t len, mode_t mode);

/* As io_replace, but an existing path is an error (73, EX_CANTCREAT) and is left alone. */
int io_create(const char *path, const void *data, size_t len, mode_t mode);

/* A file that is written piece by piece and appears whole, as with io_replace: until
 * io_part_close it lies beside the target, locked; what a kill left there goes when the same file
 * is written next. An object of zeros is releasable. */
struct io_part {
	char *path, *temporary;
	struct io_beside *beside; /* removes it at a signal */
	int fd;                   /* locked; -1: flushed, one of very many */
	bool flushed;
	uint64_t written; /* bytes so far */
};
int io_part_open(struct io_part *p, const char *path, mode_t mode);
int io_part_write(struct io_part *p, const void *data, size_t len);
/* Flushes everything to the disk, so that only io_part_close remains: if several files belong
 * together, none appears before all of them are written. Returns 0, or -1 (74). */
int io_part_flush(struct io_part *p);
int io_part_close(struct io_part *p); /* failed or not, p is empty afterwards */
/* As io_part_close, but nothing is flushed: the caller flushes file and directory before anything
 * says that the file is there. */
int io_part_name(struct io_part *p);
void io_part_drop(
	struct io_part *p); /* discards what was written; harmless when closed */

/* Removes unfinished files when a signal ends the process by default (SIGTERM, SIGINT, SIGHUP,
 * SIGQUIT; not an ignored one), in this process and not in its children. Call it once, from
 * main. */
void io_watch_signals(void);
/* The same as a handler, for a program that has its own handler and then decides to end the
 * process. */
void io_end_by_signal(int number);

/* Makes directory path and its parents with permissions mode, minus the umask: 0700 for
 * secrets, 0777 for what others may read. An existing directory is fine and keeps its
 * permissions. */
int io_make_dirs(const char *path, mode_t mode);
/* The same for a default place, which may be below $HOME. $HOME itself is not made: system users
 * have one that is not there, such as /nonexistent, and means none. */
int io_make_default_dirs(const char *path, mode_t mode);

/* Flushes the directory in which path lies, so that a name which was given or taken there is on the
 * disk. Returns 0, or -1. */
int io_flush_directory(const char *path);
/* Gives a file a second name, which must be free; where the file system has no hard links it gets
 * a copy, flushed. Returns 0, or -1 with errno. */
int io_link(const char *from, const char *to);

/* Flushes a file that is there. */
int io_flush_file(const char *path);

/* Calls write(2) until everything is written. Returns 0, or -1 with errno set and no err_set. */
int io_write_all(int fd, const void *data, size_t len);

/* The same by pwrite(2), from byte `offset` of the file. */
int io_write_all_at(int fd, const void *data, size_t len, int64_t offset);

#endif
