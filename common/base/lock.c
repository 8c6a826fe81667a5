/* lock.c - see lock.h. */
#include "common/base/lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>

#include "common/base/err.h"

/* Returns 0, or flock's errno. */
static int try_lock(int fd, int how)
{
	int rc;

	do
		rc = flock(fd, LOCK_EX | how);
	while (rc < 0 && errno == EINTR && how);
	return rc < 0 ? errno : 0;
}

static const char *reason(int code)
{
	return code == EBADF ? "not of a directory" : strerror(code);
}

/* Once: some files are locked again and again. */
static void warn_unlocked(const char *path, int code)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&warned))
		err_warn("cannot lock '%s' (%s): only one program at a time may use it",
			path, reason(code));
}

int lock_take(int fd, const char *path, const char *busy)
{
	int code = try_lock(fd, LOCK_NB);

	if (!code)
		return 0;
	if (code == EWOULDBLOCK)
		return err_set(EX_TEMPFAIL, "'%s': %s", path, busy);
	err_set(EX_UNAVAILABLE, "cannot lock '%s': its file system keeps no locks: %s",
		path, reason(code));
	return err_hint("put it on a local disk, or mount that file system with locks");
}

int lock_take_if_kept(int fd, const char *path, const char *busy)
{
	int code = try_lock(fd, LOCK_NB);

	if (code == EWOULDBLOCK)
		return err_set(EX_TEMPFAIL, "'%s': %s", path, busy);
	if (code)
		warn_unlocked(path, code);
	return 0;
}

void lock_wait(int fd, const char *path, const _Atomic int *stop)
{
	int code;

	do
		code = try_lock(fd, 0);
	while (code == EINTR && !(stop && *stop));
	if (code && code != EINTR)
		warn_unlocked(path, code);
}
