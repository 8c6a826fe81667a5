/* mem.h - copies and fills memory.
 *
 * copy  to[i] = from[i] for `bytes` bytes
 * fill  to[i] = word for `words` words of 32 bits
 *
 * Addresses: copy any; fill a multiple of 4. No overlap. Exact: every version gives the same
 * bytes. The fast versions use non-temporal stores when the range exceeds the caches. */
#ifndef RNP_KERNELS_DEV_MEM_H
#define RNP_KERNELS_DEV_MEM_H

#include <stdint.h>

#include "kernels/dev/hd.h"

KERNELS_BEGIN

typedef void (*mem_copy_fn)(void *to, const void *from, uint64_t bytes);
typedef void (*mem_fill_fn)(uint32_t *to, uint32_t word, uint64_t words);

void mem_copy_ref(void *to, const void *from, uint64_t bytes);
void mem_fill_ref(uint32_t *to, uint32_t word, uint64_t words);

void mem_copy_avx2(void *to, const void *from, uint64_t bytes);
void mem_fill_avx2(uint32_t *to, uint32_t word, uint64_t words);

void mem_copy_avx512(void *to, const void *from, uint64_t bytes);
void mem_fill_avx512(uint32_t *to, uint32_t word, uint64_t words);

KERNELS_END

#endif
