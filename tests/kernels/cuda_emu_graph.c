/* cuda_emu_graph.c - what streams of cuda_emu.h capture: operations and their arguments, in order,
 * which a graph runs again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_emu.h"

int emu_captures;

/* The start of a node's data, aligned for any type. */
#define NODE_BYTES 64

bool emu_kept(struct emu_stream *s, void (*run)(void *what), const void *what,
	size_t bytes)
{
	struct emu_node *n;
	void *at;

	if (!s || !s->capturing)
		return false;
	if (posix_memalign(&at, 64, NODE_BYTES + bytes)) {
		fprintf(stderr, "cuda emulation: no memory for a graph\n");
		abort();
	}
	n = at;
	n->next = NULL;
	n->run = run;
	memcpy((char *)at + NODE_BYTES, what, bytes);
	*s->end = n;
	s->end = &n->next;
	return true;
}

void emu_nodes_free(struct emu_node *first)
{
	while (first) {
		struct emu_node *next = first->next;

		free(first);
		first = next;
	}
}

void emu_nodes_run(struct emu_node *first)
{
	for (struct emu_node *n = first; n; n = n->next)
		n->run((char *)n + NODE_BYTES);
}
