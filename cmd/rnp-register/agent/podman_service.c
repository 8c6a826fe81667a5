/* podman_service.c - podman's service of one root: its configuration, its start, its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/netns.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "cmd/rnp-register/agent/seccomp.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"

#define START_MS      30000
#define END_MS        10000
#define POLL_NS       10000000L
#define IDLE_S        30
#define SAYS_BYTES    4096
#define ARGUMENTS_MAX 24
#define ENV_MAX       16

/* runc: crun refuses hybrid cgroups. cgroupfs: systemd takes a GPU away at daemon-reload. No
 * sysctls: in a foreign network namespace runc may not write ping_group_range. Locks in files:
 * those in shared memory are 2048 for all podmans of the machine together. No hooks of this
 * machine, which would run as its root beside each container, or bring devices into it: their
 * folder is empty. No keys that detach: a session's bytes are the customer's, and "ctrl-p,ctrl-q"
 * in a file would end its transfer. */
int podman_configure(const struct podman *p)
{
	struct buf text = BUF_INIT, path = BUF_INIT, calls = BUF_INIT, hooks = BUF_INIT;
	int rc;

	buf_addf(&calls, "%s/seccomp.json", p->run);
	buf_addf(&text,
		"[containers]\ndefault_sysctls = []\nlog_driver = \"k8s-file\"\n"
		"seccomp_profile = \"%s\"\nbase_hosts_file = \"none\"\n"
		"[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n"
		"detach_keys = \"\"\n"
		"events_logger = \"file\"\nlock_type = \"file\"\n"
		"image_copy_tmp_dir = \"%s/part\"\nhooks_dir = [\"%s/hooks\"]\n",
		calls.data, p->root, p->run);
	buf_addf(&hooks, "%s/hooks", p->run);
	buf_addf(&path, "%s/containers.conf", p->run);
	rc = seccomp_write(calls.data);
	if (rc == 0)
		rc = io_make_dirs(hooks.data, 0700);
	if (rc == 0)
		rc = io_replace(buf_text(&path), text.data, text.len, 0600);
	buf_release(&text);
	buf_release(&path);
	buf_release(&calls);
	buf_release(&hooks);
	return rc;
}

/* --- who answers ----------------------------------------------------------------------------- */

int podman_knock(const struct podman *p)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	snprintf(at.sun_path, sizeof at.sun_path, "%s", p->socket);
	if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool answers(const struct podman *p)
{
	int fd = podman_knock(p);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Returns who listens at the socket; 0: nobody. */
static pid_t listener(const struct podman *p)
{
	int fd = podman_knock(p);
	struct ucred who = { 0 };
	socklen_t len = sizeof who;

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		who.pid = 0;
	close(fd);
	return who.pid;
}

/* Takes note of our service's end. Returns whether it runs. */
static bool still_runs(struct podman *p)
{
	if (p->service && waitpid(p->service, NULL, WNOHANG) != 0)
		p->service = 0;
	return p->service != 0;
}

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
}

/* --- start ------------------------------------------------------------------------------------ */

/* The service gets what it needs of our environment, and its configuration. */
static void fill_environment(const struct podman *p, char **env, struct buf *text)
{
	static const char *const proxies[] = { "http_proxy", "https_proxy" };
	static const char *const passed[] = { "http_proxy", "https_proxy", "no_proxy",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
		"SSL_CERT_DIR" };
	size_t starts[ENV_MAX], n = 0;

	for (size_t i = 0; p->proxy && i < sizeof proxies / sizeof *proxies; i++) {
		starts[n++] = text->len;
		buf_addf(text, "%s=%s", proxies[i], p->proxy);
		buf_addc(text, '\0');
	}
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		if (getenv(passed[i]) && !(p->proxy && strcasestr(passed[i], "_proxy"))) {
			starts[n++] = text->len;
			buf_addf(text, "%s=%s", passed[i], getenv(passed[i]));
			buf_addc(text, '\0');
		}
	starts[n++] = text->len;
	buf_adds(text, "PATH=" COMMAND_PATH);
	buf_addc(text, '\0');
	starts[n++] = text->len;
	buf_addf(text, "CONTAINERS_CONF=%s/containers.conf", p->run);
	buf_addc(text, '\0');
	starts[n++] = text->len;
	buf_addf(text, "TMPDIR=%s/part", p->root);
	buf_addc(text, '\0');
	starts[n++] = text->len;
	buf_addf(text, "HOME=%s", p->run);
	buf_addc(text, '\0');
	for (size_t i = 0; i < n; i++)
		env[i] = text->data + starts[i];
	env[n] = NULL;
}

struct errand {
	struct podman *podman;
	char *const *args, *const *env;
	const char *log;
};

static int spawn(struct podman *p, char *const *args, char *const *env, const char *log);

static int spawn_there(void *context)
{
	const struct errand *e = context;

	return spawn(e->podman, e->args, e->env, e->log);
}

/* In the lease's network. Where that has gone a service is still needed, to remove what is
 * there: it gets a network in which there is nothing, and never ours. */
static int spawn_inside(struct podman *p, char *const *args, char *const *env,
	const char *log)
{
	struct errand e = { p, args, env, log };
	int netns, rc;

	if (!p->netns)
		return spawn(p, args, env, log);
	netns = netns_open(p->netns);
	err_clear();
	rc = netns_run(netns, spawn_there, &e);
	if (netns >= 0)
		close(netns);
	return rc;
}

/* The working directory is inherited by every conmon, which leaves a file "oom" in it. */
static int spawn(struct podman *p, char *const *args, char *const *env, const char *log)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	int rc;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC,
		0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	posix_spawn_file_actions_addchdir_np(&files, p->run);
	/* of its own session, so that what ends us does not end it */
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&how, &none);
	rc = posix_spawnp(&p->service, p->program, &files, &how, args, env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	if (rc == 0)
		return 0;
	p->service = 0;
	errno = rc;
	err_sys(EX_UNAVAILABLE, "cannot start '%s'", p->program);
	return err_hint("install the packages podman and runc");
}

static int start(struct podman *p)
{
	struct buf tmp = BUF_INIT, store = BUF_INIT, at = BUF_INIT, env_text = BUF_INIT,
		   runroot = BUF_INIT, log = BUF_INIT, idle = BUF_INIT;
	char *env[ENV_MAX + 1];
	const char *args[ARGUMENTS_MAX];
	size_t n = 0;
	int rc;

	buf_addf(&tmp, "%s/tmp", p->run);
	buf_addf(&runroot, "%s/root", p->run);
	buf_addf(&log, "%s/podman.log", p->run);
	buf_addf(&at, "unix://%s", p->socket);
	buf_addf(&store, "additionalimagestore=%s", p->images ? p->images : "");
	buf_add_i64(&idle, p->idle_ms ? (p->idle_ms + 999) / 1000 : IDLE_S);
	args[n++] = p->program;
	args[n++] = "--root";
	args[n++] = p->root;
	args[n++] = "--runroot";
	args[n++] = buf_text(&runroot);
	args[n++] = "--tmpdir";
	args[n++] = buf_text(&tmp);
	args[n++] = "--storage-driver";
	args[n++] = "overlay";
	if (p->images) {
		args[n++] = "--storage-opt";
		args[n++] = buf_text(&store);
	}
	args[n++] = "system";
	args[n++] = "service";
	args[n++] = "--time";
	args[n++] = buf_text(&idle);
	args[n++] = buf_text(&at);
	args[n] = NULL;
	fill_environment(p, env, &env_text);
	unlink(p->socket);
	rc = spawn_inside(p, (char *const *)args, env, buf_text(&log));
	buf_release(&tmp);
	buf_release(&store);
	buf_release(&at);
	buf_release(&env_text);
	buf_release(&runroot);
	buf_release(&log);
	buf_release(&idle);
	return rc;
}

/* Says why the service ended, in its own last line. Returns -1. */
static int fail_start(const struct podman *p)
{
	struct buf log = BUF_INIT, path = BUF_INIT;
	const char *line;
	size_t n;

	buf_addf(&path, "%s/podman.log", p->run);
	if (io_read(&log, buf_text(&path), SAYS_BYTES) < 0)
		buf_reset(&log);
	n = log.len;
	while (n && log.data[n - 1] == '\n')
		log.data[--n] = '\0';
	line = n ? strrchr(log.data, '\n') : NULL;
	err_set(EX_UNAVAILABLE, "podman's service did not start: %.400s",
		line      ? line + 1 :
			n ? log.data :
			    "it says nothing");
	buf_release(&log);
	buf_release(&path);
	return -1;
}

int podman_ready(struct podman *p)
{
	int64_t end_ns = clock_mono_ns() + INT64_C(1000000) * START_MS;

	still_runs(p);
	if (answers(p))
		return 0;
	/* one that idled too long is on its way out */
	podman_end_service(p);
	if (start(p) < 0)
		return -1;
	while (!answers(p)) {
		if (!still_runs(p))
			return fail_start(p);
		if (clock_mono_ns() > end_ns)
			return err_set(EX_TEMPFAIL,
				"podman's service did not start in %d s",
				START_MS / 1000);
		pause_shortly();
	}
	return 0;
}

void podman_end_service(struct podman *p)
{
	int64_t end_ns = clock_mono_ns() + INT64_C(1000000) * END_MS;
	pid_t pid = still_runs(p) ? p->service : listener(p);

	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	while (p->service ? still_runs(p) : kill(pid, 0) == 0) {
		if (clock_mono_ns() > end_ns) {
			kill(pid, SIGKILL);
			end_ns = INT64_MAX;
		}
		pause_shortly();
	}
}
