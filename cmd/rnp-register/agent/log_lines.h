/* log_lines.h - the file in which conmon keeps what a container writes: "TIME stdout F text", a
 * line each; P in place of F: the line goes on. Uses buf. Pure.
 *
 * Both streams become one, in their order, as a terminal would show them. */
#ifndef RNP_REGISTER_AGENT_LOG_LINES_H
#define RNP_REGISTER_AGENT_LOG_LINES_H

#include <stddef.h>

#include "common/base/buf.h"

/* Appends the text of the whole lines in len bytes to out, and returns how many bytes they took.
 * Bytes that are no such line are taken and add nothing. */
size_t log_lines_read(struct buf *out, const char *text, size_t len);

#endif
