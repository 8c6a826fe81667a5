/* sha256_rows.c - reference of SHA-256 of many rows. */
#include "kernels/crypto/sha256_rows.h"

#include <string.h>

const uint32_t sha256_start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

const uint32_t sha256_constants[64] = {
#include "kernels/crypto/sha256_constants.inc"
};

static void row(unsigned char *out, const struct sha256_rows *in, uint64_t i)
{
	uint64_t blocks = sha256_rows_blocks(in);
	uint32_t state[8], w[16];

	memcpy(state, sha256_start, sizeof state);
	for (uint64_t b = 0; b < blocks; b++) {
		for (uint64_t t = 0; t < 16; t++) {
			w[t] = 0;
			for (uint64_t k = 0; k < 4; k++)
				w[t] = w[t] << 8 |
					sha256_rows_byte(in, i, 64 * b + 4 * t + k);
		}
		sha256_block(state, w, sha256_constants);
	}
	for (int k = 0; k < SHA256_BYTES; k++)
		out[k] = (unsigned char)(state[k / 4] >> (24 - 8 * (k % 4)));
}

void sha256_rows_ref(unsigned char *out, const struct sha256_rows *in)
{
	for (uint64_t i = 0; i < in->count; i++)
		row(out + SHA256_BYTES * i, in, i);
}

sha256_rows_fn sha256_rows_choose(enum cpu_level level)
{
	(void)level; /* only of x86 are there several */
#ifdef __x86_64__
	if (level >= CPU_AVX512)
		return sha256_rows_avx512;
	if (level >= CPU_AVX2)
		return cpu_features(level).sha ? sha256_rows_shani : sha256_rows_avx2;
#endif
	return sha256_rows_ref;
}
