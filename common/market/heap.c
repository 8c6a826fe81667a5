/* heap.c - binary heaps of nodes: see parts.h. */
#include "common/market/parts.h"

#include "common/base/mem.h"

static bool is_less(const struct match_index *ix, const struct match_heap_entry *a,
	const struct match_heap_entry *b)
{
	return a->score != b->score ? a->score < b->score :
				      match_goes_before(ix, a->node, b->node);
}

static void put(const struct match_index *ix, struct match_heap *h, size_t i,
	struct match_heap_entry e)
{
	h->at[i] = e;
	ix->nodes[e.node].heap_at = i;
}

/* Moves e, for which place i is free, up or down to where it belongs. */
static void settle(const struct match_index *ix, struct match_heap *h, size_t i,
	struct match_heap_entry e)
{
	for (; i && is_less(ix, &e, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
		put(ix, h, i, h->at[(i - 1) / 2]);
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= h->n)
			break;
		if (c + 1 < h->n && is_less(ix, &h->at[c + 1], &h->at[c]))
			c++;
		if (!is_less(ix, &h->at[c], &e))
			break;
		put(ix, h, i, h->at[c]);
		i = c;
	}
	put(ix, h, i, e);
}

void match_heap_push(const struct match_index *ix, struct match_heap *h, double score,
	size_t node)
{
	h->at = xgrow(h->at, &h->cap, h->n + 1, sizeof *h->at);
	h->n++;
	settle(ix, h, h->n - 1, (struct match_heap_entry){ score, node });
}

void match_heap_remove(const struct match_index *ix, struct match_heap *h, size_t place)
{
	struct match_heap_entry last = h->at[--h->n];

	if (place < h->n)
		settle(ix, h, place, last);
}
