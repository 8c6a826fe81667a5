/* tool.h - runs the suite's own programs for a command that is composed of others. */
#ifndef RNP_CMD_REGISTER_NODE_TOOL_H
#define RNP_CMD_REGISTER_NODE_TOOL_H

#include "common/base/buf.h"

/* Runs args[0] with args (NULL at the end): from the directory of this program, or from $PATH
 * if it is not there. in (may be NULL) is its standard input, out receives its standard output,
 * and its standard error is ours. Returns its exit status, 128 plus the signal's number if a
 * signal ended it, or -1 with err_set: 71, or 69 if there is no such program. */
int tool_run(const char *const args[], const struct buf *in, struct buf *out);

/* Returns the directory of this program, without a trailing slash; "" if it is unknown. */
void tool_directory(struct buf *out);

#endif
