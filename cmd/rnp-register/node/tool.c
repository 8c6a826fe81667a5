/* tool.c - runs the suite's own programs for a command that is composed of others: input from a
 * file in memory, output through a pipe. */
#include "cmd/rnp-register/node/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"

#define NOT_FOUND 127
#define READ_SIZE 65536

void tool_directory(struct buf *out)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	char *slash;

	path[n < 0 ? 0 : n] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		buf_add(out, path, (size_t)(slash - path));
}

static void start(const char *const args[], const char *path, int in, int out)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execv(path, (char **)args);
	execvp(args[0], (char **)args);
	_exit(NOT_FOUND);
}

/* Returns a file in memory with the bytes of in, positioned at its beginning; or -1. */
static int input_file(const struct buf *in)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd >= 0 && in && in->len && io_write_all(fd, in->data, in->len) < 0) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

static int read_all(int fd, struct buf *out)
{
	for (;;) {
		ssize_t n = read(fd, buf_reserve(out, READ_SIZE), READ_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
	}
}

int tool_run(const char *const args[], const struct buf *in, struct buf *out)
{
	struct buf path = BUF_INIT;
	int input = input_file(in), ends[2] = { -1, -1 }, status = 0, rc = -1;
	pid_t pid = -1;

	tool_directory(&path);
	buf_addf(&path, "/%s", args[0]);
	fflush(NULL);
	if (input >= 0 && pipe2(ends, O_CLOEXEC) == 0)
		pid = fork();
	if (pid == 0)
		start(args, path.data, input, ends[1]);
	if (ends[1] >= 0)
		close(ends[1]);
	if (pid > 0) {
		rc = read_all(ends[0], out);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
	}
	if (rc < 0)
		err_sys(EX_OSERR, "cannot run %s", args[0]);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
		rc = err_set(EX_UNAVAILABLE,
			"there is no program %s, neither beside this one nor in PATH",
			args[0]);
	else
		rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (ends[0] >= 0)
		close(ends[0]);
	if (input >= 0)
		close(input);
	buf_release(&path);
	return rc;
}
