#include "kernels/poc/hashchain.h"

#include <string.h>

_Alignas(64) const uint32_t hashchain_k[64] = {
#include "kernels/poc/sha256_constants.inc"
};

/* the first 32 bits of the fractions of the square roots of the first primes */
const uint32_t hashchain_start[8] = {
	0x6a09e667,
	0xbb67ae85,
	0x3c6ef372,
	0xa54ff53a,
	0x510e527f,
	0x9b05688c,
	0x1f83d9ab,
	0x5be0cd19,
};

static uint32_t rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void compress(uint32_t h[8], const uint32_t block[16])
{
	uint32_t w[64], v[8];

	memcpy(w, block, 16 * sizeof *w);
	for (int i = 16; i < 64; i++) {
		uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^
			w[i - 15] >> 3;
		uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^
			w[i - 2] >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
	memcpy(v, h, sizeof v);
	for (int i = 0; i < 64; i++) {
		uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
		uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t t1 = v[7] + s1 + choose + hashchain_k[i] + w[i];
		uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
		uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += t1;
		v[0] = t1 + s0 + majority;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

static void run(unsigned char state[32], uint64_t steps)
{
	uint32_t h[8];

	for (int i = 0; i < 8; i++)
		h[i] = (uint32_t)state[4 * i] << 24 | (uint32_t)state[4 * i + 1] << 16 |
			(uint32_t)state[4 * i + 2] << 8 | state[4 * i + 3];
	while (steps--) {
		/* the message, the bit 1, zeros, its length of 256 bits */
		uint32_t block[16] = { [8] = 0x80000000, [15] = 256 };

		memcpy(block, h, sizeof h);
		memcpy(h, hashchain_start, sizeof h);
		compress(h, block);
	}
	for (int i = 0; i < 8; i++) {
		state[4 * i] = (unsigned char)(h[i] >> 24);
		state[4 * i + 1] = (unsigned char)(h[i] >> 16);
		state[4 * i + 2] = (unsigned char)(h[i] >> 8);
		state[4 * i + 3] = (unsigned char)h[i];
	}
}

const struct hashchain hashchain_reference = { "reference", run };
