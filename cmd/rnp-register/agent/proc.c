/* proc.c - reads /proc and cgroups of both versions. */
#include "cmd/rnp-register/agent/proc.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/num.h"

#define ID_HEX 64 /* of a container */

#define TEXT_MAX   65536
#define PF_EXITING 4u /* of /proc/PID/stat's flags */

/* CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP */
const uint64_t proc_rights_allowed = 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 |
	1u << 6 | 1u << 7 | 1u << 8;

static int read_proc(struct buf *out, pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	return io_read(out, path, TEXT_MAX);
}

bool proc_is_of(pid_t pid, const char *id)
{
	struct buf text = BUF_INIT;
	bool is = pid > 1 && read_proc(&text, pid, "cgroup") == 0 &&
		strstr(buf_text(&text), id) != NULL;

	err_clear();
	buf_release(&text);
	return is;
}

bool proc_lives(pid_t pid, const char *id)
{
	struct buf text = BUF_INIT;
	unsigned flags = PF_EXITING;
	const char *at = NULL;

	/* the program's name, in brackets, may have anything in it */
	if (proc_is_of(pid, id) && read_proc(&text, pid, "stat") == 0)
		at = strrchr(buf_text(&text), ')');
	if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		flags = PF_EXITING;
	err_clear();
	buf_release(&text);
	return !(flags & PF_EXITING);
}

int proc_map_read(struct proc_map *out, const char *text)
{
	return sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32, &out->inside,
		       &out->outside, &out->n) == 3 ?
		0 :
		-1;
}

/* Finds "\nNAME:\t" and reads the number behind it. */
static bool line_number(const char *text, const char *name, int base, uint64_t *out)
{
	const char *at = strstr(text, name);
	char *end;

	if (!at)
		return false;
	at += strlen(name);
	*out = strtoull(at, &end, base);
	return end > at && *end == '\n';
}

int proc_rights_read(struct proc_rights *out, const char *text)
{
	uint64_t no_new, seccomp;

	if (!line_number(text, "\nCapBnd:", 16, &out->bounding) ||
		!line_number(text, "\nCapEff:", 16, &out->effective) ||
		!line_number(text, "\nNoNewPrivs:", 10, &no_new) ||
		!line_number(text, "\nSeccomp:", 10, &seccomp))
		return -1;
	out->no_new_privileges = no_new == 1;
	out->filtered = seccomp == 2;
	return 0;
}

static int check_map(pid_t pid, const char *name, uint32_t first_id, uint32_t ids)
{
	struct buf text = BUF_INIT;
	struct proc_map m = { 0 };
	int rc = read_proc(&text, pid, name);

	if (rc == 0 &&
		(proc_map_read(&m, buf_text(&text)) < 0 || m.inside ||
			m.outside != first_id || m.n != ids ||
			strchr(buf_text(&text), '\n')[1]))
		rc = err_set(EX_SOFTWARE,
			"the container's %s is '%.60s', and %" PRIu32 " of %" PRIu32
			" were asked for",
			name, buf_text(&text), first_id, ids);
	buf_release(&text);
	return rc;
}

int proc_check(pid_t pid, uint32_t first_id, uint32_t ids)
{
	struct buf text = BUF_INIT;
	struct proc_rights r;
	int rc = -1;

	if (check_map(pid, "uid_map", first_id, ids) < 0 ||
		check_map(pid, "gid_map", first_id, ids) < 0 ||
		read_proc(&text, pid, "status") < 0)
		goto out;
	if (proc_rights_read(&r, buf_text(&text)) < 0)
		err_set(EX_SOFTWARE, "the kernel does not say what the container may do");
	else if ((r.bounding | r.effective) & ~proc_rights_allowed)
		err_set(EX_SOFTWARE, "the container has capabilities %" PRIx64,
			r.bounding | r.effective);
	else if (!r.no_new_privileges)
		err_set(EX_SOFTWARE, "the container may gain privileges");
	else if (!r.filtered)
		err_set(EX_SOFTWARE, "the container's system calls are not filtered");
	else
		rc = 0;
out:
	buf_release(&text);
	return rc;
}

/* --- cgroups --------------------------------------------------------------------------------- */

/* Writes the folder of the process's cgroup with that controller of version 1, or of version 2.
 * Returns whether it is known. */
static bool cgroup_dir(pid_t pid, const char *controller, char *out, size_t max, bool *v2)
{
	struct buf text = BUF_INIT;
	char *line, *save = NULL;
	bool found = false;

	*v2 = false;
	if (read_proc(&text, pid, "cgroup") < 0)
		err_clear();
	/* "4:memory:/path", or "0::/path" */
	for (line = text.len ? strtok_r(text.data, "\n", &save) : NULL; line;
		line = strtok_r(NULL, "\n", &save)) {
		char *names = strchr(line, ':'),
		     *path = names ? strchr(names + 1, ':') : NULL;
		size_t n = strlen(controller);

		if (!path)
			continue;
		*path++ = '\0';
		names++;
		if (strncmp(names, controller, n) == 0 &&
			(!names[n] || names[n] == ',')) {
			snprintf(out, max, "/sys/fs/cgroup/%s%s", names, path);
			found = true;
			*v2 = false;
			break;
		}
		if (!names[0]) {
			snprintf(out, max, "/sys/fs/cgroup%s", path);
			found = *v2 = true;
		}
	}
	buf_release(&text);
	return found;
}

/* Reads a number of a cgroup's file: the first, or that behind `name`. -1: not known. */
static int64_t cgroup_number(pid_t pid, const char *controller, const char *v1_file,
	const char *v2_file, const char *v1_name, const char *v2_name)
{
	char dir[512], path[600], *end;
	struct buf text = BUF_INIT;
	const char *at, *name;
	bool v2;
	int64_t n = -1;

	if (!cgroup_dir(pid, controller, dir, sizeof dir, &v2))
		return -1;
	snprintf(path, sizeof path, "%s/%s", dir, v2 ? v2_file : v1_file);
	name = v2 ? v2_name : v1_name;
	if (io_read(&text, path, TEXT_MAX) < 0) {
		err_clear();
	} else {
		at = buf_text(&text);
		if (*name)
			at = strstr(at, name);
		if (at)
			n = strtoll(at + strlen(name), &end, 10);
	}
	buf_release(&text);
	return n;
}

int64_t proc_oom_kills(pid_t pid)
{
	return cgroup_number(pid, "memory", "memory.oom_control", "memory.events",
		"oom_kill ", "oom_kill ");
}

int64_t proc_cpu_ns(pid_t pid)
{
	int64_t n = cgroup_number(pid, "cpuacct", "cpuacct.usage", "cpu.stat", "",
		"usage_usec ");
	char dir[512];
	bool v2;

	if (n > 0 && cgroup_dir(pid, "cpuacct", dir, sizeof dir, &v2) && v2)
		n *= 1000;
	return n;
}

int64_t proc_memory_bytes(pid_t pid)
{
	return cgroup_number(pid, "memory", "memory.usage_in_bytes", "memory.current", "",
		"");
}

/* --- the end --------------------------------------------------------------------------------- */

bool proc_wait(pid_t pid, int64_t wait_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { fd, POLLIN, 0 };
	bool ended;

	if (fd < 0)
		return kill(pid, 0) < 0;
	ended = poll(&p, 1, wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX) > 0;
	close(fd);
	return ended;
}

static bool is_called(const char *pid, const char *name, const char *word)
{
	struct buf path = BUF_INIT, comm = BUF_INIT, words = BUF_INIT;
	bool found = false;

	buf_addf(&path, "/proc/%s/comm", pid);
	if (io_read(&comm, buf_text(&path), 64) == 0 && comm.len == strlen(name) + 1 &&
		memcmp(comm.data, name, strlen(name)) == 0) {
		buf_reset(&path);
		buf_addf(&path, "/proc/%s/cmdline", pid);
		found = io_read(&words, buf_text(&path), 1 << 16) == 0 && words.len &&
			memmem(words.data, words.len, word, strlen(word) + 1);
	}
	err_clear();
	buf_release(&path);
	buf_release(&comm);
	buf_release(&words);
	return found;
}

/* Returns how many there were. */
static int kill_all(const char *name, const char *word)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (proc && (e = readdir(proc)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
			is_called(e->d_name, name, word)) {
			kill((pid_t)strtol(e->d_name, NULL, 10), SIGKILL);
			n++;
		}
	if (proc)
		closedir(proc);
	return n;
}

void proc_end(const char *name, const char *word, int64_t wait_ms)
{
	int64_t end_ns = clock_mono_ns() + wait_ms * INT64_C(1000000);

	while (kill_all(name, word) > 0 && clock_mono_ns() < end_ns)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}
