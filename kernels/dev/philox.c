/* philox.c - reference of Philox-4x32-10. */
#include "kernels/dev/philox.h"

void philox_fill_ref(void *out, uint64_t bytes, const struct philox *p)
{
	unsigned char *to = out;

	for (uint64_t i = p->block; bytes; i++) {
		uint64_t n = bytes < PHILOX_BLOCK_BYTES ? bytes : PHILOX_BLOCK_BYTES;
		uint32_t words[4];

		philox_block(words, p, i);
		for (uint64_t k = 0; k < n; k++)
			to[k] = (unsigned char)(words[k / 4] >> 8 * (k % 4));
		to += n;
		bytes -= n;
	}
}
