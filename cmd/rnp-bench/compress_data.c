#include "cmd/rnp-bench/compress_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"
#include "kernels/library.h"

const char *const compress_kinds[COMPRESS_KINDS] = { "gauss", "laplace", "gradient",
	"adverse" };

/* Two at a time (Box and Muller 1958); `kept` holds the other. */
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

void compress_data(float *out, uint64_t n, enum compress_kind kind)
{
	struct bell b = { .has = false };

	rng_seed(&b.rng, 20260, (uint64_t)kind);
	if (kind == COMPRESS_GRADIENT) {
		gradient(out, n, &b);
		return;
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
}

uint64_t compress_data_file(float *out, uint64_t n, const char *path)
{
	FILE *f = fopen(path, "rb");
	uint64_t got = f ? fread(out, sizeof *out, n, f) : 0;

	if (f)
		fclose(f);
	return got;
}

/* --- the libraries of others: the few prototypes that are needed ------------------------------------ */

static struct {
	size_t (*bound)(size_t n);
	size_t (*compress)(void *to, size_t room, const void *from, size_t n, int level);
	size_t (*expand)(void *to, size_t room, const void *from, size_t n);
	unsigned (*is_error)(size_t code);
} zstd;

static struct {
	int (*bound)(int n);
	int (*compress)(const char *from, char *to, int n, int room);
	int (*expand)(const char *from, char *to, int n, int room);
} lz4;

static size_t checked(size_t n)
{
	return zstd.is_error(n) ? 0 : n;
}

static size_t zstd1(void *out, size_t room, const void *in, size_t n)
{
	return checked(zstd.compress(out, room, in, n, 1));
}

static size_t zstd3(void *out, size_t room, const void *in, size_t n)
{
	return checked(zstd.compress(out, room, in, n, 3));
}

static size_t zstd_expand(void *out, size_t n, const void *in, size_t bytes)
{
	return checked(zstd.expand(out, n, in, bytes));
}

static size_t zstd_bound(size_t n)
{
	return zstd.bound(n);
}

static size_t lz4_compress(void *out, size_t room, const void *in, size_t n)
{
	int got = lz4.compress(in, out, (int)n, (int)room);

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

const struct compress_peer *compress_peer(const char *name)
{
	static const struct compress_peer peers[] = {
		{ "zstd -1", zstd1, zstd_expand, zstd_bound },
		{ "zstd -3", zstd3, zstd_expand, zstd_bound },
		{ "lz4", lz4_compress, lz4_expand, lz4_bound },
	};

	for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
		if (strcmp(peers[i].name, name) == 0)
			return (*name == 'z' ? zstd_open() : lz4_open()) ? &peers[i] :
									   NULL;
	return NULL;
}
