/* peak.h - nothing but multiply-add in registers: the most that one thread's arithmetic can do. libc only.
 *
 * What a matrix product of the same type is held against: it can come near this and not above it. */
#ifndef RNP_KERNELS_PEAK_H
#define RNP_KERNELS_PEAK_H

#include <stdint.h>

#include "kernels/cpu.h"
#include "kernels/product.h"

struct peak {
	const char *instruction; /* "vfmadd231ps zmm" */
	void (*run)(uint64_t steps);
	uint64_t operations; /* of a step; a multiply-add is two for each of its pairs */
};

/* For f32, bf16 or int8 at a level of this CPU; NULL: it has no instruction for it. */
const struct peak *peak_of(enum product_type type, enum cpu_level level);

#endif
