/* mem.c - allocates memory or ends the program, and frees arenas at once. */
#include "common/base/mem.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/exit.h"

#define ARENA_BLOCK_BYTES ((size_t)64 << 10)

struct arena_block {
	struct arena_block *before;
	size_t used, size;
	alignas(max_align_t) char data[];
};

static void *check(void *got, size_t size_bytes)
{
	if (!got && size_bytes) {
		fprintf(stderr, "rnp: out of memory, %zu bytes asked for\n", size_bytes);
		exit(EX_OSERR);
	}
	return got;
}

void *xmalloc(size_t size_bytes)
{
	return check(malloc(size_bytes ? size_bytes : 1), size_bytes);
}

void *xcalloc(size_t count, size_t size_bytes)
{
	if (!count || !size_bytes)
		count = size_bytes = 1;
	return check(calloc(count, size_bytes), size_bytes);
}

void *xrealloc(void *old, size_t size_bytes)
{
	return check(realloc(old, size_bytes ? size_bytes : 1), size_bytes);
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
		check(NULL, SIZE_MAX);
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
		check(NULL, SIZE_MAX);
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
