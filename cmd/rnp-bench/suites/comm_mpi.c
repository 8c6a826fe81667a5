/* comm_mpi.c - measures the mpi backend on one machine: mpirun starts this program twice,
 * and its first rank reports. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-bench/suites/comm.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "kernels/dev/plugin.h"

#define START_MS         30000
#define END_MS           INT64_C(5000)
#define TESTS            9 /* the course takes at most the time of so many tests */
#define OUTPUT_BYTES_MAX ((size_t)4 << 20)

struct job {
	pid_t pid;
	int out;
};

/* Runs in the child. The variables concern Open MPI alone, which refuses to run for root, as in
 * containers, and more processes than cores. */
static void become_job(pid_t parent, int out, char *const args[])
{
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EX_OSERR);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(out, 1);
	dup2(null, 2);
	execvp("mpirun", args);
	_exit(127);
}

static int start(struct job *j, const struct settings *s)
{
	char self[4096], time_ms[32];
	char *args[16];
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	pid_t parent = getpid();
	int pipe_ends[2], n = 0;

	if (len <= 0 || pipe2(pipe_ends, O_CLOEXEC) < 0)
		return err_sys(EX_OSERR, "cannot start mpirun");
	self[len] = '\0';
	/* a segment's share of the time, in which the job makes all of its own */
	snprintf(time_ms, sizeof time_ms, "%lldms",
		(long long)(s->time_ms / SUITE_SEGMENTS + 1));
	args[n++] = (char *)"mpirun";
	args[n++] = (char *)"-n";
	args[n++] = (char *)"2";
	args[n++] = self;
	args[n++] = (char *)"run";
	args[n++] = (char *)"--suite";
	args[n++] = (char *)"comm";
	args[n++] = (char *)"--backend";
	args[n++] = (char *)"mpi";
	args[n++] = (char *)"--time";
	args[n++] = time_ms;
	if (s->quick)
		args[n++] = (char *)"--quick";
	args[n] = NULL;
	/* before the fork: setenv may not be called after it */
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
	j->pid = fork();
	if (j->pid == 0)
		become_job(parent, pipe_ends[1], args);
	close(pipe_ends[1]);
	j->out = pipe_ends[0];
	return j->pid < 0 ? err_sys(EX_OSERR, "cannot start mpirun") : 0;
}

/* Reads all that it prints. Returns 0, or -1: 75 not in time. */
static int read_all(const struct job *j, int64_t deadline_ns, struct buf *text)
{
	for (;;) {
		int64_t left_ms = (deadline_ns - clock_mono_ns()) / 1000000;
		struct pollfd p = { j->out, POLLIN, 0 };
		ssize_t n;

		if (left_ms <= 0 || poll(&p, 1, (int)left_ms) == 0)
			return err_set(EX_TEMPFAIL, "mpirun does not come to an end");
		n = read(j->out, buf_reserve(text, 65536), 65536);
		if (n == 0)
			return 0;
		if (n > 0)
			text->len += (size_t)n;
		if (text->len > OUTPUT_BYTES_MAX)
			return err_set(EX_DATAERR, "mpirun prints too much");
	}
}

/* Whether it ended within END_MS. */
static bool ended(const struct job *j, int *status)
{
	const struct timespec pause = { 0, 20000000 };
	int64_t deadline_ns = clock_mono_ns() + END_MS * 1000000;

	while (waitpid(j->pid, status, WNOHANG) != j->pid) {
		if (clock_mono_ns() > deadline_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* mpirun ends its ranks on SIGTERM; if it hangs, it is killed with its group. */
static int finish(struct job *j, int rc)
{
	int status = 0;

	if (rc < 0)
		kill(-j->pid, SIGTERM);
	if (!ended(j, &status)) {
		if (rc == 0)
			rc = err_set(EX_TEMPFAIL, "mpirun does not come to an end");
		kill(-j->pid, SIGKILL);
		while (waitpid(j->pid, &status, 0) < 0)
			;
	}
	close(j->out);
	if (rc < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return rc;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(EX_UNAVAILABLE, "mpi: there is no mpirun");
	err_set(EX_UNAVAILABLE, "mpi: mpirun failed");
	return err_hint(
		"mpirun -n 2 rnp-bench run --suite comm --backend mpi tells more");
}

static int take_all(struct buf *text, suite_emit take, void *ctx)
{
	char *rest = text->data;
	int rc = 0;

	for (char *line; rc == 0 && (line = strsep(&rest, "\n"));) {
		json_t *record;

		if (!*line)
			continue;
		record = json_parse_object(line, strlen(line), "mpirun");
		rc = record ? schema_check(record, "mpirun", "rnp.bench") : -1;
		if (rc == 0)
			rc = take(ctx, record);
		else
			json_decref(record);
	}
	return rc;
}

int suite_comm_mpi(const struct settings *s, suite_emit take, void *ctx)
{
	int64_t deadline_ns = clock_mono_ns() +
		(START_MS + TESTS * s->time_ms * 2) * 1000000;
	struct buf text = BUF_INIT;
	struct job j;
	char why[300];
	int rc;

	/* checked first: otherwise two processes would be started only to find out that there
	 * is no MPI */
	if (!plugin_open("librnp_mpi.so", "RNP_MPI_PLUGIN", 1, why, sizeof why))
		return err_set(EX_UNAVAILABLE, "mpi: %s", why);
	if (start(&j, s) < 0)
		return -1;
	rc = finish(&j, read_all(&j, deadline_ns, &text));
	if (rc == 0 && text.len)
		rc = take_all(&text, take, ctx);
	buf_release(&text);
	return rc;
}
