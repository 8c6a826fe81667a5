/* mem.h - memory allocation that never returns NULL, and arenas. Uses libc only.
 *
 * Running out of memory is the one failure that exits below cmd/ (71, one line), unless the program
 * has set a reserve aside. Sizes that come from strangers are checked by their reader before they
 * reach these functions. */
#ifndef RNP_COMMON_BASE_MEM_H
#define RNP_COMMON_BASE_MEM_H

#include <stdbool.h>
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

/* --- a reserve -------------------------------------------------------------------------------
 *
 * A server must not end because one client asks for too much. It sets address space aside, which
 * takes no memory until it is needed. An allocation that fails then gets a part of it, and the
 * thread notes that memory ran out: it fails the piece of work that it was doing, and frees what
 * that had. Any thread may call these. */

/* Sets about `bytes` bytes aside, at most 64 MiB; 0: none any more. */
void mem_reserve(size_t bytes);

/* Whether an allocation of the calling thread drew on the reserve since it last asked. */
bool mem_ran_out(void);

/* Fills the reserve up with what was freed since. Returns whether less than half of it is there, so
 * that nothing new should begin. */
bool mem_is_short(void);

/* Whether that many bytes could be had at present, beyond the reserve. */
bool mem_has_room(size_t bytes);

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
