/* grad.c - measures what gradient containers cost: grad [-r | -c] [FILE ...]. Prints one JSON
 * line per figure; all figures of a kind are measured in turns.
 *
 * uses: cmd/rnp-bench
 *
 * Curves: for each data set (generated here, and each FILE of raw f32) and each method at
 * several settings, bits per element and relative error, of the whole and of the worst tenth of
 * the chunks of 65536; q4 also followed by other compressors. Rates: copying by one thread
 * (memcpy) and by all, encoding and decoding of 64 MiB, one after the other in each round;
 * medians. With -r only rates, with -c only curves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-bench/suites/compress_data.h"
#include "common/base/err.h"
#include "common/grad/grad.h"
#include "common/base/mem.h"
#include "common/base/stats.h"

#define ELEMENTS   (UINT64_C(4) << 20)
#define CHUNK      65536
#define CHUNKS_MAX (ELEMENTS / CHUNK)
#define ROUNDS     11

static struct dev dev;

static const char *const methods[] = { "f16", "bf16", "fp8e4", "fp8e5", "q8", "q8:sigma",
	"q4", "q4:sigma", "e3m0", "qsgd:1", "qsgd:4", "qsgd:16", "qsgd:64", "topk",
	"ecq:0.0002", "ecq:0.0016", "ecq:0.005", "ecq:0.01", "ecq:0.025", "ecq:0.05",
	"ecq:0.1", "ecq:0.13", "ecq:0.2", "ecq:0.25", "ecq:0.4", "ecq:0.6", "ecq:0.8",
	"ecq:0.87", "ecq:0.93", "ecq:0.01:chunk", "ecq:0.05:chunk", "ecq:0.1:chunk",
	"ecq:0.13:chunk", "ecq:0.2:chunk", "ecq:0.25:chunk", "ecq:0.4:chunk",
	"ecq:0.8:chunk" };

#define METHODS (sizeof methods / sizeof *methods)

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "grad: %s\n", err_get()->text);
	exit(1);
}

static int falling(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Returns the relative error that nine chunks of ten stay below, each error relative to the
 * chunk's own energy. */
static double worst_tenth(const float *x, const float *y, uint64_t n)
{
	double errors[CHUNKS_MAX];
	uint64_t count = 0;

	for (uint64_t at = 0; at < n; at += CHUNK) {
		double energy = 0, error = 0;

		for (uint64_t i = at; i < at + CHUNK && i < n; i++) {
			double d = (double)x[i] - (double)y[i];

			energy += (double)x[i] * (double)x[i];
			error += d * d;
		}
		if (energy > 0)
			errors[count++] = sqrt(error / energy);
	}
	if (!count)
		return 0;
	qsort(errors, count, sizeof *errors, falling);
	return errors[count / 10];
}

static void curve(const char *data, const float *x, uint64_t n)
{
	float *y = xmalloc(n * 4);

	for (size_t i = 0; i < METHODS; i++) {
		struct buf c = BUF_INIT;
		struct grad_stats s;
		struct grad g;

		must(grad_parse(&g, methods[i], 0));
		g.elements = n;
		must(grad_encode(&dev, &g, x, NULL, &c, &s));
		must(grad_decode(&dev, NULL, c.data, c.len, y, n, false));
		printf("{\"figure\":\"curve\",\"data\":\"%s\",\"method\":\"%s\",\"bits\":%.4f,\"error\":%.6f,"
		       "\"worst_tenth\":%.6f,\"entropy\":%.4f,\"redundancy\":%.4f}\n",
			data, methods[i], 8 * (double)c.len / (double)n,
			sqrt(s.error / s.energy), worst_tenth(x, y, n),
			s.symbols ? s.entropy_bits / (double)s.symbols : 0,
			s.entropy_bits > 0 ? (double)s.coded_bits / s.entropy_bits - 1 :
					     0);
		buf_release(&c);
	}
	free(y);
}

/* Compresses q4's levels, two per byte, and their scales with other compressors. */
static void peers(const char *data, const float *x, uint64_t n)
{
	static const char *const names[] = { "zstd -1", "zstd -3", "lz4", "huff0" };
	struct quant q = { .method = QUANT_Q4, .block = 64 };
	unsigned char *planes = NULL, *packed = xmalloc(n), *out;
	uint32_t *used = xcalloc(n / CHUNK + 1, 4);
	struct quant_job j = { .q = q, .n = n, .used = used };
	struct quant_layout l;
	uint64_t chunks = quant_chunks(q.method, n), bytes = 0;

	quant_layout(&l, &q, 0);
	planes = aligned_alloc(64, l.chunk_bytes * chunks);
	j.planes = planes;
	j.elements = (void *)(uintptr_t)x;
	must(dev.ops->quant->encode(&dev, &j));
	for (uint64_t i = 0; i < n; i += 2)
		packed[bytes++] = (unsigned char)(planes[i] | planes[i + 1] << 4);
	for (uint64_t c = 0; c < chunks; c++)
		for (int p = 1; p < 3; p++) {
			memcpy(packed + bytes, quant_plane_at(&l, planes, chunks, c, p),
				CHUNK / 64);
			bytes += CHUNK / 64;
		}
	for (int i = 0; i < 4; i++) {
		const struct compress_peer *peer = compress_peer(names[i]);
		size_t best = 0;

		if (!peer) {
			fprintf(stderr, "grad: SKIP %s: not there\n", names[i]);
			continue;
		}
		out = xmalloc(peer->bound(2 * n));
		best = peer->compress(out, peer->bound(2 * n), packed, bytes);
		printf("{\"figure\":\"peer\",\"data\":\"%s\",\"method\":\"q4, %s\",\"bits\":%.4f}\n",
			data, names[i], 8 * (double)best / (double)n);
		/* one byte per level, which suits an entropy coder better */
		best = peer->compress(out, peer->bound(2 * n), planes, n);
		best += CHUNK / 64 * 2 * chunks;
		printf("{\"figure\":\"peer\",\"data\":\"%s\",\"method\":\"q4 in bytes, %s\",\"bits\":%.4f}\n",
			data, names[i], 8 * (double)best / (double)n);
		free(out);
	}
	free(planes), free(packed), free(used);
}

/* --- rates ----------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int keep(void *ctx, const void *data, size_t len)
{
	buf_add(ctx, data, len);
	return 0;
}

struct memory {
	const char *at;
};

static int give(void *ctx, void *data, size_t len)
{
	struct memory *m = ctx;

	memcpy(data, m->at, len);
	m->at += len;
	return 0;
}

/* Prints the share that copying takes of an operation's time: median and interval. */
static void tell(const char *key, const struct stats *s)
{
	printf(",\"%s\":[%.4f,%.4f,%.4f]", key, 1 / s->median, 1 / s->high, 1 / s->low);
}

#define RATED 12

static void rates(const char *data, const float *x, uint64_t n)
{
	static const char *const rated[RATED] = { "none", "lossless", "bf16", "q8",
		"q8:sigma", "q4", "q8:stochastic", "e3m0", "qsgd:4", "topk", "ecq:0.1",
		"ecq:0.8" };
	static double copy[ROUNDS], one[RATED][ROUNDS], encode[RATED][ROUNDS],
		decode[RATED][ROUNDS];
	struct buf out[RATED] = { 0 };
	float *y = xmalloc(n * 4);
	struct stats s;

	for (int round = -1; round < ROUNDS; round++)
		for (int i = 0; i < RATED; i++) {
			struct memory m;
			struct grad g;
			struct grad_encoder *e;
			struct grad_decoder *r;
			uint64_t got, at = 0, *bins = xcalloc(QUANT_BINS, 8);
			double t, t0, t1, t2, t3;

			must(grad_parse(&g, rated[i], 0));
			g.elements = n;
			t = now();
			memcpy(y, x, n * 4);
			t0 = now();
			must(dev.ops->copy(&dev, y, x, n * 4));
			t1 = now();
			if (g.q.method == QUANT_ECQ) {
				must(grad_spread(&dev, &g, x, NULL, n, bins));
				grad_step(&g.step, bins, g.error, true);
			}
			buf_reset(&out[i]);
			e = grad_encoder_new(&dev, &g, keep, &out[i], NULL);
			must(grad_encoder_add(e, x, n, NULL));
			must(grad_encoder_end(e));
			t2 = now();
			m.at = out[i].data;
			r = grad_decoder_new(&dev, give, &m);
			do {
				must(grad_decoder_next(r, y + at, &got));
				at += got;
			} while (got);
			t3 = now();
			grad_encoder_free(e);
			grad_decoder_free(r);
			free(bins);
			if (round < 0)
				continue;
			copy[round] = t1 - t0;
			one[i][round] = (t2 - t1) / (t0 - t);
			encode[i][round] = (t2 - t1) / (t1 - t0);
			decode[i][round] = (t3 - t2) / (t1 - t0);
		}
	stats_of(copy, ROUNDS, &s);
	printf("{\"figure\":\"rate\",\"data\":\"%s\",\"method\":\"copy\",\"gigabytes_per_s\":%.3f}\n",
		data, (double)n * 4e-9 / s.median);
	for (int i = 0; i < RATED; i++) {
		struct stats a, b, c;

		stats_of(encode[i], ROUNDS, &a);
		stats_of(decode[i], ROUNDS, &b);
		stats_of(one[i], ROUNDS, &c);
		printf("{\"figure\":\"rate\",\"data\":\"%s\",\"method\":\"%s\",\"ratio\":%.4f",
			data, rated[i], (double)n * 4 / (double)out[i].len);
		tell("encode_of_copy", &a);
		tell("decode_of_copy", &b);
		tell("encode_of_memcpy", &c);
		printf("}\n");
		buf_release(&out[i]);
	}
	free(y);
}

int main(int argc, char **argv)
{
	bool only_rates = argc > 1 && strcmp(argv[1], "-r") == 0;
	bool only_curves = argc > 1 && strcmp(argv[1], "-c") == 0;
	float *x = xmalloc(4 * ELEMENTS * 4);

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (dev_open(&dev, "cpu") < 0)
		return 69;
	for (int k = 0; k < COMPRESS_ADVERSE && !only_rates; k++) {
		must(compress_data(x, ELEMENTS, (enum compress_kind)k));
		curve(compress_kinds[k], x, ELEMENTS);
		peers(compress_kinds[k], x, ELEMENTS);
	}
	for (int i = 1 + (only_rates || only_curves); i < argc && !only_rates; i++) {
		const char *name = strrchr(argv[i], '/');
		uint64_t n = compress_data_file(x, ELEMENTS, argv[i]);

		if (!n)
			return 66;
		curve(name ? name + 1 : argv[i], x, n);
		peers(name ? name + 1 : argv[i], x, n);
	}
	if (!only_curves) {
		for (uint64_t at = 0; at < 4 * ELEMENTS; at += ELEMENTS)
			must(compress_data(x + at, ELEMENTS, COMPRESS_GAUSS));
		rates("gauss", x, 4 * ELEMENTS);
	}
	dev_close(&dev);
	free(x);
	return 0;
}
