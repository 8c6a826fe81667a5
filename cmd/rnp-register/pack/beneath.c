/* beneath.c - openat2(2) has no function in glibc 2.36. */
#include "cmd/rnp-register/pack/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_by_parts(int dir, const char *path, int flags, mode_t mode)
{
	int at = dup(dir), saved;

	while (at >= 0) {
		const char *slash = strchr(path, '/');
		char name[256];
		int next;

		if (!slash) {
			next = openat(at, path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
		} else if ((size_t)(slash - path) >= sizeof name) {
			errno = ENAMETOOLONG;
			next = -1;
		} else {
			memcpy(name, path, (size_t)(slash - path));
			name[slash - path] = '\0';
			next = openat(at, name,
				O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			path = slash + 1;
		}
		saved = errno;
		close(at);
		errno = saved;
		at = next;
		if (!slash)
			break;
	}
	return at;
}

int beneath_open(int dir, const char *path, int flags, mode_t mode)
{
	struct open_how how = { .flags = (unsigned)flags | O_NOFOLLOW | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_by_parts(dir, path, flags, mode);
	return (int)fd;
}

int beneath_remove(int dir, const char *name)
{
	struct dirent *e;
	DIR *d;
	int fd, rc = 0;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	(void)fchmod(fd, 0700);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -1;
	}
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			beneath_remove(fd, e->d_name) < 0)
			rc = -1;
	closedir(d);
	return rc < 0 ? -1 : unlinkat(dir, name, AT_REMOVEDIR);
}
