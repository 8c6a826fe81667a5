/* dev_cpu.h - the CPU as a device: its state, its team of threads, and how a folder adds its
 * kernels.
 *
 * A folder with a table T keeps what its operations need in `struct T_cpu` (cpu.h beside them:
 * the kernels of a level, for one thread each), which T_cpu_open creates when the device is
 * opened; CPU_TABLE makes the table from the list of operations. */
#ifndef RNP_KERNELS_DEV_DEV_CPU_H
#define RNP_KERNELS_DEV_DEV_CPU_H

#include "kernels/dev/dev.h"
#include "kernels/dev/mem.h"
#include "kernels/dev/ops.h"
#include "kernels/dev/team.h"

/* The functions that copy and fill memory at a level. */
struct mem_cpu {
	mem_copy_fn copy;
	mem_fill_fn fill;
	philox_fill_fn philox;
};

struct cpu_notes;

/* The CPU's struct dev.state. */
struct cpu {
	enum cpu_level level;
	struct cpu_notes *notes; /* operations recorded for later, or NULL */
	int64_t started_ns;
	struct mem_cpu mem;
#define CPU_STATE(table, list) struct table##_cpu *table;
	DEV_TABLES(CPU_STATE)
#undef CPU_STATE
};

static inline struct cpu *cpu_of(struct dev *d)
{
	return (struct cpu *)d->state;
}

/* Runs an operation on the team, or, while a graph or batch is open, records it: its work, of
 * so many bytes, is then copied, and memory that it points to must belong to the device or live
 * as long. */
int cpu_do(struct dev *d, const struct team_op *op, size_t bytes);

/* Runs the recorded operations of an open batch, before something that cannot be recorded;
 * returns -1 in an open graph. */
int cpu_settle(struct dev *d);

/* Divides 0 .. n - 1 among the team at once, one piece each at multiples of grain; a small n
 * stays in this thread. */
int cpu_in_parts(struct dev *d, uint64_t n, uint64_t grain, team_part_fn part,
	void *work);

/* cpu_graph.c: these fill slots of struct dev_ops */
int cpu_batch_begin(struct dev *d);
int cpu_batch_end(struct dev *d);
int cpu_graph_begin(struct dev *d);
int cpu_graph_end(struct dev *d, void **graph);
int cpu_graph_launch(struct dev *d, void *graph);
void cpu_graph_free(struct dev *d, void *graph);
void cpu_notes_free(struct cpu_notes *n);

/* Chooses the best functions at a level on this CPU; no slot is empty. */
void mem_cpu_choose(struct mem_cpu *out, enum cpu_level level);

/* For each folder: open allocates (NULL: no memory), close accepts NULL. */
#define CPU_DECLARE(table, list)                                    \
	struct table##_cpu *table##_cpu_open(enum cpu_level level); \
	void table##_cpu_close(struct table##_cpu *state);          \
	extern const struct table##_ops table##_cpu_ops;
DEV_TABLES(CPU_DECLARE)
#undef CPU_DECLARE

/* Makes the table of cpu_NAME functions. */
#define CPU_SLOT(table, name, parameters, arguments) .name = cpu_##name,
#define CPU_TABLE(table, LIST) \
	const struct table##_ops table##_cpu_ops = { LIST(CPU_SLOT, table) }

/* Defines open and close for a struct T_cpu that only holds what T_cpu_choose sets. */
#define CPU_OPEN(table)                                            \
	struct table##_cpu *table##_cpu_open(enum cpu_level level) \
	{                                                          \
		struct table##_cpu *c = calloc(1, sizeof *c);      \
                                                                   \
		if (c)                                             \
			table##_cpu_choose(c, level);              \
		return c;                                          \
	}                                                          \
	void table##_cpu_close(struct table##_cpu *c)              \
	{                                                          \
		free(c);                                           \
	}

#endif
