/* session.c - rnp-register session: what a lease's sshd runs for whoever logs in, and the program
 * beside the container that it asks. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/agent/session_serve.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/key.h"

#define REPLY_MAX 4096

static const char *directory, *key_path, *passphrase_file, *sshd_path = "/usr/sbin/sshd",
							   *ssh_path = "/usr/bin/ssh";
static bool serves, probes;
static int64_t rank = -1;

static const struct opt opts[] = {
	OPT(TEXT, "dir", &directory, "D", "of the lease, with its session.json",
		.required = true),
	OPT_SWITCH("serve", &serves, "be the program beside the container"),
	OPT_IN(I64, "rank", &rank, "N", 0, 1000000, "bring the packets of this rank"),
	OPT_SWITCH("probe", &probes, "try whether a command runs in the container"),
	OPT(TEXT, "sshd", &sshd_path, "F", "(default /usr/sbin/sshd)"),
	OPT(TEXT, "ssh", &ssh_path, "F", "(default /usr/bin/ssh)"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	{ 0 },
};

static void say(const char *text)
{
	prog_warn("%s", text);
}

static int serve(void)
{
	char program[PATH_MAX];
	struct key key = KEY_INIT;
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	sigset_t set;
	int rc = -1;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	program[n < 0 ? 0 : n] = '\0';
	if (n < 0)
		err_sys(EX_OSERR, "cannot read /proc/self/exe");
	else if (key_load(&key, key_path, passphrase_file) == 0)
		rc = session_serve(&(struct session_serve){ .directory = directory,
			.key = &key,
			.program = program,
			.sshd = sshd_path,
			.ssh = ssh_path,
			.say = say });
	key_release(&key);
	return rc;
}

/* --- the session's own half
 * --------------------------------------------------------------------- */

static void add_size(json_t *message)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
		json_set_i64(message, "rows", size.ws_row);
		json_set_i64(message, "columns", size.ws_col);
	}
}

/* What is wanted, by the options that sshd was made to give, and its customer's words. */
static json_t *make_message(void)
{
	json_t *message = json_object();

	if (rank >= 0) {
		json_set_i64(message, "rank", rank);
	} else if (probes) {
		json_set_bool(message, "probe", true);
	} else {
		json_set_text(message, "command", getenv("SSH_ORIGINAL_COMMAND"));
		json_set_bool(message, "terminal", isatty(STDIN_FILENO));
		json_set_text(message, "term", getenv("TERM"));
		add_size(message);
	}
	return message;
}

/* Sends a message, with our three descriptors or none. */
static int send_message(int fd, const json_t *message, bool with_descriptors)
{
	const int fds[3] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof fds)];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof fds),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS } };
	struct buf text = BUF_INIT;
	struct iovec piece;
	struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1 };
	int rc;

	json_write(&text, message);
	piece = (struct iovec){ text.data, text.len };
	if (with_descriptors) {
		memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
		m.msg_control = control.space;
		m.msg_controllen = sizeof control.space;
	}
	rc = sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
	if (rc < 0 && errno == EMSGSIZE)
		err_set(EX_DATAERR, "the command is too long");
	else if (rc < 0)
		err_sys(EX_UNAVAILABLE, "the lease takes no session");
	buf_release(&text);
	return rc;
}

/* Reads how it ended. Returns the exit code, or -1. */
static int read_reply(int fd)
{
	char text[REPLY_MAX];
	ssize_t n = recv(fd, text, sizeof text, 0);
	const char *error = NULL;
	int64_t code = 0;
	json_t *reply;
	int rc = -1;

	if (n <= 0)
		return err_set(EX_UNAVAILABLE, "the lease has ended");
	reply = json_parse_object(text, (size_t)n, "session");
	if (reply && json_opt_text(reply, "session", "error", &error) == 0 &&
		json_get_i64(reply, "session", "exit", 0, 255, &code) == 0)
		rc = error ? err_set(EX_UNAVAILABLE, "%s", error) : (int)code;
	json_decref(reply);
	return rc;
}

/* Waits for the end; sizes of the terminal are passed on meanwhile. */
static int wait_end(int fd, int sizes)
{
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { sizes, POLLIN, 0 } };

	for (;;) {
		struct signalfd_siginfo unused;
		json_t *message;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_sys(EX_OSERR, "cannot wait");
		if (p[0].revents)
			return read_reply(fd);
		if (!p[1].revents || read(sizes, &unused, sizeof unused) < 0)
			continue;
		message = json_object();
		add_size(message);
		if (send_message(fd, message, false) < 0)
			err_clear();
		json_decref(message);
	}
}

/* What passes here is for the terminal of the container: this one changes nothing. */
static void set_raw(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) == 0) {
		cfmakeraw(&t);
		tcsetattr(STDIN_FILENO, TCSANOW, &t);
	}
}

static int session(void)
{
	struct sockaddr_un at;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sizes, rc = -1;
	json_t *message = make_message();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sizes = signalfd(-1, &set, SFD_CLOEXEC);
	if (session_socket(directory, &at) < 0)
		goto out;
	if (fd < 0 || sizes < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
		err_sys(EX_UNAVAILABLE, "the lease takes no session");
		goto out;
	}
	if (isatty(STDIN_FILENO))
		set_raw();
	if (send_message(fd, message, true) == 0)
		rc = wait_end(fd, sizes);
out:
	if (fd >= 0)
		close(fd);
	if (sizes >= 0)
		close(sizes);
	json_decref(message);
	return rc;
}

static int run(int n, char **args)
{
	int rc = serves ? serve() : session();

	(void)n, (void)args;
	return rc < 0 ? err_report() : rc;
}

const struct command command_session = {
	.name = "session",
	.summary = "What a lease's sshd runs, and the program beside its container.",
	.group = "node",
	.details =
		"Without --serve it is a session: the command that somebody asked his SSH for, or "
		"a shell, in the\ncontainer of the lease. A node's agent starts the one with "
		"--serve, and a lease's sshd the others.",
	.opts = opts,
	.run = run,
};
