/* share.c - what the operations of every folder use on the CPU: the team at once, and the
 * functions on memory of a level. */
#include "kernels/dev/dev_cpu.h"

void mem_cpu_choose(struct mem_cpu *out, enum cpu_level level)
{
	*out = (struct mem_cpu){ mem_copy_ref, mem_fill_ref, philox_fill_ref };
	(void)level; /* only of x86 are there several */
#ifdef __x86_64__
	if (level >= CPU_AVX2)
		*out = (struct mem_cpu){ mem_copy_avx2, mem_fill_avx2, philox_fill_avx2 };
	if (level >= CPU_AVX512)
		*out = (struct mem_cpu){ mem_copy_avx512, mem_fill_avx512,
			philox_fill_avx512 };
#endif
}

int cpu_in_parts(struct dev *d, uint64_t n, uint64_t grain, team_part_fn part, void *work)
{
	const struct team_op op = { part, work, n, grain, 1, 0 };

	if (cpu_settle(d) < 0)
		return -1;
	team_run(&op, 1);
	return 0;
}
