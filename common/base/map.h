/* map.h - a whole file as memory, read-only. Uses libc, pthread, err, mem.
 *
 * Model files are replaced whole (rename), never rewritten in place: when a mapped file gets
 * shorter, or its disk fails, the next look at what is missing ends the program with 74 and a
 * line that names the file (SIGBUS; the handler is installed with the first file). */
#ifndef RNP_COMMON_BASE_MAP_H
#define RNP_COMMON_BASE_MAP_H

#include <stdint.h>

struct lm_map {
	const unsigned char *data; /* NULL for an empty file, and when closed */
	uint64_t bytes;
};

/* Map the regular file at path. Returns 0, or -1 with err_set(): 66 or 77 cannot be opened, or
 * it is no regular file. */
int lm_map_open(struct lm_map *m, const char *path);
void lm_map_close(struct lm_map *m); /* also of a closed one, or one of zeros */

#endif
