/* mem.c - reference of mem.h: plain loops that define what every version computes. */
#include "kernels/dev/mem.h"

#include <string.h>

void mem_copy_ref(void *to, const void *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}

void mem_fill_ref(uint32_t *to, uint32_t word, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++)
		to[i] = word;
}
