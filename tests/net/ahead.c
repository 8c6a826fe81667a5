/* ahead.c - library for LD_PRELOAD with which a test sets a program's monotonic clock forward: by
 * the seconds in the first eight bytes of the file $AHEAD; where it has more, its disk is full.
 * Waits of the program until a time of that clock end when it says so. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none, *ahead_s = &none;

__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("AHEAD"), O_RDONLY);

	ahead_s = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || ahead_s == MAP_FAILED)
		abort();
}

/* Where the file is larger, the disk is full. */
int statvfs(const char *path, struct statvfs *out)
{
	struct stat st;

	(void)path;
	*out = (struct statvfs){ .f_frsize = 4096, .f_bavail = 1000000 };
	if (stat(getenv("AHEAD"), &st) == 0 && st.st_size > 8)
		out->f_bavail = 100;
	return 0;
}

int clock_gettime(clockid_t id, struct timespec *out)
{
	int rc = (int)syscall(SYS_clock_gettime, id, out);

	if (rc == 0 && id == CLOCK_MONOTONIC)
		out->tv_sec += *ahead_s;
	return rc;
}

/* The kernel's clock is not ahead. A wait that was begun before looks again a second later. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
	const struct timespec *until)
{
	struct timespec real = { until->tv_sec - *ahead_s, until->tv_nsec };

	return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real);
}
