/* huff.c - benchmark of the entropy coder on one core, in chunks of the size that containers
 * use and in blocks of huff0's size, against zstd's huff0, zstd -1 and lz4, interleaved in one
 * run. The data are quantised levels, which the coder is made for: Gaussian and real gradients,
 * quantised to 8 bits (mean +- 6 sigma) and to 4 (blocks of 64 by their maximum). Prints
 * records to standard output. Missing parts are left out: huff0 is a shared library of zstd's
 * lib/common and its huf sources, named by RNP_HUFF0; the real gradients are below RNP_DATA (or
 * ../shared/data). It measures the thread's processor time, so that other processes disturb it
 * less; the rates are medians. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/record/bench.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "kernels/grad/huff.h"

#define ROUNDS      11
#define OURS        2 /* number of our coders, which come first */
#define CODERS_MAX  5
#define SYMBOLS     (UINT64_C(16) << 20)
#define HUFF0_BLOCK (128 << 10) /* the largest block that huff0 takes */
#define ZSTD_BLOCK  (UINT64_C(1) << 20)

static int64_t worked_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* --- coders: blocks of symbols to bytes and back ---------------------------------------------- */

struct coder {
	const char *name;
	uint64_t block;
	/* Returns the number of bytes at out, or 0 if coding saves nothing. */
	size_t (*encode)(unsigned char *out, size_t cap, const unsigned char *in,
		size_t n);
	bool (*decode)(unsigned char *out, size_t n, const unsigned char *in,
		size_t bytes);
};

static struct huff_work *work;
static const struct huff_kernels *kernels;

static size_t ours_encode(unsigned char *out, size_t cap, const unsigned char *in,
	size_t n)
{
	(void)cap;
	return kernels->encode(work, out, in, (uint32_t)n);
}

static bool ours_decode(unsigned char *out, size_t n, const unsigned char *in,
	size_t bytes)
{
	return kernels->decode(work, out, (uint32_t)n, in, bytes) == 0;
}

static struct {
	size_t (*encode)(void *, size_t, const void *, size_t, unsigned, unsigned, void *,
		size_t, void *, int *, int);
	size_t (*decode)(uint32_t *, void *, size_t, const void *, size_t, void *, size_t,
		int);
} huff0;

static struct {
	size_t (*encode)(void *, size_t, const void *, size_t, int);
	size_t (*decode)(void *, size_t, const void *, size_t);
	unsigned (*is_error)(size_t);
} zstd;

static struct {
	int (*encode)(const char *, char *, int, int);
	int (*decode)(const char *, char *, int, int);
} lz4;

#define HUFF0_BMI2 1

static size_t huff0_encode(unsigned char *out, size_t cap, const unsigned char *in,
	size_t n)
{
	static uint64_t space[2048];
	int repeat = 0;
	size_t bytes = huff0.encode(out, cap, in, n, 255, 11, space, sizeof space, NULL,
		&repeat, HUFF0_BMI2);

	return bytes > n ? 0 : bytes; /* error codes are huge numbers */
}

static bool huff0_decode(unsigned char *out, size_t n, const unsigned char *in,
	size_t bytes)
{
	static uint32_t table[4097];
	static uint64_t space[2048];

	table[0] = 12 * 0x01000001u;
	return huff0.decode(table, out, n, in, bytes, space, sizeof space, HUFF0_BMI2) ==
		n;
}

static size_t zstd_encode(unsigned char *out, size_t cap, const unsigned char *in,
	size_t n)
{
	size_t bytes = zstd.encode(out, cap, in, n, 1);

	return zstd.is_error(bytes) || bytes >= n ? 0 : bytes;
}

static bool zstd_decode(unsigned char *out, size_t n, const unsigned char *in,
	size_t bytes)
{
	return zstd.decode(out, n, in, bytes) == n;
}

static size_t lz4_encode(unsigned char *out, size_t cap, const unsigned char *in,
	size_t n)
{
	int bytes = lz4.encode((const char *)in, (char *)out, (int)n, (int)cap);

	return bytes <= 0 || (size_t)bytes >= n ? 0 : (size_t)bytes;
}

static bool lz4_decode(unsigned char *out, size_t n, const unsigned char *in,
	size_t bytes)
{
	return lz4.decode((const char *)in, (char *)out, (int)bytes, (int)n) == (int)n;
}

/* Loads functions of a library into the pointers at `to`. Returns false if one is missing. */
static bool open_library(const char *path, const char *const *names, void *to)
{
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;

	for (size_t i = 0; library && names[i]; i++) {
		void *f = dlsym(library, names[i]);

		if (!f)
			return false;
		memcpy((char *)to + i * sizeof f, &f, sizeof f);
	}
	return library != NULL;
}

static size_t find_coders(struct coder *coders)
{
	static const char *const of_huff0[] = { "HUF_compress4X_repeat",
		"HUF_decompress4X_hufOnly_wksp", NULL };
	static const char *const of_zstd[] = { "ZSTD_compress", "ZSTD_decompress",
		"ZSTD_isError", NULL };
	static const char *const of_lz4[] = { "LZ4_compress_default",
		"LZ4_decompress_safe", NULL };
	size_t count = 0;

	coders[count++] = (struct coder){ "ours", HUFF_CHUNK, ours_encode, ours_decode };
	coders[count++] = (struct coder){ "ours, its blocks", HUFF0_BLOCK, ours_encode,
		ours_decode };
	if (open_library(getenv("RNP_HUFF0"), of_huff0, &huff0))
		coders[count++] = (struct coder){ "huff0", HUFF0_BLOCK, huff0_encode,
			huff0_decode };
	else
		fprintf(stderr, "huff: SKIP huff0: no library at RNP_HUFF0\n");
	if (open_library("libzstd.so.1", of_zstd, &zstd))
		coders[count++] = (struct coder){ "zstd -1", ZSTD_BLOCK, zstd_encode,
			zstd_decode };
	if (open_library("liblz4.so.1", of_lz4, &lz4))
		coders[count++] = (struct coder){ "lz4", ZSTD_BLOCK, lz4_encode,
			lz4_decode };
	return count;
}

/* --- data --------------------------------------------------------------------------------- */

static void gaussian(float *out, uint64_t n)
{
	struct rng r;

	rng_seed(&r, 1, 0);
	for (uint64_t i = 0; i < n; i++) {
		double u = rng_f64(&r), v = rng_f64(&r);

		out[i] = (float)(sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v));
	}
}

/* reads n floats of a file, repeating a shorter file */
static bool from_file(float *out, uint64_t n, const char *name)
{
	const char *data = getenv("RNP_DATA");
	char path[4096];
	FILE *f;
	uint64_t got = 0;

	snprintf(path, sizeof path, "%s/grads/%s", data ? data : "../shared/data", name);
	f = fopen(path, "rb");
	if (f) {
		got = fread(out, sizeof *out, n, f);
		fclose(f);
	} else {
		fprintf(stderr, "huff: SKIP %s: not there\n", path);
	}
	for (uint64_t i = got; got && i < n; i++)
		out[i] = out[i - got];
	return got > 0;
}

static void to_int8(unsigned char *out, const float *in, uint64_t n)
{
	double sum = 0, squares = 0, mean, sigma;

	for (uint64_t i = 0; i < n; i++) {
		sum += in[i];
		squares += (double)in[i] * in[i];
	}
	mean = sum / (double)n;
	sigma = sqrt(squares / (double)n - mean * mean);
	for (uint64_t i = 0; i < n; i++) {
		double v = floor((in[i] - mean) / (12 * sigma) * 256) + 128;

		out[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
	}
}

static void to_int4(unsigned char *out, const float *in, uint64_t n)
{
	for (uint64_t i = 0; i < n; i += 64) {
		float max = 0;

		for (uint64_t j = i; j < i + 64; j++)
			max = fmaxf(max, fabsf(in[j]));
		for (uint64_t j = i; j < i + 64; j++)
			out[j] = (unsigned char)(max > 0 ? lrintf(in[j] / max * 7) + 8 :
							   8);
	}
}

static double ideal_ratio(const unsigned char *in, uint64_t n)
{
	uint32_t counts[256];
	double bits = 0;

	kernels->count(counts, in, n);
	for (unsigned v = 0; v < 256; v++)
		if (counts[v])
			bits -= counts[v] * log2((double)counts[v] / (double)n);
	return 8 * (double)n / bits;
}

/* --- measure ------------------------------------------------------------------------------ */

static void report(const char *test, const char *data, const char *what, const char *unit,
	const double *samples, int count)
{
	struct stats s;
	json_t *record;

	stats_of(samples, (size_t)count, &s);
	record = bench_record("huff", test, "cpu", unit, &s);
	json_set_text(bench_params(record), "data", data);
	json_set_text(bench_params(record), "what", what);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
}

struct coded {
	unsigned char *bytes;
	size_t *sizes; /* of the blocks; 0: stored uncompressed */
	uint64_t total;
	double encode[ROUNDS], decode[ROUNDS]; /* B/s */
};

static void encode(struct coded *c, const struct coder *coder, const unsigned char *in,
	int round)
{
	int64_t from = worked_ns();

	c->total = 0;
	for (uint64_t i = 0, b = 0; i < SYMBOLS; i += coder->block, b++) {
		size_t bytes = coder->encode(c->bytes + c->total, 2 * coder->block,
			in + i, coder->block);

		c->sizes[b] = bytes;
		if (!bytes) {
			memcpy(c->bytes + c->total, in + i, coder->block);
			bytes = coder->block;
		}
		c->total += bytes;
	}
	c->encode[round] = (double)SYMBOLS * 1e9 / (double)(worked_ns() - from);
}

static void decode(struct coded *c, const struct coder *coder, unsigned char *out,
	int round)
{
	int64_t from = worked_ns();
	uint64_t at = 0;

	for (uint64_t i = 0, b = 0; i < SYMBOLS; i += coder->block, b++) {
		size_t bytes = c->sizes[b] ? c->sizes[b] : coder->block;

		if (!c->sizes[b])
			memcpy(out + i, c->bytes + at, coder->block);
		else if (!coder->decode(out + i, coder->block, c->bytes + at, bytes))
			fprintf(stderr, "huff: %s: block %llu\n", coder->name,
				(unsigned long long)b);
		at += bytes;
	}
	c->decode[round] = (double)SYMBOLS * 1e9 / (double)(worked_ns() - from);
}

static bool measure(const char *data, const struct coder *coders, size_t count,
	const unsigned char *in, unsigned char *back)
{
	struct coded coded[CODERS_MAX];
	double ratios[ROUNDS], ideal = ideal_ratio(in, SYMBOLS) * 1e6;
	bool good = true;

	for (size_t c = 0; c < count; c++) {
		coded[c].bytes = xmalloc(2 * SYMBOLS + 2 * ZSTD_BLOCK);
		coded[c].sizes = xmalloc(SYMBOLS / HUFF_CHUNK * sizeof(size_t));
	}
	for (int r = -1; r < ROUNDS; r++) /* round -1 is a warm-up */
		for (size_t c = 0; c < count; c++) {
			encode(&coded[c], &coders[c], in, r < 0 ? 0 : r);
			memset(back, 0, SYMBOLS);
			decode(&coded[c], &coders[c], back, r < 0 ? 0 : r);
			good = good && memcmp(in, back, SYMBOLS) == 0;
		}
	for (size_t c = 0; c < count; c++) {
		double ratio = 1e6 * (double)SYMBOLS / (double)coded[c].total;

		report("encode", data, coders[c].name, "B/s", coded[c].encode, ROUNDS);
		report("decode", data, coders[c].name, "B/s", coded[c].decode, ROUNDS);
		report("ratio", data, coders[c].name, "ppm", &ratio, 1);
	}
	report("ratio", data, "of the entropy", "ppm", &ideal, 1);
	for (int ours = 0; ours < OURS && count > OURS; ours++)
		for (int side = 0; side < 2; side++) {
			char what[64];

			for (int r = 0; r < ROUNDS; r++)
				ratios[r] = 1e6 *
					(side ? coded[ours].decode[r] /
								coded[OURS].decode[r] :
						coded[ours].encode[r] /
								coded[OURS].encode[r]);
			snprintf(what, sizeof what, "%s of %s's rate", coders[ours].name,
				coders[OURS].name);
			report(side ? "decode" : "encode", data, what, "ppm", ratios,
				ROUNDS);
		}
	for (size_t c = 0; c < count; c++)
		free(coded[c].bytes), free(coded[c].sizes);
	if (!good)
		fprintf(stderr, "huff: %s: did not come back\n", data);
	return good;
}

int main(void)
{
	static const struct {
		const char *name, *file;
		void (*quantise)(unsigned char *out, const float *in, uint64_t n);
	} sets[] = { { "Gaussian, int8, 6 sigma", NULL, to_int8 },
		{ "Gaussian, int4, blocks of 64", NULL, to_int4 },
		{ "gradient, int8, 6 sigma", "grad_10.8M.f32", to_int8 },
		{ "gradient, int4, blocks of 64", "grad_10.8M.f32", to_int4 },
		{ "pseudo-gradient, int8, 6 sigma", "pseudograd_H100.f32", to_int8 },
		{ "pseudo-gradient, int4, blocks of 64", "pseudograd_H100.f32",
			to_int4 } };
	float *values = xmalloc(SYMBOLS * sizeof *values);
	unsigned char *in = xmalloc(SYMBOLS), *back = xmalloc(SYMBOLS);
	struct coder coders[CODERS_MAX];
	enum cpu_level level;
	size_t count;
	bool good = true;

	cpu_level_chosen(&level);
	kernels = huff_kernels(level);
	work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	if (!work)
		return 71;
	count = find_coders(coders);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		if (!sets[i].file)
			gaussian(values, SYMBOLS);
		else if (!from_file(values, SYMBOLS, sets[i].file))
			continue;
		sets[i].quantise(in, values, SYMBOLS);
		good = measure(sets[i].name, coders, count, in, back) && good;
	}
	free(values), free(in), free(back), free(work);
	return good ? 0 : 1;
}
