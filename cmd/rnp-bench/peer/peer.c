/* peer.c - the client of rnp-bench serve: sessions, requests, and a peer started as a child
 * process. */
#include "cmd/rnp-bench/peer/peer.h"

#include <fcntl.h>
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
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/num.h"
#include "common/json/schema.h"

#define RECORD_BYTES_MAX ((size_t)64 << 10)
#define START_MS         10000
#define LOOK_NS          5000000

/* Copies the host of http://host:port/..., which http_url has checked. */
static int host_of(const char *url, char host[NET_HOST_MAX])
{
	const char *from = strstr(url, "://") + 3;
	size_t n = strcspn(from, "/"), len;

	if (memchr(from, '@', n))
		return err_set(EX_USAGE, "'%s' has a user in it", url);
	if (*from == '[') {
		from++;
		len = strcspn(from, "]");
	} else {
		len = strcspn(from, ":/");
	}
	if (!len || len >= NET_HOST_MAX)
		return err_set(EX_USAGE, "'%s' has no host", url);
	snprintf(host, NET_HOST_MAX, "%.*s", (int)len, from);
	return 0;
}

int peer_fetch(struct peer *p, const char *path, const void *body, size_t body_bytes,
	size_t want, struct http_response *r)
{
	static const char *const unpacked[] = { "Accept-Encoding: identity", NULL };
	struct buf url = BUF_INIT;
	struct http_request q = { .body = body,
		.body_bytes = body_bytes,
		.content_type = "application/octet-stream",
		.headers = unpacked,
		.response_bytes_max = want ? want : RECORD_BYTES_MAX,
		.connect_timeout_ms = PEER_TIMEOUT_MS,
		/* large transfers are expected to reach 4 MB/s */
		.timeout_ms = PEER_TIMEOUT_MS + (int64_t)((body_bytes + want) / 4096),
		.tries = 1 };
	int rc = http_url(&url, p->url, path);

	if (rc == 0) {
		q.url = url.data;
		rc = http_fetch(&p->http, &q, r);
		/* a busy machine has lost a connection that was kept, once in some dozen runs; a
		 * peer that is gone refuses the next one */
		if (rc < 0 && err_get()->code == EX_UNAVAILABLE) {
			err_clear();
			rc = http_fetch(&p->http, &q, r);
		}
	}
	if (rc == 0 && want && r->body.len != want)
		rc = err_set(EX_DATAERR, "'%s' lies about sizes: %zu bytes, not %zu",
			q.url, r->body.len, want);
	buf_release(&url);
	return rc;
}

int peer_open(struct peer *p, const char *url)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = NULL;
	struct buf checked = BUF_INIT;
	int64_t port = 0, bytes = 0;
	int rc = http_url(&checked, url, "");

	*p = (struct peer){ .url = url };
	if (rc == 0)
		rc = host_of(url, p->host);
	if (rc == 0)
		rc = peer_fetch(p, "/v1/peer", NULL, 0, 0, &r);
	if (rc == 0) {
		record = json_parse_object(buf_text(&r.body), r.body.len, url);
		rc = record ? schema_check(record, url, "rnp.peer") : -1;
	}
	if (rc == 0)
		rc = json_opt_i64(record, url, "tcp_port", 1, 65535, &port);
	if (rc == 0)
		rc = json_get_i64(record, url, "bytes_max", 1, (int64_t)PEER_BYTES_MAX,
			&bytes);
	p->tcp_port = (int)port;
	p->bytes_max = (size_t)bytes;
	json_decref(record);
	buf_release(&checked);
	http_response_release(&r);
	return rc;
}

void peer_close(struct peer *p)
{
	http_release(&p->http);
}

int peer_dial(struct peer *p, enum peer_op op)
{
	struct peer_hello h = { PEER_MAGIC, op, 0 };
	int64_t from;
	int fd, rc;

	if (!p->tcp_port)
		return err_set(EX_UNAVAILABLE, "'%s' has no TCP listener", p->url);
	fd = net_connect(p->host, p->tcp_port, PEER_TIMEOUT_MS);
	if (fd < 0)
		return -1;
	from = clock_mono_ns();
	rc = net_send(fd, &h, sizeof h);
	if (rc == 0)
		rc = net_receive(fd, &h, sizeof h);
	p->hello_ns = clock_mono_ns() - from;
	if (rc == 0 && h.magic != PEER_MAGIC)
		rc = err_set(EX_DATAERR, "'%s' port %d is no rnp-bench serve", p->host,
			p->tcp_port);
	if (rc == 0 && h.op != op)
		rc = err_set(EX_TEMPFAIL, "'%s' is busy", p->url);
	if (rc == 0)
		return fd;
	close(fd);
	return -1;
}

/* --- a peer of our own --------------------------------------------------------------------- */

/* Runs in the child: only what is allowed between fork and exec. */
static void become_server(pid_t parent, const char *port_file)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EX_OSERR);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(null, 1);
	execl("/proc/self/exe", "rnp-bench", "serve", "-q", "--listen", "127.0.0.1:0",
		"--port-file", port_file, (char *)NULL);
	_exit(EX_OSERR);
}

/* Waits until the port is in the file. */
static int read_port(struct peer_child *child, const char *path, int64_t *port)
{
	int64_t deadline_ns = clock_mono_ns() + START_MS * INT64_C(1000000);
	struct timespec pause = { 0, LOOK_NS };
	struct buf text = BUF_INIT;
	int rc, status;

	while (access(path, R_OK) < 0) {
		if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
			child->pid = 0; /* the process id may be reused by now */
			return err_set(EX_UNAVAILABLE,
				"rnp-bench serve, the peer on this machine, did not start");
		}
		if (clock_mono_ns() > deadline_ns)
			return err_set(EX_TEMPFAIL,
				"rnp-bench serve, the peer on this machine, does not start");
		nanosleep(&pause, NULL);
	}
	rc = io_read(&text, path, 64);
	if (rc == 0) {
		text.data[strcspn(text.data, "\n")] = '\0';
		rc = num_i64(text.data, "port", 1, 65535, port);
	}
	buf_release(&text);
	return rc;
}

int peer_child_start(struct peer_child *child, char url[NET_HOST_MAX])
{
	const char *tmp = getenv("TMPDIR");
	char dir[4096], path[4110];
	pid_t self = getpid();
	int64_t port;
	int rc;

	snprintf(dir, sizeof dir, "%s/rnp-bench.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return err_sys(0, "cannot make the directory '%s'", dir);
	snprintf(path, sizeof path, "%s/port", dir);
	child->pid = fork();
	if (child->pid == 0)
		become_server(self, path);
	rc = child->pid < 0 ? err_sys(EX_OSERR, "cannot start a process") :
			      read_port(child, path, &port);
	unlink(path);
	rmdir(dir);
	if (rc == 0)
		snprintf(url, NET_HOST_MAX, "http://127.0.0.1:%d", (int)port);
	else
		peer_child_stop(child);
	return rc;
}

void peer_child_stop(struct peer_child *child)
{
	/* killed: it has nothing to lose, and an orderly shutdown would wait for its polls */
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	child->pid = 0;
}
