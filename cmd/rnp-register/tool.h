/* tool.h - runs the suite's own programs for a command that is made of others. */
#ifndef RNP_CMD_REGISTER_TOOL_H
#define RNP_CMD_REGISTER_TOOL_H

#include "common/base/buf.h"

/* Runs args[0] with args (NULL at the end): from the directory of this program, or from $PATH where
 * it is not there. in (may be NULL) is its standard input, out gets its standard output, and its
 * standard error is ours. Returns its exit status, 128 and the signal's number where a signal ended
 * it, or -1 with err_set: 71, or 69 where there is no such program. */
int tool_run(const char *const args[], const struct buf *in, struct buf *out);

/* The directory of this program, without a slash at its end; "" where it cannot be told. */
void tool_directory(struct buf *out);

#endif
