/* launch.c - starts one process for each GPU, joins them, and ends them together. */
#include "cmd/rnp-train/local/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "kernels/dev/dev.h"

/* A rank that stalls for so long will not come back; others may wait for a checkpoint or an
 * evaluation of rank 0. */
#define STALL_MS INT64_C(86400000)
/* When one has failed the others notice by themselves, or may be writing a checkpoint; in a sum of
 * NCCL they do not notice. */
#define GRACE_NS INT64_C(10000000000)

/* Memory of the process that started the ranks and of all of them. */
struct launch_shared {
	struct left {
		int64_t at_ns; /* 0: it has not failed */
		struct err error;
	} left[LAUNCH_MAX];
	int gpus; /* counted */
};

static int share(struct launch *l)
{
	void *at = mmap(NULL, sizeof *l->shared, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return err_sys(EX_OSERR, "no memory for the ranks");
	l->shared = at;
	return 0;
}

/* Keeps the pending error where the process that started us sees it. */
static void leave_error(struct launch *l, int rank)
{
	struct left *left = &l->shared->left[rank];

	err_save(&left->error);
	left->at_ns = clock_mono_ns();
}

/* --- devices ---------------------------------------------------------------------------------- */

static void add_device(struct launch *l, int number)
{
	char name[16];

	snprintf(name, sizeof name, "cuda:%d", number);
	l->names[l->n++] = xstrdup(name);
}

/* A process that has asked CUDA must not fork: another one asks. */
static int count_gpus(struct launch *l)
{
	struct dev d;
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		l->shared->gpus = dev_cuda_count(&d);
		if (l->shared->gpus < 0) {
			device_failed(&d);
			leave_error(l, 0);
		}
		_exit(0);
	}
	if (pid < 0)
		return err_sys(EX_OSERR, "cannot start a process");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (l->shared->left[0].at_ns) {
		l->shared->left[0].at_ns = 0;
		return err_restore(&l->shared->left[0].error);
	}
	if (status)
		return err_set(EX_UNAVAILABLE, "cuda: the GPUs cannot be counted");
	if (l->shared->gpus == 0)
		return err_set(EX_UNAVAILABLE, "cuda: there is no GPU");
	return l->shared->gpus;
}

static int all_devices(struct launch *l)
{
	int n = share(l) < 0 ? -1 : count_gpus(l);

	if (n > LAUNCH_MAX)
		return err_set(EX_USAGE, "--device: at most %d GPUs, and there are %d",
			LAUNCH_MAX, n);
	for (int i = 0; i < n; i++)
		add_device(l, i);
	return n < 0 ? -1 : 0;
}

/* "cuda:0,cuda:2"; the word is left out behind the first one by some: "cuda:0,2" */
static int read_list(struct launch *l, const char *spec)
{
	const char *at = spec;

	do {
		char *end = NULL;
		bool word = strncmp(at, "cuda:", 5) == 0;
		const char *digits = word ? at + 5 : at;
		long n = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;

		if (n < 0 || n > 1023 || (*end && *end != ',') || (!word && at == spec))
			return err_set(EX_USAGE,
				"no such devices '%.60s' (cuda:0,cuda:1 or cuda:all)",
				spec);
		if (l->n == LAUNCH_MAX)
			return err_set(EX_USAGE, "--device: at most %d GPUs", LAUNCH_MAX);
		add_device(l, (int)n);
		at = *end ? end + 1 : NULL;
	} while (at);
	return 0;
}

int launch_devices(struct launch *l, const char *spec, bool every)
{
	bool automatic;

	if (!spec || !*spec)
		spec = getenv("RNP_DEVICE");
	automatic = !spec || !*spec || strcmp(spec, "auto") == 0;
	if (!automatic && strchr(spec, ','))
		return read_list(l, spec);
	if (!automatic && strcmp(spec, "cuda:all") != 0 &&
		!(every && strcmp(spec, "cuda") == 0))
		return 0;
	if (automatic && !every)
		return 0;
	if (all_devices(l) == 0 || !automatic)
		return l->n ? 0 : -1;
	err_clear(); /* auto: the CPU then */
	return 0;
}

/* --- ranks ------------------------------------------------------------------------------------ */

struct ranks {
	struct launch *l;
	pid_t pids[LAUNCH_MAX]; /* 0: not there, or ended */
	int status[LAUNCH_MAX];
	int fds[LAUNCH_MAX][LAUNCH_MAX]; /* [i][k]: of rank i, to rank k; -1: none */
	int running;
	bool killed; /* all, by us */
};

static void close_all(struct ranks *r, int but)
{
	for (int i = 0; i < r->l->n; i++)
		for (int k = 0; k < r->l->n; k++)
			if (i != but && r->fds[i][k] >= 0)
				close(r->fds[i][k]);
}

static int connect_all(struct ranks *r)
{
	int n = r->l->n;

	memset(r->fds, -1, sizeof r->fds);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++) {
			int pair[2];

			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
				return err_sys(EX_OSERR, "cannot join the ranks");
			r->fds[i][k] = pair[0];
			r->fds[k][i] = pair[1];
		}
	return 0;
}

static void end_all(struct ranks *r, int signal_number)
{
	for (int i = 0; i < r->l->n; i++)
		if (r->pids[i])
			kill(r->pids[i], signal_number);
	r->killed = r->killed || signal_number == SIGKILL;
}

/* In a rank. It does not outlive the process that started it. */
static void become_rank(struct ranks *r, int rank, pid_t parent, const sigset_t *mask)
{
	struct launch *l = r->l;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR);
	close_all(r, rank);
	memcpy(l->fds, r->fds[rank], sizeof l->fds);
	l->rank = rank;
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* Returns 1 in a rank, 0, or -1 with err_set() and what was started ended again. */
static int start_all(struct ranks *r, const sigset_t *mask)
{
	pid_t parent = getpid();

	fflush(NULL);
	for (int i = 0; i < r->l->n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			become_rank(r, i, parent, mask);
			return 1;
		}
		if (pid < 0)
			return err_sys(EX_OSERR, "cannot start a process for %s",
				r->l->names[i]);
		r->pids[i] = pid;
		r->running++;
	}
	return 0;
}

/* Returns whether one has failed. */
static bool reap(struct ranks *r)
{
	bool bad = false;

	for (int i = 0; i < r->l->n; i++) {
		if (!r->pids[i] || waitpid(r->pids[i], &r->status[i], WNOHANG) <= 0)
			continue;
		/* we have not ended it: nobody else says why it went */
		if (WIFSIGNALED(r->status[i]) && !r->killed) {
			err_set(EX_UNAVAILABLE, "was ended by signal %d (%s)",
				WTERMSIG(r->status[i]),
				strsignal(WTERMSIG(r->status[i])));
			leave_error(r->l, i);
			r->l->shared->left[i].at_ns = 1; /* the others fail by it */
		}
		bad = bad || r->status[i];
		r->pids[i] = 0;
		r->running--;
	}
	return bad;
}

/* Until all have ended. Returns a signal that came twice, or 0. */
static int wait_all(struct ranks *r, const sigset_t *watched)
{
	int64_t deadline_ns = 0, asked_ns = 0;
	int asked = 0, again = 0;

	while (r->running) {
		struct timespec second = { 1, 0 };
		int number = sigtimedwait(watched, NULL, &second);

		if (number > 0 && number != SIGCHLD && !asked) {
			end_all(r, SIGTERM);
			asked = number;
			asked_ns = clock_mono_ns();
		} else if (number > 0 && number != SIGCHLD &&
			clock_mono_ns() - asked_ns >= LAUNCH_AGAIN_NS) {
			end_all(r, SIGKILL);
			again = number;
		}
		if (reap(r) && !deadline_ns)
			deadline_ns = clock_mono_ns() + GRACE_NS;
		if (deadline_ns && clock_mono_ns() > deadline_ns)
			end_all(r, SIGKILL);
	}
	return again;
}

/* All ranks said the same. */
static bool unanimous(const struct launch *l)
{
	for (int i = 0; i < l->n; i++)
		if (!l->shared->left[i].at_ns ||
			strcmp(l->shared->left[i].error.text,
				l->shared->left[0].error.text) != 0)
			return false;
	return true;
}

/* The error of the rank that failed first; the others failed because of it. Returns the exit
 * code. */
static int report(const struct ranks *r)
{
	const struct launch *l = r->l;
	const struct left *left = l->shared->left;
	int first = -1, code = EX_OK;

	for (int i = 0; i < l->n; i++) {
		if (left[i].at_ns && (first < 0 || left[i].at_ns < left[first].at_ns))
			first = i;
		if (WIFEXITED(r->status[i]) && WEXITSTATUS(r->status[i]) && !code)
			code = WEXITSTATUS(r->status[i]);
	}
	if (first < 0)
		return code; /* it has said itself why */
	err_restore(&left[first].error);
	if (!unanimous(l))
		err_add("rank %d (%s)", first, l->names[first]);
	return err_report();
}

/* The signals that are watched are blocked, for sigtimedwait. */
static void watch(sigset_t *watched, sigset_t *before)
{
	struct sigaction hup;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(watched);
	sigaddset(watched, SIGCHLD);
	sigaddset(watched, SIGTERM);
	sigaddset(watched, SIGINT);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(watched, SIGHUP);
	sigprocmask(SIG_BLOCK, watched, before);
}

bool launch_ranks(struct launch *l, int *code)
{
	struct ranks r = { .l = l };
	sigset_t watched, before;
	int rc = l->shared || share(l) == 0 ? connect_all(&r) : -1, again;

	watch(&watched, &before);
	if (rc == 0)
		rc = start_all(&r, &before);
	if (rc > 0)
		return true;
	close_all(&r, -1);
	if (rc < 0)
		end_all(&r, SIGKILL);
	again = wait_all(&r, &watched);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (again) {
		signal(again, SIG_DFL);
		raise(again);
	}
	*code = rc < 0 ? err_report() : report(&r);
	return false;
}

int launch_join(struct comm *c, void *arg)
{
	struct launch *l = arg;

	return comm_tcp_from(c, l->rank, l->n, l->fds, STALL_MS);
}

void launch_leave(struct launch *l)
{
	int code = err_get()->code;

	leave_error(l, l->rank);
	_exit(code ? code : EX_SOFTWARE);
}

void launch_release(struct launch *l)
{
	for (int i = 0; i < l->n; i++)
		free((void *)l->names[i]);
	if (l->shared)
		munmap(l->shared, sizeof *l->shared);
	*l = (struct launch)LAUNCH_INIT;
}
