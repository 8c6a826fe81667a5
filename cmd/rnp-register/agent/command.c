/* command.c - runs a program of the system: input from a file in memory, output and complaints
 * through pipes that are read until both are closed or the time is over. */
#include "cmd/rnp-register/agent/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"

#define NOT_FOUND  127
#define NOT_INSIDE 126
#define READ_SIZE  65536
#define NS_PER_MS  1000000

/* Its parts as they are while it runs. */
struct running {
	pid_t pid;
	int input, ends[2][2]; /* pipes: its standard output and standard error */
};

/* Writes the path of name in the part of COMMAND_PATH that begins at *from, and moves on. */
static bool next_path(struct buf *path, const char **from, const char *name)
{
	size_t len = strcspn(*from, ":");

	if (!len)
		return false;
	buf_reset(path);
	buf_addf(path, "%.*s/%s", (int)len, *from, name);
	*from += len + ((*from)[len] == ':');
	return true;
}

/* Writes the path of a program. Returns whether there is one. */
static bool find(struct buf *path, const char *name)
{
	const char *from = COMMAND_PATH;

	while (next_path(path, &from, name))
		if (access(path->data, X_OK) == 0)
			return true;
	return false;
}

int command_find(const char *name, const char *package)
{
	struct buf path = BUF_INIT;
	bool there = find(&path, name);

	buf_release(&path);
	return there ?
		0 :
		err_set(EX_UNAVAILABLE, "there is no program %s: install the package %s",
			name, package);
}

/* The child's part: nothing here may allocate, as another thread may hold the allocator's lock. */
static void become(const struct command *c, const char *path, const struct running *r)
{
	static char path_is[] = "PATH=" COMMAND_PATH, locale_is[] = "LC_ALL=C";
	static char *const environment[] = { path_is, locale_is, NULL };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	dup2(r->input, STDIN_FILENO);
	dup2(r->ends[0][1], STDOUT_FILENO);
	dup2(r->ends[1][1], STDERR_FILENO);
	if (c->netns >= 0 && setns(c->netns, CLONE_NEWNET) < 0)
		_exit(NOT_INSIDE);
	execve(path, (char **)c->args, environment);
	_exit(NOT_FOUND);
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Reads what there is. At the end of a pipe it is closed. */
static void take(int *fd, struct buf *out)
{
	char piece[READ_SIZE];
	ssize_t n = read(*fd, piece, sizeof piece);

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		close_one(fd);
	else if (n > 0 && out->len + (size_t)n <= COMMAND_BYTES_MAX)
		buf_add(out, piece, (size_t)n);
}

/* Returns whether both pipes were closed in time. */
static bool read_both(struct running *r, struct buf out[2], int64_t until_ns)
{
	while (r->ends[0][0] >= 0 || r->ends[1][0] >= 0) {
		struct pollfd p[2] = { { .fd = r->ends[0][0], .events = POLLIN },
			{ .fd = r->ends[1][0], .events = POLLIN } };
		int64_t left = (until_ns - clock_mono_ns()) / NS_PER_MS;

		if (left <= 0)
			return false;
		if (poll(p, 2, left < 1000 ? (int)left : 1000) <= 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (p[i].revents)
				take(&r->ends[i][0], &out[i]);
	}
	return true;
}

/* Its end: what it is to be called as an error. */
static int judge(const struct command *c, int status, const struct buf *said)
{
	size_t line = strcspn(buf_text(said), "\n");

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return err_set(EX_OSERR, "%s: ended by signal %d", c->args[0],
			WTERMSIG(status));
	if (WEXITSTATUS(status) == NOT_INSIDE && !said->len)
		return err_set(EX_OSERR, "%s: cannot enter the network namespace",
			c->args[0]);
	if (!line)
		return err_set(EX_OSERR, "%s: ended with %d", c->args[0],
			WEXITSTATUS(status));
	return err_set(EX_OSERR, "%s: %.*s", c->args[0], (int)line, said->data);
}

static int begin(const struct command *c, const char *path, struct running *r)
{
	size_t len = c->input ? strlen(c->input) : 0;

	r->input = memfd_create("input", MFD_CLOEXEC);
	if (r->input < 0 || (len && io_write_all(r->input, c->input, len) < 0) ||
		lseek(r->input, 0, SEEK_SET) < 0 || pipe2(r->ends[0], O_CLOEXEC) < 0 ||
		pipe2(r->ends[1], O_CLOEXEC) < 0 || (r->pid = fork()) < 0)
		return err_sys(EX_OSERR, "cannot run %s", c->args[0]);
	if (r->pid == 0)
		become(c, path, r);
	close_one(&r->ends[0][1]);
	close_one(&r->ends[1][1]);
	return 0;
}

int command_run(const struct command *c, struct buf *out)
{
	struct running r = { .pid = -1, .input = -1, .ends = { { -1, -1 }, { -1, -1 } } };
	struct buf path = BUF_INIT, said[2] = { BUF_INIT, BUF_INIT };
	int64_t until = clock_mono_ns() + c->timeout_ms * NS_PER_MS;
	int status = 0, rc = -1;

	if (!find(&path, c->args[0])) {
		err_set(EX_UNAVAILABLE, "there is no program %s in %s", c->args[0],
			COMMAND_PATH);
		goto out;
	}
	if (begin(c, path.data, &r) < 0)
		goto out;
	if (read_both(&r, said, until)) {
		while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
			continue;
		rc = judge(c, status, &said[1]);
	} else {
		kill(-r.pid, SIGKILL);
		kill(r.pid, SIGKILL);
		while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
			continue;
		rc = err_set(EX_TEMPFAIL, "%s: not done after %lld ms", c->args[0],
			(long long)c->timeout_ms);
	}
	if (rc == 0 && out && said[0].len)
		buf_add(out, said[0].data, said[0].len);
out:
	for (int i = 0; i < 2; i++) {
		close_one(&r.ends[i][0]);
		close_one(&r.ends[i][1]);
		buf_release(&said[i]);
	}
	close_one(&r.input);
	buf_release(&path);
	return rc;
}
