/* cpu.h - the kernels of proof of compute at a CPU level, each for one thread. */
#ifndef RNP_KERNELS_POC_CPU_CPU_H
#define RNP_KERNELS_POC_CPU_CPU_H

#include "kernels/dev/cpu.h"
#include "kernels/poc/ops.h"

struct poc_cpu {
	sha256_rows_fn sha256;
	memfill_fn memfill;
	int8_balance_fn balance;
	int8_mix_fn mix;
};

/* Chooses the best function for each slot at a level on this CPU; no slot is empty. */
void poc_cpu_choose(struct poc_cpu *out, enum cpu_level level);

#endif
