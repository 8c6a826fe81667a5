/* compress_data.c - generates data for compressors, and opens the libraries of other
 * compressors with dlopen. */
#include "cmd/rnp-bench/suites/compress_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "kernels/dev/library.h"

const char *const compress_kinds[COMPRESS_KINDS] = { "gauss", "laplace", "gradient",
	"trained", "adverse" };

/* Draws two normal numbers at a time (Box and Muller 1958) and saves the second for the next
 * call. */
struct bell {
	struct rng rng;
	double kept;
	bool has;
};

static double bell_next(struct bell *b)
{
	double radius, turn;

	if (b->has) {
		b->has = false;
		return b->kept;
	}
	radius = sqrt(-2 * log(1 - rng_f64(&b->rng)));
	turn = 2 * M_PI * rng_f64(&b->rng);
	b->kept = radius * sin(turn);
	b->has = true;
	return radius * cos(turn);
}

static void gradient(float *out, uint64_t n, struct bell *b)
{
	uint64_t left = 0;
	double layer = 0, row = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (!left) {
			left = UINT64_C(32768) << rng_below(&b->rng, 5);
			layer = pow(10, -6 + 4 * rng_f64(&b->rng));
		}
		if (i % 256 == 0)
			row = rng_below(&b->rng, 8) ? layer * exp(0.8 * bell_next(b)) : 0;
		out[i] = (float)(row * bell_next(b));
		left--;
	}
}

static float any_bits(struct rng *r)
{
	uint32_t bits;
	float f;

	do
		bits = rng_u32(r);
	while ((bits & 0x7f800000) == 0x7f800000);
	memcpy(&f, &bits, sizeof f);
	return f;
}

int compress_data(float *out, uint64_t n, enum compress_kind kind)
{
	struct bell b = { .has = false };

	if (kind == COMPRESS_TRAINED)
		return compress_trained(out, n);
	/* adverse keeps the seed that it had before trained was added to the list */
	rng_seed(&b.rng, 20260, kind == COMPRESS_ADVERSE ? 3 : (uint64_t)kind);
	if (kind == COMPRESS_GRADIENT) {
		gradient(out, n, &b);
		return 0;
	}
	for (uint64_t i = 0; i < n; i++) {
		double u;

		if (kind == COMPRESS_GAUSS) {
			out[i] = (float)(0.001 * bell_next(&b));
		} else if (kind == COMPRESS_LAPLACE) {
			u = rng_f64(&b.rng) - 0.5;
			out[i] = (float)(copysign(0.001 / M_SQRT2, u) *
				-log(1 - 2 * fabs(u)));
		} else {
			out[i] = any_bits(&b.rng);
		}
	}
	return 0;
}

uint64_t compress_data_file(float *out, uint64_t n, const char *path)
{
	FILE *f = fopen(path, "rb");
	uint64_t got = f ? fread(out, sizeof *out, n, f) : 0;

	if (f)
		fclose(f);
	return got;
}

/* --- the libraries of others: the few prototypes that are needed -------------------------- */

static struct {
	size_t (*bound)(size_t n);
	size_t (*compress)(void *to, size_t cap, const void *from, size_t n, int level);
	size_t (*expand)(void *to, size_t cap, const void *from, size_t n);
	unsigned (*is_error)(size_t code);
} zstd;

static struct {
	int (*bound)(int n);
	int (*compress)(const char *from, char *to, int n, int cap);
	int (*expand)(const char *from, char *to, int n, int cap);
} lz4;

static size_t checked(size_t n)
{
	return zstd.is_error(n) ? 0 : n;
}

static size_t zstd1(void *out, size_t cap, const void *in, size_t n)
{
	return checked(zstd.compress(out, cap, in, n, 1));
}

static size_t zstd3(void *out, size_t cap, const void *in, size_t n)
{
	return checked(zstd.compress(out, cap, in, n, 3));
}

static size_t zstd_expand(void *out, size_t n, const void *in, size_t bytes)
{
	return checked(zstd.expand(out, n, in, bytes));
}

static size_t zstd_bound(size_t n)
{
	return zstd.bound(n);
}

static size_t lz4_compress(void *out, size_t cap, const void *in, size_t n)
{
	int got = lz4.compress(in, out, (int)n, (int)cap);

	return got > 0 ? (size_t)got : 0;
}

static size_t lz4_expand(void *out, size_t n, const void *in, size_t bytes)
{
	int got = lz4.expand(in, out, (int)bytes, (int)n);

	return got > 0 ? (size_t)got : 0;
}

static size_t lz4_bound(size_t n)
{
	return (size_t)lz4.bound((int)n);
}

static struct {
	size_t (*compress)(void *, size_t, const void *, size_t, unsigned, unsigned,
		void *, size_t, void *, int *, int);
	size_t (*expand)(uint32_t *, void *, size_t, const void *, size_t, void *, size_t,
		int);
} huff0;

/* Compresses blocks of the largest size that huff0 takes, each after its length; a block that
 * does not get smaller is stored. */
#define HUFF0_BLOCK ((size_t)128 << 10)
#define HUFF0_BMI2  1

static size_t huff0_compress(void *out, size_t cap, const void *in, size_t n)
{
	static uint64_t space[2048];
	size_t at = 0;

	for (size_t i = 0; i < n; i += HUFF0_BLOCK) {
		size_t part = n - i < HUFF0_BLOCK ? n - i : HUFF0_BLOCK, bytes;
		uint32_t length;
		int repeat = 0;

		if (cap - at < 2 * part + 512)
			return 0;
		bytes = huff0.compress((char *)out + at + 4, cap - at - 4,
			(const char *)in + i, part, 255, 11, space, sizeof space, NULL,
			&repeat, HUFF0_BMI2);
		if (bytes < 2 || bytes >= part) { /* error codes are huge numbers */
			memcpy((char *)out + at + 4, (const char *)in + i, part);
			bytes = part;
		}
		length = (uint32_t)bytes;
		memcpy((char *)out + at, &length, 4);
		at += 4 + bytes;
	}
	return at;
}

static size_t huff0_expand(void *out, size_t n, const void *in, size_t bytes)
{
	static uint32_t table[4097];
	static uint64_t space[2048];
	size_t at = 0;

	for (size_t i = 0; i < n; i += HUFF0_BLOCK) {
		size_t part = n - i < HUFF0_BLOCK ? n - i : HUFF0_BLOCK;
		uint32_t length;

		if (bytes - at < 4)
			return 0;
		memcpy(&length, (const char *)in + at, 4);
		at += 4;
		if (length > bytes - at)
			return 0;
		table[0] = 12 *
			0x01000001u; /* the header that huff0 expects in its table */
		if (length == part)
			memcpy((char *)out + i, (const char *)in + at, part);
		else if (huff0.expand(table, (char *)out + i, part, (const char *)in + at,
				 length, space, sizeof space, HUFF0_BMI2) != part)
			return 0;
		at += length;
	}
	return at == bytes ? n : 0;
}

static size_t huff0_bound(size_t n)
{
	return 2 * n + 512 * (n / HUFF0_BLOCK + 2);
}

static bool zstd_open(void)
{
	static const struct library_symbol symbols[] = {
		{ "ZSTD_compress", &zstd.compress },
		{ "ZSTD_decompress", &zstd.expand },
		{ "ZSTD_isError", &zstd.is_error },
		{ "ZSTD_compressBound", &zstd.bound },
	};

	return zstd.bound || library_open("libzstd.so.1", symbols, 4, NULL, 0);
}

static bool lz4_open(void)
{
	static const struct library_symbol symbols[] = {
		{ "LZ4_compress_default", &lz4.compress },
		{ "LZ4_decompress_safe", &lz4.expand },
		{ "LZ4_compressBound", &lz4.bound },
	};

	return lz4.bound || library_open("liblz4.so.1", symbols, 3, NULL, 0);
}

/* huff0 has no library of its own: it can be built from lib/common and the huf sources of zstd. */
static bool huff0_open(void)
{
	static const struct library_symbol symbols[] = {
		{ "HUF_compress4X_repeat", &huff0.compress },
		{ "HUF_decompress4X_hufOnly_wksp", &huff0.expand },
	};
	const char *path = getenv("RNP_HUFF0");

	return huff0.expand || (path && *path && library_open(path, symbols, 2, NULL, 0));
}

const struct compress_peer *compress_peer(const char *name)
{
	static const struct {
		struct compress_peer peer;
		bool (*open)(void);
	} peers[] = {
		{ { "zstd -1", zstd1, zstd_expand, zstd_bound }, zstd_open },
		{ { "zstd -3", zstd3, zstd_expand, zstd_bound }, zstd_open },
		{ { "lz4", lz4_compress, lz4_expand, lz4_bound }, lz4_open },
		{ { "huff0", huff0_compress, huff0_expand, huff0_bound }, huff0_open },
	};

	for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
		if (strcmp(peers[i].peer.name, name) == 0)
			return peers[i].open() ? &peers[i].peer : NULL;
	return NULL;
}
