/* lock.h - locks on open files that processes share (flock). Uses err.
 *
 * Not every file system keeps locks: Lustre without -o flock says ENOSYS, NFS without its lock
 * daemon ENOLCK, NFS and SMB refuse an exclusive one of a directory. That is no other process at
 * work, and a caller says which of the two it is. A lock goes when its file is closed. */
#ifndef RNP_COMMON_BASE_LOCK_H
#define RNP_COMMON_BASE_LOCK_H

/* Takes the lock of a file, at once or not at all. busy: what to say, behind the path, where
 * another process has it: "another payer is at work". Returns 0, or -1: 75 another process has it,
 * 69 the file system keeps no locks, with its reason. */
int lock_take(int fd, const char *path, const char *busy);

/* The same, but without locks it goes on, and warns once: for what goes wrong only if a person
 * starts two. */
int lock_take_if_kept(int fd, const char *path, const char *busy);

/* Waits for the lock, until a signal has set *stop, which may be NULL. Without locks it goes on,
 * and warns. */
void lock_wait(int fd, const char *path, const _Atomic int *stop);

#endif
