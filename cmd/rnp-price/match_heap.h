/* match_heap.h - binary heaps of nodes by score, with removal from the middle. Pure.
 *
 * A node is in one heap at a time and knows its place in it (heap_at). */
#ifndef RNP_PRICE_MATCH_HEAP_H
#define RNP_PRICE_MATCH_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-price/match_core.h"

#define MATCH_HEAP_NONE 1e300 /* a score that no node has */

struct match_heap {
	struct match_heap_entry {
		double score;
		size_t node;
	} * at; /* freed by the owner */
	size_t n, cap;
};

/* Equal scores go to the lower index. */
bool match_heap_less(const struct match_heap_entry *a, const struct match_heap_entry *b);
void match_heap_push(struct match_heap *h, double score, size_t node,
	struct match_node *nodes);
void match_heap_remove(struct match_heap *h, size_t place, struct match_node *nodes);

#endif
