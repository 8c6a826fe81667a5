/* mem.h - memory allocation that never returns NULL, and arenas. Uses libc only.
 *
 * Running out of memory is the one failure that exits below cmd/ (71, one line). Sizes that
 * come from strangers are checked by their reader before they reach these functions. */
#ifndef RNP_COMMON_BASE_MEM_H
#define RNP_COMMON_BASE_MEM_H

#include <stddef.h>

/* As malloc, calloc, realloc and strdup, never NULL. Release with free(). */
void *xmalloc(size_t size_bytes);
void *xcalloc(size_t count, size_t size_bytes);
void *xrealloc(void *old, size_t size_bytes);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t len);

/* Grows an array of element_bytes each so that it holds at least need of them; *cap is in
 * elements. It doubles, so that appending n elements costs O(n). */
void *xgrow(void *old, size_t *cap, size_t need, size_t element_bytes);

/* An arena: many small allocations that are freed together. ARENA_INIT is empty and releasable. */
struct arena {
	struct arena_block *last;
};
/* clang-format off */
#define ARENA_INIT { 0 }
/* clang-format on */

/* Returns zeroed memory, aligned for any type, valid until arena_release. */
void *arena_alloc(struct arena *a, size_t size_bytes);
char *arena_strdup(struct arena *a, const char *text);
void arena_release(struct arena *a);

#endif
