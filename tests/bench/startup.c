/* startup.c - benchmark: how long each program takes to start and how much memory it has
 * touched by then, in pairs with /bin/true. Prints records to standard output; exit 1 when a
 * limit is broken.
 *
 * The kernel counts the memory of the forking process in the child's ru_maxrss, so this process
 * stays small (2 MB, the lowest figure that it can report): only libc, and JSON by printf. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/stats.h"

#define PAIRS         41
#define TIME_LIMIT_NS 10000000
#define MEMORY_LIMIT  10000000

extern char **environ;

struct run {
	double time_ns, memory_bytes;
};

static struct run start(const char *path, const char *argument)
{
	char *argv[] = { (char *)path, (char *)argument, NULL };
	posix_spawn_file_actions_t quiet;
	struct rusage used;
	int64_t from = clock_mono_ns();
	int status, rc;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null",
		1 /* O_WRONLY */, 0);
	rc = posix_spawn(&pid, path, &quiet, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&quiet);
	if (rc || wait4(pid, &status, 0, &used) < 0 || status) {
		fprintf(stderr, "startup: cannot run '%s': %s\n", path,
			strerror(rc ? rc : errno));
		exit(71);
	}
	return (struct run){ (double)(clock_mono_ns() - from),
		(double)used.ru_maxrss * 1024 };
}

static void print(const char *test, const char *program, const char *unit,
	const double *samples, long limit)
{
	char at[CLOCK_TEXT_MAX];
	struct stats s;

	stats_of(samples, PAIRS, &s);
	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"startup\",\"test\":\"%s\","
	       "\"unit\":\"%s\",\"median\":%.0f,\"low\":%.0f,\"high\":%.0f,\"samples\":%d,"
	       "\"params\":{\"program\":\"%s\"",
		at, test, unit, s.median, s.low, s.high, PAIRS, program);
	if (limit)
		printf(",\"limit\":%ld", limit);
	printf("}}\n");
}

/* Returns whether the limits hold. */
static bool measure(const char *path)
{
	static double time_ns[PAIRS], memory[PAIRS], over_true_ns[PAIRS];
	const char *name = strrchr(path, '/') + 1;
	struct stats t, m;

	start(path, "--version"); /* the first start reads it from disk */
	for (int i = 0; i < PAIRS; i++) {
		struct run a = start(path, "--version"), b = start("/bin/true", NULL);

		time_ns[i] = a.time_ns;
		memory[i] = a.memory_bytes;
		over_true_ns[i] = a.time_ns > b.time_ns ? a.time_ns - b.time_ns : 0;
	}
	print("time", name, "ns", time_ns, TIME_LIMIT_NS);
	print("time over /bin/true", name, "ns", over_true_ns, 0);
	print("peak memory", name, "B", memory, MEMORY_LIMIT);
	stats_of(time_ns, PAIRS, &t);
	stats_of(memory, PAIRS, &m);
	if (t.median < TIME_LIMIT_NS && m.median < MEMORY_LIMIT)
		return true;
	fprintf(stderr,
		"startup: %s takes %.1f ms and %.1f MB, over the limit of %.0f ms and %.0f MB\n",
		name, t.median / 1e6, m.median / 1e6, TIME_LIMIT_NS / 1e6,
		MEMORY_LIMIT / 1e6);
	return false;
}

int main(void)
{
	const char *build = getenv("RNP_BUILD");
	char pattern[4096];
	glob_t found;
	bool good = true;

	snprintf(pattern, sizeof pattern, "%s/bin/rnp-*", build ? build : "build");
	if (glob(pattern, 0, NULL, &found)) {
		fprintf(stderr, "startup: there is no '%s'\n", pattern);
		return 66;
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		good = measure(found.gl_pathv[i]) && good;
	globfree(&found);
	return !good;
}
