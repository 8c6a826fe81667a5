/* podman_talk.c - a session in a container: podman gives the connection of a request to the
 * command, both ways, which libcurl cannot; so this one is written by hand. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/net/net.h"

#define HEAD_MAX  8192
#define ANSWER_NS INT64_C(30000000000)
#define HANGUP_NS INT64_C(3000000000)
#define CODE_NS   INT64_C(20000000000)

/* Reads the head of the answer, byte by byte: what follows it is the command's. */
static int read_head(int fd, char head[HEAD_MAX])
{
	int64_t until_ns = clock_mono_ns() + ANSWER_NS;
	size_t n = 0;

	while (n < HEAD_MAX - 1) {
		ssize_t got;

		if (net_wait(fd, POLLIN, until_ns) <= 0)
			return err_set(EX_TEMPFAIL, "podman begins no session");
		got = read(fd, head + n, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_set(EX_UNAVAILABLE,
				"podman has closed a session's connection");
		n++;
		head[n] = '\0';
		if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
			return 0;
	}
	return err_set(EX_UNAVAILABLE, "podman's answer is too long");
}

/* Reads what podman says of a refusal. Returns -1. */
static int fail_start(int fd, int status)
{
	int64_t until_ns = clock_mono_ns() + ANSWER_NS;
	const char *message = "it does not say why";
	char text[4096];
	json_t *said;
	ssize_t n = 0;

	if (net_wait(fd, POLLIN, until_ns) > 0)
		n = read(fd, text, sizeof text);
	said = json_parse_object(text, n < 0 ? 0 : (size_t)n, "podman");
	if (said && json_opt_text(said, "podman", "message", &message) < 0)
		message = "it does not say why";
	podman_fail(status, message);
	json_decref(said);
	return -1;
}

/* Sends the request that begins a command, and takes its connection. Returns it, or -1. */
static int begin(struct podman *p, const struct engine_talk *t)
{
	struct buf request = BUF_INIT, body = BUF_INIT;
	char head[HEAD_MAX] = "";
	int fd, status = 0, rc = -1;

	buf_addf(&body, "{\"Detach\":false,\"Tty\":%s", t->terminal ? "true" : "false");
	if (t->terminal && t->rows > 0 && t->columns > 0)
		buf_addf(&body, ",\"h\":%d,\"w\":%d", t->rows, t->columns);
	buf_addc(&body, '}');
	buf_addf(&request,
		"POST /v4.0.0/libpod/exec/%s/start HTTP/1.1\r\nHost: podman\r\n"
		"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		t->id, body.len, body.data);
	fd = podman_knock(p);
	if (fd < 0 || io_write_all(fd, request.data, request.len) < 0)
		err_sys(EX_UNAVAILABLE, "podman takes no session");
	else if (read_head(fd, head) == 0) {
		if (sscanf(head, "HTTP/1.1 %d", &status) == 1 &&
			(status == 101 || status == 200))
			rc = fd;
		else
			fail_start(fd, status);
	}
	if (rc < 0 && fd >= 0)
		close(fd);
	buf_release(&request);
	buf_release(&body);
	return rc;
}

int podman_talk(struct engine *e, const char *id, struct engine_talk *t)
{
	struct podman *p = podman_of(e);

	t->fd = -1;
	if (podman_exec_make(p, id, t->command, t->env, true, t->terminal, t->id) < 0)
		return -1;
	t->fd = begin(p, t);
	return t->fd < 0 ? -1 : 0;
}

int podman_talk_size(struct engine *e, const struct engine_talk *t)
{
	struct buf path = BUF_INIT;
	int status;

	buf_addf(&path, "exec/%.64s/resize?h=%d&w=%d", t->id, t->rows, t->columns);
	status = podman_call(podman_of(e),
		&(struct podman_call){ .method = "POST", .path = buf_text(&path) }, NULL);
	buf_release(&path);
	return status < 0 ? -1 : 0;
}

/* What the connection's end has left running is told so, and soon ended. */
static void hang_up(pid_t pid, int64_t since_ns)
{
	if (pid > 1)
		kill(pid, clock_mono_ns() - since_ns > HANGUP_NS ? SIGKILL : SIGHUP);
}

int podman_talk_end(struct engine *e, const struct engine_talk *t, int *code)
{
	const struct timespec pause = { 0, 20000000 };
	int64_t begun_ns = clock_mono_ns(), hung_ns = 0;

	for (;;) {
		int64_t now_ns = clock_mono_ns();
		pid_t pid = 0;
		int rc = podman_exec_state(podman_of(e), t->id, code, &pid);

		if (rc <= 0)
			return rc;
		if (now_ns - begun_ns > CODE_NS)
			return err_set(EX_TEMPFAIL, "a session's command does not end");
		/* it may end by itself in this moment */
		if (now_ns - begun_ns > HANGUP_NS / 6 &&
			now_ns - hung_ns > HANGUP_NS / 6) {
			hang_up(pid, begun_ns);
			hung_ns = now_ns;
		}
		nanosleep(&pause, NULL);
	}
}
