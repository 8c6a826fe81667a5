/* slices.h - formats many records on all cores, and writes them to standard output in order. Uses
 * out, buf, OpenMP (the team of kernels/dev/team.h). */
#ifndef RNP_CMD_REWARD_EPOCH_SLICES_H
#define RNP_CMD_REWARD_EPOCH_SLICES_H

#include <stddef.h>

#include "common/base/buf.h"

/* Appends the lines of rows from..to-1 to out; on any thread. */
typedef void (*slice_fn)(void *ctx, size_t from, size_t to, struct buf *out);

/* Writes the lines of rows 0..n-1, `rows` of them in a slice. One thread writes what is ready while
 * the others format what comes next. Memory: the text of 32 slices. Returns 0, or -1 with
 * err_set(EX_IOERR). */
int slices_write(size_t n, size_t rows, slice_fn fn, void *ctx);

#endif
