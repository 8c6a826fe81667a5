/* command.h - runs a program of the system with fixed arguments, without a shell, and waits for it
 * no longer than it was told to. Uses buf, clock, err, io. */
#ifndef RNP_CMD_REGISTER_AGENT_COMMAND_H
#define RNP_CMD_REGISTER_AGENT_COMMAND_H

#include <stdint.h>

#include "common/base/buf.h"

/* where programs are looked for, whatever PATH says: the agent is root */
#define COMMAND_PATH "/usr/sbin:/usr/bin:/sbin:/bin"
/* what is read of its output, and of what it says on standard error; the rest is thrown away */
#define COMMAND_BYTES_MAX (1 << 20)

struct command {
	const char *const *args; /* args[0] is a name in COMMAND_PATH; NULL at the end */
	const char *input;       /* its standard input; NULL: nothing */
	int netns;               /* the network namespace in which it runs; -1: ours */
	int64_t timeout_ms;      /* it is killed then */
};

/* Runs it with an environment of PATH and LC_ALL=C alone. out (may be NULL) receives its standard
 * output. Returns 0 where it ended with 0, or -1 with err_set: 69 there is no such program, 75 it
 * took too long, 71 it failed, with the first line that it said on standard error. */
int command_run(const struct command *c, struct buf *out);

/* Whether there is such a program. Returns 0, or -1 with 69 and the package that has it. */
int command_find(const char *name, const char *package);

#endif
