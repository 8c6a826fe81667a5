/* dev_cpu.h - the kernels of a CPU level, each for one thread; dev_cpu.c gives them to a team. */
#ifndef RNP_KERNELS_DEV_CPU_H
#define RNP_KERNELS_DEV_CPU_H

#include "kernels/dev.h"

struct cpu_kernels {
	bulk_copy_fn copy;
	bulk_fill_fn fill;
	bulk_triad_fn triad;
	bulk_random_fn random;
	philox_fill_fn philox;
	sha256_rows_fn sha256;
	memfill_fn memfill;
	int8_balance_fn balance;
	int8_turn_fn turn;
	int8_mix_fn mix;
	product_fn product[PRODUCT_TYPES];
};

/* What to use at a level on this CPU: the best for each slot, none empty. */
void dev_cpu_kernels(struct cpu_kernels *out, enum cpu_level level);

extern const struct dev_ops dev_cpu_ops;

#endif
