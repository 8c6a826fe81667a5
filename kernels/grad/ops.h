/* ops.h - the operations of the gradient compressor: the tables `quant`, `huff` and `outer` of a
 * device.
 *
 * Reached as d->ops->quant and so on. The rules of dev.h hold; formulas and formats are in
 * quant.h, huff.h and outer.h. All pointers belong to the device. */
#ifndef RNP_KERNELS_GRAD_OPS_H
#define RNP_KERNELS_GRAD_OPS_H

#include "kernels/dev/ops.h"
#include "kernels/grad/huff.h"
#include "kernels/grad/outer.h"
#include "kernels/grad/quant.h"

/* Level 1 of the compressor.
 *
 * decode  reads nothing outside the planes and writes nothing outside the elements, whatever the
 *         planes hold
 * spread  a histogram: adds to bins[QUANT_BINS] of each `chunk` elements of x how many have which
 *         quant_bin; elements that are not finite are skipped; counts are modulo 2^32. e, unless it
 *         is NULL: of what carry would make of e, which stays as it is
 * carry   e = b e + x, or x, see quant_carried
 * remain  e = e - sent, 0 where that is not finite
 * feed    error feedback: carry into j->elements, f32, then encode, then remain with what decode
 *         would
 *         make of the planes; `sent` is memory for n elements, undefined afterwards
 * widen   out = bf16 as f32; narrow: rounded to bf16 (half.h) */
#define QUANT_OPS(OP, t)                                                                 \
	OP(t, encode, (struct dev * d, const struct quant_job *j), (d, j))               \
	OP(t, decode, (struct dev * d, const struct quant_job *j), (d, j))               \
	OP(t, spread,                                                                    \
		(struct dev * d, uint32_t * bins, const float *x, const float *e,        \
			float b, uint64_t n, uint64_t chunk),                            \
		(d, bins, x, e, b, n, chunk))                                            \
	OP(t, carry, (struct dev * d, float *e, const float *x, float b, uint64_t n),    \
		(d, e, x, b, n))                                                         \
	OP(t, remain, (struct dev * d, float *e, const float *sent, uint64_t n),         \
		(d, e, sent, n))                                                         \
	OP(t, feed,                                                                      \
		(struct dev * d, const struct quant_job *j, float *sent, const float *x, \
			float b),                                                        \
		(d, j, sent, x, b))                                                      \
	OP(t, widen, (struct dev * d, float *out, const uint16_t *bf16, uint64_t n),     \
		(d, out, bf16, n))                                                       \
	OP(t, narrow, (struct dev * d, uint16_t * bf16, const float *in, uint64_t n),    \
		(d, bf16, in, n))

struct quant_ops {
	QUANT_OPS(DEV_SLOT, quant)
};

/* The entropy coder, for all chunks of a sequence. n: symbols; chunk: symbols in each chunk but
 * the last, 1 .. HUFF_CHUNK_MAX.
 *
 * count   counts[256] of n bytes, n < 2^32
 * encode  chunk c of in becomes out[at[c]] .. out[at[c + 1] - 1], one after the other, at[0] = 0;
 *         out has huff_bound(n, chunk) bytes, at has huff_chunks(n, chunk) + 1 entries
 * decode  the reverse; `at` is not trusted: where it does not ascend or goes beyond `bytes`, the
 *         chunk is bad; *bad: number of bad chunks; their symbols are then undefined */
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

/* The arithmetic of training over a network, see struct outer_kernels. */
#define OUTER_OPS(OP, t)                                                                 \
	OP(t, delta,                                                                     \
		(struct dev * d, float *out, const float *began, const float *ended,     \
			uint64_t n),                                                     \
		(d, out, began, ended, n))                                               \
	OP(t, merge,                                                                     \
		(struct dev * d, float *theta, const float *published, double a,         \
			uint64_t n),                                                     \
		(d, theta, published, a, n))                                             \
	OP(t, add, (struct dev * d, float *x, const float *y, float scale, uint64_t n),  \
		(d, x, y, scale, n))                                                     \
	OP(t, sum,                                                                       \
		(struct dev * d, double *sum, const float *delta, double w, uint64_t n), \
		(d, sum, delta, w, n))                                                   \
	OP(t, mean, (struct dev * d, float *theta, const double *sum, uint64_t n),       \
		(d, theta, sum, n))                                                      \
	OP(t, nesterov,                                                                  \
		(struct dev * d, float *theta, float *v, const double *sum,              \
			const struct outer_nesterov *o, uint64_t n),                     \
		(d, theta, v, sum, o, n))                                                \
	OP(t, dn,                                                                        \
		(struct dev * d, float *theta, float *m, float *buffer, const float *g,  \
			const struct outer_dn_step *s, uint64_t n),                      \
		(d, theta, m, buffer, g, s, n))

struct outer_ops {
	OUTER_OPS(DEV_SLOT, outer)
};

#endif
