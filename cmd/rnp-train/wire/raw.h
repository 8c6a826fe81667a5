/* raw.h - bytes in from a file or a pipe, and out to standard output or a file that appears when it
 * is whole. */
#ifndef RNP_TRAIN_WIRE_RAW_H
#define RNP_TRAIN_WIRE_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/io.h"

struct raw_in {
	int fd;
	const char *name;
	bool seekable; /* a regular file, of that many bytes from where it stood */
	uint64_t bytes;
	off_t start;
};

/* the state of zeros is standard output */
struct raw_out {
	struct io_part file;
};

#define RAW_IN_INIT      \
	{                \
		.fd = -1 \
	}

/* Each returns 0, or -1 with err_set. path NULL or "-": standard input or output. */
int raw_open(struct raw_in *in, const char *path);
int raw_read(struct raw_in *in, void *data, size_t len,
	size_t *got);              /* *got < len: the end */
int raw_rewind(struct raw_in *in); /* to where it stood */
void raw_close(struct raw_in *in);

int raw_create(struct raw_out *out, const char *path);
int raw_write(void *out, const void *data, size_t len);
/* All is on the disk, and only raw_finish is to come: see io_part_flush. */
int raw_flush(struct raw_out *out);
int raw_finish(struct raw_out *out); /* the file is there, or replaced */
void raw_drop(struct raw_out *out);  /* what is not finished goes; always at the end */

#endif
