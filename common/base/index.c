/* index.c - grows tables of indices. */
#include "common/base/index.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define SLOTS_MIN 64

static uint64_t seed;
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
	/* the address is random, too, should the kernel have nothing yet */
	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
		seed = (uint64_t)(uintptr_t)&seed ^ (uint64_t)clock_mono_ns();
}

uint64_t hash_seed(void)
{
	pthread_once(&seeded, make_seed);
	return seed;
}

void hash_index_reserve(struct hash_index *ix)
{
	struct hash_index grown = { .n = ix->n };

	if (5 * (ix->n + 1) <= 4 * ix->cap)
		return;
	grown.cap = ix->cap ? ix->cap + ix->cap / 2 : SLOTS_MIN;
	grown.slots = xcalloc(grown.cap, sizeof *grown.slots);
	for (size_t i = 0; i < ix->cap; i++) {
		uint64_t slot = ix->slots[i];
		size_t at = (size_t)((unsigned __int128)(slot >> 32) * grown.cap >> 32);

		if (!slot)
			continue;
		while (grown.slots[at])
			at = at + 1 < grown.cap ? at + 1 : 0;
		grown.slots[at] = slot;
	}
	free(ix->slots);
	*ix = grown;
}

/* What comes after the slot and would have been there moves up, so that every key is found from
 * where it belongs without a gap. */
void hash_index_remove(struct hash_index *ix, uint64_t *slot)
{
	size_t free_at = (size_t)(slot - ix->slots), at = free_at;

	for (;;) {
		uint64_t next;
		size_t home;

		at = at + 1 < ix->cap ? at + 1 : 0;
		next = ix->slots[at];
		if (!next)
			break;
		home = (size_t)((unsigned __int128)(next >> 32) * ix->cap >> 32);
		/* whether the free slot lies between its home and it, going round */
		if ((at + ix->cap - home) % ix->cap < (at + ix->cap - free_at) % ix->cap)
			continue;
		ix->slots[free_at] = next;
		free_at = at;
	}
	ix->slots[free_at] = 0;
	ix->n--;
}

void hash_index_release(struct hash_index *ix)
{
	free(ix->slots);
	memset(ix, 0, sizeof *ix);
}
