/* map.h - a whole file as memory, read-only. Uses libc, pthread, err, mem.
 *
 * Model files are replaced as a whole (rename), never rewritten in place: if a mapped file gets
 * shorter, or its disk fails, the next access to the missing part ends the program with 74 and
 * a line that names the file (SIGBUS; the handler is installed with the first file). */
#ifndef RNP_COMMON_BASE_MAP_H
#define RNP_COMMON_BASE_MAP_H

#include <stdint.h>

struct lm_map {
	const unsigned char *data; /* NULL for an empty file, and when closed */
	uint64_t bytes;
};

/* Maps the regular file at path. Returns 0, or -1 with err_set(): 66 or 77 cannot be opened, or
 * it is not a regular file. */
int lm_map_open(struct lm_map *m, const char *path);
void lm_map_close(struct lm_map *m); /* fine if closed, or all zeros */

#endif
