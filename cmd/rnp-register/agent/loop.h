/* loop.h - files as block devices: loop(4) by its ioctls. Needs CAP_SYS_ADMIN. Uses buf, err,
 * num. */
#ifndef RNP_CMD_REGISTER_AGENT_LOOP_H
#define RNP_CMD_REGISTER_AGENT_LOOP_H

#include <stdint.h>

#include "common/base/buf.h"

/* Makes a block device of an open file. It goes when its last user closes it, so that whoever
 * mounts it keeps the returned file until then, and a process that dies leaves none behind.
 * *device gets its path. Returns the open device, or -1 with err_set: 69 this machine has
 * none, 71. */
int loop_attach(int file, struct buf *device);

/* Calls visit with each loop device's name ("loop0") and the file behind it, as the kernel names it
 * (" (deleted)" behind one whose name is gone), and its size. Returns 0; -1 with err_set where
 * /sys is not there. */
int loop_each(void (*visit)(const char *name, const char *file, int64_t size_bytes,
		      void *context),
	void *context);

#endif
