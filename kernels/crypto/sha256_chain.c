/* sha256_chain.c - the reference: one lane after the other. */
#include "kernels/crypto/sha256_chain.h"

#include <string.h>

#include "kernels/crypto/sha256_rows.h"

static void chain(unsigned char state[SHA256_BYTES], uint64_t steps)
{
	uint32_t h[8];

	for (int i = 0; i < 8; i++)
		h[i] = (uint32_t)state[4 * i] << 24 | (uint32_t)state[4 * i + 1] << 16 |
			(uint32_t)state[4 * i + 2] << 8 | state[4 * i + 3];
	while (steps--) {
		/* the message, the bit 1, zeros, its length of 256 bits */
		uint32_t w[16] = { [8] = 0x80000000, [15] = 256 };

		memcpy(w, h, sizeof h);
		memcpy(h, sha256_start, sizeof h);
		sha256_block(h, w, sha256_constants);
	}
	for (int i = 0; i < SHA256_BYTES; i++)
		state[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_chain_ref(unsigned char *states, uint64_t count, uint64_t steps)
{
	for (uint64_t i = 0; i < count; i++)
		chain(states + SHA256_BYTES * i, steps);
}

#ifndef __x86_64__
sha256_chain_fn sha256_chain_fast(void)
{
	return sha256_chain_ref;
}

const char *sha256_chain_name(void)
{
	return "reference";
}
#endif
