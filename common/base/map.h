/* map.h - a whole file as memory, read-only. libc and err only.
 *
 * Model files are replaced whole (rename), never rewritten in place: a mapped file that gets
 * shorter ends us with SIGBUS. */
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
