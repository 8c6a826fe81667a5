/* process.c - fork, exec, and waiting with bounds. */
#include "cmd/rnp-register/agent/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#define WAIT_FIRST_MS 250
#define WAIT_MOST_MS  10000
#define STEADY_NS     INT64_C(30000000000)

/* The child's half: what exec fails with goes through the pipe, whose end an exec closes. */
static void become(const struct process *p, pid_t parent, int told)
{
	int none = open("/dev/null", O_RDWR | O_CLOEXEC), failed;
	sigset_t set;

	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent && none >= 0 &&
		dup2(p->in >= 0 ? p->in : none, STDIN_FILENO) >= 0 &&
		dup2(p->out >= 0 ? p->out : none, STDOUT_FILENO) >= 0)
		execv(p->argv[0], (char *const *)p->argv);
	failed = errno;
	(void)!write(told, &failed, sizeof failed);
	_exit(127);
}

int process_start(struct process *p)
{
	int ends[2] = { -1, -1 }, failed = 0;
	pid_t parent = getpid();
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(EX_OSERR, "cannot start '%s'", p->argv[0]);
	p->started_ns = clock_mono_ns();
	p->pid = fork();
	if (p->pid == 0)
		become(p, parent, ends[1]);
	close(ends[1]);
	if (p->pid < 0) {
		close(ends[0]);
		p->pid = 0;
		return err_sys(EX_OSERR, "cannot start '%s'", p->argv[0]);
	}
	do
		n = read(ends[0], &failed, sizeof failed);
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (n <= 0)
		return 0;
	waitpid(p->pid, &p->status, 0);
	p->pid = 0;
	errno = failed;
	return err_sys(failed == ENOENT ? EX_UNAVAILABLE : EX_OSERR, "cannot start '%s'",
		p->argv[0]);
}

bool process_ended(struct process *p)
{
	int64_t now_ns = clock_mono_ns();

	if (!p->pid || waitpid(p->pid, &p->status, WNOHANG) != p->pid)
		return false;
	p->pid = 0;
	if (now_ns - p->started_ns > STEADY_NS)
		p->wait_ms = 0;
	p->wait_ms = p->wait_ms ? 2 * p->wait_ms : WAIT_FIRST_MS;
	if (p->wait_ms > WAIT_MOST_MS)
		p->wait_ms = WAIT_MOST_MS;
	p->again_ns = now_ns + p->wait_ms * 1000000;
	return true;
}

bool process_keep(struct process *p)
{
	if (p->pid || clock_mono_ns() < p->again_ns)
		return false;
	if (process_start(p) == 0)
		return true;
	p->again_ns = clock_mono_ns() + WAIT_MOST_MS * INT64_C(1000000);
	return false;
}

void process_end(struct process *p, int64_t grace_ms)
{
	int64_t until_ns = clock_mono_ns() + grace_ms * 1000000;
	const struct timespec pause = { 0, 5000000 };

	if (!p->pid)
		return;
	kill(p->pid, SIGTERM);
	while (waitpid(p->pid, &p->status, WNOHANG) == 0) {
		if (clock_mono_ns() > until_ns)
			kill(p->pid, SIGKILL);
		nanosleep(&pause, NULL);
	}
	p->pid = 0;
}

void process_words(int status, char out[PROCESS_WORDS_MAX])
{
	if (WIFSIGNALED(status))
		snprintf(out, PROCESS_WORDS_MAX, "ended by signal %d", WTERMSIG(status));
	else
		snprintf(out, PROCESS_WORDS_MAX, "ended with %d", WEXITSTATUS(status));
}

int64_t process_start_ticks(pid_t pid)
{
	char path[64], text[1024] = "", *p;
	int64_t ticks = -1;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	/* the name may hold anything; field 22 is the 20th after it */
	p = strrchr(text, ')');
	for (int i = 0; p && i < 20; i++)
		p = strchr(p + 1, ' ');
	if (p && sscanf(p, "%" SCNd64, &ticks) != 1)
		ticks = -1;
	return ticks;
}
