/* mounts.h - what is mounted, as /proc/PID/mountinfo says it. Uses buf, err, io. */
#ifndef RNP_CMD_REGISTER_AGENT_MOUNTS_H
#define RNP_CMD_REGISTER_AGENT_MOUNTS_H

#include <stdbool.h>

struct mount_row {
	unsigned major, minor; /* of the file system's device */
	const char *root;      /* what of it is mounted */
	const char *point;     /* where */
	/* of the file system; options are the superblock's */
	const char *type, *source, *options;
};

/* Reads a line of mountinfo, which it takes apart in place: spaces in names are written there as
 * \040. The strings of row lie in line. Returns whether it is such a line. Pure. */
bool mount_row_read(struct mount_row *row, char *line);

/* Whether path is below folder, or folder itself. Pure. */
bool path_is_in(const char *path, const char *folder);

/* Calls visit for each line of a mountinfo file ("/proc/self/mountinfo"), in its order, until one
 * returns false. Returns 0, or -1 with err_set: the file cannot be read. */
int mounts_each(const char *file,
	bool (*visit)(const struct mount_row *row, void *context), void *context);

/* Whether something is mounted just at path, in our mount namespace; -1 as mounts_each. */
int mounts_at(const char *path);

/* Takes away all that is mounted below folder, and at the folder itself unless below_only: the last
 * first, lazily, since processes may be in it. Returns 0, or -1 with the first that does not
 * go. */
int mounts_drop(const char *folder, bool below_only);

#endif
