/* dev_cpu.h - the kernels of a CPU level, each for one thread; dev_cpu.c gives them to a team. */
#ifndef RNP_KERNELS_DEV_DEV_CPU_H
#define RNP_KERNELS_DEV_DEV_CPU_H

#include "kernels/dev/dev.h"

struct cpu_kernels {
	bulk_copy_fn copy;
	bulk_fill_fn fill;
	bulk_triad_fn triad;
	bulk_random_fn random;
	philox_fill_fn philox;
	sha256_rows_fn sha256;
	memfill_fn memfill;
	int8_balance_fn balance;
	int8_mix_fn mix;
	const struct huff_kernels *huff;
	product_fn product[PRODUCT_TYPES];
	quant_encode_fn quant_encode;
	quant_decode_fn quant_decode;
	quant_spread_fn quant_spread;
};

struct lm_cpu;

/* What a device's state points to. */
struct cpu {
	struct cpu_kernels kernels;
	enum cpu_level level;
	bool dnnl, amx; /* what may make products */
	int64_t started_ns;
	struct lm_cpu *lm; /* lm_cpu.c's, from the first prepare on */
};

static inline struct cpu *cpu_of(struct dev *d)
{
	return (struct cpu *)d->state;
}

/* Give 0 .. n - 1 to the team in one piece each, cut at multiples of grain; little work stays here. */
typedef void (*cpu_part_fn)(void *work, uint64_t from, uint64_t to);
void cpu_in_parts(uint64_t n, uint64_t grain, cpu_part_fn part, void *work);

/* What to use at a level on this CPU: the best for each slot, none empty. */
void dev_cpu_kernels(struct cpu_kernels *out, enum cpu_level level);

extern const struct dev_ops dev_cpu_ops;
extern const struct quant_ops quant_cpu_ops;

/* The language model's operations, and the end of what they keep (NULL is fine). */
extern const struct lm_ops lm_cpu_ops;
void lm_cpu_free(struct lm_cpu *lm);
extern const struct huff_ops huff_cpu_ops;

#endif
