/* fuzz_huff.c - chunks of the entropy coder from strangers, and symbols of our own.
 *
 * The first three bytes say how many symbols are asked for, and the top bit of the third that a
 * chunk is made first, of the rest over and over, and then damaged: of many streams, and of
 * symbols enough to be split, nothing else comes near to being right. Promises held: every
 * level gives the same answer for the same bytes and writes nothing beyond the symbols (memory
 * is of exactly that size); what is taken for symbols instead is coded to the same bytes by
 * every level, within their bound, and comes back. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/grad/huff.h"

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

#define DAMAGES 4

/* A chunk of n symbols, with up to DAMAGES of its bytes changed: the first bytes of data say
 * which and how. */
static void check_damaged(const uint8_t *data, size_t size, uint32_t n)
{
	unsigned char *symbols = xmalloc(n), *coded = xmalloc(n + HUFF_SLACK), *exact;
	uint32_t bytes;

	for (uint32_t i = 0; i < n; i++)
		symbols[i] = data[i % size];
	bytes = huff_kernels(CPU_REF)->encode(work, coded, symbols, n);
	exact = xmalloc(bytes); /* the sanitizer watches its end */
	memcpy(exact, coded, bytes);
	for (size_t i = 0; i < DAMAGES && 4 * i + 4 <= size; i++) {
		const uint8_t *d = data + 4 * i;

		exact[(d[0] | (uint32_t)d[1] << 8 | (uint32_t)d[2] << 16) % bytes] ^=
			d[3];
	}
	check_decode(exact, bytes, n);
	free(symbols), free(coded), free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t n;

	if (!work)
		work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	must(work);
	if (size < 3)
		return 0;
	if (data[2] >> 7) {
		n = ((data[0] | (uint32_t)data[1] << 8) & 0x7fff) + 1;
		if (size > 3)
			check_damaged(data + 3, size - 3, n);
		return 0;
	}
	n = (data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16) &
		(2 * HUFF_CHUNK_MAX - 1);
	if (n <= HUFF_CHUNK_MAX)
		check_decode(data + 3, size - 3, n);
	if (size - 3 <= HUFF_CHUNK_MAX)
		check_encode(data + 3, (uint32_t)(size - 3));
	return 0;
}
