/* ops.h - how a list of operations becomes a table with its wrappers, names and checks.
 *
 * A folder's ops.h has a list LIST(OP, table) with one line per operation,
 *
 * OP(table, name, (struct dev *d, const struct x *x), (d, x))
 *
 * its parameters and its arguments, and `struct table_ops { LIST(DEV_SLOT, table) };`. The same
 * list generates the CPU's table (CPU_TABLE, dev_cpu.h), the GPU's wrappers and table
 * (CUDA_TABLE, kernels/dev/cuda/cuda.cuh), the names, and the counters of kcheck. */
#ifndef RNP_KERNELS_DEV_OPS_H
#define RNP_KERNELS_DEV_OPS_H

#include "kernels/dev/dev.h"

/* a member of struct table_ops */
#define DEV_SLOT(table, name, parameters, arguments) int(*name) parameters;

/* an element of an array of names: "table.name" */
#define DEV_NAME(table, name, parameters, arguments) #table "." #name,

#endif
