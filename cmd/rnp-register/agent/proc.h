/* proc.h - what the kernel says of a container's first process: that it is that one, whose users it
 * has, what it may do. Uses err. The readers of texts are pure. */
#ifndef RNP_REGISTER_AGENT_PROC_H
#define RNP_REGISTER_AGENT_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether process pid exists and is in a cgroup of the container with this id: numbers of processes
 * are used again. */
bool proc_is_of(pid_t pid, const char *id);

/* Whether it is that, and not about to end: of one that is, the kernel has taken away already what
 * it was and might do. */
bool proc_lives(pid_t pid, const char *id);

/* Reads the first line of /proc/PID/uid_map or gid_map. Returns 0, or -1 (no err_set). Pure. */
struct proc_map {
	uint32_t inside, outside, n;
};
int proc_map_read(struct proc_map *out, const char *text);

/* What /proc/PID/status says. Returns 0, or -1 (no err_set): a line is missing. Pure. */
struct proc_rights {
	uint64_t bounding, effective;     /* capabilities, a bit each */
	bool no_new_privileges, filtered; /* by seccomp */
};
int proc_rights_read(struct proc_rights *out, const char *text);

/* The capabilities that a container of ours may have, at most. */
extern const uint64_t proc_rights_allowed;

/* Compares a running process with what was wished: its users begin at first_id and are ids many, it
 * has no capability beyond the allowed ones, gains none, and its calls are filtered. Returns 0, or
 * -1 with err_set (70): what differs. */
int proc_check(pid_t pid, uint32_t first_id, uint32_t ids);

/* How often the kernel killed a process of that cgroup for want of memory; -1: not known. */
int64_t proc_oom_kills(pid_t pid);
/* Processor time and memory of its cgroup; -1: not known. */
int64_t proc_cpu_ns(pid_t pid);
int64_t proc_memory_bytes(pid_t pid);

/* Kills the processes of that name that have the word among their arguments, such as conmons of a
 * container that has been removed, by its whole id: that of a session goes on for five minutes
 * after it, and has files of the volume open. Waits at most wait_ms until they have gone. */
void proc_end(const char *name, const char *word, int64_t wait_ms);

/* Waits until the process has ended, at most wait_ms. Returns whether it has. */
bool proc_wait(pid_t pid, int64_t wait_ms);

#endif
