/* podman_stat.c - what a container is and does: podman's word, held against the kernel's.
 *
 * The end of a container is seen by the end of its first process, at once and without podman; what
 * podman then says is its exit code. Podman's own wait may be 20 s late, and where its conmon was
 * killed it says "running" for ever. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/log_lines.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "cmd/rnp-register/agent/proc.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/num.h"

/* until conmon has written the exit code of a container that ended */
#define EXIT_MS   60000
#define LOOK_MS   20
#define LOG_PIECE ((size_t)64 << 10)

int podman_inspect(struct podman *p, const char *id, struct podman_seen *out)
{
	struct buf path = BUF_INIT;
	json_t *reply = NULL;
	int status, rc = -1;

	buf_addf(&path, "containers/%.64s/json", id);
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	if (status >= 0)
		rc = reply ? podman_state_read(out, reply) :
			     err_set(EX_UNAVAILABLE,
				     "podman does not say what a container is");
	json_decref(reply);
	buf_release(&path);
	return rc;
}

/* --- why it ended ---------------------------------------------------------------------------- */

static void say(struct engine_state *s, const char *words)
{
	snprintf(s->cause, sizeof s->cause, "%s", words);
}

static void say_exit(struct engine_state *s)
{
	int n = s->exit - 128;

	if (s->oom && s->exit)
		say(s, "its memory was used up, and the kernel killed it");
	else if (n > 0 && n < NSIG && sigabbrev_np(n))
		snprintf(s->cause, sizeof s->cause, "ended with exit code %d (SIG%s)",
			s->exit, sigabbrev_np(n));
	else
		snprintf(s->cause, sizeof s->cause, "ended with exit code %d", s->exit);
}

/* The container runs, and conmon, which would learn its exit code, does not. */
static bool conmon_is_gone(const struct podman_seen *s)
{
	return s->conmon > 0 && kill(s->conmon, 0) < 0;
}

/* The process has ended, and podman does not know yet: conmon writes the exit code. */
static int settle(struct podman *p, const char *id, struct podman_seen *s)
{
	int64_t end_ns = clock_mono_ns() + INT64_C(1000000) * EXIT_MS;
	pid_t conmon = s->conmon;

	while (s->state.status == ENGINE_RUNNING && !proc_is_of(s->pid, id)) {
		bool gone = conmon > 0 && kill(conmon, 0) < 0;

		if (podman_inspect(p, id, s) < 0)
			return -1;
		if (s->state.status != ENGINE_RUNNING || proc_is_of(s->pid, id))
			break;
		/* it may have written the code as the last thing it did: hence the look before */
		if (gone || clock_mono_ns() > end_ns) {
			s->state.status = ENGINE_LOST;
			say(&s->state,
				"the supervisor was killed: its exit code is lost");
			return 0;
		}
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
	}
	return 0;
}

/* Fills what the kernel knows of a running container. */
static void look_at_kernel(struct podman_seen *s)
{
	struct engine_state *t = &s->state;
	int64_t n;

	t->pid = s->pid;
	n = proc_cpu_ns(s->pid);
	t->cpu_ns = n > 0 ? n : 0;
	n = proc_memory_bytes(s->pid);
	t->memory_bytes = n > 0 ? n : 0;
	/* podman learns only of the first process */
	t->oom |= proc_oom_kills(s->pid) > 0;
}

/* What was seen running before and still does. Returns whether it is known. */
static bool recall(const struct podman *p, const char *id, struct podman_seen *s)
{
	if (!p->pid || strcmp(p->running, id) != 0 || !proc_is_of(p->pid, id) ||
		(p->conmon && kill(p->conmon, 0) < 0))
		return false;
	*s = (struct podman_seen){ .pid = p->pid, .conmon = p->conmon };
	s->state.status = ENGINE_RUNNING;
	s->state.started_ms = p->started_ms;
	snprintf(s->state.id, sizeof s->state.id, "%s", id);
	return true;
}

static void note_running(struct podman *p, const struct podman_seen *s)
{
	p->pid = s->state.status == ENGINE_RUNNING ? s->pid : 0;
	p->conmon = s->conmon;
	p->started_ms = s->state.started_ms;
	snprintf(p->running, sizeof p->running, "%s", s->state.id);
}

/* Version 4.3 names conmon's process in a file alone. */
static void find_conmon(struct podman_seen *s)
{
	struct buf text = BUF_INIT;
	int64_t pid = 0;

	if (!s->conmon && s->conmon_file[0] && io_read(&text, s->conmon_file, 32) == 0 &&
		num_i64(buf_text(&text), "conmon", 2, INT32_MAX, &pid) == 0)
		s->conmon = (pid_t)pid;
	err_clear();
	buf_release(&text);
}

static int look_at(struct podman *p, const char *id, struct podman_seen *s)
{
	if (podman_inspect(p, id, s) < 0)
		return -1;
	if (s->state.status == ENGINE_RUNNING)
		find_conmon(s);
	return settle(p, id, s);
}

void podman_oom_file(struct buf *out, const struct podman *p)
{
	buf_addf(out, "%s/oom", p->run);
}

/* Of a container that ended at once by it, its cgroup has gone with what it counted. conmon
 * has left an empty file where it was started; podman looks for it elsewhere. */
static bool conmon_saw_oom(const struct podman *p)
{
	struct buf path = BUF_INIT;
	bool seen;

	podman_oom_file(&path, p);
	seen = access(buf_text(&path), F_OK) == 0;
	buf_release(&path);
	return seen;
}

int podman_stat(struct engine *e, const char *id, int64_t wait_ms,
	struct engine_state *out)
{
	struct podman *p = podman_of(e);
	struct podman_seen s;
	bool oom = false;

	if (!recall(p, id, &s) && look_at(p, id, &s) < 0)
		return -1;
	if (s.state.status == ENGINE_RUNNING && wait_ms > 0) {
		look_at_kernel(&s);
		oom = s.state.oom;
		if (proc_wait(s.pid, wait_ms) && look_at(p, id, &s) < 0)
			return -1;
	}
	if (s.state.status == ENGINE_RUNNING) {
		look_at_kernel(&s);
		if (conmon_is_gone(&s)) {
			s.state.status = ENGINE_LOST;
			say(&s.state,
				"the supervisor was killed: the container runs on unwatched");
		}
	}
	s.state.oom |= oom;
	if (s.state.status == ENGINE_EXITED && !s.state.oom)
		s.state.oom = conmon_saw_oom(p);
	if (s.state.status == ENGINE_EXITED)
		say_exit(&s.state);
	note_running(p, &s);
	*out = s.state;
	return 0;
}

/* --- the log --------------------------------------------------------------------------------- */

/* conmon begins a new file when the log is full. What is left of the old one is read first: it is
 * still open here. */
static int open_log(struct engine_log *at, const char *path)
{
	struct stat now, held;
	int fd;

	if (at->fd >= 0 && fstat(at->fd, &held) == 0 && held.st_size > at->bytes)
		return 0;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(EX_NOINPUT, "cannot read the log");
	if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode)) {
		close(fd);
		return err_set(EX_IOERR, "the log is no file");
	}
	if ((uint64_t)now.st_ino != at->file || now.st_size < at->bytes)
		at->bytes = 0;
	engine_log_close(at);
	at->fd = fd;
	at->file = (uint64_t)now.st_ino;
	return 0;
}

int podman_logs(struct engine *e, const char *id, struct engine_log *at, size_t max,
	struct buf *out)
{
	struct podman *p = podman_of(e);
	size_t piece = max < LOG_PIECE ? LOG_PIECE : max;
	struct buf path = BUF_INIT, text = BUF_INIT;
	ssize_t got;
	int rc = -1;

	buf_addf(&path, "%s/overlay-containers/%.64s/userdata/ctr.log", p->root, id);
	if (open_log(at, buf_text(&path)) < 0)
		goto out;
	buf_reserve(&text, piece);
	got = pread(at->fd, text.data, piece, at->bytes);
	if (got < 0) {
		err_sys(EX_IOERR, "cannot read the log");
		goto out;
	}
	text.len = (size_t)got;
	at->bytes += (int64_t)log_lines_read(out, text.data, text.len);
	rc = 0;
out:
	buf_release(&path);
	buf_release(&text);
	return rc;
}
