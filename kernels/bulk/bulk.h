/* bulk.h - memory benchmarks: the triad, and random reads.
 *
 * triad  a[i] = b[i] + s * c[i] for n f64 (McCalpin, STREAM, 1995): product and sum are each
 * rounded random *sum = the sum modulo 2^64 of table[bulk_place(seed, from + i, words)] for i <
 * count
 *
 * Addresses are a multiple of their element. No overlap, except that a may be b or c. Exact:
 * every version gives the same bytes. The fast versions use non-temporal stores when the range
 * exceeds the caches. */
#ifndef RNP_KERNELS_BULK_BULK_H
#define RNP_KERNELS_BULK_BULK_H

#include <stdint.h>

#include "kernels/dev/hd.h"

/* Returns the index of read i of a sequence: evenly spread over 0 .. words - 1 by mixing
 * (Stafford's variant 13 of MurmurHash3's finaliser); 0 < words < 2^32. No read depends on
 * another. */
HD uint64_t bulk_place(uint64_t seed, uint64_t i, uint64_t words)
{
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return ((z ^ z >> 31) >> 32) * words >> 32;
}

struct bulk_random {
	const uint64_t *table;
	uint64_t words, seed, from, count;
};

KERNELS_BEGIN

typedef void (*bulk_triad_fn)(double *a, const double *b, const double *c, double s,
	uint64_t n);
typedef uint64_t (*bulk_random_fn)(const struct bulk_random *r);

void bulk_triad_ref(double *a, const double *b, const double *c, double s, uint64_t n);
uint64_t bulk_random_ref(const struct bulk_random *r);

void bulk_triad_avx2(double *a, const double *b, const double *c, double s, uint64_t n);

void bulk_triad_avx512(double *a, const double *b, const double *c, double s, uint64_t n);

KERNELS_END

#endif
