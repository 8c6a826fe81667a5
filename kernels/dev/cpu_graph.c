/* cpu_graph.c - operations of the CPU that are recorded and then run together: graphs, and
 * batches. The team is woken once for all of them, and no thread waits until the next one is
 * called. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/dev/dev_cpu.h"

#define ALIGNMENT 64

/* Recorded operations in their order. While recording, the work of each is an offset into
 * `works`, which moves as it grows. */
struct cpu_notes {
	struct team_op *ops;
	char *works;
	size_t count, capacity;            /* operations */
	size_t works_used, works_capacity; /* bytes */
	enum { NOTES_CLOSED, NOTES_GRAPH, NOTES_BATCH, NOTES_SPOILED } open;
};

static int no_memory(struct dev *d)
{
	return dev_fail(d, EX_OSERR, "cpu: no memory to note operations");
}

static struct cpu_notes *notes_of(struct dev *d)
{
	struct cpu *c = cpu_of(d);

	if (!c->notes)
		c->notes = calloc(1, sizeof *c->notes);
	return c->notes;
}

void cpu_notes_free(struct cpu_notes *n)
{
	if (!n)
		return;
	free(n->ops);
	free(n->works);
	free(n);
}

static bool grow(struct cpu_notes *n, size_t bytes)
{
	if (n->count == n->capacity) {
		size_t capacity = n->capacity ? 2 * n->capacity : 64;
		struct team_op *ops = realloc(n->ops, capacity * sizeof *ops);

		if (!ops)
			return false;
		n->ops = ops;
		n->capacity = capacity;
	}
	if (n->works_capacity - n->works_used < bytes) {
		size_t capacity = 2 * n->works_capacity + bytes + 8192;
		char *works = realloc(n->works, capacity);

		if (!works)
			return false;
		n->works = works;
		n->works_capacity = capacity;
	}
	return true;
}

static int note(struct dev *d, struct cpu_notes *n, const struct team_op *op,
	size_t bytes)
{
	size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

	if (!grow(n, padded))
		return no_memory(d);
	memcpy(n->works + n->works_used, op->work, bytes);
	n->ops[n->count] = *op;
	n->ops[n->count++].work = (void *)(uintptr_t)n->works_used;
	n->works_used += padded;
	return 0;
}

/* Turns offsets into addresses. */
static void place_works(struct cpu_notes *n)
{
	for (size_t i = 0; i < n->count; i++)
		n->ops[i].work = n->works + (uintptr_t)n->ops[i].work;
}

static void forget(struct cpu_notes *n)
{
	n->count = 0;
	n->works_used = 0;
}

/* Runs the recorded operations of a batch. */
static void flush(struct cpu_notes *n)
{
	if (!n->count)
		return;
	place_works(n);
	team_run(n->ops, n->count);
	forget(n);
}

int cpu_do(struct dev *d, const struct team_op *op, size_t bytes)
{
	struct cpu_notes *n = cpu_of(d)->notes;

	/* in a batch, an operation that one thread does at once is cheaper to run than to
	 * record */
	if (!n || n->open == NOTES_CLOSED ||
		(n->open == NOTES_BATCH && !n->count &&
			(op->n <= op->grain || op->n <= op->alone))) {
		team_run(op, 1);
		return 0;
	}
	return note(d, n, op, bytes);
}

int cpu_settle(struct dev *d)
{
	struct cpu_notes *n = cpu_of(d)->notes;

	if (!n || n->open == NOTES_CLOSED)
		return 0;
	if (n->open != NOTES_BATCH) {
		n->open = NOTES_SPOILED;
		return dev_fail(d, EX_SOFTWARE, "cpu: this cannot be part of a graph");
	}
	flush(n);
	return 0;
}

/* --- batches ------------------------------------------------------------------------------- */

int cpu_batch_begin(struct dev *d)
{
	struct cpu_notes *n = notes_of(d);

	if (!n)
		return no_memory(d);
	if (n->open != NOTES_CLOSED)
		return dev_fail(d, EX_SOFTWARE, "cpu: a graph or batch is open");
	n->open = NOTES_BATCH;
	return 0;
}

int cpu_batch_end(struct dev *d)
{
	struct cpu_notes *n = cpu_of(d)->notes;

	if (!n || n->open != NOTES_BATCH)
		return dev_fail(d, EX_SOFTWARE, "cpu: no batch is open");
	flush(n);
	n->open = NOTES_CLOSED;
	return 0;
}

/* --- graphs -------------------------------------------------------------------------------- */

int cpu_graph_begin(struct dev *d)
{
	struct cpu_notes *n = notes_of(d);

	if (!n)
		return no_memory(d);
	if (n->open != NOTES_CLOSED)
		return dev_fail(d, EX_SOFTWARE, "cpu: a graph or batch is open");
	n->open = NOTES_GRAPH;
	return 0;
}

int cpu_graph_end(struct dev *d, void **graph)
{
	struct cpu_notes *n = cpu_of(d)->notes;
	bool spoiled;

	if (graph)
		*graph = NULL;
	if (!n || (n->open != NOTES_GRAPH && n->open != NOTES_SPOILED))
		return dev_fail(d, EX_SOFTWARE, "cpu: no graph is open");
	spoiled = n->open == NOTES_SPOILED;
	n->open = NOTES_CLOSED;
	if (spoiled || !graph || !n->count) {
		forget(n);
		return spoiled && graph ?
			dev_fail(d, EX_SOFTWARE, "cpu: the graph was spoiled") :
			0;
	}
	place_works(n);
	*graph = n;
	cpu_of(d)->notes = NULL; /* the graph owns it now */
	return 0;
}

int cpu_graph_launch(struct dev *d, void *graph)
{
	const struct cpu_notes *n = graph;

	if (cpu_settle(d) < 0)
		return -1;
	team_run(n->ops, n->count);
	return 0;
}

void cpu_graph_free(struct dev *d, void *graph)
{
	(void)d;
	cpu_notes_free(graph);
}
