/* kill_at.c - ends a process with SIGKILL at a chosen instant: LD_PRELOAD of a program, whose
 * RNP_KILL_AT'th call that makes something durable or visible (fsync, fdatasync, msync, rename,
 * link, unlink, ftruncate) is its last, or (RNP_KILL_NAME) whose first rename to a path with that
 * in it, or (RNP_KILL_SYNC) whose first fsync of a file with that in its path; with
 * RNP_KILL_AFTER=1 the call is still made, with RNP_KILL_WAIT=MS its other threads go on for so
 * long. RNP_KILL_COUNT=FILE: the number of calls is written there at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long calls;

static long number(const char *name)
{
	const char *text = getenv(name);

	return text ? atol(text) : 0;
}

/* Whether this call is the one. */
static int is_it(void)
{
	return ++calls == number("RNP_KILL_AT");
}

static int is_named(const char *to)
{
	const char *text = getenv("RNP_KILL_NAME");

	return text && strstr(to, text);
}

static int is_file(int fd)
{
	const char *text = getenv("RNP_KILL_SYNC");
	char link[64], path[4096] = "";

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	return text && readlink(link, path, sizeof path - 1) > 0 && strstr(path, text);
}

static void die(void)
{
	usleep((useconds_t)number("RNP_KILL_WAIT") * 1000);
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

#define WRAP(type, name, parameters, arguments) \
	WRAP_IF(is_it(), type, name, parameters, arguments)

#define WRAP_IF(is, type, name, parameters, arguments)             \
	type name parameters                                       \
	{                                                          \
		static type(*real) parameters;                     \
		int last = is;                                     \
		type rc;                                           \
                                                                   \
		if (!real)                                         \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		if (last && !number("RNP_KILL_AFTER"))             \
			die();                                     \
		rc = real arguments;                               \
		if (last)                                          \
			die();                                     \
		return rc;                                         \
	}

WRAP_IF(is_it() || is_file(fd), int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, msync, (void *at, size_t bytes, int flags), (at, bytes, flags))
WRAP_IF(is_it() || is_named(to), int, rename, (const char *from, const char *to),
	(from, to))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned int flags),
	(a, from, b, to, flags))

static void __attribute__((destructor)) write_count(void)
{
	const char *path = getenv("RNP_KILL_COUNT");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (f) {
		fprintf(f, "%ld\n", (long)calls);
		fclose(f);
	}
}
