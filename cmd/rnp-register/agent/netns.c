/* netns.c - network namespaces that have a name. */
#include "cmd/rnp-register/agent/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/err.h"

#define OURS "/proc/thread-self/ns/net"

struct errand {
	int netns; /* -1: a new one */
	int (*work)(void *context);
	void *context;
	int rc;
	struct err why;
};

static void *run(void *argument)
{
	struct errand *e = argument;

	if (e->netns < 0 ? unshare(CLONE_NEWNET) : setns(e->netns, CLONE_NEWNET))
		e->rc = err_sys(EX_OSERR, "cannot %s a network namespace",
			e->netns < 0 ? "make" : "enter");
	else
		e->rc = e->work(e->context);
	err_save(&e->why);
	return NULL;
}

static int apart(struct errand *e)
{
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, run, e);

	if (rc) {
		errno = rc;
		return err_sys(EX_OSERR, "cannot start a thread");
	}
	pthread_join(thread, NULL);
	if (e->rc < 0)
		err_restore(&e->why);
	return e->rc;
}

int netns_run(int netns, int (*work)(void *context), void *context)
{
	struct errand e = { .netns = netns, .work = work, .context = context };

	return apart(&e);
}

static int name_it(void *path)
{
	if (mount(OURS, path, NULL, MS_BIND, NULL) < 0)
		return err_sys(EX_OSERR, "cannot mount a network namespace on '%s'",
			(char *)path);
	return 0;
}

int netns_make(const char *path)
{
	struct errand e = { .netns = -1, .work = name_it, .context = (void *)path };
	int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);

	if (fd < 0)
		return errno == EEXIST ?
			err_set(EX_CANTCREAT, "network namespace '%s' is there already",
				path) :
			err_sys(0, "cannot make '%s'", path);
	close(fd);
	if (apart(&e) == 0)
		return 0;
	unlink(path);
	return -1;
}

int netns_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct statfs fs;

	if (fd < 0)
		return err_sys(0, "no network namespace '%s'", path);
	if (fstatfs(fd, &fs) == 0 && fs.f_type == NSFS_MAGIC)
		return fd;
	close(fd);
	return err_set(EX_NOINPUT, "'%s' is no network namespace", path);
}

int netns_drop(const char *path)
{
	while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		continue;
	if (errno != EINVAL && errno != ENOENT)
		return err_sys(EX_OSERR, "cannot unmount '%s'", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(0, "cannot delete '%s'", path);
	return 0;
}
