/* peak.h - only multiply-adds in registers: the peak arithmetic rate of one thread. libc only.
 *
 * The upper bound for a matrix product of the same type. */
#ifndef RNP_KERNELS_BULK_PEAK_H
#define RNP_KERNELS_BULK_PEAK_H

#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/bulk/product.h"

struct peak {
	const char *instruction; /* for example "vfmadd231ps zmm" */
	/* Runs the loop. Returns how many multiply-adds the sums have counted, so that the
	 * claimed number can be checked: exact up to 500,000 steps. */
	double (*run)(uint64_t steps);
	uint64_t operations; /* per step; a multiply-add is two for each of its pairs */
	/* per step on the CPUs that we know: to choose the number of steps */
	unsigned cycles;
};

/* Returns the loop for f32, bf16 or int8 at a level of this CPU, with tiles if they may be
 * used; NULL: it has no instruction for the type. */
const struct peak *peak_of(enum product_type type, enum cpu_level level);

#endif
