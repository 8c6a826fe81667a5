/* fuzz_grad.c - fuzz target: gradient containers from peers.
 *
 * The first byte selects what happens to the rest. It may be decoded as it is; or decoded after
 * its checksums were corrected (checksums stop a fuzzer, not an attacker), so that the code
 * after them is reached; or taken as elements, which are encoded and decoded.
 *
 * It checks that decoding writes exactly the requested elements or gives an error with
 * EX_DATAERR; that the round trip works for all bits; that lossless methods give the input
 * back; and that every CPU level gives the same answer and the same bytes, except for which NaN
 * results from scales that are not numbers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "common/base/err.h"
#include "common/grad/format.h"
#include "common/grad/reader.h"
#include "common/base/mem.h"

#define ELEMENTS_MAX 70000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The checksum of a chunk as defined in grad.h. */
static void check_of(unsigned char out[GRAD_CHECK_BYTES],
	const unsigned char key[GRAD_CHECK_BYTES], uint64_t number, uint32_t elements,
	const unsigned char *payload, uint32_t bytes)
{
	crypto_generichash_state s;
	unsigned char about[16];

	grad_put64(about, number);
	grad_put32(about + 8, elements);
	grad_put32(about + 12, bytes);
	crypto_generichash_init(&s, key, GRAD_CHECK_BYTES, GRAD_CHECK_BYTES);
	crypto_generichash_update(&s, about, sizeof about);
	crypto_generichash_update(&s, payload, bytes);
	crypto_generichash_final(&s, out, GRAD_CHECK_BYTES);
}

static struct dev dev[CPU_LEVELS];
static int levels;

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* The bits of element i, with one pattern for all NaN. */
static uint32_t bits_of(const unsigned char *elements, uint64_t i, bool bf16)
{
	uint32_t bits = bf16 ?
		(elements[2 * i] | (uint32_t)elements[2 * i + 1] << 8) << 16 :
		grad_get32(elements + 4 * i);

	return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
}

static bool alike(const unsigned char *a, const unsigned char *b, uint64_t n, bool bf16)
{
	if (memcmp(a, b, n * (bf16 ? 2 : 4)) == 0)
		return true;
	for (uint64_t i = 0; i < n; i++)
		if (bits_of(a, i, bf16) != bits_of(b, i, bf16))
			return false;
	return true;
}

/* Reads chunk by chunk, as a coordinator does when it sums its members' containers: a container
 * that the decoder accepts gives the same elements; any other gives an error or elements, and
 * nothing is written beyond them. */
static void by_chunks(const uint8_t *c, size_t len, uint64_t n, bool sound,
	const unsigned char *want)
{
	struct buf whole = { .data = (char *)(uintptr_t)c, .len = len };
	struct grad_chunk_decoder *d[2] = { grad_chunk_decoder_new(&dev[0]),
		grad_chunk_decoder_new(&dev[0]) };
	struct grad_reader r[2];
	int rc = grad_reader_open(&r[0], grad_read_buf, &whole, len, n);
	size_t failed = 0;

	if (sound)
		must(rc == 0);
	r[1] = r[0];
	for (uint64_t i = 0; rc == 0 && i < r[0].chunks; i++) {
		uint64_t count = grad_reader_length(&r[0], i);
		float *out[2] = { xmalloc(count * sizeof *out[0]),
			xmalloc(count * sizeof *out[0]) };

		rc = grad_reader_get(r, d, 2, i, out, &failed);
		must(rc == 0 || failed == 0);
		for (int j = 0; sound && j < 2; j++)
			must(rc == 0 &&
				alike((const unsigned char *)out[j],
					want + 4 * i * r[0].chunk, count, false));
		free(out[0]);
		free(out[1]);
	}
	if (rc < 0)
		must(err_get()->code == EX_DATAERR && *err_get()->text);
	err_clear();
	grad_reader_close(&r[0]);
	grad_chunk_decoder_free(d[0]);
	grad_chunk_decoder_free(d[1]);
}

static void decode(const uint8_t *c, size_t len)
{
	struct grad g;
	uint64_t n = 0;
	bool bf16 = false;
	unsigned char *first, *out;
	size_t bytes;
	int rc = 0;

	if (len >= 16) {
		n = grad_get64(c + 8);
		bf16 = c[6] & 1;
	}
	if (n > ELEMENTS_MAX)
		n = len > 20 ? c[20] * 300u : 0;
	bytes = n * (bf16 ? 2 : 4);
	first = xmalloc(bytes + 1); /* exact size, for the sanitizer */
	out = xmalloc(bytes + 1);
	for (int l = 0; l < levels; l++) {
		unsigned char *y = l ? out : first;
		int got;

		y[bytes] = 0xa7;
		got = grad_decode(&dev[l], &g, c, len, y, n, bf16);
		if (got < 0)
			must(err_get()->code == EX_DATAERR && *err_get()->text);
		must(y[bytes] == 0xa7);
		err_clear();
		rc = l ? rc : got;
		must(got == rc);
		must(rc < 0 || alike(first, y, n, bf16));
	}
	by_chunks(c, len, n, rc == 0 && !bf16, first);
	free(first);
	free(out);
}

/* Corrects the checksums of header and chunks, and the index as far as it is read (all of it,
 * or only its root); also brings the header's fields and the chunks' lengths into range. */
static void mend(uint8_t *c, size_t len, bool index)
{
	crypto_generichash_state root;
	unsigned char check[GRAD_CHECK_BYTES];
	uint64_t elements = 0, chunks = 0;
	size_t start, at, end;

	if (len < GRAD_HEADER_MIN)
		return;
	memcpy(c, "RNPG\1", 5);
	c[5] %= QUANT_METHODS;
	c[7] %= GRAD_RANK_MAX + 1;
	start = at = GRAD_HEADER_MIN + 8 * (size_t)c[7];
	if (len < at)
		return;
	crypto_generichash(check, sizeof check, c, at - GRAD_CHECK_BYTES, NULL, 0);
	memcpy(c + at - GRAD_CHECK_BYTES, check, sizeof check);
	crypto_generichash_init(&root, check, sizeof check, GRAD_ROOT_BYTES);
	while (len - at >= GRAD_CHUNK_BYTES) {
		uint32_t bytes = grad_get32(c + at), n = grad_get32(c + at + 4);

		if (!bytes && !n)
			break;
		if (bytes > len - at - GRAD_CHUNK_BYTES) {
			bytes = (uint32_t)(len - at - GRAD_CHUNK_BYTES);
			grad_put32(c + at, bytes);
		}
		check_of(c + at + 8, check, chunks++, n, c + at + GRAD_CHUNK_BYTES,
			bytes);
		crypto_generichash_update(&root, c + at + 8, GRAD_CHECK_BYTES);
		crypto_generichash_update(&root, c + at, 8);
		elements += n;
		at += GRAD_CHUNK_BYTES + bytes;
	}
	end = 24 + chunks * 4 + GRAD_ROOT_BYTES; /* of the data after the chunks */
	if (len - at < end + GRAD_END_BYTES)
		return;
	grad_put64(c + at + 8, elements);
	grad_put64(c + at + 16, chunks);
	crypto_generichash_update(&root, c + at + 8, 16);
	crypto_generichash_final(&root, c + at + end - GRAD_ROOT_BYTES, GRAD_ROOT_BYTES);
	if (!index)
		return;
	for (size_t i = 0, from = start; i < chunks;
		i++, from += GRAD_CHUNK_BYTES + grad_get32(c + from))
		memcpy(c + at + 24 + 4 * i, c + from, 4);
	grad_put64(c + at + end, end + GRAD_END_BYTES);
	memcpy(c + at + end + 8, "GPNR", 4);
}

static void round_trip(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "none", "lossless", "f16", "bf16", "fp8e4",
		"fp8e5", "q8", "q8:sigma", "q8:stochastic", "q4", "q4:sigma",
		"q4:stochastic", "ecq:0.1", "ecq:0.001", "ecq:0.9:chunk", "e3m0",
		"qsgd:1", "qsgd:65535", "topk" };
	const char *name = names[data[0] % (sizeof names / sizeof *names)];
	bool bf16 = data[1] & 1;
	uint64_t n = (size - 2) / (bf16 ? 2 : 4);
	size_t bytes = n * (bf16 ? 2 : 4);
	struct buf first = BUF_INIT, out = BUF_INIT;
	struct grad g, seen;
	unsigned char *x = xmalloc(bytes + 1), *y = xmalloc(bytes + 1);
	unsigned char *want = xmalloc(bytes + 1);

	memcpy(x, data + 2, bytes);
	must(grad_parse(&g, name, 0) == 0);
	g.bf16 = bf16;
	g.elements = n;
	for (int l = 0; l < levels; l++) {
		struct buf *c = l ? &out : &first;

		buf_reset(c);
		must(grad_encode(&dev[l], &g, x, NULL, c, NULL) == 0);
		must(c->len == first.len && memcmp(c->data, first.data, c->len) == 0);
		must(grad_decode(&dev[l], &seen, c->data, c->len, y, n, bf16) == 0);
		must(seen.q.method == g.q.method);
		if (!l)
			memcpy(want, y, bytes);
		must(memcmp(y, want, bytes) == 0);
	}
	if (g.q.method == QUANT_NONE || g.q.method == QUANT_LOSSLESS)
		must(memcmp(x, y, bytes) == 0);
	buf_release(&first);
	buf_release(&out);
	free(x);
	free(y);
	free(want);
}

static void open_levels(void)
{
	for (; levels <= (int)cpu_level_best(); levels++)
		if (dev_open_cpu(&dev[levels], (enum cpu_level)levels) < 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	open_levels();
	if (size < 3)
		return 0;
	copy = xmalloc(size - 1);
	memcpy(copy, data + 1, size - 1);
	if (data[0] % 4 == 1)
		round_trip(copy, size - 1);
	else {
		if (data[0] % 4 > 1)
			mend(copy, size - 1, data[0] % 4 > 2);
		decode(copy, size - 1);
	}
	free(copy);
	return 0;
}
