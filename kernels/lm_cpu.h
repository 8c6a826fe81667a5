/* lm_cpu.h - the language model's kernels of a CPU level; lm_cpu.c gives them to a team. */
#ifndef RNP_KERNELS_LM_CPU_H
#define RNP_KERNELS_LM_CPU_H

#include "kernels/cpu.h"
#include "kernels/lm_ref.h"

#define LM_RANGE(name) void (*name)(const struct lm_##name *, uint64_t from, uint64_t to)

/* Ranges as in lm_ref.h. */
struct lm_kernels {
	LM_RANGE(embed);
	LM_RANGE(embed_back);
	LM_RANGE(norm);
	void (*norm_back_rows)(const struct lm_norm_back *, uint64_t from, uint64_t to);
	void (*norm_back_columns)(const struct lm_norm_back *, uint64_t from,
		uint64_t to);
	LM_RANGE(rotate);
	LM_RANGE(swiglu);
	LM_RANGE(swiglu_back);
	LM_RANGE(bias_back);
	LM_RANGE(narrow);
	LM_RANGE(squares);
	LM_RANGE(adamw);
};

/* What to use at a level on this CPU: none empty. */
void lm_cpu_kernels(struct lm_kernels *out, enum cpu_level level);

#endif
