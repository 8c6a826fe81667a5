/* gather_index.c - grows tables of indices. */
#include "cmd/rnp-reward/gather_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define SLOTS_MIN 64

void gather_index_reserve(struct gather_index *ix)
{
	struct gather_index grown = { .n = ix->n };

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

void gather_index_release(struct gather_index *ix)
{
	free(ix->slots);
	memset(ix, 0, sizeof *ix);
}
