/* engine.h - what runs the containers of leases: a table of functions, and what they take and
 * give. Uses err, buf.
 *
 * An engine serves one place: the store of a node, into which images are pulled, or the volume of a
 * lease, in which its container lives. One thread at a time uses it. What a function says of a
 * container is what is so at that moment; containers outlive the engine and the process, and are
 * found again by their labels (engine_adopt).
 *
 * Every function returns 0, or -1 with err_set: 69 the engine is not there or does not answer, 65
 * what was asked for cannot be (the sentence is for the customer), 66 there is no such container,
 * 75 it may work later, 74 the disk is full or broken. */
#ifndef RNP_REGISTER_AGENT_ENGINE_H
#define RNP_REGISTER_AGENT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"

#define ENGINE_ID_MAX    65  /* bytes with the NUL */
#define ENGINE_LABEL_MAX 130 /* a label's value, with the NUL */
#define ENGINE_CAUSE_MAX 256

struct engine;

/* --- images ---------------------------------------------------------------------------------- */

/* How far a pull is. */
struct engine_pull {
	int layers, layers_total;   /* those that are there whole; total 0: not known */
	int64_t bytes, bytes_total; /* as they are sent; total 0: not known */
	int64_t bytes_per_s;        /* over the last seconds; 0: not known */
};

struct engine_pull_call {
	const char *image; /* a reference with a digest */
	/* Called about twice a second by the thread that pulls; what it returns other than 0 ends
	 * the pull (75). NULL: nobody asks. */
	int (*progress)(void *ctx, const struct engine_pull *p);
	void *ctx;
	int64_t stall_ms, limit_ms; /* without a byte; in all. 0: 10 min, 2 h */
	uint32_t ids;               /* users that a container has: 0 to ids - 1 */
	bool public_only;           /* nothing is asked of a private address (65) */
	/* Called before anything comes, once it is known how much is sent; NULL: nobody. */
	void (*make_room)(void *room_ctx, int64_t bytes);
	void *room_ctx;
};

/* --- containers ------------------------------------------------------------------------------ */

struct engine_mount {
	const char *from,
		*to; /* a directory or file of this machine; where it is inside */
	bool read_only;
};

/* A container to be. Lists end with NULL; a NULL list is empty. All is borrowed. */
struct engine_spec {
	const char *name;           /* [a-zA-Z0-9][a-zA-Z0-9_.-]* */
	const char *image;          /* a reference with a digest; it is in the store */
	const char *const *command; /* NULL: the image's */
	const char *const *env;     /* "NAME=VALUE" */
	const char *const *labels;  /* "name=value" */
	const char *const *devices; /* by CDI, "nvidia.com/gpu=UUID" */
	const struct engine_mount *mounts;
	size_t nmounts;
	const char *netns; /* path of a network namespace, its engine's; NULL: nothing */
	const char *const *dns;          /* servers; NULL list: those of this machine */
	const char *hostname, *work_dir; /* NULL: the engine's, the image's */
	uint32_t first_id, ids;          /* user 0 inside is first_id here, and so on */
	int64_t memory_bytes, shm_bytes;
	int64_t cpu_millis;  /* thousandths of a core */
	int64_t pids, files; /* processes and threads; open files of each. At least 1 */
	int64_t log_bytes_max;
	/* of engines that make a disk and a network (sandbox.h) */
	int64_t disk_bytes, up_bits_per_s;
};

enum engine_status {
	ENGINE_CREATED,
	ENGINE_RUNNING,
	ENGINE_EXITED,
	ENGINE_LOST, /* it ended, or runs on, and nobody knows its exit code */
};

struct engine_state {
	char id[ENGINE_ID_MAX];
	enum engine_status status;
	pid_t pid; /* while it runs, else 0 */
	int exit;  /* once it has exited */
	bool oom;  /* a process of it was killed because its memory was used up */
	int64_t started_ms, ended_ms; /* since 1970; 0: has not */
	int64_t cpu_ns,
		memory_bytes; /* used so far, and at present; 0 once it has ended */
	/* why it ended, in words: "ended with exit code 3", "killed: its memory of 64 MiB ..." */
	char cause[ENGINE_CAUSE_MAX];
	char log[512]; /* the file of its log, see log_lines.h */
};

/* One of the containers that probe finds. */
struct engine_found {
	char id[ENGINE_ID_MAX];
	char label[ENGINE_LABEL_MAX]; /* the value of the label that was asked for */
	bool running;
};

struct engine_list {
	struct engine_found *items;
	size_t n, cap;
};

void engine_list_release(struct engine_list *l);

/* A command that runs beside the container's own, to its end. */
struct engine_exec {
	const char *const *command;
	const char *const *env;
	size_t output_max; /* more than this of stdout and stderr together is thrown away */
	int64_t timeout_ms;
	int exit;          /* set */
	struct buf output; /* appended; the caller releases it */
};

/* A command that somebody talks to while it runs: a session. */
struct engine_talk {
	const char *const *command;
	const char *const *env;
	bool terminal;
	int rows, columns; /* of the terminal; 0: not known */
	/* set: a connection, whose writing end may be shut down. With a terminal it carries its
	 * bytes, else its standard input one way, and frames the other: a byte 1 or 2 for the
	 * stream, three of zero, four of length, highest first. The caller closes it. */
	int fd;
	char id[ENGINE_ID_MAX]; /* set: of the command, not of the container */
};

/* Where a reader of a log is. Begins as ENGINE_LOG_INIT; file and bytes may be kept and put back
 * by another process. */
struct engine_log {
	uint64_t file; /* the number of the log's file; 0: none was read yet */
	int64_t bytes; /* of that file, read so far */
	int fd;        /* private; -1: not open */
};
#define ENGINE_LOG_INIT  \
	{                \
		.fd = -1 \
	}

void engine_log_close(struct engine_log *at);

/* --- the table ------------------------------------------------------------------------------- */

struct engine_ops {
	/* Whether the engine answers, and which containers have that label, whatever its value. */
	int (*probe)(struct engine *e, const char *label, struct engine_list *out);
	/* Brings an image into the store, and checks that it can run here: its architecture, its
	 * users, the disk. An image that is there is not asked for again. */
	int (*pull)(struct engine *e, const struct engine_pull_call *call);
	/* Makes a container of an image that is in the store; id is its id. */
	int (*create)(struct engine *e, const struct engine_spec *spec,
		char id[ENGINE_ID_MAX]);
	/* Starts it, and compares what it may do with what was wished: its users, its
	 * capabilities, whether the kernel filters its calls. */
	int (*start)(struct engine *e, const char *id);
	/* SIGTERM, and SIGKILL after grace_ms. One that has ended is fine. */
	int (*stop)(struct engine *e, const char *id, int64_t grace_ms);
	int (*exec)(struct engine *e, const char *id, struct engine_exec *x);
	/* Begins a session. */
	int (*talk)(struct engine *e, const char *id, struct engine_talk *t);
	/* The terminal of a session has another size. */
	int (*talk_size)(struct engine *e, const struct engine_talk *t);
	/* Writes the exit code of a session whose connection has ended; a command that goes on
	 * without it gets SIGHUP, and SIGKILL soon after. */
	int (*talk_end)(struct engine *e, const struct engine_talk *t, int *code);
	/* Appends what the log has beyond `at`, at most about max bytes and whole lines, and moves
	 * `at` on. Nothing new is fine. */
	int (*logs)(struct engine *e, const char *id, struct engine_log *at, size_t max,
		struct buf *out);
	/* What a container is and does. Waits at most wait_ms for its end. */
	int (*stat)(struct engine *e, const char *id, int64_t wait_ms,
		struct engine_state *out);
	/* Ends and deletes it. One that is not there is fine. */
	int (*remove)(struct engine *e, const char *id);
};

struct engine {
	const struct engine_ops *ops;
};

/* --- words ----------------------------------------------------------------------------------- */

/* Finds the container with that label and value, which may be one of an earlier process. Returns
 * 1 with its id, 0: there is none, -1. */
int engine_adopt(struct engine *e, const char *label, const char *value,
	char id[ENGINE_ID_MAX]);

/* Writes "2 of 7 layers, 1.3 of 3.1 GB, 18 MB/s"; what is not known is left out. Pure. */
void engine_pull_words(struct buf *out, const struct engine_pull *p);

#endif
