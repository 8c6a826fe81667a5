/* heap.c - binary heaps of nodes: see parts.h. */
#include "common/market/parts.h"

#include "common/base/mem.h"

bool match_heap_less(const struct match_heap_entry *a, const struct match_heap_entry *b)
{
	return a->score != b->score ? a->score < b->score : a->node < b->node;
}

static void put(struct match_heap *h, size_t i, struct match_heap_entry e,
	struct match_node *nodes)
{
	h->at[i] = e;
	nodes[e.node].heap_at = i;
}

/* Moves e, for which place i is free, up or down to where it belongs. */
static void settle(struct match_heap *h, size_t i, struct match_heap_entry e,
	struct match_node *nodes)
{
	for (; i && match_heap_less(&e, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
		put(h, i, h->at[(i - 1) / 2], nodes);
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= h->n)
			break;
		if (c + 1 < h->n && match_heap_less(&h->at[c + 1], &h->at[c]))
			c++;
		if (!match_heap_less(&h->at[c], &e))
			break;
		put(h, i, h->at[c], nodes);
		i = c;
	}
	put(h, i, e, nodes);
}

void match_heap_push(struct match_heap *h, double score, size_t node,
	struct match_node *nodes)
{
	h->at = xgrow(h->at, &h->cap, h->n + 1, sizeof *h->at);
	h->n++;
	settle(h, h->n - 1, (struct match_heap_entry){ score, node }, nodes);
}

void match_heap_remove(struct match_heap *h, size_t place, struct match_node *nodes)
{
	struct match_heap_entry last = h->at[--h->n];

	if (place < h->n)
		settle(h, place, last, nodes);
}
