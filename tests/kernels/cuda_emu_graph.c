/* cuda_emu_graph.c - what streams of cuda_emu.h capture: operations and their arguments, in order,
 * which a graph runs again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_emu.h"

/* streams that this thread captures */
static __thread struct emu_stream *captures;

void emu_capture(struct emu_stream *s)
{
	s->next = captures;
	captures = s;
}

bool emu_captured(struct emu_stream *s)
{
	for (struct emu_stream **at = &captures; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			return true;
		}
	return false;
}

bool emu_forbidden(void)
{
	for (struct emu_stream *s = captures; s; s = s->next)
		s->broken = true;
	return captures;
}

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
