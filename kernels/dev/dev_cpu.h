/* dev_cpu.h - the CPU as a device: its state, its team of threads, and how a folder adds its
 * kernels.
 *
 * A folder with a table T keeps what its operations need in `struct T_cpu` (cpu.h beside them:
 * the kernels of a level, one thread each), which T_cpu_open makes when the device is opened;
 * CPU_TABLE makes the table from the list of operations. */
#ifndef RNP_KERNELS_DEV_DEV_CPU_H
#define RNP_KERNELS_DEV_DEV_CPU_H

#include "kernels/dev/dev.h"
#include "kernels/dev/mem.h"
#include "kernels/dev/ops.h"
#include "kernels/dev/team.h"

/* What moves memory at a level. */
struct mem_cpu {
	mem_copy_fn copy;
	mem_fill_fn fill;
	philox_fill_fn philox;
};

struct cpu_notes;

/* What a device's state points to. */
struct cpu {
	enum cpu_level level;
	struct cpu_notes *notes; /* of operations to come, or NULL */
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

/* Does an operation with the team, or, while a graph or batch is open, notes it: its work, so
 * many bytes, is then copied, and what that points to must be the device's or live as long. */
int cpu_do(struct dev *d, const struct team_op *op, size_t bytes);

/* Does what an open batch has noted, before something that cannot be noted; -1 in an open graph. */
int cpu_settle(struct dev *d);

/* Gives 0 .. n - 1 to the team in one piece each, cut at multiples of grain, now; little work
 * stays here. */
int cpu_in_parts(struct dev *d, uint64_t n, uint64_t grain, team_part_fn part,
	void *work);

/* cpu_graph.c: the slots of struct dev_ops */
int cpu_batch_begin(struct dev *d);
int cpu_batch_end(struct dev *d);
int cpu_graph_begin(struct dev *d);
int cpu_graph_end(struct dev *d, void **graph);
int cpu_graph_launch(struct dev *d, void *graph);
void cpu_graph_free(struct dev *d, void *graph);
void cpu_notes_free(struct cpu_notes *n);

/* Chooses the best for each slot at a level on this CPU, none empty. */
void mem_cpu_choose(struct mem_cpu *out, enum cpu_level level);

/* Of each folder: open allocates (NULL: no memory), close takes NULL. */
#define CPU_DECLARE(table, list)                                    \
	struct table##_cpu *table##_cpu_open(enum cpu_level level); \
	void table##_cpu_close(struct table##_cpu *state);          \
	extern const struct table##_ops table##_cpu_ops;
DEV_TABLES(CPU_DECLARE)
#undef CPU_DECLARE

/* The table of cpu_NAME functions. */
#define CPU_SLOT(table, name, parameters, arguments) .name = cpu_##name,
#define CPU_TABLE(table, LIST) \
	const struct table##_ops table##_cpu_ops = { LIST(CPU_SLOT, table) }

/* open and close where struct T_cpu holds nothing but what T_cpu_choose puts there. */
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
