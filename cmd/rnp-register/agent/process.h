/* process.h - programs of others that run beside us and are started again when they end. Uses libc,
 * clock, err. Prints nothing. */
#ifndef RNP_CMD_REGISTER_AGENT_PROCESS_H
#define RNP_CMD_REGISTER_AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A program that is kept running; belongs to one thread, the one that lives longest: the kernel
 * ends the program with the thread that started it. */
struct process {
	const char *const *argv; /* argv[0]: its path; borrowed */
	/* file descriptors that become its 0 and 1; -1: /dev/null. Its 2 is ours. */
	int in, out;
	pid_t pid;                    /* 0: does not run */
	int64_t started_ns, again_ns; /* of the monotonic clock */
	int64_t wait_ms;              /* before it is started again, 0 at first */
	int status;                   /* of wait(2), of the last one that ended */
};
#define PROCESS_INIT(argv_)                          \
	{                                            \
		.argv = (argv_), .in = -1, .out = -1 \
	}

/* Starts it once. Returns 0, or -1 (71, or 69: there is no such program). */
int process_start(struct process *p);

/* Looks whether it has ended. Returns true once for each end, with p->status. */
bool process_ended(struct process *p);

/* Starts it where it does not run and its time has come: at once at first, then after 250 ms,
 * doubled up to 10 s while it ends within 30 s. Returns true if it has been started. What
 * failed is tried again. */
bool process_keep(struct process *p);

/* Ends it by SIGTERM, after grace_ms by SIGKILL, and waits. */
void process_end(struct process *p, int64_t grace_ms);

/* Writes what became of it: "ended with 3", "ended by signal 9". */
#define PROCESS_WORDS_MAX 48
void process_words(int status, char out[PROCESS_WORDS_MAX]);

/* The start of a process in clock ticks since the machine's, which tells two with one number apart.
 * Returns -1 if it is gone. */
int64_t process_start_ticks(pid_t pid);

#endif
