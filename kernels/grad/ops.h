/* ops.h - the operations of the gradient compressor: a device's tables `quant` and `huff`.
 *
 * Reached as d->ops->quant and d->ops->huff. The rules of dev.h hold; formulas and formats are in
 * quant.h and huff.h. All pointers are the device's. */
#ifndef RNP_KERNELS_GRAD_OPS_H
#define RNP_KERNELS_GRAD_OPS_H

#include "kernels/dev/ops.h"
#include "kernels/grad/huff.h"
#include "kernels/grad/quant.h"

/* Level 1 of the compressor.
 *
 * decode  reads nothing outside the planes and writes nothing outside the elements, whatever the
 *         planes hold
 * spread  adds to bins[QUANT_BINS] of each `chunk` elements of x how many have which quant_bin;
 *         those that are not finite are left out; counts are modulo 2^32
 * carry   e = b e + x, or x, see quant_carried
 * remain  e = e - sent, 0 where that is not finite
 * widen   out = bf16 as f32; narrow: rounded to bf16 (half.h) */
#define QUANT_OPS(OP, t)                                                              \
	OP(t, encode, (struct dev * d, const struct quant_job *j), (d, j))            \
	OP(t, decode, (struct dev * d, const struct quant_job *j), (d, j))            \
	OP(t, spread,                                                                 \
		(struct dev * d, uint32_t * bins, const float *x, uint64_t n,         \
			uint64_t chunk),                                              \
		(d, bins, x, n, chunk))                                               \
	OP(t, carry, (struct dev * d, float *e, const float *x, float b, uint64_t n), \
		(d, e, x, b, n))                                                      \
	OP(t, remain, (struct dev * d, float *e, const float *sent, uint64_t n),      \
		(d, e, sent, n))                                                      \
	OP(t, widen, (struct dev * d, float *out, const uint16_t *bf16, uint64_t n),  \
		(d, out, bf16, n))                                                    \
	OP(t, narrow, (struct dev * d, uint16_t * bf16, const float *in, uint64_t n), \
		(d, bf16, in, n))

struct quant_ops {
	QUANT_OPS(DEV_SLOT, quant)
};

/* The entropy coder, all chunks of a whole. n: symbols; chunk: of them in each chunk but the last,
 * 1 .. HUFF_CHUNK_MAX.
 *
 * count   counts[256] of n bytes, n < 2^32
 * encode  chunk c of in becomes out[at[c]] .. out[at[c + 1] - 1], one after the other, at[0] = 0;
 *         out has room for huff_bound(n, chunk), at for huff_chunks(n, chunk) + 1
 * decode  the reverse; `at` may be anything: what is not rising or goes beyond `bytes` is a bad
 *         chunk; *bad: how many chunks are no chunks; their symbols then are anything */
#define HUFF_OPS(OP, t)                                                              \
	OP(t, count,                                                                 \
		(struct dev * d, uint32_t * counts, const unsigned char *in,         \
			uint64_t n),                                                 \
		(d, counts, in, n))                                                  \
	OP(t, encode,                                                                \
		(struct dev * d, unsigned char *out, uint64_t *at,                   \
			const unsigned char *in, uint64_t n, uint32_t chunk),        \
		(d, out, at, in, n, chunk))                                          \
	OP(t, decode,                                                                \
		(struct dev * d, unsigned char *out, uint32_t *bad,                  \
			const unsigned char *in, uint64_t bytes, const uint64_t *at, \
			uint64_t n, uint32_t chunk),                                 \
		(d, out, bad, in, bytes, at, n, chunk))

struct huff_ops {
	HUFF_OPS(DEV_SLOT, huff)
};

#endif
