/* cpu.h - the kernels of the gradient compressor at a CPU level, each for one thread. */
#ifndef RNP_KERNELS_GRAD_CPU_CPU_H
#define RNP_KERNELS_GRAD_CPU_CPU_H

#include "kernels/dev/cpu.h"
#include "kernels/grad/ops.h"

struct quant_cpu {
	quant_encode_fn encode;
	quant_decode_fn decode;
	quant_spread_fn spread;
};

struct huff_cpu {
	const struct huff_kernels *kernels;
};

struct outer_cpu {
	const struct outer_kernels *kernels;
};

/* Choose the best function for each slot at a level on this CPU; no slot is empty. */
void quant_cpu_choose(struct quant_cpu *out, enum cpu_level level);
void huff_cpu_choose(struct huff_cpu *out, enum cpu_level level);
void outer_cpu_choose(struct outer_cpu *out, enum cpu_level level);

#endif
