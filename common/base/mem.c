/* mem.c - allocates memory, from a reserve if there is one, or ends the program; frees arenas at
 * once. */
#include "common/base/mem.h"

#include <malloc.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/exit.h"

#define ARENA_BLOCK_BYTES ((size_t)64 << 10)

struct arena_block {
	struct arena_block *before;
	size_t used, size;
	alignas(max_align_t) char data[];
};

/* --- the reserve ---------------------------------------------------------------------------- */

/* Slices of address space: malloc gets one when it fails, in place of all. */
#define SLICE_BYTES ((size_t)1 << 20)
#define SLICES_MAX  64

static struct {
	pthread_mutex_t lock; /* protects the other fields */
	void *slices[SLICES_MAX];
	size_t count, wanted;
} reserve = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local bool ran_out;

/* Maps what a system without overcommitment counts as memory, too. */
static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Gives a slice back to the system. Returns false if there is none. */
static bool open_reserve(void)
{
	bool open;

	pthread_mutex_lock(&reserve.lock);
	open = reserve.count > 0;
	if (open)
		munmap(reserve.slices[--reserve.count], SLICE_BYTES);
	pthread_mutex_unlock(&reserve.lock);
	ran_out |= open;
	return open;
}

static void fill_up(void)
{
	void *slice;

	while (reserve.count < reserve.wanted && (slice = map(SLICE_BYTES)))
		reserve.slices[reserve.count++] = slice;
}

void mem_reserve(size_t bytes)
{
	size_t wanted = (bytes + SLICE_BYTES - 1) / SLICE_BYTES;

	pthread_mutex_lock(&reserve.lock);
	reserve.wanted = wanted < SLICES_MAX ? wanted : SLICES_MAX;
	while (reserve.count > reserve.wanted)
		munmap(reserve.slices[--reserve.count], SLICE_BYTES);
	fill_up();
	pthread_mutex_unlock(&reserve.lock);
}

bool mem_ran_out(void)
{
	bool it = ran_out;

	ran_out = false;
	return it;
}

bool mem_is_short(void)
{
	bool is_short;

	pthread_mutex_lock(&reserve.lock);
	if (reserve.count < reserve.wanted)
		fill_up();
	if (reserve.count < reserve.wanted) {
		malloc_trim(0); /* what was freed may still be malloc's */
		fill_up();
	}
	is_short = reserve.count < (reserve.wanted + 1) / 2;
	pthread_mutex_unlock(&reserve.lock);
	return is_short;
}

bool mem_has_room(size_t bytes)
{
	void *at = map(bytes ? bytes : 1);

	if (at)
		munmap(at, bytes ? bytes : 1);
	return at != NULL;
}

/* --- single allocations --------------------------------------------------------------------- */

static void end(size_t size_bytes)
{
	fprintf(stderr, "rnp: out of memory, %zu bytes asked for\n", size_bytes);
	exit(EX_OSERR);
}

void *xmalloc(size_t size_bytes)
{
	void *got;

	while (!(got = malloc(size_bytes ? size_bytes : 1)) && open_reserve())
		;
	if (!got)
		end(size_bytes);
	return got;
}

void *xcalloc(size_t count, size_t size_bytes)
{
	void *got;

	if (!count || !size_bytes)
		count = size_bytes = 1;
	while (!(got = calloc(count, size_bytes)) && open_reserve())
		;
	if (!got)
		end(size_bytes);
	return got;
}

void *xrealloc(void *old, size_t size_bytes)
{
	void *got;

	while (!(got = realloc(old, size_bytes ? size_bytes : 1)) && open_reserve())
		;
	if (!got)
		end(size_bytes);
	return got;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t len)
{
	char *copy = xmalloc(len + 1);

	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

void *xgrow(void *old, size_t *cap, size_t need, size_t element_bytes)
{
	size_t want = *cap ? *cap : 8;

	if (need <= *cap)
		return old;
	while (want < need && want <= SIZE_MAX / 2)
		want *= 2;
	if (want < need || want > SIZE_MAX / element_bytes)
		end(SIZE_MAX);
	*cap = want;
	return xrealloc(old, want * element_bytes);
}

void *arena_alloc(struct arena *a, size_t size_bytes)
{
	const size_t align = alignof(max_align_t);
	size_t need = (size_bytes + align - 1) & ~(align - 1);
	struct arena_block *b = a->last;
	void *out;

	if (need < size_bytes || need > SIZE_MAX / 2)
		end(SIZE_MAX);
	if (!b || b->size - b->used < need) {
		size_t size = need > ARENA_BLOCK_BYTES ? need : ARENA_BLOCK_BYTES;

		b = xmalloc(sizeof *b + size);
		b->before = a->last;
		b->used = 0;
		b->size = size;
		a->last = b;
	}
	out = b->data + b->used;
	b->used += need;
	memset(out, 0, need);
	return out;
}

char *arena_strdup(struct arena *a, const char *text)
{
	size_t n = strlen(text) + 1;

	return memcpy(arena_alloc(a, n), text, n);
}

void arena_release(struct arena *a)
{
	while (a->last) {
		struct arena_block *before = a->last->before;

		free(a->last);
		a->last = before;
	}
}
