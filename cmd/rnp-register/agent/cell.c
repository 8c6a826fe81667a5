/* cell.c - the agent's end of a cell. What comes from the child is a stranger's: lengths are
 * bounded, and nothing is waited for without an end. */
#include "cmd/rnp-register/agent/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/cell_parts.h"
#include "cmd/rnp-register/agent/process.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define LOOK_MS   100
#define FREE_FROM 10 /* descriptors from here on stand in nobody's way */

/* --- words ----------------------------------------------------------------------------------- */

/* The child has gone: says how. */
static int say_gone(struct cell *c)
{
	char words[PROCESS_WORDS_MAX];
	int status = 0;

	while (c->pid && waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	c->pid = 0;
	process_words(status, words);
	return err_set(EX_OSERR, "what packs and unpacks files %s", words);
}

/* Waits until the socket is ready, the time is over, or it is to stop. */
static int wait_for(struct cell *c, short events)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	for (;;) {
		if (c->config->stop && c->config->stop(c->config->ctx))
			return err_set(EX_TEMPFAIL, "it is to end");
		if (clock_mono_ns() > c->until_ns)
			return err_set(EX_TEMPFAIL,
				"packing or unpacking is not done after %lld s",
				(long long)(c->config->timeout_ms / 1000));
		if (poll(&p, 1, LOOK_MS) > 0)
			return 0;
	}
}

static int put(struct cell *c, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n;

		if (wait_for(c, POLLOUT) < 0)
			return -1;
		n = send(c->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return say_gone(c);
		if (n > 0)
			p += n, len -= (size_t)n;
	}
	return 0;
}

static int take(struct cell *c, void *to, size_t len)
{
	char *p = to;

	while (len > 0) {
		ssize_t n;

		if (wait_for(c, POLLIN) < 0)
			return -1;
		n = recv(c->fd, p, len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return say_gone(c);
		if (n > 0)
			p += n, len -= (size_t)n;
	}
	return 0;
}

static int tell(struct cell *c, enum cell_type type, const void *data, size_t len)
{
	const struct cell_head h = { .type = type, .bytes = (int64_t)len };

	return put(c, &h, sizeof h) < 0 ? -1 : put(c, data, len);
}

/* A fetch has failed: the child hears of it, and says it again as its own error. */
static int tell_error(struct cell *c)
{
	const struct err *e = err_get();
	const struct cell_head h = { .type = CELL_ERROR,
		.code = (uint32_t)e->code,
		.bytes = (int64_t)strlen(e->text) };
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof text, "%s", e->text);
	return put(c, &h, sizeof h) < 0 ? -1 : put(c, text, (size_t)h.bytes);
}

static int say_odd(void)
{
	return err_set(EX_OSERR,
		"what packs and unpacks files says what it was not asked");
}

/* Reads a message into out. Returns its type; -1 with err_set, also where it is an error of the
 * child's. */
static int hear(struct cell *c, int64_t max, struct buf *out)
{
	struct cell_head h;

	buf_reset(out);
	if (take(c, &h, sizeof h) < 0)
		return -1;
	if (h.bytes < 0 || h.bytes > (h.type == CELL_ERROR ? ERR_TEXT_MAX : max))
		return err_set(EX_OSERR, "what packs and unpacks files says too much");
	if (h.bytes && take(c, buf_reserve(out, (size_t)h.bytes), (size_t)h.bytes) < 0)
		return -1;
	out->len = (size_t)h.bytes;
	if (h.type > CELL_ERROR)
		return say_odd();
	if (h.type != CELL_ERROR)
		return (int)h.type;
	err_set(h.code > 0 && h.code < 256 ? (int)h.code : EX_OSERR, "%.*s",
		(int)out->len, out->len ? out->data : "");
	return *err_get()->text ? -1 : say_odd();
}

/* --- its life -------------------------------------------------------------------------------- */

/* The child's half, before it is another program: nothing here may allocate. */
static void become(const char *program, int sock, int dir)
{
	static const char *const argv[] = { "rnp-register", "work", "--files", NULL };
	/* which nobody asks: it has no network */
	static char registry[] = "RNP_REGISTRY=http://127.0.0.1";
	static char *const environment[] = { registry, NULL };
	sigset_t none;
	int null;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* neither stands where the other is to go */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, FREE_FROM);
	dir = fcntl(dir, F_DUPFD_CLOEXEC, FREE_FROM);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (sock < 0 || dir < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0 || dup2(sock, STDIN_FILENO) < 0 ||
		dup2(dir, 3) < 0 || close_range(4, ~0U, 0) < 0)
		_exit(126);
	execve(program, (char *const *)argv, environment);
	_exit(127);
}

static int write_map(pid_t pid, const char *name, uint32_t first, uint32_t n)
{
	char path[64], text[64];
	int fd, rc;

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	snprintf(text, sizeof text, "0 %u %u\n", first, n);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	rc = fd < 0 || io_write_all(fd, text, strlen(text)) < 0 ?
		err_sys(EX_OSERR, "cannot give users to what packs and unpacks files") :
		0;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* It has a namespace of users; only we may say which. */
static int give_users(struct cell *c)
{
	struct buf nothing = BUF_INIT;
	int type = hear(c, 0, &nothing);

	buf_release(&nothing);
	if (type < 0)
		return -1;
	if (type != CELL_USERS)
		return say_odd();
	if (write_map(c->pid, "uid_map", c->config->first_id, c->config->ids) < 0 ||
		write_map(c->pid, "gid_map", c->config->first_id, c->config->ids) < 0)
		return -1;
	return tell(c, CELL_USERS, NULL, 0);
}

int cell_open(struct cell *c, const struct cell_config *config)
{
	const char *program = config->program ? config->program : "/proc/self/exe";
	int ends[2];

	*c = (struct cell){ .config = config,
		.fd = -1,
		.until_ns = clock_mono_ns() + config->timeout_ms * INT64_C(1000000) };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(EX_OSERR, "cannot start what packs and unpacks files");
	c->fd = ends[0];
	c->pid = fork();
	if (c->pid == 0)
		become(program, ends[1], config->dir);
	close(ends[1]);
	if (c->pid < 0) {
		c->pid = 0;
		return err_sys(EX_OSERR, "cannot start what packs and unpacks files");
	}
	return give_users(c);
}

void cell_close(struct cell *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	if (!c->pid)
		return;
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	c->pid = 0;
}

static void begin(struct cell *c)
{
	c->until_ns = clock_mono_ns() + c->config->timeout_ms * INT64_C(1000000);
}

/* --- what it does ---------------------------------------------------------------------------- */

/* The child wants a blob. */
static int answer(struct cell *c, const struct cell_unpacking *u, const struct buf *asked,
	struct buf *blob)
{
	unsigned char hash[SHA256_BYTES];
	struct cell_get get;

	if (asked->len != sizeof get)
		return say_odd();
	memcpy(&get, asked->data, sizeof get);
	get.sha256_hex[sizeof get.sha256_hex - 1] = '\0';
	if (get.max < 1 || get.max > CELL_BLOB_MAX ||
		manifest_hash_read(hash, get.sha256_hex) < 0)
		return say_odd();
	buf_reset(blob);
	if (u->fetch(u->ctx, get.sha256_hex, (size_t)get.max, blob) < 0)
		return tell_error(c);
	return tell(c, CELL_BLOB, blob->data, blob->len);
}

int cell_unpack(struct cell *c, const struct cell_unpacking *u)
{
	struct cell_unpack order = { .bytes_max = u->bytes_max };
	struct buf said = BUF_INIT, blob = BUF_INIT;
	int type, rc;

	begin(c);
	snprintf(order.sha256_hex, sizeof order.sha256_hex, "%s", u->sha256_hex);
	snprintf(order.path, sizeof order.path, "%s", u->path);
	rc = tell(c, CELL_UNPACK, &order, sizeof order);
	while (rc == 0) {
		type = hear(c, sizeof(struct cell_get), &said);
		if (type == CELL_DONE)
			break;
		rc = type == CELL_GET ? answer(c, u, &said, &blob) :
			type < 0      ? -1 :
					say_odd();
	}
	buf_release(&said);
	buf_release(&blob);
	return rc;
}

static int check_blobs(const struct manifest_blob *blobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (blobs[i].bytes < 1 ||
			blobs[i].bytes >
				(i + 1 < n ? MANIFEST_BLOB_BYTES_MAX : CELL_BLOB_MAX))
			return say_odd();
	return n ? 0 : say_odd();
}

int cell_pack(struct cell *c, const char *name, int64_t bytes_max,
	struct manifest_blob **blobs, size_t *n)
{
	struct cell_pack_name order = { .bytes_max = bytes_max };
	const int64_t most = (MANIFEST_BLOBS_MAX + 1) * (int64_t)sizeof **blobs;
	struct buf said = BUF_INIT;
	int type, rc;

	begin(c);
	*blobs = NULL;
	snprintf(order.name, sizeof order.name, "%s", name);
	if (tell(c, CELL_PACK, &order, sizeof order) < 0)
		return -1;
	type = hear(c, most, &said);
	*n = said.len / sizeof **blobs;
	rc = type < 0 ? -1 :
		type != CELL_BLOBS || said.len % sizeof **blobs ?
			say_odd() :
			check_blobs((void *)said.data, *n);
	if (rc == 0)
		*blobs = (struct manifest_blob *)(void *)buf_take(&said);
	buf_release(&said);
	return rc;
}

int cell_read(struct cell *c, size_t blob, int64_t bytes, struct buf *out)
{
	int64_t which = (int64_t)blob;
	int type;

	begin(c);
	if (tell(c, CELL_READ, &which, sizeof which) < 0)
		return -1;
	type = hear(c, bytes, out);
	if (type < 0)
		return -1;
	return type == CELL_BLOB && (int64_t)out->len == bytes ? 0 : say_odd();
}
