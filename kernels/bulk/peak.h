/* peak.h - nothing but multiply-add in registers: the most that one thread's arithmetic can do.
 * libc only.
 *
 * What a matrix product of the same type is held against: it can come near this and not above
 * it. */
#ifndef RNP_KERNELS_BULK_PEAK_H
#define RNP_KERNELS_BULK_PEAK_H

#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/bulk/product.h"

struct peak {
	const char *instruction; /* "vfmadd231ps zmm" */
	/* Returns how many multiply-adds the sums have counted, so that what is claimed can be
	 * held against what was done: exact up to 500,000 steps. */
	double (*run)(uint64_t steps);
	uint64_t operations; /* of a step; a multiply-add is two for each of its pairs */
	unsigned cycles; /* that a step takes on the CPUs that we know: to choose steps */
};

/* For f32, bf16 or int8 at a level of this CPU, tiles where they may be used; NULL: it has no
 * instruction for it. */
const struct peak *peak_of(enum product_type type, enum cpu_level level);

#endif
