/* fuzz_huff: chunks of the entropy coder from strangers, and symbols of our own.
 *
 * The first three bytes say how many symbols are asked for. Promises held: every level gives the same
 * answer for the same bytes and writes nothing beyond the symbols (memory is of exactly that size); what is taken for
 * symbols instead is coded to the same bytes by every level, within their bound, and comes back. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "kernels/huff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct huff_work *work;

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_decode(const uint8_t *coded, size_t size, uint32_t n)
{
	unsigned char *first = xmalloc(n), *out = xmalloc(n);
	int rc = 0;

	for (int level = 0; level <= (int)cpu_level_best(); level++) {
		int got = huff_kernels((enum cpu_level)level)
				  ->decode(work, level ? out : first, n, coded, size);

		if (!level)
			rc = got;
		must(got == rc);
		must(rc < 0 || !level || !n || memcmp(first, out, n) == 0);
	}
	free(first), free(out);
}

static void check_encode(const uint8_t *symbols, uint32_t n)
{
	unsigned char *first = xmalloc(n + HUFF_SLACK), *out = xmalloc(n + HUFF_SLACK);
	unsigned char *back = xmalloc(n);
	uint32_t bytes = 0;

	for (int level = 0; level <= (int)cpu_level_best(); level++) {
		const struct huff_kernels *k = huff_kernels((enum cpu_level)level);
		uint32_t got = k->encode(work, level ? out : first, symbols, n);

		if (!level)
			bytes = got;
		must(got == bytes && bytes <= n + 1);
		must(!level || memcmp(first, out, bytes) == 0);
		must(k->decode(work, back, n, first, bytes) == 0);
		must(!n || memcmp(back, symbols, n) == 0);
	}
	free(first), free(out), free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t n;

	if (!work)
		work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	must(work);
	if (size < 3)
		return 0;
	n = (data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16) &
		(2 * HUFF_CHUNK_MAX - 1);
	if (n <= HUFF_CHUNK_MAX)
		check_decode(data + 3, size - 3, n);
	if (size - 3 <= HUFF_CHUNK_MAX)
		check_encode(data + 3, (uint32_t)(size - 3));
	return 0;
}
