/* fuzz_huff.c - fuzz target: chunks for the entropy coder from strangers, and symbols of our
 * own.
 *
 * The first three bytes give the number of symbols to decode. If the top bit of the third is
 * set, a valid chunk is first made of the rest, repeated, and then damaged: random input hardly
 * ever resembles a valid chunk of several streams with enough symbols to be split. It checks
 * that every level gives the same answer for the same bytes and writes nothing beyond the
 * symbols (the memory has exactly that size); and that input taken as symbols is coded to the
 * same bytes by every level, within their bound, and decoded to itself. */
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

/* A chunk of n symbols with up to DAMAGES changed bytes: the first bytes of data say which ones
 * and how. */
static void check_damaged(const uint8_t *data, size_t size, uint32_t n)
{
	unsigned char *symbols = xmalloc(n), *coded = xmalloc(n + HUFF_SLACK), *exact;
	uint32_t bytes;

	for (uint32_t i = 0; i < n; i++)
		symbols[i] = data[i % size];
	bytes = huff_kernels(CPU_REF)->encode(work, coded, symbols, n);
	exact = xmalloc(bytes); /* exact size, for the sanitizer */
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
