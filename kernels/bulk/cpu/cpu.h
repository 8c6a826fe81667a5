/* cpu.h - the kernels that measure memory and arithmetic at a CPU level, each for one thread. */
#ifndef RNP_KERNELS_BULK_CPU_CPU_H
#define RNP_KERNELS_BULK_CPU_CPU_H

#include "kernels/bulk/ops.h"
#include "kernels/dev/cpu.h"

struct bulk_cpu {
	bulk_triad_fn triad;
	bulk_random_fn random;
	product_fn product[PRODUCT_TYPES];
	bool dnnl, amx; /* whether to try these before the kernels */
};

/* Chooses the best function for each slot at a level on this CPU; no slot is empty. */
void bulk_cpu_choose(struct bulk_cpu *out, enum cpu_level level);

#endif
