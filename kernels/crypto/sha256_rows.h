/* sha256_rows.h - SHA-256 (FIPS 180-4) of many rows at once: the leaves and nodes of hash
 * trees.
 *
 * Formula: digest i = SHA-256(prefix || index || row i), where index is the number first + i in
 * index_bytes bytes (0: omitted, 4 or 8), little-endian. So a leaf H(0x00 || round || row ||
 * bytes) has the prefix 0x00 || round and its row number as index; a node H(0x01 || left ||
 * right) has the prefix 0x01, no index, and rows of 64 bytes, which are the digests of the
 * level below.
 *
 * Shape: count rows of row_bytes bytes, row i at rows + i * stride_bytes, at any address;
 * adjacent digests of 32 bytes, at any address. out must not overlap rows. The whole message
 * stays under 2^61 bytes. Exact: every version gives the same bytes. */
#ifndef RNP_KERNELS_CRYPTO_SHA256_ROWS_H
#define RNP_KERNELS_CRYPTO_SHA256_ROWS_H

#include <stdint.h>

#include "kernels/crypto/sha256_each.h"
#include "kernels/dev/cpu.h"
#include "kernels/dev/hd.h"

#define SHA256_PREFIX_MAX 32

struct sha256_rows {
	const void *rows; /* belongs to the device */
	uint64_t row_bytes, stride_bytes, count;
	uint64_t first;
	uint32_t index_bytes;
	uint32_t prefix_bytes; /* at most SHA256_PREFIX_MAX */
	unsigned char prefix[SHA256_PREFIX_MAX];
};

KERNELS_BEGIN

extern const uint32_t sha256_start[8], sha256_constants[64];

typedef void (*sha256_rows_fn)(unsigned char *out, const struct sha256_rows *in);

void sha256_rows_ref(unsigned char *out, const struct sha256_rows *in);
void sha256_rows_avx2(unsigned char *out, const struct sha256_rows *in); /* 8 lanes */
void sha256_rows_shani(unsigned char *out,
	const struct sha256_rows *in); /* SHA extensions */
void sha256_rows_avx512(unsigned char *out, const struct sha256_rows *in); /* 16 lanes */

/* Returns the fastest version for a level on this CPU. */
sha256_rows_fn sha256_rows_choose(enum cpu_level level);

KERNELS_END

/* Functions that every version shares. */

HD uint64_t sha256_rows_message_bytes(const struct sha256_rows *in)
{
	return in->prefix_bytes + in->index_bytes + in->row_bytes;
}

HD uint64_t sha256_rows_blocks(const struct sha256_rows *in)
{
	return (sha256_rows_message_bytes(in) + 9 + 63) / 64;
}

/* Returns byte `at` of the padded message of row i. */
HD unsigned char sha256_rows_byte(const struct sha256_rows *in, uint64_t i, uint64_t at)
{
	uint64_t bytes = sha256_rows_message_bytes(in), end = sha256_rows_blocks(in) * 64;
	uint64_t head = in->prefix_bytes + in->index_bytes;

	if (at < in->prefix_bytes)
		return in->prefix[at];
	if (at < head)
		return (unsigned char)((in->first + i) >> 8 * (at - in->prefix_bytes));
	if (at < bytes)
		return ((
			const unsigned char *)in->rows)[i * in->stride_bytes + at - head];
	if (at == bytes)
		return 0x80;
	if (at < end - 8)
		return 0;
	return (unsigned char)(bytes * 8 >> 8 * (end - 1 - at));
}

/* Returns the address of block `block` of the message of row i if it consists of bytes of the
 * row only, else NULL. */
HD const unsigned char *sha256_rows_inside(const struct sha256_rows *in, uint64_t i,
	uint64_t block)
{
	uint64_t head = in->prefix_bytes + in->index_bytes;

	if (block * 64 < head || block * 64 + 64 > head + in->row_bytes)
		return (const unsigned char *)0;
	return (const unsigned char *)in->rows + i * in->stride_bytes + block * 64 - head;
}

HD uint32_t sha256_rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

HD uint32_t sha256_schedule(uint32_t w16, uint32_t w15, uint32_t w7, uint32_t w2)
{
	uint32_t s0 = sha256_rotate(w15, 7) ^ sha256_rotate(w15, 18) ^ w15 >> 3;
	uint32_t s1 = sha256_rotate(w2, 17) ^ sha256_rotate(w2, 19) ^ w2 >> 10;

	return w16 + s0 + w7 + s1;
}

/* Hashes one block of 16 words; k: the 64 constants, in memory of this device. w is
 * overwritten. */
HD void sha256_block(uint32_t state[8], uint32_t w[16], const uint32_t *k)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (int t = 0; t < 64; t++) {
		uint32_t one, two;

		if (t >= 16)
			w[t & 15] = sha256_schedule(w[t & 15], w[(t + 1) & 15],
				w[(t + 9) & 15], w[(t + 14) & 15]);
		one = h +
			(sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^
				sha256_rotate(e, 25)) +
			((e & f) ^ (~e & g)) + k[t] + w[t & 15];
		two = (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^
			      sha256_rotate(a, 22)) +
			((a & b) ^ (a & c) ^ (b & c));
		h = g, g = f, f = e, e = d + one;
		d = c, c = b, b = a, a = one + two;
	}
	state[0] += a, state[1] += b, state[2] += c, state[3] += d;
	state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

#endif
