/* coordinator.h - for benchmarks of rnp-train coordinate: a coordinator in a directory of its own,
 * and the memory that it has. */
#ifndef RNP_TESTS_BENCH_COORDINATOR_H
#define RNP_TESTS_BENCH_COORDINATOR_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"

/* The benchmark's name and the coordinator's directory, which the benchmark sets first. */
static const char *bench_name;
static char work[200];

static void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", bench_name, what, err_get()->text);
	exit(EX_SOFTWARE);
}

/* Runs a command in the directory. */
static __attribute__((unused)) void command(const char *text)
{
	struct buf line = BUF_INIT;

	buf_addf(&line, "cd '%s' && %s", work, text);
	if (system(buf_text(&line)) != 0)
		die(text);
	buf_release(&line);
}

/* rnp-train's main, where it is to run in a child as it is; NULL: the program is executed. */
static int (*coordinator_main)(int argc, char **argv);

/* Starts rnp-train with arguments that end with NULL and contain --port-file port. Writes its URL
 * when it listens; it dies with the benchmark. */
static pid_t coordinator_start(char url[64], const char *const args[])
{
	struct buf port = BUF_INIT;
	char path[300];
	pid_t pid;

	snprintf(path, sizeof path, "%s/port", work);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chdir(work) != 0 || !freopen("/dev/null", "w", stdout))
			_exit(127);
		if (coordinator_main) {
			int n = 0;

			while (args[n])
				n++;
			exit(coordinator_main(n, (char **)(uintptr_t)args));
		}
		execvp("rnp-train", (char **)(uintptr_t)args);
		_exit(127);
	}
	while (io_read(&port, path, 20) < 0 || !port.len) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			die("the coordinator ended");
		usleep(50000);
	}
	snprintf(url, 64, "http://127.0.0.1:%d", atoi(buf_text(&port)));
	buf_release(&port);
	return pid;
}

/* field: a line of /proc/PID/status, as "VmRSS:" */
static __attribute__((unused)) int64_t memory_bytes(pid_t pid, const char *field)
{
	struct buf text = BUF_INIT;
	char path[64];
	const char *line;
	int64_t kib = 0;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (io_read(&text, path, 1 << 16) < 0)
		die("reading the coordinator's memory");
	line = strstr(buf_text(&text), field);
	if (line)
		kib = atoll(line + strlen(field));
	buf_release(&text);
	return kib * 1024;
}

#endif
