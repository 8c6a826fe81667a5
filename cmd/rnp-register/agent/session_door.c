/* session_door.c - who comes through the tunnel: an sshd for each connection, as a user without
 * rights; and what its sessions, programs of that user, ask of us, who may ask the engine. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/podman.h"
#include "cmd/rnp-register/agent/sandbox.h"
#include "cmd/rnp-register/agent/session_parts.h"
#include "cmd/rnp-register/agent/talk.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define DESCRIPTORS 3
#define PROBE_MS    20000
#define PROBE_BYTES 400
#define FAILED_EXIT 255
#define GO_MS       10000
#define LOOK_US     20000

static bool has_room(const struct session_state *s)
{
	return s->nchildren < SESSION_CHILDREN_MAX;
}

/* Forks a child that is ended with us, and in which no signal is blocked. */
static pid_t fork_child(struct session_state *s)
{
	pid_t parent = getpid(), pid = fork();
	sigset_t none;

	if (pid > 0)
		s->children[s->nchildren++] = pid;
	if (pid != 0)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(FAILED_EXIT);
	return 0;
}

/* Terminals of the connection's own, as a user without rights can have them: sshd gives a
 * terminal to group tty, which only root may do where devpts does not do it by itself. Where
 * that cannot be had, those of the machine serve. */
static void own_terminals(void)
{
	const struct group *tty = getgrnam("tty");
	char options[64];

	snprintf(options, sizeof options, "newinstance,gid=%d,mode=620,ptmxmode=666",
		tty ? (int)tty->gr_gid : 0);
	if (tty && unshare(CLONE_NEWNS) == 0 &&
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options);
}

/* The child's half: the lease's network, the lease's user, sshd. */
static void become_sshd(const struct session_state *s, int connection)
{
	const struct session_serve *v = s->serve;
	char config[SESSION_PATH_MAX + 32];
	const char *const argv[] = { v->sshd, "-i", "-e", "-f", config, NULL };
	int netns = *s->file.netns ? open(s->file.netns, O_RDONLY | O_CLOEXEC) : -1;

	snprintf(config, sizeof config, "%s/sshd_config", v->directory);
	own_terminals();
	if ((*s->file.netns && (netns < 0 || setns(netns, CLONE_NEWNET) < 0)) ||
		setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 ||
		setresuid(s->uid, s->uid, s->uid) < 0)
		_exit(FAILED_EXIT);
	/* a change of user forgets it */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (dup2(connection, STDIN_FILENO) >= 0 && dup2(connection, STDOUT_FILENO) >= 0 &&
		syscall(SYS_close_range, 3, ~0U, 0) == 0)
		execv(argv[0], (char *const *)argv);
	_exit(FAILED_EXIT);
}

void session_let_in(struct session_state *s)
{
	int connection = accept4(s->door, NULL, NULL, SOCK_CLOEXEC);

	if (connection >= 0 && has_room(s) && fork_child(s) == 0)
		become_sshd(s, connection);
	if (connection >= 0)
		close(connection);
}

void session_take(struct session_state *s)
{
	int fd = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who = { 0 };
	socklen_t len = sizeof who;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
		who.uid != s->uid || s->nwaiting == SESSION_WAITING_MAX)
		close(fd);
	else
		s->waiting[s->nwaiting++] = fd;
}

/* Tells a session how it ended; text NULL: by an exit code. */
static void answer(int control, int code, const char *text)
{
	json_t *reply = json_object();
	struct buf out = BUF_INIT;

	json_set_i64(reply, "exit", code);
	json_set_text(reply, "error", text);
	json_write(&out, reply);
	(void)!send(control, out.data, out.len, MSG_NOSIGNAL);
	buf_release(&out);
	json_decref(reply);
}

static struct engine *open_engine(const struct session_state *s)
{
	const struct session_file *f = &s->file;

	if (!*f->container || !*f->podman_root) {
		err_set(EX_TEMPFAIL, "the container does not run yet");
		return NULL;
	}
	return podman_open(&(struct podman_config){ .root = f->podman_root,
		.run = f->podman_run,
		.images = *f->podman_images ? f->podman_images : NULL,
		.netns = *f->netns ? f->netns : NULL });
}

/* Nothing of an image runs before its lease is paid for. */
static bool may_run(const struct session_state *s)
{
	return !*s->file.go || access(s->file.go, F_OK) == 0;
}

/* Waits a little: all ranks may be ready, and nobody has said so yet. */
static int wait_for_go(const struct session_state *s)
{
	int64_t until_ns = clock_mono_ns() + GO_MS * INT64_C(1000000);

	while (!may_run(s)) {
		if (clock_mono_ns() > until_ns)
			return err_set(EX_TEMPFAIL,
				"the container waits for the other ranks of its cluster, "
				"unpaid: it runs nothing yet");
		usleep(LOOK_US);
	}
	return 0;
}

/* Whether a command runs in the container and ends well: one of ours, where the image's may not
 * run yet. */
static int probe(struct engine *e, const struct session_file *f)
{
	const char *const ours[] = { SANDBOX_GATE, NULL },
			  *const its[] = { "sh", "-c", "exit 0", NULL };
	const char *const *command = *f->go ? ours : its;
	struct engine_exec x = { .command = command,
		.timeout_ms = PROBE_MS,
		.output_max = PROBE_BYTES };
	int rc = e->ops->exec(e, f->container, &x);

	if (rc == 0 && x.exit)
		rc = err_set(EX_UNAVAILABLE,
			"a command in the container ends with %d: %s", x.exit,
			buf_text(&x.output));
	buf_release(&x.output);
	return rc;
}

/* The child's half of a session: descriptors 0 to 2 become the customer's, 3 the control. */
static void hold(struct session_state *s, const json_t *message,
	const int fds[DESCRIPTORS], int control)
{
	bool probes = json_is_true(json_object_get(message, "probe"));
	struct engine *e;
	struct talk t;
	int code = -1;

	/* out of the way of the numbers that they get */
	control = fcntl(control, F_DUPFD, 16);
	for (int i = 0; i < DESCRIPTORS; i++)
		if (dup2(fcntl(fds[i], F_DUPFD, 16), i) < 0)
			_exit(FAILED_EXIT);
	if (dup2(control, DESCRIPTORS) < 0 ||
		syscall(SYS_close_range, DESCRIPTORS + 1, ~0U, 0) < 0)
		_exit(FAILED_EXIT);
	signal(SIGPIPE, SIG_IGN);
	e = open_engine(s);
	if (e && probes)
		code = probe(e, &s->file);
	else if (e && talk_read(&t, message) == 0 && wait_for_go(s) == 0)
		code = talk_hold(e, s->file.container, &t, 0, 1, 2, DESCRIPTORS);
	answer(DESCRIPTORS, code < 0 ? FAILED_EXIT : code,
		code < 0 ? err_get()->text : NULL);
	podman_close(e);
	_exit(0);
}

/* Receives a packet and its descriptors. Returns the message, or NULL: it is no such packet,
 * and its descriptors are closed. */
static json_t *receive(int fd, int fds[DESCRIPTORS])
{
	static char text[TALK_MESSAGE_MAX];
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec piece = { text, sizeof text };
	struct msghdr m = { .msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof control.space };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	json_t *message = NULL;
	int got = 0;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		got = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), (size_t)got * sizeof(int));
	}
	if (n > 0 && got == DESCRIPTORS && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		message = json_parse_object(text, (size_t)n, "session");
	if (!message)
		for (int i = 0; i < got; i++)
			close(fds[i]);
	err_clear();
	return message;
}

/* Begins what a session asks for. Returns whether control was taken. */
static bool begin(struct session_state *s, const json_t *message,
	const int fds[DESCRIPTORS], int control)
{
	const json_t *rank = json_object_get(message, "rank");

	if (json_is_integer(rank)) {
		if (session_link_take(s, json_integer_value(rank), fds[0], fds[1],
			    control)) {
			close(fds[2]);
			return true;
		}
		answer(control, FAILED_EXIT, "this cluster has no such rank");
	} else if (!has_room(s)) {
		answer(control, FAILED_EXIT, "too many sessions are open");
	} else if (fork_child(s) == 0) {
		hold(s, message, fds, control);
	}
	for (int i = 0; i < DESCRIPTORS; i++)
		close(fds[i]);
	return false;
}

void session_hear(struct session_state *s, size_t i)
{
	int fd = s->waiting[i], fds[DESCRIPTORS] = { -1, -1, -1 };
	json_t *message = receive(fd, fds);

	s->waiting[i] = s->waiting[--s->nwaiting];
	if (!message || !begin(s, message, fds, fd))
		close(fd);
	json_decref(message);
}

void session_reap(struct session_state *s)
{
	for (size_t i = 0; i < s->nchildren;)
		if (waitpid(s->children[i], NULL, WNOHANG) != 0)
			s->children[i] = s->children[--s->nchildren];
		else
			i++;
}
