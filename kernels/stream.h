/* stream.h - the two loops that measure memory bandwidth (McCalpin's STREAM: copy and triad).
 *
 * Arrays of n doubles that do not overlap, 64-byte aligned. One OpenMP team. The fast versions
 * write past the cache (non-temporal stores), so that the bytes counted are the bytes moved: 2 x
 * 8 an element for copy, 3 x 8 for triad. The reference's plain stores also read each line they
 * write. Fast and reference give equal bits: one multiplication, one addition, both rounded. */
#ifndef RNP_KERNELS_STREAM_H
#define RNP_KERNELS_STREAM_H

#include <stddef.h>

/* a[i] = b[i] */
typedef void (*stream_copy_fn)(double *a, const double *b, size_t n);
/* a[i] = b[i] + s * c[i] */
typedef void (*stream_triad_fn)(double *a, const double *b, const double *c, double s,
	size_t n);

struct stream {
	const char *name; /* "reference", "avx2", "avx512" */
	stream_copy_fn copy;
	stream_triad_fn triad;
};

extern const struct stream stream_reference;
const struct stream *stream_fast(
	void); /* the best for this CPU; the reference if none is */

#endif
