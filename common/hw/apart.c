/* apart.c - see apart.h. */
#include "common/hw/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#define BEAT_FD 3 /* of the child, which has nothing else open */

void *apart_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory != MAP_FAILED)
		return memory;
	err_sys(EX_OSERR, "no memory");
	return NULL;
}

void apart_free(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}

static bool in_child;

void apart_beat(void)
{
	if (in_child && write(BEAT_FD, "", 1) < 0)
		_exit(1); /* nobody waits any more */
}

/* Holds no file of the parent: a pipe of ours would stay open as long as the child. */
static void be_apart(int beat_fd)
{
	int null_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	null_fd = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null_fd, fd);
	dup2(beat_fd, BEAT_FD);
	syscall(SYS_close_range, BEAT_FD + 1, ~0u, 0);
	in_child = true;
}

/* What was killed in the kernel stays there; what can end does so soon. */
static void leave(pid_t child)
{
	const struct timespec nap = { 0, 1000000 };

	kill(child, SIGKILL);
	for (int i = 0; i < 100 && waitpid(child, NULL, WNOHANG) == 0; i++)
		nanosleep(&nap, NULL);
}

/* Waits for beats. Returns false when one is late. */
static bool follow(int fd, int first_ms, int next_ms)
{
	int64_t end_ms = clock_mono_ns() / 1000000 + first_ms;
	char beats[64];

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t now_ms = clock_mono_ns() / 1000000;
		int rc = now_ms < end_ms ? poll(&p, 1, (int)(end_ms - now_ms)) : 0;

		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0)
			return false;
		if (read(fd, beats, sizeof beats) <= 0)
			return true;
		end_ms = clock_mono_ns() / 1000000 + next_ms;
	}
}

enum apart apart_run(void (*work)(void *shared), void *shared, int first_ms, int next_ms)
{
	int fds[2];
	pid_t child = -1;
	int status = 0;
	bool ended;

	if (pipe2(fds, O_CLOEXEC) == 0 && (child = fork()) == 0) {
		be_apart(fds[1]);
		work(shared);
		_exit(0);
	}
	if (child < 0) {
		work(shared);
		return APART_DONE;
	}
	close(fds[1]);
	ended = follow(fds[0], first_ms, next_ms);
	close(fds[0]);
	if (!ended) {
		leave(child);
		return APART_HANGS;
	}
	/* the pipe's other end is closed when the child has ended, or is about to */
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? APART_DONE : APART_DIED;
}

const char *apart_text(enum apart how)
{
	return how == APART_HANGS ? "does not answer within 5 s" : "crashed";
}
