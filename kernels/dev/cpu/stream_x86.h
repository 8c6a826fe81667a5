/* stream_x86.h - when to use non-temporal stores. Private to *_x86.c.
 *
 * Ordinary stores first read the cache line that they will overwrite: for ranges beyond the
 * caches, non-temporal stores save a third of the traffic of triad and copy. Below that size
 * they would evict data that the next reader wants. */
#ifndef RNP_KERNELS_DEV_CPU_STREAM_X86_H
#define RNP_KERNELS_DEV_CPU_STREAM_X86_H

#include <immintrin.h>
#include <stdint.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

#define PAST_CACHES_BYTES (UINT64_C(1) << 20) /* a range of one thread: its share of L2 */

/* Returns how many bytes there are to the next multiple of `line`, at most n. */
static inline uint64_t to_line(const void *p, uint64_t line, uint64_t n)
{
	uint64_t lead = -(uintptr_t)p & (line - 1);

	return lead < n ? lead : n;
}

#endif
